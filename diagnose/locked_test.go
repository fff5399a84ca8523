package diagnose

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// Another thread that waits with a time limit may let the lock go: a queue whose producer sleeps is no deadlock.
func TestALockThatATimedThreadMayLetGoIsOpen(t *testing.T) {
	for timed, want := range map[bool]verdict.State{false: verdict.Hung, true: verdict.Open} {
		s := envScene()
		p := waitingRank(12, "2")
		p.Syscall, p.Wchan = &scene.Syscall{Nr: 202, Name: "futex", FD: -1}, "futex_do_wait"
		p.Threads = []scene.Thread{{Name: "python", Wchan: "futex_do_wait", State: "S", Count: 1},
			{Name: "python", Wchan: "futex_do_wait", State: "S", Count: 1, Timed: timed}}
		p.Stacks = []scene.Stack{{Thread: "MainThread", From: "py-spy", Frames: []string{"load (train.py:4)"}}}
		s.Procs = append(s.Procs, p)
		a := Judge([]scene.Scene{s})[0]
		if len(a.Why) == 0 || a.Why[0].Cause != "rank.lock" || a.State != want {
			t.Errorf("timed %v: %s, %+v", timed, a.State, a.Why)
		}
	}
}

// A signal that the rank handles may end the wait of its main thread.
func TestALockThatASignalMayEndIsOpen(t *testing.T) {
	for timed, want := range map[bool]verdict.State{false: verdict.Hung, true: verdict.Open} {
		s := envScene()
		p := waitingRank(12, "2")
		p.Syscall, p.Wchan = &scene.Syscall{Nr: 202, Name: "futex", FD: -1}, "futex_do_wait"
		p.Threads = []scene.Thread{{Name: "python", Wchan: "futex_do_wait", State: "S", Count: 1}}
		p.Waits = []scene.Wait{mainOn(scene.OnLock, true)}
		p.Waits[0].Timed = timed
		p.Stacks = []scene.Stack{{Thread: "MainThread", From: "py-spy", Frames: []string{"wait (threading.py:327)"}}}
		s.Procs = append(s.Procs, p)
		a := Judge([]scene.Scene{s})[0]
		if len(a.Why) == 0 || a.State != want {
			t.Errorf("%v: %s, %+v", timed, a.State, a.Why)
		}
	}
}

// A control group that is full and kills nothing is no storage that does not answer.
func TestARankThatWaitsForMemory(t *testing.T) {
	for wchan, want := range map[string]string{"mem_cgroup_oom_synchronize": "rank.memory", "": "rank.storage"} {
		s := envScene()
		p := waitingRank(12, "2")
		p.State, p.Wchan, p.Syscall = "D", wchan, nil
		s.Procs = append(s.Procs, p)
		if a := Judge([]scene.Scene{s})[0]; len(a.Why) == 0 || a.Why[0].Cause != want {
			t.Errorf("%q: %+v, want %s", wchan, a.Why, want)
		}
	}
}

// A rank that the freezer of its control group holds waits for no storage. Awake it sleeps in state S.
func TestARankThatItsControlGroupFreezes(t *testing.T) {
	for _, tt := range []struct{ state, wchan, want string }{
		{"D", "__refrigerator", "rank.frozen"}, {"D", "hrtimer_nanosleep", "rank.frozen"},
		{"D", "futex_do_wait", "rank.frozen"}, {"S", "do_freezer_trap", "rank.frozen"},
		{"D", "folio_wait_bit_common", "rank.storage"}, {"S", "hrtimer_nanosleep", "rank.before-init"},
	} {
		s := envScene()
		p := waitingRank(12, "2")
		p.State, p.Wchan, p.Syscall = tt.state, tt.wchan, nil
		p.Threads = []scene.Thread{{Name: "python", State: tt.state, Count: 1}}
		s.Procs = append(s.Procs, p)
		if a := Judge([]scene.Scene{s})[0]; len(a.Why) == 0 || a.Why[0].Cause != tt.want {
			t.Errorf("%s %s: %+v, want %s", tt.state, tt.wchan, a.Why, tt.want)
		}
	}
}

// The state and the place where a process sleeps are of two moments: one that reads a file in between is not frozen.
func TestARankThatReadsIsNotFrozen(t *testing.T) {
	for name, change := range map[string]func(p *scene.Proc){
		"a thread sleeps": func(p *scene.Proc) {
			p.Threads = append(p.Threads, scene.Thread{Name: "python", State: "S", Count: 1})
		},
		"it has run": func(p *scene.Proc) { p.Moved.Switches = 2 },
	} {
		s := envScene()
		p := waitingRank(12, "2")
		p.State, p.Wchan, p.Syscall = "D", "hrtimer_nanosleep", nil
		p.Threads = []scene.Thread{{Name: "python", State: "D", Count: 1}}
		change(&p)
		s.Procs = append(s.Procs, p)
		if a := Judge([]scene.Scene{s})[0]; len(a.Why) > 0 && a.Why[0].Cause == "rank.frozen" {
			t.Errorf("%s: %+v", name, a.Why)
		}
	}
}

