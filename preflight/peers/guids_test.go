package peers

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight/checktest"
)

func TestMachinesWithOneGUID(t *testing.T) {
	const one, two, three = "0011:2233:4455:6601", "0011:2233:4455:6602", "0011:2233:4455:6603"
	bare := func(guids []string) []string {
		return finding.Map(guids, func(g string) string { return strings.ReplaceAll(g, ":", "") })
	}
	nodes := func(of ...string) (out []Post) { // the machine of each, and its GUIDs
		for i, text := range of {
			words := strings.Fields(text)
			t := Traits{Machine: strings.TrimPrefix(words[0], "?"), GUIDs: bare(words[1:])}
			out = append(out, Post{Rank: i, Name: fmt.Sprintf("n%d", i), Traits: t})
		}
		return out
	}
	for name, tt := range map[string]struct {
		posts []Post
		want  string
	}{
		"each its own":                    {nodes("a "+one, "b "+two, "c "+three), ""},
		"no InfiniBand":                   {nodes("a", "b"), ""},
		"two containers of one machine":   {nodes("a "+one, "a "+one, "b "+two), ""},
		"machines that are hidden":        {nodes("? "+one, "? "+one), ""},
		"two clones":                      {nodes("a "+one, "b "+two, "c "+one), "2 machines have one GUID (" + one + "): n"},
		"two containers and a clone":      {nodes("a "+one, "a "+one, "b "+one), "one GUID (" + one + "): n0, n1, n2"},
		"clones with two cards each":      {nodes("a "+one+" "+two, "b "+one+" "+two), "(" + one + ", " + two + "): n0, n1"},
		"one of their two cards is alike": {nodes("a "+one+" "+two, "b "+one+" "+three), "one GUID (" + one + "): n0, n1"},
	} {
		got := compareGUIDs(tt.posts)
		switch {
		case tt.want == "" && len(got) > 0:
			t.Errorf("%s: %+v", name, got)
		case tt.want != "" && (len(got) != 1 || got[0].Status != finding.Warn || !strings.Contains(got[0].What, tt.want)):
			t.Errorf("%s: %+v, want %q", name, got, tt.want)
		}
	}
	decided := Decide(nodes("a "+one, "b "+one), nil)
	if !decided.Go || !slices.ContainsFunc(decided.Findings, func(f finding.Finding) bool { return f.ID == "same.guid" }) {
		t.Errorf("the decision has no warning: %+v", decided)
	}
}

// Only InfiniBand of virtual functions with a link counts: their RoCE ports may have any GUID, or zero, and cards have
// their own.
func TestTheGUIDsOfANode(t *testing.T) {
	gid := func(text string) []fabric.GID { return []fabric.GID{{Addr: netip.MustParseAddr(text)}} }
	node := checktest.Four()
	node.Node.HCAs = []fabric.HCA{
		{Name: "mlx5_9", GUID: "0011:2233:4455:6609", Ports: []fabric.Port{
			{Num: 1, LinkLayer: "InfiniBand", State: 4, GIDs: gid("fe80::11:2233:4455:6609")}}},
		{Name: "mlx5_0", VF: true, GUID: "0011:2233:4455:6601", Ports: []fabric.Port{
			{Num: 1, LinkLayer: "InfiniBand", State: 4, GIDs: gid("fe80::11:2233:4455:6601")},
			{Num: 2, LinkLayer: "InfiniBand", State: 2, GIDs: gid("fe80::11:2233:4455:6611")}}},
		{Name: "mlx5_1", VF: true, GUID: "0011:2233:4455:6602", Ports: []fabric.Port{
			{Num: 1, LinkLayer: "Ethernet", State: 4, GIDs: gid("fe80::11:2233:4455:6602")}}},
		{Name: "mlx5_2", VF: true, Ports: []fabric.Port{{Num: 1, LinkLayer: "InfiniBand", State: 4, GIDs: gid("fe80::")}}},
		{Name: "mlx5_3", VF: true, GUID: "0011:2233:4455:6604", Ports: []fabric.Port{
			{Num: 1, LinkLayer: "InfiniBand", State: 1, GIDs: gid("fe80::11:2233:4455:6604")}}},
		{Name: "efa_0", VF: true, Driver: "efa", GUID: "0011:2233:4455:6605", Ports: []fabric.Port{
			{Num: 1, LinkLayer: "InfiniBand", State: 4}}},
	}
	got := TraitsOf(node, rail.Of(node.Node, node.Addr)).GUIDs
	if want := []string{"0011223344556601", "0011223344556611"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
