package companion

import (
	"strings"
	"testing"
	"time"

	"launch/internal/finding"
)

// watcherOf returns a watcher, and what it prints.
func watcherOf() (*watcher, *[]finding.Finding) {
	var printed []finding.Finding
	print := func(_ finding.From, f finding.Finding, _ string) { printed = append(printed, f) }
	p := &companion{spec: &Spec{}, print: print}
	return p.newWatcher(), &printed
}

func TestANodeThatStoodStillSaysForHowLong(t *testing.T) {
	w, printed := watcherOf()
	w.stalled()
	if len(*printed) > 0 {
		t.Errorf("printed %v of a node that runs", *printed)
	}
	w.last -= 40 * time.Second
	w.stalled()
	w.stalled()
	if len(*printed) != 1 || !strings.HasPrefix((*printed)[0].What, "this node stood still for 40s, until ") {
		t.Errorf("printed %v", *printed)
	}
}

func TestEachKillForLackOfMemoryIsSaidOnce(t *testing.T) {
	w, printed := watcherOf()
	w.kills, w.known = func() (int64, bool) { return 7, false }, 7
	w.memory()
	if len(*printed) > 0 {
		t.Errorf("printed %v, but nothing was killed", *printed)
	}
	w.known -= 2
	w.memory()
	w.memory()
	if len(*printed) != 1 || !strings.HasPrefix((*printed)[0].What, "out of memory: the kernel has killed 2 of this") {
		t.Errorf("printed %v", *printed)
	}
}

// A kill that the kernel counts for the whole machine may be of another job.
func TestAKillOnTheMachineMattersWhereAProcessOfTheCommandHasEnded(t *testing.T) {
	w, printed := watcherOf()
	kills, pids := int64(3), []int{10, 11, 12}
	w.kills, w.of, w.known = func() (int64, bool) { return kills, true }, func() []int { return pids }, kills
	w.memory()
	kills++ // in another container
	w.memory()
	pids = []int{10, 11} // an ordinary end
	w.memory()
	if len(*printed) > 0 {
		t.Errorf("printed %v", *printed)
	}
	kills, pids = kills+1, []int{10, 13}
	w.memory()
	w.memory()
	if len(*printed) != 1 || !strings.Contains((*printed)[0].What, "killed 1 of this machine's processes, and one of") {
		t.Errorf("printed %v", *printed)
	}
}

// The host of a store that nodes host has no name for the others, but the address that they were given.
func TestALostStoreIsNamedByItsAddress(t *testing.T) {
	p := &companion{spec: &Spec{Endpoints: []string{"host0:29377"}}}
	for text, want := range map[string]string{
		"the node that hosts the store, or the network to it, was lost": "the node that hosts the store (host0:29377), " +
			"or the network to it, was lost",
		"node rank 1, host1, was lost": "node rank 1, host1, was lost",
	} {
		if got := p.located(text); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

// TestAQuotaThatHoldsTheCommand: in most of its periods, for a while, and once. One that uses all of its quota is not
// held, and neither is one of many threads that have bursts.
func TestAQuotaThatHoldsTheCommand(t *testing.T) {
	for _, tt := range []struct {
		name               string
		used, held         time.Duration // in a second
		periods, throttled int64         // likewise
		pause              int           // of that many seconds in the middle
		want               int
	}{
		{"1 % of a processor", 10 * time.Millisecond, 990 * time.Millisecond, 10, 10, 0, 1},
		{"30 % of a processor", 300 * time.Millisecond, 3 * time.Second, 10, 10, 0, 1},
		{"1 %, the periods are not known", 10 * time.Millisecond, 990 * time.Millisecond, 0, 0, 0, 1},
		{"for a second time, soon", 10 * time.Millisecond, 990 * time.Millisecond, 10, 10, 30, 1},
		{"for a second time, later", 10 * time.Millisecond, 990 * time.Millisecond, 10, 10, 90, 2},

		{"four processors, all used", 4 * time.Second, 3 * time.Second, 10, 9, 0, 0},
		{"four processors, bursts of many threads", 400 * time.Millisecond, 5 * time.Second, 10, 1, 0, 0},
		{"bursts, and no thread runs else", 400 * time.Millisecond, 5 * time.Second, 1, 1, 0, 0},
		{"bursts, the periods are not known", 400 * time.Millisecond, 5 * time.Second, 0, 0, 0, 0},
		{"held at times", 400 * time.Millisecond, 300 * time.Millisecond, 10, 3, 0, 0},
		{"no quota", 10 * time.Millisecond, 0, 0, 0, 0, 0},
	} {
		var q quota
		said, now := 0, had{at: time.Unix(0, 0)}
		for i := range 40 + tt.pause {
			if _, ok := q.saw(now); ok {
				said++
			}
			if i < 10 && said > 0 {
				t.Errorf("%s: after %d s", tt.name, i)
			}
			now.at = now.at.Add(time.Second)
			if i < 20 || i >= 20+tt.pause {
				now.used, now.held = now.used+tt.used, now.held+tt.held
				now.periods, now.throttled = now.periods+tt.periods, now.throttled+tt.throttled
			}
		}
		if said != tt.want {
			t.Errorf("%s: said %d times, not %d", tt.name, said, tt.want)
		}
	}
}
