package companion

import (
	"testing"

	"launch/diagnose/verdict"
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
