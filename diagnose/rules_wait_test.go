package diagnose

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// onOwn is a host with rank 0 in a collective, and rank 1, pid 11, which waits in its script.
func onOwn(waits ...scene.Wait) (s scene.Scene, rank *scene.Proc) {
	s = envScene()
	s.Procs = []scene.Proc{
		trainingRank(10, "0", "all_reduce (torch/distributed/distributed_c10d.py:3050)", "<module> (train.py:9)"),
		trainingRank(11, "1", "get (queues.py:103)", "<module> (train.py:8)"),
	}
	for i := range s.Procs {
		s.Procs[i].Env["WORLD_SIZE"] = "2"
		s.Stores[0].Board.Blobs[i].World = 2
	}
	s.Stores[0].Board.Clients = 2
	rank = &s.Procs[1]
	rank.Syscall, rank.Wchan = &scene.Syscall{Name: "read", FD: 5}, "anon_pipe_read"
	rank.Waits = waits
	return s, rank
}

func mainOn(on scene.On, own bool, ends ...int) scene.Wait {
	return scene.Wait{Thread: "python", Main: true, On: on, Own: own, Ends: ends, Count: 1}
}

// childOf is a child of rank 1.
func childOf(pid int, waits ...scene.Wait) scene.Proc {
	return scene.Proc{PID: pid, Parent: 11, Role: scene.Child, Comm: "python", State: "S", Waits: waits}
}

// zombieOf is a child of rank 1 that a signal has ended, or that has ended well.
func zombieOf(pid int, signal string) scene.Proc {
	p := childOf(pid)
	p.State, p.Signal = "Z", signal
	return p
}

