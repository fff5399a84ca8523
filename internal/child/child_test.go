package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

var table = Table{
	"sum": func(_ context.Context, in io.Reader, out io.Writer) error {
		var ns []int
		if err := json.NewDecoder(in).Decode(&ns); err != nil {
			return err
		}
		sum := 0
		for _, n := range ns {
			sum += n
		}
		return json.NewEncoder(out).Encode(sum)
	},
	"world": func(_ context.Context, _ io.Reader, out io.Writer) error {
		dir, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return err
		}
		w := world{Env: os.Environ(), Pgid: unix.Getpgrp(), Pid: os.Getpid(), Args: os.Args}
		for _, e := range dir {
			fd, _ := strconv.Atoi(e.Name())
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			if err == nil && flags&unix.FD_CLOEXEC == 0 {
				w.Fds = append(w.Fds, fd)
			}
		}
		return json.NewEncoder(out).Encode(w)
	},
	"hang": func(_ context.Context, in io.Reader, _ io.Writer) error {
		var file string
		if err := json.NewDecoder(in).Decode(&file); err != nil {
			return err
		}
		grandchild := exec.Command("sleep", "600")
		if err := grandchild.Start(); err != nil {
			return err
		}
		pids := fmt.Sprintln(os.Getpid(), grandchild.Process.Pid)
		if err := os.WriteFile(file+".tmp", []byte(pids), 0o600); err != nil {
			return err
		}
		if err := os.Rename(file+".tmp", file); err != nil {
			return err
		}
		select {}
	},
	"segv": func(context.Context, io.Reader, io.Writer) error {
		fmt.Fprintln(os.Stderr, "about to crash")
		err := exec.Command("kill", "-SEGV", strconv.Itoa(os.Getpid())).Run()
		time.Sleep(time.Second) // the signal may be taken after kill has ended
		return err
	},
	"kill9": func(context.Context, io.Reader, io.Writer) error {
		fmt.Fprintln(os.Stderr, "about to die")
		unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	},
	"panic": func(context.Context, io.Reader, io.Writer) error { panic("no such device") },
	"error": func(context.Context, io.Reader, io.Writer) error { return errors.New("open driver: busy") },
	"garbage": func(_ context.Context, _ io.Reader, out io.Writer) error {
		_, err := io.WriteString(out, "hello")
		return err
	},
	"empty": func(context.Context, io.Reader, io.Writer) error { return nil },
	"flood": func(_ context.Context, _ io.Reader, out io.Writer) error {
		for {
			if _, err := out.Write(make([]byte, 1<<16)); err != nil {
				return err
			}
		}
	},
	"holder": func(_ context.Context, in io.Reader, _ io.Writer) error {
		var file string
		if err := json.NewDecoder(in).Decode(&file); err != nil {
			return err
		}
		c := exec.Command("sleep", "600")
		c.Stdout = os.Stdout
		if err := c.Start(); err != nil {
			return err
		}
		return os.WriteFile(file, fmt.Append(nil, c.Process.Pid), 0o600)
	},
	"number": func(_ context.Context, in io.Reader, out io.Writer) error {
		var file string
		if err := json.NewDecoder(in).Decode(&file); err != nil {
			return err
		}
		c := exec.Command("sleep", "600")
		c.Stdout = os.Stdout
		if err := c.Start(); err != nil {
			return err
		}
		if err := os.WriteFile(file, fmt.Append(nil, c.Process.Pid), 0o600); err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(7)
	},
	"echo": func(_ context.Context, in io.Reader, out io.Writer) error {
		_, err := io.Copy(out, in)
		return err
	},
	"deaf": func(context.Context, io.Reader, io.Writer) error { select {} },
	"deep": func(ctx context.Context, _ io.Reader, out io.Writer) error {
		var below []int
		err := Ask(ctx, "deep", nil, &below, 20*time.Second)
		d, _ := depth()
		if crash := (*CrashError)(nil); err != nil && !(errors.As(err, &crash) && crash.Code == exitRefused) {
			return err
		}
		return json.NewEncoder(out).Encode(append(below, d))
	},
}

