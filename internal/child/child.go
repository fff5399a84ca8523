// Package child runs functions in child processes that can be killed: a driver that hangs then costs a
// time limit. A child is this executable again; its environment names the function to run.
package child

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Func reads a child's question from in and writes its answer to out. Its error is exit status 1.
type Func func(ctx context.Context, in io.Reader, out io.Writer) error

// Table names the functions that a binary runs as a child, for main and TestMain.
type Table map[string]Func

// The variables of a child.
const (
	varName  = "LAUNCH_CHILD"       // which function to run
	varDepth = "LAUNCH_CHILD_DEPTH" // 1 for a child of launch, 2 for a child of a child
	varLimit = "LAUNCH_CHILD_LIMIT" // set by Ask: the child ends itself soon after this
)

// maxDepth allows the double spawn of a detached process, and prevents a fork bomb.
const maxDepth = 2

// Exit statuses of a child.
const (
	exitError   = 1  // the function returned an error
	exitRefused = 70 // a name that is not in the table, or too deep: a bug in launch
)

// orphanDelay is how long after its limit a child of Ask ends itself if its parent was killed.
const orphanDelay = time.Second

// errorPrefix goes before the error of a child on its stderr.
const errorPrefix = "launch: child %q: "

// passed are the variables of the parent that a child sees, and none of a rank (RANK, NCCL_*): a search
// for the processes of a job must never find a child. GORACE is for the race detector.
var passed = []string{"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "LANG", "GORACE"}

// Dispatch is the first statement of main and of each TestMain. In a child it runs the named function
// over stdin and stdout, prints its error to stderr, and returns the exit status.
func Dispatch(t Table) (code int, isChild bool) {
	name, ok := os.LookupEnv(varName)
	if !ok || name == "" || len(os.Args) != 1 {
		return 0, false
	}
	if d, err := depth(); err != nil || d > maxDepth {
		fmt.Fprintf(os.Stderr, "launch: child %q refused: %s=%q, at most %d\n",
			name, varDepth, os.Getenv(varDepth), maxDepth)
		return exitRefused, true
	}
	f, ok := t[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "launch: child %q refused: this binary has no such function\n", name)
		return exitRefused, true
	}
	if limit, asked := os.LookupEnv(varLimit); asked {
		if err := confine(limit); err != nil {
			fmt.Fprintf(os.Stderr, "launch: child %q refused: %v\n", name, err)
			return exitRefused, true
		}
	}
	if err := f(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, errorPrefix+"%v\n", name, err)
		return exitError, true
	}
	return 0, true
}

// Command returns the command that starts the named child. It has a process group of its own, so
// that Ctrl-C does not reach it and a kill of the group reaches all that it started. Its
// environment holds only what passed names, and its own variables.
//
// ExtraFiles of the caller arrive as 3, 4, …. Descriptors that launch inherited
// without close-on-exec arrive too, at their old numbers, until the child calls
// CloseInherited. (Children of Ask don't need to.)
func Command(name string) *exec.Cmd {
	d, err := depth()
	if err != nil {
		d = maxDepth // the child will be refused and say why
	}
	env := []string{varName + "=" + name, varDepth + "=" + strconv.Itoa(d+1), oneArena}
	for _, k := range passed {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	path, name := program()
	return &exec.Cmd{Path: path, Args: []string{name}, Env: env, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
}

// program returns the path of this executable, and the name with which its child starts. Where /proc is not mounted
// the path is searched for as a shell does, and is also the name: children of the child search for it again.
func program() (path, name string) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, "launch"
	}
	path, err := exec.LookPath(os.Args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return self, "launch"
	}
	return path, path
}

// oneArena keeps glibc from reserving 64 MiB of addresses for each thread (mallopt(3)): under ulimit -v they would be
// missing elsewhere.
const oneArena = "MALLOC_ARENA_MAX=1"

// CloseInherited closes every inherited descriptor from 3+keep on; the first keep after stderr are
// ExtraFiles of Command. Descriptors that Go itself has opened are close-on-exec and remain open.
func CloseInherited(keep int) error {
	for _, fd := range descriptors() {
		if fd < 3+keep {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}

// descriptors returns those that this process may have: where /proc is not mounted, the first ones.
func descriptors() (out []int) {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		const first = 1024
		for fd := range first {
			out = append(out, fd)
		}
	}
	for _, e := range dir {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, fd)
		}
	}
	return out
}

// confine closes what a child of Ask inherited, and ends it soon after its limit.
func confine(limit string) error {
	d, err := time.ParseDuration(limit)
	if err != nil {
		return fmt.Errorf("read %s: %w", varLimit, err)
	}
	time.AfterFunc(d+orphanDelay, func() { unix.Kill(-unix.Getpgrp(), unix.SIGKILL) })
	return CloseInherited(0)
}

// depth returns the depth of this process: 0 in launch itself.
func depth() (int, error) {
	s, ok := os.LookupEnv(varDepth)
	if !ok {
		return 0, nil
	}
	d, err := strconv.Atoi(s)
	if err != nil || d < 1 {
		return 0, fmt.Errorf("%s=%q is not a depth", varDepth, s)
	}
	return d, nil
}

// maxOutput is how many bytes are kept of what a program writes: the last ones.
const maxOutput = 64 << 10

// Program is a program to run within a limit.
type Program struct {
	Path, Dir string
	Args      []string // after the path
	Env       []string
	Stdin     []byte
	Limit     time.Duration // then it is killed
	Output    int           // how many bytes are kept of each stream that it writes, the last ones; 0: 64 KiB
}

// End is how a Program ended, and the last bytes of each stream that it wrote.
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

// Run runs a program, and kills its group at the limit, when ctx ends, and after its end.
func Run(ctx context.Context, p Program) End {
	keep := cmp.Or(p.Output, maxOutput)
	out, errs := &tail{max: keep}, &tail{max: keep}
	cmd := &exec.Cmd{Path: p.Path, Args: append([]string{p.Path}, p.Args...), Dir: p.Dir, Env: p.Env,
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
	ctx, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	e := End{}
	select {
	case <-ended:
	case <-ctx.Done():
		e.Late = true
		if !endNow(pid, ended, killGroup) {
			e.Stuck = pid
		}
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
