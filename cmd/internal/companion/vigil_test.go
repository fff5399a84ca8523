package companion

import (
	"testing"
	"time"

	"launch/diagnose/verdict"
)

// looks returns after how many seconds a job is looked at in two hours, and whether it spun, if each second of it
// uses so much CPU time and reads so much.
func looks(cpu float64, read uint64) (at []int, spins bool) {
	a := effort{at: time.Unix(1000, 0)}
	w := newVigil(2*time.Minute, a.at)
	for i := 5; i <= 7200; i += 5 {
		b := a
		b.at, b.cpu, b.read = a.at.Add(5*time.Second), a.cpu+5*cpu, a.read+5*read
		w.saw(a, b)
		if _, spun, due := w.due(b.at); due {
			at, spins = append(at, i), spun
		}
		a = b
	}
	return at, spins
}

func TestAJobThatUsesCPUTimeAloneIsLookedAtLessAndLess(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cpu   float64
		read  uint64
		looks int
		spins bool
	}{
		{"it waits", 0.003, 0, 60, false},
		{"it uses a core", 1, 0, 6, true}, // after 2, 4, 8, 16, 32 and 64 minutes
		{"it reads", 1, 1 << 20, 0, false},
	} {
		if at, spins := looks(tt.cpu, tt.read); len(at) != tt.looks || spins != tt.spins || len(at) > 0 && at[0] != 120 {
			t.Errorf("%s: %v looks, spins %v; want %d, %v", tt.name, at, spins, tt.looks, tt.spins)
		}
	}
}

func TestOfAJobThatUsesCPUTimeOnlyWhatTwoLooksFindIsSaid(t *testing.T) {
	stopped := verdict.Verdict{Cause: "rank.stopped", Sure: verdict.Certain, Ranks: []int{1}}
	look := func(state verdict.State, v verdict.Verdict) found {
		a := verdict.Answer{State: state, Why: []verdict.Verdict{v}}
		return found{answer: a, key: a.Key()}
	}
	w := newVigil(time.Minute, time.Now())
	says := func(f found, spins bool) bool { _, ok := w.judge(f, true, spins); return ok }
	if !says(look(verdict.Open, stopped), false) {
		t.Error("a job that stands still is not said")
	}
	if says(look(verdict.Hung, stopped), true) || !says(look(verdict.Hung, stopped), true) {
		t.Error("not with the second look")
	}
	other := stopped
	other.Ranks = []int{2}
	if says(look(verdict.Hung, other), true) {
		t.Error("another rank counts as the same")
	}
	for _, v := range []verdict.Verdict{{Cause: "collective.mismatch", Sure: verdict.Certain, Ranks: []int{1}},
		{Cause: "rank.failed", Sure: verdict.Likely}} {
		for range 2 {
			if says(look(verdict.Hung, v), true) {
				t.Errorf("%s is said of ranks that compute", v.Cause)
			}
		}
	}
	for range 2 {
		if says(look(verdict.Open, stopped), true) {
			t.Error("what is open is said of ranks that compute")
		}
	}
}
