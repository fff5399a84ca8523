package peers

import (
	"fmt"
	"strings"
	"testing"

	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/preflight/calls"
)

// railed has n nodes with some rails call the next two; lost returns why a rail of one does not reach that of another.
func railed(n, rails int, lost func(from, to, rail int) sidechannel.Cause, cross string) (out []Post) {
	for i := range n {
		p := Post{Rank: i, Name: fmt.Sprintf("host%d", i)}
		for _, to := range []int{(i + 1) % n, (i + 2) % n} {
			if to == i || len(p.Rails) > 0 && p.Rails[0].To == to {
				continue
			}
			path := calls.RailPath{To: to, Tried: rails, Cross: cross}
			for r := range rails {
				if cause := lost(i, to, r); cause != "" {
					path.Lost = append(path.Lost, calls.RailCall{Rail: r, Name: fmt.Sprintf("bnxt_re%d", r),
						From: fmt.Sprintf("10.9.%d.%d", r, i), Addr: fmt.Sprintf("10.9.%d.%d:4000", r, to), Cause: cause})
				}
			}
			p.Rails = append(p.Rails, path)
		}
		out = append(out, p)
	}
	return out
}

func TestRailsThatAreNotRouted(t *testing.T) {
	none := func(int, int, int) sidechannel.Cause { return "" }
	if1 := func(bad bool, c sidechannel.Cause) sidechannel.Cause {
		return map[bool]sidechannel.Cause{true: c}[bad]
	}
	for name, tt := range map[string]struct {
		posts []Post
		want  []string
		apart bool
	}{
		"all are":                {railed(4, 8, none, "ok"), nil, false},
		"separate rails":         {railed(4, 8, none, "dropped"), nil, true},
		"separate, two nodes":    {railed(2, 2, none, "no route"), nil, true},
		"nothing else was tried": {railed(4, 1, none, ""), nil, false},
		"no node has RoCE":       {[]Post{{Rank: 0, Name: "a"}, {Rank: 1, Name: "b"}}, nil, false},
		"one rail of every node": {railed(5, 8, func(_, _, r int) sidechannel.Cause {
			return if1(r == 3, sidechannel.NoRoute)
		}, "ok"),
			[]string{"calls over rail 3 (bnxt_re3) to the same rail of another node do not get through between any"},
			false},
		"all rails of one node": {railed(5, 4, func(from, to, _ int) sidechannel.Cause {
			return if1(from == 2 || to == 2, sidechannel.Dropped)
		}, "ok"), []string{"calls over rail 0, 1, 2, 3 (bnxt_re0) to the same rail of another node to and from host2"},
			false},
		"a filter of one node, for TCP": {railed(5, 4, func(_, to, _ int) sidechannel.Cause {
			return if1(to == 2, sidechannel.Dropped)
		}, "ok"), nil, false},
		"no route to one node": {railed(5, 4, func(_, to, _ int) sidechannel.Cause {
			return if1(to == 2, sidechannel.NoRoute)
		}, "ok"), []string{"calls over rail 0, 1, 2, 3 (bnxt_re0) to the same rail of another node to host2"}, false},
		"two causes": {railed(6, 2, func(from, to, r int) sidechannel.Cause {
			return if1(r == 0 && (from == 1 || to == 1) || r == 1 && (from == 4 || to == 4), sidechannel.NoHost)
		}, "dropped"), []string{"to and from host1", "to and from host4"}, false},
		"two nodes": {railed(2, 2, func(_, _, r int) sidechannel.Cause {
			return if1(r == 1, sidechannel.NoHost)
		}, "ok"),
			[]string{"calls over rail 1 (bnxt_re1)"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := compareRails(tt.posts)
			if len(got) != len(tt.want) {
				t.Fatalf("%d findings, want %d: %+v", len(got), len(tt.want), got)
			}
			for i, f := range got {
				if f.Status != finding.Warn || !strings.Contains(f.What, tt.want[i]) || f.Fix == "" || len(f.unfit) > 0 {
					t.Errorf("got %s %q, want a warning with %q", f.Status, f.What, tt.want[i])
				}
			}
			if got := railsApart(tt.posts); got != tt.apart {
				t.Errorf("apart: %v, want %v", got, tt.apart)
			}
		})
	}
}

func TestCallsThatVanishBetweenEFAs(t *testing.T) {
	for kind, want := range map[rail.Kind]bool{rail.EFA: true, rail.InfiniBand: false, rail.TCP: false} {
		posts := calling(3, func(_, to int, c *calls.Call) {
			if to == 2 {
				drop(c)
			}
		})
		for i := range posts {
			posts[i].Traits.Fabric = kind
		}
		got := compareCalls(posts)
		if len(got) == 0 || strings.Contains(got[0].Fix, "security group") != want {
			t.Errorf("%s: %+v, want a security group: %v", kind, got, want)
		}
	}
}
