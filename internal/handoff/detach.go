package handoff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// StageName is the name of Stage in the tables of children of main and of each
// TestMain. Only a build without cgo runs it.
const StageName = "detach"

const (
	varDetach = "LAUNCH_DETACH" // "PPID FD", see inherit.c; in a build without cgo "PPID FD NAME"
	varChild  = "LAUNCH_CHILD"  // the name of the child that internal/child runs
)

// ErrLimit: a limit of this process keeps the started one from running. It has said which.
var ErrLimit = errors.New("a limit of this node, named above, is too low")

// limited is the exit status of the constructor in inherit.c where a limit is too low.
const limited = 65

// Detach starts cmd, which is this executable again (child.Command), in a session of its own. It
// becomes a child of pid 1 (or of a subreaper) and not of this process, so that the command has no
// child it does not know. If this process is pid 1 itself, cmd remains its child and is killed with it.
//
// Detach uses Path, Args, Env (nil is empty), Dir, ExtraFiles and Stderr of cmd;
// Stderr is nil or an *os.File. Stdin and stdout are /dev/null, ExtraFiles are 3,
// 4, …. It passes no other descriptor on, not even one that launch inherited.
//
// It costs one fork more than a plain start: the intermediate process forks in the ELF constructor,
// before Go starts. Without cgo it runs Stage, a second start of the executable.
func Detach(cmd *exec.Cmd) (pid int, err error) {
	if _, ok := cmd.Stderr.(*os.File); !ok && cmd.Stderr != nil {
		return 0, errors.New("detach: stderr must be a file, no process would be left to copy it")
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("detach: %w", err)
	}
	defer r.Close()
	defer w.Close()

	c := exec.Cmd{
		Path: cmd.Path, Args: cmd.Args, Dir: cmd.Dir, Stderr: cmd.Stderr,
		ExtraFiles: append(slices.Clip(cmd.ExtraFiles), w), SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	order := fmt.Sprintf("%d %d", os.Getpid(), 3+len(cmd.ExtraFiles))
	c.Env = Merge(cmd.Env, []string{varDetach + "=" + order}, nil)
	if !hasConstructor {
		c.Env = stageEnv(c.Env, order)
	}
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("detach: %w", err)
	}
	w.Close()
	answer, readErr := io.ReadAll(r)
	if err := c.Wait(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == limited {
			err = ErrLimit
		}
		return 0, fmt.Errorf("detach: %w", err)
	}
	if readErr != nil {
		return 0, fmt.Errorf("detach: %w", readErr)
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(answer)))
	if err != nil {
		return 0, fmt.Errorf("detach: read pid of started process: %w", err)
	}
	if pid < 0 {
		return 0, fmt.Errorf("detach: fork: %w", syscall.Errno(-pid))
	}
	return pid, nil
}

// stageEnv turns the environment of a child into the environment of its stage: the
// order carries the child's name, and the child is Stage.
func stageEnv(env []string, order string) []string {
	name := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, varChild+"="); ok {
			name = v
		}
	}
	return Merge(env, []string{varDetach + "=" + order + " " + name, varChild + "=" + StageName}, nil)
}

// Stage is the intermediate process of Detach in a build without cgo: it starts
// the executable once more, prints its pid and ends.
func Stage(context.Context, io.Reader, io.Writer) error {
	var parent, last int
	var name string
	if _, err := fmt.Sscanf(os.Getenv(varDetach), "%d %d %s", &parent, &last, &name); err != nil {
		return fmt.Errorf("read %s: %w", varDetach, err)
	}
	if parent != os.Getppid() || last < 3 {
		return fmt.Errorf("%s=%q is not for this process", varDetach, os.Getenv(varDetach))
	}
	answer := os.NewFile(uintptr(last), "answer")
	fds := []uintptr{0, 1, 2}
	for fd := 3; fd < last; fd++ {
		fds = append(fds, uintptr(fd))
	}
	if err := closeOnExecFrom(last); err != nil {
		return err
	}
	env := Merge(Environ(), []string{varChild + "=" + name}, []string{varDetach})
	program := "/proc/self/exe"
	if _, err := os.Stat(program); err != nil { // /proc is not mounted: internal/child gives the path as the name
		program = os.Args[0]
	}
	pid, err := syscall.ForkExec(program, os.Args, &syscall.ProcAttr{Env: env, Files: fds})
	if err != nil {
		return fmt.Errorf("start detached process: %w", err)
	}
	_, err = fmt.Fprintln(answer, pid)
	return err
}

// closeOnExecFrom sets close-on-exec on every descriptor from first on.
func closeOnExecFrom(first int) error {
	err := unix.CloseRange(uint(first), ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	dir, err := os.ReadDir("/proc/self/fd") // Linux before 5.11
	if err != nil {
		return fmt.Errorf("list own descriptors: %w", err)
	}
	for _, e := range dir {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