// A rank that waits for its own processes, which cannot do anything more, says which has ended or why it waits.
// The twins have something that may still end the wait.
func TestARankThatWaitsForItsOwnProcesses(t *testing.T) {
	lock := mainOn(scene.OnLock, true)
	lock.In = "libgomp.so.1"
	timed := mainOn(scene.OnData, false, 11)
	timed.Timed = true
	loop := mainOn(scene.OnEvents, true)
	loop.Timed = true
	limited := scene.Wait{Thread: "python", On: scene.OnLock, Own: true, Timed: true, Count: 1}
	semaphore, nothing := mainOn(scene.OnSemaphore, true), mainOn("", false)
	helper := zombieOf(40, "SIGSEGV")
	helper.Comm = "nvidia-smi"
	busy := childOf(41, semaphore)
	busy.Moved.CPU = time.Second
	thread := scene.Wait{Thread: "uploader", Count: 1}
	gloo := scene.Wait{Thread: "pt_gloo_runloop", On: scene.OnLock, Own: true, Timed: true, Count: 1}
	const alone = "waits for a lock or queue that processes share, and no other process has it any more"
	for _, tt := range []struct {
		name  string
		main  []scene.Wait
		procs []scene.Proc
		want  string // the end of the sentence; "": nothing is said of its processes
	}{
		{"a queue whose reader was killed", []scene.Wait{semaphore}, []scene.Proc{zombieOf(40, "SIGKILL")},
			"waits for its child process 40 (python), which was killed by SIGKILL"},
		{"another process may read it", []scene.Wait{semaphore},
			[]scene.Proc{zombieOf(40, "SIGKILL"), childOf(41, nothing)}, ""},
		{"a thread of the rank runs", []scene.Wait{semaphore, thread}, []scene.Proc{zombieOf(40, "SIGKILL")}, ""},
		{"a zombie that ended well", []scene.Wait{semaphore}, []scene.Proc{zombieOf(40, "")},
			alone},
		{"a lock of one that was killed", []scene.Wait{mainOn(scene.OnData, false, 41)},
			[]scene.Proc{zombieOf(40, "SIGKILL"), childOf(41, semaphore)}, "waits for its child process 41 (python), which " +
				"waits for a lock or queue that it shared with process 40 (python), and that one was killed by SIGKILL"},
		{"the other one works", []scene.Wait{mainOn(scene.OnData, false, 41)},
			[]scene.Proc{zombieOf(40, "SIGKILL"), busy}, ""},
		{"a forked pool", []scene.Wait{lock, {Thread: "python", On: scene.OnData, Own: true, Ends: []int{41}, Count: 1}},
			[]scene.Proc{childOf(41, lock)}, "waits for its child process 41 (python), which waits in libgomp.so.1 for a " +
				"thread that it does not have: only the thread that forked it was copied"},
		{"a lock of Python, next to one that was killed", []scene.Wait{mainOn(scene.OnData, true, 41)},
			[]scene.Proc{zombieOf(40, "SIGKILL"), childOf(41, mainOn(scene.OnLock, true))},
			"waits for its child process 40 (python), which was killed by SIGKILL"},
		{"a pool with two threads", []scene.Wait{mainOn(scene.OnData, false, 41)},
			[]scene.Proc{childOf(41, lock, thread)}, ""},
		{"a collective of Gloo runs", []scene.Wait{lock, gloo}, []scene.Proc{childOf(41, lock)}, ""},
		{"a child with a time limit", []scene.Wait{mainOn(scene.OnData, false, 41)}, []scene.Proc{childOf(41, timed)}, ""},
		{"a loop with a timer", []scene.Wait{loop}, []scene.Proc{zombieOf(40, "SIGKILL")}, ""},
		{"a thread with a time limit", []scene.Wait{semaphore, limited}, []scene.Proc{zombieOf(40, "SIGKILL")}, ""},
		{"they wait for each other", []scene.Wait{mainOn(scene.OnData, false, 41)},
			[]scene.Proc{childOf(41, mainOn(scene.OnData, false, 11)), helper},
			"waits for its child process 41 (python), which waits for the rank"},
		{"the child looks again", []scene.Wait{mainOn(scene.OnData, false, 41)}, []scene.Proc{childOf(41, nothing)}, ""},
		{"a thread of it may answer", []scene.Wait{mainOn(scene.OnData, false, 41), thread},
			[]scene.Proc{childOf(41, mainOn(scene.OnData, false, 11))}, ""},
		{"a thread of Gloo of the child reads", []scene.Wait{mainOn(scene.OnData, false, 41)},
			[]scene.Proc{childOf(41, mainOn(scene.OnData, false, 11), scene.Wait{Thread: "gloo_tcp_loop", Count: 1})}, ""},
		{"another machine", []scene.Wait{nothing}, []scene.Proc{zombieOf(40, "SIGKILL")}, ""},
		{"a process that is not seen", []scene.Wait{mainOn(scene.OnData, true, 77)}, nil, ""},
		{"its own pipe", []scene.Wait{mainOn(scene.OnData, true)}, nil,
			"waits for data of a pipe or socket of which no other process has an end open"},
		{"an event loop", []scene.Wait{mainOn(scene.OnEvents, true)}, nil,
			"waits in an event loop for what nothing can send: its set of files has only its own ends"},
		{"a signal may wake it", []scene.Wait{loop}, nil, ""},
		{"a thread may wake it", []scene.Wait{mainOn(scene.OnEvents, true), thread}, nil, ""},
	} {
		s, rank := onOwn(tt.main...)
		if tt.main[0].On == scene.OnLock {
			rank.Threads = append(rank.Threads, scene.Thread{Name: "python", Wchan: "anon_pipe_read", State: "S", Count: 1})
		}
		s.Procs = append(s.Procs, tt.procs...)
		v := Judge([]scene.Scene{s})[0].Why[0]
		said := v.Cause == "rank.child" || v.Cause == "rank.events"
		if said != (tt.want != "") || !strings.HasSuffix(v.Says, tt.want) ||
			said && (v.Sure == verdict.Certain) == (tt.want == alone) {
			t.Errorf("%s: %+v", tt.name, v)
		}
	}
	s, rank := onOwn(mainOn(scene.OnData, false, 41))
	rank.Moved.Switches = 9
	s.Procs = append(s.Procs, childOf(41, mainOn(scene.OnData, false, 11)))
	if v := Judge([]scene.Scene{s})[0].Why[0]; v.Cause == "rank.child" {
		t.Errorf("the rank goes on: %+v", v)
	}
}

