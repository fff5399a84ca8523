package child

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killDelay is how long a child may take to die of SIGKILL, normally a millisecond.
	killDelay = 200 * time.Millisecond
	// maxAnswer is far above the facts of the largest node (kilobytes); a longer answer is a bug.
	maxAnswer = 4 << 20
	// maxStderr has room for the whole trace of one goroutine.
	maxStderr = 16 << 10
)

// TimeoutError is a child that did not answer in time.
type TimeoutError struct {
	Name      string
	Limit     time.Duration
	PID       int
	Abandoned bool // SIGKILL did not end it: it sleeps in the kernel
}

func (e *TimeoutError) Error() string {
	s := fmt.Sprintf("child %q did not answer within %v", e.Name, e.Limit)
	if e.Abandoned {
		s += fmt.Sprintf(", and SIGKILL does not end it (pid %d is stuck in the kernel)", e.PID)
	}
	return s
}

// CrashError is a child that ended without an answer.
type CrashError struct {
	Name   string
	Signal syscall.Signal // what killed it; 0 when it exited
	Code   int            // its exit status; -1 when a signal killed it
	Stderr string         // the end of what it wrote
}

func (e *CrashError) Error() string {
	how := fmt.Sprintf("exited with status %d", e.Code)
	if e.Signal != 0 {
		how = "died of " + unix.SignalName(e.Signal)
	}
	s := fmt.Sprintf("child %q %s", e.Name, how)
	if line := strings.TrimPrefix(mainLine(e.Stderr), fmt.Sprintf(errorPrefix, e.Name)); line != "" {
		s += ": " + line
	}
	return s
}

// mainLine returns the line of a stderr that explains the end: the head of a Go trace if there is
// one (the runtime catches SIGSEGV of C code and exits with status 2), else the last line.
func mainLine(stderr string) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	for _, l := range lines {
		for _, head := range []string{"panic: ", "fatal error: ", "SIG"} {
			if strings.HasPrefix(l, head) {
				return l
			}
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// Ask starts the named child, passes it in as JSON and reads its answer into out.
// At limit, or when ctx is done, it kills the child with its whole group. A child
// that SIGKILL does not end is abandoned and reported, never waited for.
//
// Errors: *TimeoutError, *CrashError, the cause of ctx, or an answer that is too long or not JSON.
func Ask(ctx context.Context, name string, in, out any, limit time.Duration) error {
	return ask(ctx, name, in, out, limit, killGroup)
}

// killGroup kills a child and all that it started.
func killGroup(pid int) { _ = unix.Kill(-pid, unix.SIGKILL) }

// ask is Ask with kill as a parameter: no test can make a process that survives SIGKILL.
func ask(ctx context.Context, name string, in, out any, limit time.Duration, kill func(pid int)) error {
	if ctx.Err() != nil {
		return fmt.Errorf("ask child %q: %w", name, context.Cause(ctx))
	}
	question, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode question to child %q: %w", name, err)
	}
	answer, stderr := &head{max: maxAnswer}, &tail{max: maxStderr}
	cmd := limited(name, limit)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(question), answer, stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start child %q: %w", name, err)
	}
	pid := cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // outlives ask only when the child is abandoned

	late := &TimeoutError{Name: name, Limit: limit, PID: pid}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	select {
	case err = <-ended:
	case <-ctx.Done():
		late.Abandoned = !endNow(pid, ended, kill)
		if context.Cause(ctx) == error(late) {
			return late
		}
		return fmt.Errorf("ask child %q: %w", name, context.Cause(ctx))
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		kill(pid) // the child has ended, its group has not
	}
	return judge(name, cmd, err, answer, stderr, out)
}

// limited returns the command of a child that ends itself soon after limit.
func limited(name string, limit time.Duration) *exec.Cmd {
	cmd := Command(name)
	cmd.Env = append(cmd.Env, varLimit+"="+limit.String())
	cmd.WaitDelay = killDelay // a grandchild that holds a stream open
	return cmd
}

// endNow kills the child's group and reports whether the child has ended.
func endNow(pid int, ended <-chan error, kill func(int)) bool {
	kill(pid)
	t := time.NewTimer(Slack) // its death, then WaitDelay for its pipes
	defer t.Stop()
	select {
	case <-ended:
		return true
	case <-t.C:
		return false
	}
}

// judge stores the answer of a child that has ended, or returns its error.
func judge(name string, cmd *exec.Cmd, err error, answer *head, stderr *tail, out any) error {
	if answer.over {
		return fmt.Errorf("child %q answered with more than %d MiB", name, maxAnswer>>20)
	}
	if crash := crashOf(name, cmd, stderr); crash != nil {
		return crash
	}
	// The pipe may stay open: a process that launch starts elsewhere holds it until its exec.
	if err != nil && !(errors.Is(err, exec.ErrWaitDelay) && json.Valid(answer.b)) {
		return fmt.Errorf("read answer of child %q: %w", name, err)
	}
	if err := json.Unmarshal(answer.b, out); err != nil {
		return fmt.Errorf("understand answer of child %q: %w", name, err)
	}
	return nil
}

// crashOf returns how a child crashed, or nil.
func crashOf(name string, cmd *exec.Cmd, stderr *tail) error {
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() && ws.ExitStatus() == 0 {
		return nil
	}
	crash := &CrashError{Name: name, Code: ws.ExitStatus(), Stderr: stderr.String()}
	if ws.Signaled() {
		crash.Signal = ws.Signal()
	}
	return crash
}

// head keeps the first max bytes and refuses the rest.
type head struct {
	b    []byte
	max  int
	over bool
}

func (h *head) Write(p []byte) (int, error) {
	if len(h.b)+len(p) > h.max {
		h.over = true
		return 0, errors.New("answer too long")
	}
	h.b = append(h.b, p...)
	return len(p), nil
}

// tail keeps the last max bytes. It has a lock, since an abandoned child may still write.
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