type world struct {
	Env       []string
	Args      []string
	Fds       []int
	Pid, Pgid int
}

func TestMain(m *testing.M) {
	if code, ok := Dispatch(table); ok {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

const ample = 30 * time.Second // for children that answer at once, on a busy machine

func TestAskReturnsTheAnswer(t *testing.T) {
	var got int
	if err := Ask(t.Context(), "sum", []int{1, 2, 39}, &got, ample); err != nil {
		t.Fatal(err)
	}
	if got != 42 {
		t.Errorf("answer = %d, want 42", got)
	}
}

func TestChildSeesNothingOfARankAndHoldsNothingOfItsParent(t *testing.T) {
	t.Setenv("RANK", "3")
	t.Setenv("NCCL_DEBUG", "INFO")
	t.Setenv("LD_LIBRARY_PATH", "/opt/lib")
	fd, err := unix.Open("/dev/null", unix.O_RDONLY, 0) // not close-on-exec, as inherited from a shell
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var got world
	if err := Ask(t.Context(), "world", nil, &got, ample); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0, 1, 2}, got.Fds); diff != "" {
		t.Errorf("inherited descriptors (-want +got):\n%s", diff)
	}
	allowed := append(slices.Clone(passed), varName, varDepth, varLimit, "MALLOC_ARENA_MAX")
	for _, kv := range got.Env {
		if k, _, _ := strings.Cut(kv, "="); !slices.Contains(allowed, k) {
			t.Errorf("child sees %s", kv)
		}
	}
	if !slices.Contains(got.Env, "LD_LIBRARY_PATH=/opt/lib") {
		t.Errorf("LD_LIBRARY_PATH was not passed: %q", got.Env)
	}
	if got.Pid != got.Pgid {
		t.Errorf("child %d is in group %d, want its own", got.Pid, got.Pgid)
	}
	if diff := cmp.Diff([]string{"launch"}, got.Args); diff != "" {
		t.Errorf("argv (-want +got):\n%s", diff)
	}
}

func TestCommandPassesExtraFilesAndInheritedOnes(t *testing.T) {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	cmd := Command("world")
	cmd.ExtraFiles = []*os.File{w}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got world
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(got.Fds, 3) || !slices.Contains(got.Fds, max(3, fd)) {
		t.Errorf("descriptors = %v, want 3 and %d among them", got.Fds, fd)
	}
}

func TestAskReportsTheEndOfAChildThatDoesNotAnswer(t *testing.T) {
	tests := []struct {
		name string
		want *CrashError
		text string
	}{
		{"segv", nil, `child "segv" exited with status 2: SIGSEGV: segmentation violation`},
		{"kill9", &CrashError{Name: "kill9", Signal: syscall.SIGKILL, Code: -1, Stderr: "about to die\n"},
			`child "kill9" died of SIGKILL: about to die`},
		{"error", &CrashError{Name: "error", Code: 1, Stderr: "launch: child \"error\": open driver: busy\n"},
			`child "error" exited with status 1: open driver: busy`},
		{"panic", nil, `child "panic" exited with status 2: panic: no such device`},
		{"nosuch", nil, `exited with status 70`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Ask(t.Context(), tt.name, nil, new(int), ample)
			got, ok := errors.AsType[*CrashError](err)
			if !ok {
				t.Fatalf("error = %v, want a *CrashError", err)
			}
			if tt.want != nil {
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("crash (-want +got):\n%s", diff)
				}
			}
			if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error = %q, want %q in it", err, tt.text)
			}
		})
	}
}

