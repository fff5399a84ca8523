package child

import (
	"bytes"
	"context"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxOutput is how many bytes are kept of what a program writes: the last ones.
const maxOutput = 64 << 10

// Program is a program to run within a limit.
type Program struct {
	Path, Dir string
	Env       []string
	Stdin     []byte
	Limit     time.Duration // then it is killed
}

// End is how a Program ended, and the last 64 KiB of each stream that it wrote.
type End struct {
	NotStarted     error
	Late           bool   // it was killed: at its limit, or when the context ended
	Stuck          int    // the pid that SIGKILL does not end
	Signal         string // that killed it: "SIGSEGV"
	Status         int    // its exit status
	Stdout, Stderr string
}

// Slack is how long after its limit Run may return.
const Slack = 2 * killDelay

// Run runs a program in a process group of its own. It kills the group at the
// limit, when ctx ends, and when the program has ended and left other processes.
func Run(ctx context.Context, p Program) End {
	out, errs := &tail{max: maxOutput}, &tail{max: maxOutput}
	cmd := &exec.Cmd{Path: p.Path, Args: []string{p.Path}, Dir: p.Dir, Env: p.Env,
		Stdin: bytes.NewReader(p.Stdin), Stdout: out, Stderr: errs,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, WaitDelay: killDelay}
	if err := cmd.Start(); err != nil {
		return End{NotStarted: err}
	}
	pid := cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { // outlives Run only if the kernel does not end the program
		// Kill the group before Wait frees the program's pid for another group.
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
