package rail

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"launch/fabric"
	"launch/fabric/machine"
)

// floors are the shares of right answers, in percent, on the recorded machines, by
// field. docs/fabric.md explains what is missing to 100. A change that lowers a share
// has made something worse.
var (
	floors = map[string]float64{
		"best": 100, "devices": 100, "distance": 100, "facts": 100, "gid": 83.3, "gpus": 100,
		"kind": 94.9, "nearest": 100, "ports": 99.8, "roles": 98.9,
	}
	// factFloors are the shares on the facts alone.
	factFloors = map[string]float64{"best": 98.2, "kind": 94.8, "nearest": 97.8, "roles": 98}
)

// score counts the answers to one field: right ones, all, and those without a file in
// the machine's tree.
type score struct{ right, all, unseen int }

type board struct {
	t      *testing.T
	fields map[string]*score
	name   string // of the machine
	tree   string // its manifest, as text: whether a file is in it
}

// mark counts one answer.
func (b *board) mark(field, what string, want, got any) {
	s := b.field(field)
	s.all++
	if fmt.Sprint(want) == fmt.Sprint(got) {
		s.right++
		return
	}
	b.t.Logf("%-9s %s: %s: want %v, got %v", field, b.name, what, want, got)
}

// markSeen counts an answer only if the tree has the file that it comes from.
func (b *board) markSeen(field, what, file string, want, got any) {
	if strings.Contains(b.tree, file) {
		b.mark(field, what, want, got)
		return
	}
	b.field(field).unseen++
}

func (b *board) field(name string) *score {
	if b.fields[name] == nil {
		b.fields[name] = &score{}
	}
	return b.fields[name]
}

// TestScoreOnRecordedMachines compares the fabric of each recorded machine with an
// expert's description. It prints the score by field, and fails if a share falls below
// its floor. docs/fabric.md explains each miss.
func TestScoreOnRecordedMachines(t *testing.T) {
	folder, trees := recorded(t)
	b := &board{t: t, fields: map[string]*score{}}
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		data, err := os.ReadFile(trees[name])
		if err != nil {
			t.Fatal(err)
		}
		m, err := machine.Read(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b.name, b.tree = name, string(data)
		n := m.Detect(t.Context())
		b.judge(readExpected(t, folder, name), n, Of(n, netip.Addr{}))
	}
	b.report(len(trees), floors)
}

// report prints the score and compares it with the floors.
func (b *board) report(machines int, floors map[string]float64) {
	var out strings.Builder
	fmt.Fprintf(&out, "%d machines\n%-10s %7s %7s %7s %7s\n", machines, "FIELD", "RIGHT", "OF", "%", "NO FILE")
	for _, f := range slices.Sorted(maps.Keys(b.fields)) {
		s := b.fields[f]
		share := 100 * float64(s.right) / float64(max(1, s.all))
		fmt.Fprintf(&out, "%-10s %7d %7d %7.1f %7d\n", f, s.right, s.all, share, s.unseen)
		if floor, ok := floors[f]; !ok || math.Round(share*10) < math.Round(floor*10) {
			b.t.Errorf("%s: %.1f %% are right, and it was %.1f", f, share, floor)
		}
	}
	b.t.Log(out.String())
}

func (b *board) judge(e expected, n fabric.Node, f Fabric) {
	if e.Fabric.Kind != nil {
		b.mark("kind", "fabric", *e.Fabric.Kind, f.Kind)
	}
	names := map[string]bool{}
	for _, want := range e.Devices {
		if want.Name != nil {
			names[*want.Name] = true
			b.device(want, n, f)
		}
	}
	if e.Devices != nil {
		for _, h := range n.HCAs {
			if !names[h.Name] {
				b.mark("devices", h.Name, "none", "one")
			}
		}
	}
	for _, want := range e.Bare {
		got := slices.ContainsFunc(f.NICs, func(nic NIC) bool { return nic.Name == want.PCI && nic.Role == Unusable })
		b.mark("devices", want.PCI+" without RDMA", true, got)
	}
	if e.Best != nil {
		b.mark("best", "rails", sorted(*e.Best), railNames(f, *e.Best))
	}
	if e.GID != nil {
		got := "none"
		for _, r := range f.Rails {
			if r.GID >= 0 {
				got = fmt.Sprint(r.GID)
				break
			}
		}
		if v := look(n, netip.Addr{}); len(f.Rails) == 0 || f.Rails[0].HCA == "" {
			for _, h := range n.HCAs { // no rails: what a job limited to it would use
				for _, p := range h.Ports {
					got = fmt.Sprint(v.gid(candidate{h, p, RoCE}))
				}
			}
		}
		b.markSeen("gid", "index", "/gid_attrs/types/", *e.GID, got)
	}
	b.gpus(e, f, n)
}

// railNames returns the rails with an HCA; with the port if the list has it.
func railNames(f Fabric, like []string) []string {
	var out []string
	for _, r := range f.Rails {
		if name := portName(r.HCA, r.Port); slices.Contains(like, name) {
			out = append(out, name)
		} else if r.HCA != "" && !slices.Contains(out, r.HCA) {
			out = append(out, r.HCA)
		}
	}
	return sorted(out)
}

func sorted(names []string) []string {
	out := slices.Clone(names)
	slices.SortFunc(out, natural)
	return out
}

func (b *board) gpus(e expected, f Fabric, n fabric.Node) {
	if e.GPUs.Count != nil && len(e.GPUs.Devices) > 0 {
		for _, g := range e.GPUs.Devices {
			if g.PCI == nil {
				b.field("gpus").unseen++
				continue
			}
			_, found := find(f.GPUs, func(x GPU) bool { return x.PCI == *g.PCI })
			b.markSeen("gpus", *g.PCI, "sys/bus/pci/devices/"+*g.PCI+`"`, true, found)
		}
	}
	for _, g := range e.GPUs.Devices {
		if g.PCI == nil || !strings.Contains(b.tree, "sys/bus/pci/devices/"+*g.PCI+`"`) {
			b.field("nearest").unseen += min(1, len(g.Nearest))
			b.field("distance").unseen += len(g.Distance)
			continue
		}
		got, _ := find(f.GPUs, func(x GPU) bool { return x.PCI == *g.PCI })
		if len(g.Nearest) > 0 {
			b.mark("nearest", *g.PCI, sorted(g.Nearest), sorted(got.Rails))
		}
		for _, nic := range slices.Sorted(maps.Keys(g.Distance)) {
			h, _ := find(n.HCAs, func(h fabric.HCA) bool { return h.Name == nic })
			d := n.Distance(*g.PCI, h.PCI)
			b.markSeen("distance", *g.PCI+" to "+nic, "infiniband/"+nic+`"`, g.Distance[nic], d)
		}
	}
}

func find[T any](list []T, is func(T) bool) (v T, ok bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	return v, false
}
