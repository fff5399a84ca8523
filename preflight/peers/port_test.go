package peers

import (
	"slices"
	"strings"
	"testing"

	"launch/fabric"
	"launch/internal/sidechannel"
	"launch/preflight/calls"
)

// knocking has all nodes call the port of the job's own store, too.
func knocking(n int, closed func(from int) bool, edit func(rank int, p *Post)) []Post {
	out := calling(n, func(int, int, *calls.Call) {})
	for i := range out {
		if i > 0 {
			c := calls.Call{Addr: "10.0.0.1:29500", Port: true}
			if closed(i) {
				drop(&c)
			}
			out[i].Calls = append(out[i].Calls, c)
		}
		edit(i, &out[i])
	}
	return out
}

func TestThePortOfTheStore(t *testing.T) {
	asIs := func(int, *Post) {}
	for name, c := range map[string]struct {
		posts []Post
		what  string // "": no finding
		unfit []int
	}{
		"open": {posts: knocking(4, func(int) bool { return false }, asIs)},
		"closed to all": {knocking(4, func(int) bool { return true }, asIs),
			"calls to port 29500 of host0, where the job's own store will listen, do not get through from host1, host2, host3 " +
				"(3 of 3 tried), while those to other ports do: no answer", []int{0}},
		"closed to one": {knocking(4, func(from int) bool { return from == 2 }, asIs),
			"do not get through from host2 (1 of 3 tried)", []int{2}},
		"of two": {knocking(2, func(int) bool { return true }, asIs), "from host1 (1 of 1 tried)", []int{0}},
		"one caller's own NAT": {knocking(2, func(int) bool { return true }, func(rank int, p *Post) {
			if rank == 1 {
				c := &p.Calls[len(p.Calls)-1]
				c.Wrong, c.Here = fabric.Fault{Why: "this node's NAT sends them on", Do: "nft list ruleset"}, true
			}
		}), "while those to other ports do: host1: this node's NAT sends them on", []int{1}},
		"an older launch": {posts: knocking(3, func(int) bool { return true }, func(rank int, p *Post) {
			if rank == 0 {
				p.Version = "0"
			}
		})},
		"another answers": {knocking(3, func(int) bool { return false }, func(rank int, p *Post) {
			if rank == 1 {
				p.Calls[len(p.Calls)-1].Other = "X"
			}
		}), "from host1 (1 of 2 tried)", []int{1}},
	} {
		got := slices.DeleteFunc(compareCalls(c.posts), func(j judged) bool { return j.ID != "peer.port" })
		if len(got) != min(len(c.what), 1) {
			t.Errorf("%s: got %d findings: %+v", name, len(got), got)
			continue
		}
		if len(got) > 0 && (!strings.Contains(got[0].What, c.what) || !slices.Equal(got[0].unfit, c.unfit)) {
			t.Errorf("%s: got %q, unfit %v; want %q, %v", name, got[0].What, got[0].unfit, c.what, c.unfit)
		}
	}
}

// Where node rank 0 is not reached at all, its port is not told as well.
func TestAClosedPortIsToldOnce(t *testing.T) {
	all := knocking(4, func(int) bool { return true }, func(rank int, p *Post) {
		for i := range p.Calls {
			if p.Calls[i].To == 0 {
				p.Calls[i].Cause = sidechannel.Dropped
			}
		}
	})
	got := compareCalls(all)
	if len(got) != 1 || got[0].ID != "peer.reach" {
		t.Errorf("got %+v", got)
	}
}

// What to look at depends on who refuses: the caller's own kernel, a NAT of its own, or the way.
func TestWhereToLookForAClosedPort(t *testing.T) {
	for cause, want := range map[sidechannel.Cause]string{
		sidechannel.Denied:  "# on host2: what forbids it to call port 29500",
		sidechannel.Silent:  "# on host2: does a NAT or proxy take calls to port 29500?",
		sidechannel.Dropped: "# on host0, and on the firewalls before it",
	} {
		all := knocking(4, func(from int) bool { return from == 2 }, func(rank int, p *Post) {
			if rank == 2 {
				p.Calls[len(p.Calls)-1].Cause = cause
			}
		})
		got := compareCalls(all)
		if len(got) != 1 || !strings.Contains(got[0].Fix, want) {
			t.Errorf("%s: got %+v", cause, got)
		}
	}
}
