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
