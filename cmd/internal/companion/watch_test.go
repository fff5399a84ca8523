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

// TestAQuotaThatHoldsTheCommand: most of the time, for a while, and once. One that uses all of its quota is not held.
func TestAQuotaThatHoldsTheCommand(t *testing.T) {
	for _, tt := range []struct {
		name       string
		used, held time.Duration // in a second
		want       int
	}{
		{"1 % of a processor", 10 * time.Millisecond, 990 * time.Millisecond, 1},
		{"four processors, all used", 4 * time.Second, 3 * time.Second, 0},
		{"held at times", 400 * time.Millisecond, 300 * time.Millisecond, 0},
		{"no quota", 10 * time.Millisecond, 0, 0},
	} {
		var q quota
		said := 0
		for i := range 20 {
			n := time.Duration(i)
			if _, ok := q.saw(had{time.Unix(int64(i), 0), n * tt.used, n * tt.held}); ok {
				said++
			}
			if i < 10 && said > 0 {
				t.Errorf("%s: after %d s", tt.name, i)
			}
		}
		if said != tt.want {
			t.Errorf("%s: said %d times, not %d", tt.name, said, tt.want)
		}
	}
}
