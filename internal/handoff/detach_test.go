package handoff

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// start starts launch with a companion and the arguments; the companion's log
// is returned. Whatever inherits the log's descriptor 3 holds it.
func start(t *testing.T, cmd *exec.Cmd) *lines {
	t.Helper()
	log, w := pipe(t)
	cmd.ExtraFiles = append([]*os.File{w}, cmd.ExtraFiles...)
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return log
}

// whoIs reads the first line of the companion's log.
func whoIs(t *testing.T, log *lines) (pid, ppid, session int, rest string) {
	t.Helper()
	line := log.until("companion ")
	if _, err := fmt.Sscanf(line, "companion %d of %d session %d", &pid, &ppid, &session); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	t.Cleanup(func() { unix.Kill(pid, unix.SIGKILL) })
	_, rest, _ = strings.Cut(line, " fds ")
	return pid, ppid, session, rest
}

func TestCompanionIsNoChildOfTheCommand(t *testing.T) {
	cmd := as(t, "launch", "-log=3", "-role=command", "--", self(t))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w := pipe(t)
	cmd.Stdout = w
	seven, err := os.Open("/dev/zero") // becomes 4 in launch
	if err != nil {
		t.Fatal(err)
	}
	defer seven.Close()
	cmd.ExtraFiles = []*os.File{seven}
	log := start(t, cmd)

	pid, ppid, session, rest := whoIs(t, log)
	if ppid == cmd.Process.Pid || ppid == os.Getpid() {
		t.Errorf("the companion's parent is %d; the command is %d, the test %d", ppid, cmd.Process.Pid, os.Getpid())
	}
	if mine, _ := unix.Getsid(0); session == mine {
		t.Error("the companion is in the command's session")
	}
	want := fmt.Sprintf(`[0=/dev/null 1=/dev/null 2=/dev/null 3=%s 4=pipe] args ["launch" "%d"] `+
		`env ["SOME=thing" "LAUNCH_CHILD=companion"]`, pidfdKind(t), cmd.Process.Pid)
	if rest != want {
		t.Errorf("the companion was given\n%s, want\n%s", rest, want)
	}

	out.until("ready ")
	if want := fmt.Sprint("detached ", pid); !slices.Contains(log.all, want) && log.until("detached ") != want {
		t.Errorf("the companion is %d, Detach returned something else: %q", pid, log.all)
	}
	none := fmt.Sprintln(-1, unix.ECHILD)
	fmt.Fprintln(in)
	if got := out.until("") + "\n"; got != none {
		t.Errorf("the command has a child: %q", got)
	}
	unix.Kill(pid, unix.SIGKILL)
	waitGone(t, pid)
	fmt.Fprintln(in)
	if got := out.until("") + "\n"; got != none {
		t.Errorf("the command has a dead child: %q", got)
	}
}