// A rank that waits for a slow producer uses little, and a rank that hangs nothing.
func TestARankThatDoesALittleBeforeInitWorks(t *testing.T) {
	for _, tt := range []struct {
		moved scene.Moved
		want  verdict.State
	}{
		{scene.Moved{}, verdict.Open},
		{scene.Moved{CPU: 10 * time.Millisecond, Faults: 3, Switches: 9}, verdict.Open},
		{scene.Moved{CPU: 60 * time.Millisecond, Switches: 9}, verdict.Slow},
		{scene.Moved{Faults: 480}, verdict.Slow},
	} {
		s := envScene()
		p := waitingRank(12, "2")
		p.Syscall, p.Wchan, p.Moved = &scene.Syscall{Nr: 232, Name: "epoll_wait", FD: 3}, "do_epoll_wait", tt.moved
		p.Threads = []scene.Thread{{Name: "python", Wchan: "do_epoll_wait", State: "S", Count: 1}}
		s.Procs = append(s.Procs, p)
		if a := Judge([]scene.Scene{s})[0]; a.State != tt.want {
			t.Errorf("%+v: %s, %+v", tt.moved, a.State, a.Why)
		}
	}
}

// A rank that has left its script certainly remains where its threads only wait, and others go on without it.
func TestAThreadThatDoesItsWorkMayStillEnd(t *testing.T) {
	const shutdown = "_shutdown (threading.py:1583)"
	for _, tt := range []struct {
		other, thread string      // what rank 1 does, and rank 2's thread
		wait          *scene.Wait // of that thread
		want          verdict.Sure
	}{
		{"all_reduce (torch/distributed/distributed_c10d.py:3050)", "wait (threading.py:327)", nil, verdict.Certain},
		{"all_reduce (torch/distributed/distributed_c10d.py:3050)", "read (ssl.py:1166)", nil, verdict.Likely},
		{shutdown, "wait (threading.py:327)", nil, verdict.Likely},
		{shutdown, "wait (threading.py:327)", &scene.Wait{Thread: "python", On: scene.OnLock, Count: 1}, verdict.Certain},
		{shutdown, "wait (threading.py:327)", &scene.Wait{Thread: "python", On: scene.OnLock, Timed: true, Count: 1},
			verdict.Likely},
		{shutdown, "wait (threading.py:327)", &scene.Wait{Thread: "python", Count: 1}, verdict.Likely},
		{shutdown, "read (ssl.py:1166)", &scene.Wait{Thread: "python", On: scene.OnLock, Count: 1}, verdict.Likely},
	} {
		s := envScene()
		s.Procs = nil
		for i, main := range []string{tt.other, shutdown} {
			p := trainingRank(12+i, strconv.Itoa(1+i), main, "<module> (train.py:9)")
			if main == shutdown && i == 1 {
				p.Stacks = append(p.Stacks, scene.Stack{Thread: "writer", From: "py-spy", Frames: []string{tt.thread,
					"loop (upload.py:9)"}})
				if tt.wait != nil {
					p.Waits = []scene.Wait{mainOn(scene.OnLock, true), *tt.wait}
				}
			}
			s.Procs = append(s.Procs, p)
		}
		a := Judge([]scene.Scene{s})[0]
		i := slices.IndexFunc(a.Why, func(w verdict.Verdict) bool {
			return w.Cause == "rank.thread" && slices.Contains(w.Ranks, 2)
		})
		if i < 0 || a.Why[i].Sure != tt.want || tt.other != shutdown &&
			!strings.Contains(a.Why[i].Says, "waits for its thread writer at ") {
			t.Errorf("%s, %s, %+v: %+v", tt.other, tt.thread, tt.wait, a.Why)
		}
	}
}

// A rank that fails since another one cannot reach its address leaves its script, too: the address is the cause.
func TestARankThatEndsForItsAddress(t *testing.T) {
	for at, want := range map[int]int{2: 1, 1: 2} {
		all := []claim{claimed("rank.thread", verdict.Certain, "it has left").of([]int{2}),
			claimed("address.loopback", verdict.Certain, "it has published 127.0.0.1").of([]int{at})}
		if got := new(view).explain(all); len(got) != want || want == 1 && got[0].Cause != "address.loopback" {
			t.Errorf("the address of rank %d: %+v", at, got)
		}
	}
}
