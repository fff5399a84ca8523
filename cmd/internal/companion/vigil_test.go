package companion

import (
	"strings"
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
		if _, due := w.due(b.at); due == lookEarly {
			w.judge(found{}, false, due)
		} else if due != noLook {
			at, spins = append(at, i), due == lookSpins
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

// Threads of TensorPipe poll all the time: a job in which nothing else moves is looked at early, and not as one that
// stands still.
func TestAJobWhoseThreadsPollIsLookedAtEarly(t *testing.T) {
	for polls, want := range map[float64]look{0: noLook, 0.5: lookEarly} {
		a := effort{at: time.Unix(1000, 0)}
		w := newVigil(2*time.Minute, a.at)
		got := noLook
		for i := 5; i <= 60; i += 5 {
			b := a
			b.at, b.cpu, b.polls = a.at.Add(5*time.Second), a.cpu+5*0.5, a.polls+5*polls
			w.saw(a, b)
			if _, due := w.due(b.at); due != noLook {
				got = due
			}
			a = b
		}
		if got != want {
			t.Errorf("%.1f of 0.5 cores poll: look %d, want %d", polls, got, want)
		}
	}
}

func TestOfAJobThatUsesCPUTimeOnlyWhatTwoLooksFindIsSaid(t *testing.T) {
	stopped := verdict.Verdict{Cause: "rank.stopped", Sure: verdict.Certain, Ranks: []int{1}}
	seen := func(state verdict.State, v verdict.Verdict) found {
		a := verdict.Answer{State: state, Why: []verdict.Verdict{v}}
		return found{answer: a, key: a.Key()}
	}
	w := newVigil(time.Minute, time.Now())
	says := func(f found, l look) bool { _, ok := w.judge(f, true, l); return ok }
	if !says(seen(verdict.Open, stopped), lookStill) {
		t.Error("a job that stands still is not said")
	}
	if says(seen(verdict.Hung, stopped), lookSpins) || !says(seen(verdict.Hung, stopped), lookSpins) {
		t.Error("not with the second look")
	}
	other := stopped
	other.Ranks = []int{2}
	if says(seen(verdict.Hung, other), lookSpins) {
		t.Error("another rank counts as the same")
	}
	for _, v := range []verdict.Verdict{{Cause: "collective.mismatch", Sure: verdict.Certain, Ranks: []int{1}},
		{Cause: "rank.failed", Sure: verdict.Likely}} {
		for range 2 {
			if says(seen(verdict.Hung, v), lookSpins) {
				t.Errorf("%s is said of ranks that compute", v.Cause)
			}
		}
	}
	for range 2 {
		if says(seen(verdict.Open, stopped), lookSpins) {
			t.Error("what is open is said of ranks that compute")
		}
	}
}

// What ends only by help from outside is said within half a minute, if two looks find it.
func TestWhatNoRankWillEndIsSaidEarly(t *testing.T) {
	storage := verdict.Verdict{Cause: "rank.storage", Sure: verdict.Certain, Ranks: []int{1}}
	lock := verdict.Verdict{Cause: "rank.left", Sure: verdict.Certain, Ranks: []int{1}, Blocked: true}
	left, likely := lock, storage
	named := func(cause string) verdict.Verdict {
		return verdict.Verdict{Cause: cause, Sure: verdict.Certain, Ranks: []int{1}}
	}
	left.Blocked, likely.Sure = false, verdict.Likely
	retries := likely
	retries.Blocked = true
	child := func(idle time.Duration) verdict.Verdict {
		return verdict.Verdict{Cause: "rank.left", Sure: verdict.Likely, Ranks: []int{1}, Idle: idle}
	}
	for _, tt := range []struct {
		name  string
		after time.Duration
		found []verdict.Verdict // by one look after the other, the last again and again
		want  int               // seconds
	}{
		{"a file system", 2 * time.Minute, []verdict.Verdict{storage}, 15},
		{"a file system that gives an error", 2 * time.Minute, []verdict.Verdict{retries}, 15},
		{"the end of the job", 2 * time.Minute, []verdict.Verdict{named("exit.barrier")}, 15},
		{"a lock", 2 * time.Minute, []verdict.Verdict{lock}, 15},
		{"a frozen rank", 2 * time.Minute, []verdict.Verdict{named("rank.frozen")}, 15},
		{"locks of its own", 2 * time.Minute, []verdict.Verdict{named("rank.lock")}, 15},
		{"a key", 2 * time.Minute, []verdict.Verdict{named("store.key")}, 15},
		{"a store elsewhere", 2 * time.Minute, []verdict.Verdict{named("store.elsewhere")}, 15},
		{"numbers that scripts count", 2 * time.Minute, []verdict.Verdict{named("world.counted")}, 15},
		{"a world too large", 2 * time.Minute, []verdict.Verdict{named("world.larger")}, 15},
		{"a number twice", 2 * time.Minute, []verdict.Verdict{named("rank.duplicate")}, 15},
		{"a rank that starts slowly, and calls elsewhere", 2 * time.Minute, []verdict.Verdict{left, left,
			named("store.elsewhere")}, 45},
		{"a rank that may go on", 2 * time.Minute, []verdict.Verdict{left}, 120},
		{"likely", 2 * time.Minute, []verdict.Verdict{likely}, 120},
		{"a child", 2 * time.Minute, []verdict.Verdict{child(8e9), child(46e9)}, 50},
		{"a child, seen late", 2 * time.Minute, []verdict.Verdict{left, child(18e9), child(47e9)}, 50},
		{"one child after the other", 2 * time.Minute, []verdict.Verdict{child(8e9), child(3e9)}, 120},
		{"a child that ends", 2 * time.Minute, []verdict.Verdict{child(40e9), left}, 120},
		{"another one", 2 * time.Minute, []verdict.Verdict{storage, lock}, 20},
		{"--hang-after 5s", 5 * time.Second, []verdict.Verdict{left}, 5},
	} {
		at := time.Unix(1000, 0)
		w := newVigil(tt.after, at)
		for i := 5; ; i += 5 {
			_, due := w.due(at.Add(time.Duration(i) * time.Second))
			if due == noLook {
				continue
			}
			v := tt.found[0]
			if len(tt.found) > 1 {
				tt.found = tt.found[1:]
			}
			a := verdict.Answer{State: verdict.Hung, Why: []verdict.Verdict{v}}
			if _, says := w.judge(found{answer: a, key: a.Key()}, true, due); says || i > 300 {
				if i != tt.want {
					t.Errorf("%s: said after %d s, want %d", tt.name, i, tt.want)
				}
				break
			}
		}
	}
}

// A rank that waits for a child in each epoch is reported early once, and with the question whether that is healthy.
func TestAWaitThatEndsIsSaidEarlyOnce(t *testing.T) {
	at := time.Unix(1000, 0)
	w := newVigil(2*time.Minute, at)
	said := 0
	for range 6 { // 80 s still, then a step
		for i := 5; i <= 80; i += 5 {
			_, due := w.due(at.Add(time.Duration(i) * time.Second))
			if due == noLook {
				continue
			}
			a := verdict.Answer{State: verdict.Open, Why: []verdict.Verdict{{Cause: "rank.left", Sure: verdict.Certain,
				Ranks: []int{1}, Do: "look at the child", Idle: time.Duration(i-1) * time.Second}}}
			f, says := w.judge(found{answer: a, key: a.Key()}, true, due)
			if !says {
				continue
			}
			said++
			if do := f.answer.Why[0].Do; !strings.Contains(do, "healthy") || !strings.HasSuffix(do, "\nlook at the child") {
				t.Errorf("after %d s: %q", i, do)
			}
			if a.Why[0].Do != "look at the child" {
				t.Error("the answer of the look has changed")
			}
		}
		a := effort{at: at.Add(80 * time.Second)}
		at = a.at.Add(5 * time.Second)
		w.saw(a, effort{at: at, read: 1 << 30})
	}
	if said != 1 {
		t.Errorf("said %d times in 6 epochs", said)
	}
}

// A job that pauses again and again is looked at less and less.
func TestPausesAreLookedAtLessAndLess(t *testing.T) {
	at := time.Unix(1000, 0)
	w := newVigil(2*time.Minute, at)
	early := 0
	for range 100 { // 30 s still, then a step
		for i := 5; i <= 30; i += 5 {
			if _, due := w.due(at.Add(time.Duration(i) * time.Second)); due == lookEarly {
				early++
				w.judge(found{}, false, due)
			}
		}
		a := effort{at: at.Add(30 * time.Second)}
		at = a.at.Add(5 * time.Second)
		w.saw(a, effort{at: at, read: 1 << 30})
	}
	if early != 2 {
		t.Errorf("%d early looks, want 2: after 10 and 20 s", early)
	}
}

// A job that went on after a look, and does not move again, is said again and looked at twice before it is ended.
func TestAHangAfterProgressTakesTwoLooks(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1000+int64(s), 0) }
	for _, tt := range []struct {
		name             string
		b                effort // what the processes have done between the first look and the second
		again, confirmed bool
	}{
		{"nothing", effort{}, true, true},
		{"a file is read", effort{read: 1 << 30}, false, false},
		{"only CPU time is used", effort{cpu: 60}, true, false},
	} {
		w := newVigil(20*time.Second, at(0))
		look := func(s int) (again, confirmed bool) {
			since, due := w.due(at(s))
			if due != lookStill {
				t.Fatalf("%s: look %v after %d s", tt.name, due, s)
			}
			return w.repeats("rank.absent", since, at(s))
		}
		if again, confirmed := look(21); again || confirmed {
			t.Errorf("%s: the first look repeats", tt.name)
		}
		tt.b.at = at(60)
		w.saw(effort{at: at(55)}, tt.b)
		if again, confirmed := look(90); again != tt.again || confirmed != tt.confirmed {
			t.Errorf("%s: again %v, confirmed %v", tt.name, again, confirmed)
		}
		if again, confirmed := look(120); !again || !confirmed {
			t.Errorf("%s: the look after that confirms nothing", tt.name)
		}
	}
}

// A job that uses CPU time and nothing else goes on, too: vigil does not begin anew then.
func TestAReasonIsSaidAgainAfterTheJobHasGoneOn(t *testing.T) {
	at := time.Unix(1000, 0)
	w := newVigil(time.Minute, at)
	for i, want := range []bool{false, true, false, true} {
		if i == 2 {
			w.goesOn()
		}
		if again, _ := w.repeats("rank.stopped 1 h1", at, at.Add(time.Duration(i+1)*time.Minute)); again != want {
			t.Errorf("look %d: it was said before is %t", i, again)
		}
	}
}