// Another rank of the node may have a semaphore that it shares by its name, and let it go once it has slept.
func TestASemaphoreThatAnotherRankMayHave(t *testing.T) {
	for name, procs := range map[string][]scene.Proc{"alone": nil, "a child has ended": {zombieOf(40, "SIGKILL")}} {
		s, _ := onOwn(mainOn(scene.OnSemaphore, true))
		s.Procs[0].Stacks[0].Frames = []string{"save (train.py:4)"}
		s.Procs[0].Syscall = &scene.Syscall{Name: "clock_nanosleep", FD: -1}
		s.Procs[0].Waits = []scene.Wait{mainOn("", false)}
		s.Procs = append(s.Procs, procs...)
		for _, v := range Judge([]scene.Scene{s})[0].Why {
			if v.Cause == "rank.child" {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
}

// A rank in init_process_group waits for this one, and lets no semaphore go before.
func TestARankInItsStartHasNoSemaphoreToLetGo(t *testing.T) {
	s := envScene()
	p := trainingRank(12, "2", "get (queues.py:103)", "<module> (train.py:8)")
	p.Threads, p.Waits = p.Threads[:1], []scene.Wait{mainOn(scene.OnSemaphore, true)}
	zombie := zombieOf(40, "SIGKILL")
	zombie.Parent = 12
	for i := range s.Procs {
		s.Procs[i].Waits = []scene.Wait{mainOn("", false)}
	}
	s.Procs = append(s.Procs, p, zombie)
	if v := Judge([]scene.Scene{s})[0].Why[0]; v.Cause != "rank.child" || v.Sure != verdict.Certain {
		t.Errorf("%+v", v)
	}
}

// The thread of a progress bar does no more than look at the time.
func TestAProgressBarEndsNoWait(t *testing.T) {
	limited := scene.Wait{Thread: "python", On: scene.OnLock, Own: true, Timed: true, Count: 1}
	for frame, want := range map[string]bool{"run (tqdm/_monitor.py:60)": true, "run (threading.py:1324)": false} {
		s, rank := onOwn(mainOn(scene.OnSemaphore, true), limited)
		rank.Stacks = append(rank.Stacks, scene.Stack{Thread: "Thread-1", From: "py-spy", Frames: []string{"wait", frame}})
		s.Procs = append(s.Procs, zombieOf(40, "SIGKILL"))
		if v := Judge([]scene.Scene{s})[0].Why[0]; (v.Cause == "rank.child") != want {
			t.Errorf("%s: %+v", frame, v)
		}
	}
}

// A worker of a DataLoader that waits again after each time limit waits for good, if the rank does so, too.
func TestADataLoaderWhoseWorkerHasLostABatch(t *testing.T) {
	const retries = "_try_get_data (torch/utils/data/dataloader.py:1310)"
	for frame, want := range map[string]bool{retries: true, "load (data.py:4)": false} {
		timed := mainOn(scene.OnData, false, 41)
		timed.Timed = true
		s, rank := onOwn(timed)
		rank.Stacks[0].Frames = []string{"select (selectors.py:415)", frame, "<module> (train.py:8)"}
		worker := childOf(41, mainOn(scene.OnData, false, 11))
		worker.Comm, worker.Waits[0].Timed = "pt_data_worker", true
		s.Procs = append(s.Procs, worker)
		if v := Judge([]scene.Scene{s})[0].Why[0]; (v.Cause == "rank.child") != want {
			t.Errorf("%s: %+v", frame, v)
		}
	}
}

// A worker whose data set waits for a time, as between two tries, goes on: its time limit is by a lock.
func TestADataLoaderWhoseWorkerWaitsForATime(t *testing.T) {
	lock := mainOn(scene.OnLock, true)
	lock.Timed = true
	s, rank := onOwn(mainOn(scene.OnData, false, 41))
	rank.Waits[0].Timed = true
	rank.Stacks[0].Frames = []string{"select (selectors.py:415)",
		"_try_get_data (torch/utils/data/dataloader.py:1310)", "<module> (train.py:8)"}
	worker := childOf(41, lock, scene.Wait{Thread: "python", On: scene.OnData, Ends: []int{11}, Count: 1})
	worker.Comm = scene.Worker
	worker.Syscall, worker.Wchan = &scene.Syscall{Nr: 202, Name: "futex", FD: -1}, "futex_do_wait"
	s.Procs = append(s.Procs, worker)
	if v := Judge([]scene.Scene{s})[0].Why[0]; v.Cause == "rank.child" || v.Cause == "rank.lock" {
		t.Errorf("%+v", v)
	}
}

// A process that a rank waits for, and that waits for nothing of the rank, is not said to wait for it.
func TestAChildThatWaitsForNothingOfTheRank(t *testing.T) {
	s, _ := onOwn(mainOn(scene.OnData, false, 41))
	s.Procs = append(s.Procs, childOf(41, mainOn(scene.OnLock, true),
		scene.Wait{Thread: "python", On: scene.OnLock, Own: true, Count: 2}))
	if v := Judge([]scene.Scene{s})[0].Why[0]; v.Cause == "rank.child" {
		t.Errorf("%+v", v)
	}
}

// What the end of the chain waits for outside the job is said with the rank; only what gets no answer at all lasts.
func TestARankWhoseChildWaitsForAnAddress(t *testing.T) {
	remote := netip.MustParseAddrPort("10.66.0.99:443")
	for _, tt := range []struct {
		name string
		k    scene.Socket
		call string
		want string
	}{
		{"no answer", scene.Socket{State: "syn-sent", Info: &scene.Info{Retrans: 4}}, "connect",
			"it waits for its child process 41 (python), which gets no answer from 10.66.0.99:443"},
		{"another thread calls", scene.Socket{State: "syn-sent", Info: &scene.Info{Retrans: 4}}, "futex",
			"it waits for its child process 41 (python), which gets no answer from 10.66.0.99:443"},
		{"it has just called", scene.Socket{State: "syn-sent", Info: &scene.Info{}}, "connect",
			"it waits for its child process 41 (python)"},
		{"a request", scene.Socket{State: "established", Info: &scene.Info{}}, "recvfrom",
			"it waits for its child process 41 (python), which waits for an answer from 10.66.0.99:443"},
		{"idle", scene.Socket{State: "established", Info: &scene.Info{}}, "clock_nanosleep",
			"it waits for its child process 41 (python), which does no more than sleep and wake, as a loop that tries " +
				"something again"},
	} {
		s, _ := onOwn(mainOn(scene.OnData, false, 41))
		c := childOf(41, mainOn("", false))
		c.Syscall, c.Moved.Switches = &scene.Syscall{Name: tt.call, FD: 4, Socket: 9}, 1
		tt.k.PID, tt.k.Inode, tt.k.Remote = 41, 9, remote
		if tt.call == "futex" {
			c.Syscall.Socket = 0
		}
		s.Procs, s.Sockets = append(s.Procs, c), append(s.Sockets, tt.k)
		v := Judge([]scene.Scene{s})[0].Why[0]
		if v.Cause != "rank.left" || !strings.HasSuffix(v.Says, tt.want) || v.Blocked != (tt.name == "no answer") {
			t.Errorf("%s: %+v", tt.name, v)
		}
	}
}

// A process that the job control of its terminal has stopped needs the terminal, and not SIGCONT.
func TestAStoppedRankInTheBackgroundOfATerminal(t *testing.T) {
	for _, tt := range []struct {
		background, terminal bool
		want                 string
	}{{true, true, "fg "}, {true, false, "kill -CONT"}, {false, true, "kill -CONT"}} {
		s := envScene()
		p := waitingRank(12, "2")
		p.State, p.Background, p.Syscall = "T", tt.background, &scene.Syscall{Name: "ioctl", FD: 3, Terminal: tt.terminal}
		s.Procs = append(s.Procs, p)
		if v := Judge([]scene.Scene{s})[0].Why[0]; v.Cause != "rank.stopped" || !strings.Contains(v.Do, tt.want) {
			t.Errorf("%+v: %+v", tt, v)
		}
	}
}
