package handoff

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// roles are what the test binary does when it is started again, chosen by
// LAUNCH_CHILD as internal/child does it.
var roles = map[string]func() error{
	"setup":     setup,
	"launch":    launch,
	"companion": companion,
	"command":   command,
	"record":    printRecord,
	"forbidden": printForbidden,
	"threads":   withoutThreads,
	"notify":    notified,
	"abort":     aborted,
	StageName:   func() error { return Stage(context.Background(), os.Stdin, os.Stdout) },
}

func TestMain(m *testing.M) {
	role := roles[os.Getenv(varChild)]
	if role == nil {
		goleak.VerifyTestMain(m)
	}
	if err := role(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
}

// aborted ends as Go does where it cannot start a thread.
func aborted() error {
	OnAbort("the last word\n", 65)
	runtime.LockOSThread()
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGABRT); err != nil {
		return err
	}
	return errors.New("it did not end")
}

// withoutThreads starts this binary again where a seccomp profile forbids clone3, as Docker's did before 20.10.10.
func withoutThreads() error {
	const load, same, end = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		unix.BPF_RET | unix.BPF_K
	code := []unix.SockFilter{{Code: load}, {Code: same, K: unix.SYS_CLONE3, Jf: 1},
		{Code: end, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}, {Code: end, K: unix.SECCOMP_RET_ALLOW}}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return unix.Exec("/proc/self/exe", os.Args[:1], Merge(Environ(), []string{varChild + "=forbidden"}, nil))
}

// as is a start of this binary in a role.
func as(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), varChild+"="+role)
	return cmd
}

// self is a path of this binary for command lines.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	return string(out)
}

// setup executes its arguments with the given signals, as a parent of launch
// would that has changed them.
func setup() error {
	var s State
	blocked := flag.Uint64("blocked", 0, "")
	ignored := flag.Uint64("ignored", 0, "")
	role := flag.String("role", "", "")
	flag.IntVar(&s.deathSignal, "death", 0, "")
	flag.Parse()
	s.Known, s.blocked, s.ignored = true, signals(*blocked), signals(*ignored)
	env := Merge(Environ(), []string{varChild + "=" + *role}, nil)
	return s.exec(flag.Arg(0), flag.Args(), env)
}

// launch does what launch does: listens to signals, starts a companion that
// writes to descriptor logfd, and becomes the command.
func launch() error {
	notify := flag.Bool("notify", false, "use os/signal before")
	forget := flag.Bool("forget", false, "as a build without cgo")
	role := flag.String("role", "", "the command is this binary in a role")
	logfd := flag.Int("log", 0, "start a companion that logs there")
	stderr := flag.Bool("stderr", false, "the companion gets stderr")
	flag.Parse()
	if *notify {
		signal.Notify(make(chan os.Signal, 1))
		_, stop, _ := NotifyContext(context.Background())
		stop()
	}
	if *logfd != 0 {
		log := os.NewFile(uintptr(*logfd), "log")
		pidfd, err := Open(os.Getpid())
		if err != nil {
			return err
		}
		c := &exec.Cmd{
			Path:       "/proc/self/exe",
			Args:       []string{"launch", strconv.Itoa(os.Getpid())},
			Env:        []string{"SOME=thing", varChild + "=companion"},
			ExtraFiles: []*os.File{pidfd, log},
		}
		if *stderr {
			c.Stderr = os.Stderr
		}
		pid, err := Detach(c)
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "detached %d\n", pid)
	}
	env := Merge(Environ(), []string{varChild + "=" + *role}, nil)
	path, err := LookPath(flag.Arg(0), env)
	if err != nil {
		return err
	}
	if *forget {
		return State{}.exec(path, flag.Args(), env)
	}
	return Exec(path, flag.Args(), env)
}

// companion logs what it is and what happens to it until its log is closed.
func companion() error {
	log := os.NewFile(4, "log")
	c := make(chan os.Signal, 10)
	signal.Notify(c)
	fds, err := openFds()
	if err != nil {
		return err
	}
	sid, _ := unix.Getsid(0)
	fmt.Fprintf(log, "companion %d of %d session %d fds %v args %q env %q\n",
		os.Getpid(), os.Getppid(), sid, fds, os.Args, os.Environ())
	go func() {
		for s := range c {
			if s != unix.SIGURG { // Go's own, for preemption
				fmt.Fprintf(log, "signal %s\n", unix.SignalName(s.(syscall.Signal)))
			}
		}
	}()
	if err := Wait(context.Background(), os.NewFile(3, "pidfd")); err != nil {
		return err
	}
	state := "no more"
	if b, err := os.ReadFile("/proc/" + os.Args[1] + "/stat"); err == nil {
		_, rest, _ := strings.Cut(string(b), ") ")
		state = rest[:1]
	}
	os.Stderr.Close()
	fmt.Fprintf(log, "gone %s\n", state)
	fds2 := []unix.PollFd{{Fd: 4}} // POLLERR when the reader closes
	for {
		if _, err := unix.Poll(fds2, -1); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openFds returns the descriptors inherited through exec, and what they are.
func openFds() ([]string, error) {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range dir {
		fd, _ := strconv.Atoi(e.Name())
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			to, _ := os.Readlink("/proc/self/fd/" + e.Name())
			kind, _, _ := strings.Cut(to, ":[")
			out = append(out, e.Name()+"="+kind)
		}
	}
	slices.Sort(out)
	return out, nil
}

// command is a command that reports on its children for every line that it
// reads.
func command() error {
	fmt.Println("ready", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		fmt.Println(pid, err)
	}
	return nil
}

// printForbidden prints whether threads are forbidden, from a thread of the C library's.
func printForbidden() error {
	done := make(chan bool)
	go func() {
		runtime.LockOSThread()
		done <- Inherited().Forbidden
	}()
	fmt.Println("forbidden:", <-done)
	return nil
}

func printRecord() error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return err
	}
	in := Inherited()
	fmt.Println(in.Nofile, in.deathSignal, now.Cur)
	return nil
}

// lines reads from a pipe until a line has some words, and keeps all lines.
type lines struct {
	t    *testing.T
	file *os.File
	buf  *bufio.Reader
	all  []string
}

// pipe is a pipe whose reader gives up before the test does.
func pipe(t *testing.T) (*lines, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return &lines{t: t, file: r, buf: bufio.NewReader(r)}, w
}

func (l *lines) until(words string) string {
	l.t.Helper()
	l.file.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		s, err := l.buf.ReadString('\n')
		s = strings.TrimRight(s, "\r\n")
		if s != "" {
			l.all = append(l.all, s)
		}
		if err != nil && !strings.Contains(s, words) {
			l.t.Fatalf("no line %q: %v, after %q", words, err, l.all)
		}
		if strings.Contains(s, words) {
			return s
		}
	}
}

// toEOF reads until every writer has closed.
func (l *lines) toEOF() {
	l.t.Helper()
	l.file.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		s, err := l.buf.ReadString('\n')
		if s = strings.TrimRight(s, "\r\n"); s != "" {
			l.all = append(l.all, s)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			l.t.Fatalf("somebody holds it open, after %q", l.all)
		}
		if err != nil {
			return
		}
	}
}