func TestAskRefusesWhatIsNotAnAnswer(t *testing.T) {
	for name, text := range map[string]string{
		"garbage": "understand answer",
		"empty":   "understand answer",
		"flood":   "more than 4 MiB",
	} {
		t.Run(name, func(t *testing.T) {
			err := Ask(t.Context(), name, nil, new(int), ample)
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("error = %v, want %q in it", err, text)
			}
		})
	}
}

func TestAskKillsTheWholeGroupAtTheLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	err := Ask(t.Context(), "hang", file, new(int), 2*time.Second)
	got, ok := errors.AsType[*TimeoutError](err)
	if !ok || got.Abandoned || got.Limit != 2*time.Second {
		t.Fatalf("error = %v, want a *TimeoutError of 2s, not abandoned", err)
	}
	wantGone(t, pidsIn(t, file)...)
}

func TestAskKillsWhenItsContextEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the user pressed Ctrl-C")
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			if _, err := os.Stat(file); err == nil {
				cancel(reason)
				return
			}
		}
	}()
	if err := Ask(ctx, "hang", file, new(int), ample); !errors.Is(err, reason) {
		t.Fatalf("error = %v, want %v", err, reason)
	}
	wantGone(t, pidsIn(t, file)...)
	if err := Ask(ctx, "sum", []int{1}, new(int), ample); !errors.Is(err, reason) {
		t.Errorf("with a context that is done: error = %v, want %v", err, reason)
	}
}

func TestAskAbandonsAChildThatSurvivesItsKill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	err := ask(t.Context(), "hang", file, new(int), 2*time.Second, func(int) {})
	got, ok := errors.AsType[*TimeoutError](err)
	if !ok || !got.Abandoned {
		t.Fatalf("error = %v, want an abandoned *TimeoutError", err)
	}
	if !strings.Contains(err.Error(), fmt.Sprintf("pid %d is stuck", got.PID)) {
		t.Errorf("error = %q, want the pid in it", err)
	}
	// No process kills it, as when launch itself was killed: the child ends itself.
	wantGone(t, pidsIn(t, file)...)
}

func TestAskKillsAGrandchildThatHoldsStdout(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	err := Ask(t.Context(), "holder", file, new(int), ample)
	if !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("error = %v, want %v", err, exec.ErrWaitDelay)
	}
	wantGone(t, pidsIn(t, file)...)
}

// On a busy machine a process that is between fork and exec keeps the pipe open.
func TestAskTakesAWholeAnswerAlthoughItsPipeStaysOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	var got int
	if err := Ask(t.Context(), "number", file, &got, ample); err != nil || got != 7 {
		t.Fatalf("got %d, %v; want 7", got, err)
	}
	wantGone(t, pidsIn(t, file)...)
}

func TestChildrenDeeperThanTwoAreRefused(t *testing.T) {
	var got []int
	if err := Ask(t.Context(), "deep", nil, &got, ample); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{2, 1}, got); diff != "" {
		t.Errorf("depths that ran (-want +got):\n%s", diff)
	}
}

func TestDispatchIsSilentInAProcessThatIsNoChild(t *testing.T) {
	if code, isChild := Dispatch(table); code != 0 || isChild {
		t.Errorf("Dispatch = %d, %v, want 0, false", code, isChild)
	}
}

func TestDispatchRefusesADepthThatIsNoNumber(t *testing.T) {
	cmd := Command("sum")
	cmd.Env = append(cmd.Env, varDepth+"=many")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != exitRefused || !strings.Contains(string(out), `"many"`) {
		t.Errorf("error %v, output %q, want status %d and the value", err, out, exitRefused)
	}
}

func pidsIn(t *testing.T, file string) []int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("the child did not get as far as its pids: %v", err)
	}
	var pids []int
	for _, s := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, n)
	}
	return pids
}

// wantGone waits until no process has one of the pids; a zombie (of a
// grandchild, for the machine's init to reap) counts as gone.
func wantGone(t *testing.T, pids ...int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for _, pid := range pids {
		for alive(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d is still there", pid)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}
