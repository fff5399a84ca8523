package diagnose

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// In a pipeline ranks are in different calls, of groups of different ranks, while one of them works.
func TestDifferentCallsAreNoMismatchWhileARankWorks(t *testing.T) {
	const c10d = " (torch/distributed/distributed_c10d.py:3697)"
	of := func(computes time.Duration, calls ...string) scene.Scene {
		s := envScene()
		s.Procs = nil
		for i, call := range calls {
			p := trainingRank(10+i, strconv.Itoa(i), call+c10d, "<module> (train.py:10)")
			if call == "" {
				p.Stacks[0].Frames[0], p.Moved.CPU = "evaluate (train.py:4)", computes
			}
			s.Procs = append(s.Procs, p)
		}
		return s
	}
	for name, tt := range map[string]struct {
		scene scene.Scene
		want  verdict.Sure // "": no mismatch
	}{
		"all are in collectives":                  {of(0, "all_reduce", "all_reduce", "barrier"), verdict.Certain},
		"one works":                               {of(3*time.Second, "all_reduce", "broadcast", ""), ""},
		"one does nothing":                        {of(0, "all_reduce", "broadcast", ""), verdict.Likely},
		"a stage evaluates":                       {of(3*time.Second, "send", "recv", ""), ""},
		"a stage waits for a service":             {of(0, "send", "recv", ""), ""},
		"a stage waits, and one is in all_reduce": {of(0, "all_reduce", "recv", ""), ""},
		"all wait, one in a collective":           {of(0, "all_reduce", "recv", "recv"), verdict.Certain},
	} {
		a := Judge([]scene.Scene{tt.scene})[0]
		var got verdict.Sure
		if i := slices.IndexFunc(a.Why, func(w verdict.Verdict) bool { return w.Cause == "collective.mismatch" }); i >= 0 {
			got = a.Why[i].Sure
		}
		if got != tt.want {
			t.Errorf("%s: %v, want %v: %+v", name, got, tt.want, a.Why)
		}
	}
}