// pidfdKind is what /proc/self/fd calls a pidfd; it depends on the kernel.
func pidfdKind(t *testing.T) string {
	t.Helper()
	f, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	to, err := os.Readlink(fmt.Sprint("/proc/self/fd/", f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	kind, _, _ := strings.Cut(to, ":[")
	return kind
}

// waitGone waits until a process, which need not be a child, has ended.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := Wait(ctx, f); err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
}

func TestCompanionSeesTheCommandEndAndNotTheExec(t *testing.T) {
	for run := range 20 {
		cmd := as(t, "launch", "-log=3", "-role=command", "--", self(t))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, w := pipe(t)
		cmd.Stdout = w
		log := start(t, cmd)
		pid, _, _, _ := whoIs(t, log)
		out.until("ready ") // the exec is over
		if run%2 == 0 {
			in.Close()
		} else {
			unix.Kill(cmd.Process.Pid, unix.SIGKILL)
		}
		// Z: the test has not waited for it yet.
		if got := log.until("gone "); got != "gone Z" {
			t.Errorf("run %d: when the companion woke the command was %q", run, got)
		}
		unix.Kill(pid, unix.SIGKILL)
		cmd.Wait()
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	f, err := Open(os.Getpid())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	why := errors.New("stopped by the test")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	if err := Wait(ctx, f); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if err := Wait(ctx, f); !errors.Is(err, why) {
		t.Errorf("after the end of ctx: got %v, want %v", err, why)
	}
}

func TestCompanionHoldsNoOutputOfTheCommand(t *testing.T) {
	for _, args := range [][]string{
		{"-log=3"},            // nothing given
		{"-log=3", "-stderr"}, // given, and closed when the command ends
	} {
		out, w := pipe(t)
		cmd := as(t, "launch", append(args, "--", "sh", "-c", "echo done; echo done >&2")...)
		cmd.Stdout, cmd.Stderr = w, w
		log := start(t, cmd)
		w.Close()
		pid, _, _, _ := whoIs(t, log)
		cmd.Wait()
		out.toEOF()
		if err := unix.Kill(pid, 0); err != nil {
			t.Errorf("%q: the companion ended, so the test shows nothing: %v", args, err)
		}
		unix.Kill(pid, unix.SIGKILL)
	}
}

func TestDetachReportsWhatWentWrong(t *testing.T) {
	if pid, err := Detach(&exec.Cmd{Path: "/no/such/file", Args: []string{"x"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %d, %v", pid, err)
	}
	if pid, err := Detach(&exec.Cmd{Path: "/proc/self/exe", Args: []string{"x"}, Stderr: &strings.Builder{}}); err == nil {
		t.Errorf("a stderr that needs a copier: got %d", pid)
	}
	if pid, err := Detach(&exec.Cmd{Path: "/bin/true", Args: []string{"true"}}); err == nil {
		t.Errorf("another executable: got %d", pid)
	}
}

func TestForeignDetachOrderIsIgnored(t *testing.T) {
	for _, order := range []string{"1 3", fmt.Sprint(os.Getpid(), " 2"), fmt.Sprint(os.Getpid()), "x", "", "1 3 x"} {
		cmd := as(t, "launch", "sh", "-c", "echo $$; echo $"+varDetach)
		cmd.Env = append(cmd.Env, varDetach+"="+order)
		want := fmt.Sprintf("%%d\n%s\n", order)
		got := output(t, cmd)
		if got != fmt.Sprintf(want, cmd.Process.Pid) {
			t.Errorf("%q: got %q", order, got)
		}
	}
}

// TestStageStartsTheExecutableOnceMore takes the way of a build without cgo,
// which is the only way to test it in a build with it.
func TestStageStartsTheExecutableOnceMore(t *testing.T) {
	r, w := pipe(t)
	cmd := as(t, "", "-test.run=^$")
	cmd.ExtraFiles = []*os.File{w, w} // 3 for the companion, 4 for the answer
	order := fmt.Sprint(os.Getpid(), " ", 4)
	cmd.Env = stageEnv([]string{"A=b", varChild + "=command"}, order)
	cmd.Stdout = nil
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var pid int
	if _, err := fmt.Fscanln(bufio.NewReader(r.file), &pid); err != nil {
		t.Fatal(err)
	}
	waitGone(t, pid) // its stdin is /dev/null
}

func TestAsPid1TheCommandIsPid1AndTheCompanionEndsWithIt(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil || exec.Command(unshare, "-pf", "--mount-proc", "true").Run() != nil {
		t.Skip("cannot make a pid namespace here (needs root and unshare)")
	}
	log, w := pipe(t)
	cmd := as(t, "launch", "-pf", "--mount-proc", self(t), "-log=3", "--", "sh", "-c", "echo $$; read x; exit 5")
	cmd.Path, cmd.Args[0] = unshare, unshare
	cmd.ExtraFiles = []*os.File{w}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if line := log.until("companion "); !strings.Contains(line, " of 1 ") {
		t.Errorf("got %q, want a child of pid 1", line)
	}
	in.Close()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 5 || out.String() != "1\n" {
		t.Errorf("got status %d and %q, want 5 and pid 1", code, out.String())
	}
	log.toEOF() // no process is left that holds it
}

func BenchmarkDetach(b *testing.B) {
	c := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"launch"}, Env: []string{varChild + "=command"}}
	for b.Loop() {
		if _, err := Detach(c); err != nil { // it ends on its own: its stdin is /dev/null
			b.Fatal(err)
		}
	}
}
