package child

import (
	"bytes"
	"context"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxOutput is how much of what a program writes is kept, its end.
const maxOutput = 64 << 10

// Program is another program than this one, to be run within a limit.
type Program struct {
	Path, Dir string
	Env       []string
	Stdin     []byte
	Limit     time.Duration // it is killed then
}

// End is how a Program ended, and what it wrote: of each stream the last 64 KiB.
type End struct {
	NotStarted     error
	Late           bool   // it was killed at its limit, or when the context ended
	Stuck          int    // the pid that SIGKILL does not end
	Signal         string // that it died of, "SIGSEGV"
	Status         int    // its exit status
	Stdout, Stderr string
}

// Slack is how long after its limit Run may return.
const Slack = 2 * killDelay

// Run runs a program in a process group of its own, and ends the group
// with it: at the limit, when ctx ends, and when the program itself has ended and
// left others behind.
func Run(ctx context.Context, p Program) End {
	out, errs := &tail{max: maxOutput}, &tail{max: maxOutput}
	cmd := &exec.Cmd{Path: p.Path, Args: []string{p.Path}, Dir: p.Dir, Env: p.Env, Stdin: bytes.NewReader(p.Stdin), Stdout: out, Stderr: errs,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, WaitDelay: killDelay}
	if err := cmd.Start(); err != nil {
		return End{NotStarted: err}
	}
	pid := cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { // outlives this only where the kernel does not let go of the program
		// Before its status is taken, and with that its number, so that the
		// group is still this program's.
		for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		killGroup(pid)
		ended <- cmd.Wait()
	}()
	limit := time.NewTimer(p.Limit)
	defer limit.Stop()
	e := End{}
	select {
	case <-ended:
	case <-limit.C:
		e.Late = true
	case <-ctx.Done():
		e.Late = true
	}
	if e.Late && !endNow(pid, ended, killGroup) {
		e.Stuck = pid
	}
	e.Stdout, e.Stderr = out.String(), errs.String()
	if e.Late {
		return e
	}
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if e.Status = ws.ExitStatus(); ws.Signaled() {
		e.Signal = unix.SignalName(ws.Signal())
	}
	return e
}
