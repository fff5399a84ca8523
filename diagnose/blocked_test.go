package diagnose

import (
	"strings"
	"testing"

	"launch/diagnose/scene"
)

// TestWhatTheKernelMakesARankWaitFor: its system call says so.
func TestWhatTheKernelMakesARankWaitFor(t *testing.T) {
	for _, tt := range []struct {
		name string
		fd   int
		want string
	}{
		{"read", 0, "does not move: it waits for input"},
		{"write", 1, "does not move: no program reads its output"},
		{"flock", 9, "does not move: it waits for a lock on /tmp/cache.lock"},
		{"fcntl", 3, "does not move: it waits for a lock on a file"},
		{"read", 5, "does not move"},
	} {
		s := envScene()
		s.Procs = append(s.Procs, scene.Proc{PID: 12, Role: scene.Rank, Comm: "python", State: "S",
			Syscall: &scene.Syscall{Name: tt.name, FD: tt.fd}, Threads: []scene.Thread{{Name: "python", State: "S", Count: 1}},
			Files: []scene.File{{FD: 9, Path: "/tmp/cache.lock"}}, Libs: map[string]string{"torch": "2.8"},
			Env: map[string]string{"RANK": "2", "WORLD_SIZE": "3", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}})
		a := Judge([]scene.Scene{s})[0]
		if len(a.Why) == 0 || a.Why[0].Cause != "rank.before-init" || !strings.HasSuffix(a.Why[0].Says, tt.want) {
			t.Errorf("%s(%d): %+v", tt.name, tt.fd, a.Why)
		}
	}
}

// A build of an extension of torch that was killed leaves its lock, and every later one waits for it.
func TestALockOfTorchsExtensionsIsNamed(t *testing.T) {
	s := envScene()
	s.Procs = append(s.Procs, scene.Proc{PID: 12, Role: scene.Rank, Comm: "python", State: "S",
		Libs: map[string]string{"torch": "2.8"},
		Env:  map[string]string{"RANK": "2", "WORLD_SIZE": "3", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"},
		Stacks: []scene.Stack{{Thread: "MainThread", Frames: []string{"FileBaton.wait (torch/utils/file_baton.py:42)",
			"load (torch/utils/cpp_extension.py:1623)", "<module> (train.py:7)"}}}})
	v := Judge([]scene.Scene{s})[0].Why[0]
	if v.Cause != "rank.before-init" || !strings.Contains(v.Says, "builds an extension of torch") ||
		!strings.Contains(v.Do, "TORCH_EXTENSIONS_DIR") {
		t.Errorf("%+v", v)
	}
}

// A person has to type there; a command that runs, or a loop of commands of another program, waits for nothing.
func TestARankInPythonsDebugger(t *testing.T) {
	for _, tt := range []struct {
		name   string
		frames []string
		want   bool
	}{
		{"it asks", []string{"Cmd.cmdloop (cmd.py:126)", "Pdb._cmdloop (pdb.py:369)", "Pdb.interaction (pdb.py:435)"}, true},
		{"without names of classes", []string{"cmdloop (cmd.py:126)", "_cmdloop (pdb.py:369)",
			"interaction (pdb.py:435)"}, true},
		{"a command runs", []string{"wait (job.py:3)", "Cmd.onecmd (cmd.py:217)", "Cmd.cmdloop (cmd.py:138)",
			"Pdb._cmdloop (pdb.py:369)", "Pdb.interaction (pdb.py:435)"}, false},
		{"another loop of commands", []string{"Cmd.cmdloop (cmd.py:126)", "main (shell.py:9)"}, false},
		{"a function of that name", []string{"interaction (model.py:4)", "cmdloop (agent.py:2)"}, false},
	} {
		now := spinning()
		rank := &now[0].Procs[1]
		rank.State, rank.Moved = "S", scene.Moved{}
		rank.Stacks[0].Frames = append(tt.frames, "<module> (train.py:8)")
		v := Judge(now)[0].Why[0]
		if v.Cause != "rank.left" || v.Blocked != tt.want || strings.Contains(v.Says, "debugger (pdb)") != tt.want {
			t.Errorf("%s: %+v", tt.name, v)
		}
	}
}

// A rank that waits for the end of a program reads nothing of what that writes, unless it has a thread for that.
func TestARankAndItsChildThatWaitForEachOther(t *testing.T) {
	const waits = "waits for its child process 90 (ffmpeg x), which waits until the rank reads what it writes"
	for _, tt := range []struct {
		name string
		with func(rank, child *scene.Proc)
		want string
	}{
		{"a full pipe", func(_, _ *scene.Proc) {}, waits},
		{"another program reads", func(_, c *scene.Proc) { c.Waits[0].Ends = []int{77} }, "does not move"},
		{"a thread may read", func(r, _ *scene.Proc) {
			r.Waits = append(r.Waits, scene.Wait{Thread: "python", Count: 1})
		}, "does not move"},
		{"it is read slowly", func(_, c *scene.Proc) { c.Moved.Switches = 3 }, "does not move"},
		{"the rank sleeps", func(r, _ *scene.Proc) { r.Waits[0] = scene.Wait{Thread: "python", Main: true, Count: 1} },
			"does not move"},
	} {
		s := envScene()
		rank := trainingRank(12, "2", "Popen._try_wait (subprocess.py:2004)", "<module> (train.py:10)")
		rank.Threads, rank.Syscall, rank.Wchan = rank.Threads[:1], &scene.Syscall{Name: "wait4", FD: -1}, "do_wait"
		rank.Waits = []scene.Wait{mainOn(scene.OnChild, false, 90)}
		child := scene.Proc{PID: 90, Parent: 12, Role: scene.Child, Comm: "ffmpeg", Argv: []string{"ffmpeg", "-i", "x"},
			State: "S", Wchan: "anon_pipe_write", Waits: []scene.Wait{mainOn(scene.OnRoom, false, 12)}}
		tt.with(&rank, &child)
		s.Procs = append(s.Procs, rank, child)
		v := Judge([]scene.Scene{s})[0].Why[0]
		if (v.Cause == "rank.child") != (tt.want == waits) || !strings.Contains(v.Says, tt.want) {
			t.Errorf("%s: %+v", tt.name, v)
		}
	}
}
