package companion

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"launch/diagnose/verdict"
	"launch/rendezvous"
)

// Of all that a look finds, only what is certain of a path is said at once: the rest has time until --hang-after.
func TestOnlyWhatIsCertainOfAPathIsSaidAtOnce(t *testing.T) {
	of := func(all ...verdict.Verdict) []verdict.Answer { return []verdict.Answer{{Why: all}} }
	sleeps := verdict.Verdict{Cause: "rank.sleeps", Sure: verdict.Certain}
	maybe := verdict.Verdict{Cause: "path.stale", Sure: verdict.Likely}
	lost := verdict.Verdict{Cause: "path.lost", Sure: verdict.Certain, Says: "host0 gets no answer from host1"}
	for _, all := range [][]verdict.Answer{nil, of(), of(sleeps), of(sleeps, maybe)} {
		if a, ok := pathOf(all); ok {
			t.Errorf("%v: %v", all, a)
		}
	}
	a, ok := pathOf(of(sleeps, maybe, lost))
	if !ok || len(a.Why) != 1 || a.Why[0].Cause != "path.lost" {
		t.Fatalf("got %v", a)
	}
	const want = "a connection of the command is stuck: host0 gets no answer from host1 (path.lost, certain)"
	if f := stuckFinding(a, ""); f.ID != "job.path" || f.What != want {
		t.Errorf("%s: %s", f.ID, f.What)
	}
	if f := stuckFinding(a, "eth0 has no link"); f.What != "a connection of the command is stuck: this node has lost "+
		"the others: eth0 has no link" {
		t.Errorf("cut off: %s", f.What)
	}
}

// A node that has lost all others is the first place to look at, where there were several.
func TestWhoHasLostAllOthersIsAlone(t *testing.T) {
	at := func(n byte) rendezvous.Partner {
		return rendezvous.Partner{Rank: int(n), Addr: netip.AddrFrom4([4]byte{10, 0, 0, n})}
	}
	for _, tt := range []struct {
		others, lost []rendezvous.Partner
		want         bool
	}{
		{[]rendezvous.Partner{at(1)}, []rendezvous.Partner{at(1)}, false},
		{[]rendezvous.Partner{at(1), at(2)}, []rendezvous.Partner{at(1)}, false},
		{[]rendezvous.Partner{at(1), at(2)}, []rendezvous.Partner{at(2), at(1)}, true},
	} {
		d := &doctor{known: tt.others}
		d.world.Store(&rendezvous.World{})
		for _, n := range tt.lost {
			d.forget(n)
		}
		if got := d.alone(t.Context()); got != tt.want {
			t.Errorf("others %v, lost %v: %t", tt.others, tt.lost, got)
		}
	}
}

// A path that is reported as slow is not reported as lost, as long as it is slow.
func TestASlowPathIsNotReportedAsStuck(t *testing.T) {
	d := &doctor{}
	n := rendezvous.Partner{Addr: lo, Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.2")}}
	for _, slow := range []bool{true, true, false} {
		want := []netip.Addr{n.Addr, n.Addrs[0]}
		if !slow {
			want = nil
		}
		if d.slows(n, slow); !slices.Equal(d.slow, want) {
			t.Errorf("%t: %v", slow, d.slow)
		}
	}
}

// TestAPathToANodeThatFailedIsLessSure: a host whose command has ended would end its connections.
func TestAPathToANodeThatFailedIsLessSure(t *testing.T) {
	e := &ends{p: &companion{world: &rendezvous.World{}}}
	e.p.world.Self.ID = "fir"
	e.failed.heard = make(chan none)
	lost := verdict.Answer{Why: []verdict.Verdict{{Cause: "path.lost", Sure: verdict.Certain,
		Nodes: []string{"elm", "fir"}}}}
	if got := failedThere(lost, e).Why[0]; got.Sure != verdict.Certain {
		t.Errorf("no node has failed: %+v", got)
	}
	e.failed.end = rankEnd{Node: "elm (10.91.0.11)", ID: "elm", Status: 1}
	close(e.failed.heard)
	for _, name := range []string{"elm", "elm (10.91.0.11)"} {
		lost.Why[0].Nodes[0] = name
		if got := failedThere(lost, e).Why[0]; got.Sure != verdict.Likely ||
			!strings.Contains(got.Says, "nothing of that arrives here") {
			t.Errorf("elm has failed: %+v", got)
		}
	}
}

// The first process of a container is the parent of all: what the companion does is no progress of the command.
func TestTheFamilyOfACommandHasNoCompanion(t *testing.T) {
	p := &companion{}
	p.command.Store(int64(os.Getppid()))
	family := (&doctor{p: p}).family()
	if !slices.Contains(family, os.Getppid()) || slices.Contains(family, os.Getpid()) {
		t.Errorf("the family of %d has %v; this process is %d", os.Getppid(), family, os.Getpid())
	}
}
