package preflight

import (
	"bytes"
	"context"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killDelay is how long a program may take to die of SIGKILL: a healthy
	// kernel needs a millisecond, and one that waits for a device for ever.
	killDelay = 100 * time.Millisecond
	// maxOutput is how much of what a program writes is kept, its end.
	maxOutput = 64 << 10
)

// program is what is run.
type program struct {
	path, dir string
	env       []string
	stdin     []byte
	limit     time.Duration
}

// programEnd is how a program ended, and what it wrote.
type programEnd struct {
	notStarted     error
	late           bool
	stuck          int    // the pid that SIGKILL does not end
	signal         string // that it died of
	status         int
	stdout, stderr string
}

// runProgram runs a program in a process group of its own, and ends the group
// with it: at the limit, when ctx ends, and when the program itself has ended and
// left others behind.
func runProgram(ctx context.Context, p program) programEnd {
	out, errs := &tail{max: maxOutput}, &tail{max: maxOutput}
	cmd := &exec.Cmd{Path: p.path, Args: []string{p.path}, Dir: p.dir, Env: p.env, Stdin: bytes.NewReader(p.stdin), Stdout: out, Stderr: errs,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, WaitDelay: killDelay}
	if err := cmd.Start(); err != nil {
		return programEnd{notStarted: err}
	}
	pid := cmd.Process.Pid
	ended := make(chan struct{})
	go func() { // outlives this only where the kernel does not let go of the program
		defer close(ended)
		// Before its status is taken, and with that its number, so that the
		// group is still this program's.
		for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		_ = unix.Kill(-pid, unix.SIGKILL)
		_ = cmd.Wait()
	}()
	limit := time.NewTimer(p.limit)
	defer limit.Stop()
	e := programEnd{}
	select {
	case <-ended:
	case <-limit.C:
		e.late = true
	case <-ctx.Done():
		e.late = true
	}
	if e.late {
		_ = unix.Kill(-pid, unix.SIGKILL)
		last := time.NewTimer(2 * killDelay) // its death, then WaitDelay for its pipes
		defer last.Stop()
		select {
		case <-ended:
		case <-last.C:
			e.stuck = pid
		}
	}
	e.stdout, e.stderr = out.String(), errs.String()
	if e.late {
		return e
	}
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if e.status = ws.ExitStatus(); ws.Signaled() {
		e.signal = unix.SignalName(ws.Signal())
	}
	return e
}

// tail keeps the last max bytes that are written to it. It is locked, since one
// that is stuck may write yet.
type tail struct {
	mu  sync.Mutex
	b   []byte
	max int
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - t.max; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
