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
