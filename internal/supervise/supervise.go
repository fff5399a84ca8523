// Package supervise runs the command as a child, for a job with restarts: launch
// stays, and each start of the command is an Attempt.
package supervise

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/process"
)

// Attempt is one run of the command.
type Attempt struct {
	process *os.Process
	before  []int // processes of launch itself: where launch is pid 1, its companion is its child
	done    chan struct{}
	status  syscall.WaitStatus
}

// Start starts the command with launch's own standard streams, in its process group, so that a
// terminal treats both alike. os/exec passes other descriptors, limits, the signal mask and ignored
// signals on unchanged. If launch is killed, the command gets SIGTERM.
func Start(path string, argv, env []string) (*Attempt, error) {
	// launch adopts the processes that the command leaves; Stop ends them.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a subreaper: %w", err)
	}
	cmd := &exec.Cmd{
		Path: path, Args: argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM},
	}
	a := &Attempt{done: make(chan struct{}), before: process.Descendants(os.Getpid())}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the death of the thread that forked counts as the parent's (prctl(2))
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		a.process = cmd.Process
		started <- err
		if err != nil {
			return
		}
		defer close(a.done)
		_ = cmd.Wait()
		a.status, _ = cmd.ProcessState.Sys().(syscall.WaitStatus)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return a, nil
}

// Done is closed when the command has ended.
func (a *Attempt) Done() <-chan struct{} { return a.done }

// Status returns the exit status, as a shell has it, after Done.
func (a *Attempt) Status() int {
	if a.status.Signaled() {
		return 128 + int(a.status.Signal())
	}
	return a.status.ExitStatus()
}

// Interrupted reports whether a user's signal ended the command, after Done.
func (a *Attempt) Interrupted() bool {
	return a.status.Signaled() && (a.status.Signal() == unix.SIGINT || a.status.Signal() == unix.SIGHUP)
}

// Signal passes a signal on to the command.
func (a *Attempt) Signal(s os.Signal) { _ = a.process.Signal(s) }

// Stop ends the command and all that it started: with SIGTERM, and after grace
// with SIGKILL. After an error the command may still run.
func (a *Attempt) Stop(grace time.Duration) error {
	a.Signal(unix.SIGTERM)
	select {
	case <-a.done:
	case <-time.After(grace):
	}
	if err := a.killAll(); err != nil {
		return err // it may be the command itself
	}
	<-a.done
	return nil
}

// Clear ends what the command has left, after Done: with SIGTERM, and after grace with SIGKILL.
func (a *Attempt) Clear(grace time.Duration) error {
	left := a.left()
	for _, pid := range left {
		_ = unix.Kill(pid, unix.SIGTERM)
	}
	for end := time.Now().Add(grace); len(left) > 0 && time.Now().Before(end); left = a.left() {
		time.Sleep(tick)
	}
	return a.killAll()
}

// left returns the processes that the command has started, and the command.
func (a *Attempt) left() []int {
	return slices.DeleteFunc(process.Descendants(os.Getpid()),
		func(pid int) bool { return slices.Contains(a.before, pid) })
}

// tick is the pause between two looks whether processes have ended.
const tick = 20 * time.Millisecond

// PID returns the process of the command.
func (a *Attempt) PID() int { return a.process.Pid }

// killBudget bounds the wait for killed processes: the kernel ends a process at
// once, unless it is stuck in a call.
const killBudget = 5 * time.Second

// killAll kills the command and all that it started, also what appears meanwhile. Its error names
// one that does not end. It leaves the status of the command to Start.
func (a *Attempt) killAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), killBudget)
	defer cancel()
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		left := a.left()
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL)
			if pid != a.process.Pid {
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // it may be an adopted one
			}
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return fmt.Errorf("process %d still runs %s after SIGKILL", left[0], killBudget)
		}
	}
}
