package handoff

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func needsRecord(t *testing.T) {
	t.Helper()
	if !hasConstructor {
		t.Skip("built without cgo: nothing is recorded")
	}
}

// sigs are the blocked and the ignored signals of a /proc/PID/status.
func sigs(t *testing.T, status string) (blocked, ignored signals) {
	t.Helper()
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		switch {
		case name == "SigBlk" && err == nil:
			blocked = signals(n)
		case name == "SigIgn" && err == nil:
			ignored = signals(n)
		}
	}
	return blocked, ignored
}

// withSignals runs the command as a child of a parent that has set the signals.
func withSignals(t *testing.T, blocked, ignored signals, role string, argv ...string) string {
	t.Helper()
	args := []string{fmt.Sprint("-blocked=", uint64(blocked)), fmt.Sprint("-ignored=", uint64(ignored)),
		"-role=" + role, "--"}
	return output(t, as(t, "setup", append(args, argv...)...))
}

func TestCommandInheritsEverySignalAsLaunchDid(t *testing.T) {
	needsRecord(t)
	const unsettable = signals(1)<<(unix.SIGKILL-1) | 1<<(unix.SIGSTOP-1)
	for run := range 30 {
		var blocked, ignored signals
		for n := range lastSignal { // ignored, blocked, both or neither
			switch (n + run) % 4 {
			case 0:
				ignored |= 1 << n
			case 1:
				blocked |= 1 << n
			case 2:
				ignored |= 1 << n
				blocked |= 1 << n
			}
		}
		blocked, ignored = blocked&^unsettable, ignored&^unsettable
		cat := []string{"/bin/cat", "/proc/self/status"}
		wantBlocked, wantIgnored := sigs(t, withSignals(t, blocked, ignored, "", cat...))
		if wantBlocked != blocked || wantIgnored&ignored != ignored {
			t.Fatalf("the test cannot set signals: blocked %x for %x, ignored %x for %x",
				wantBlocked, blocked, wantIgnored, ignored)
		}
		line := append([]string{self(t), "-notify=" + fmt.Sprint(run%2 == 1), "--"}, cat...)
		gotBlocked, gotIgnored := sigs(t, withSignals(t, blocked, ignored, "launch", line...))
		if gotBlocked != wantBlocked || gotIgnored != wantIgnored {
			t.Errorf("run %d: blocked %x, want %x; ignored %x, want %x", run, gotBlocked, wantBlocked, gotIgnored, wantIgnored)
		}
	}
}

func TestWithoutRecordIgnoredHupAndIntSurvive(t *testing.T) {
	const nohup = signals(1)<<(unix.SIGHUP-1) | 1<<(unix.SIGINT-1)
	_, got := sigs(t, withSignals(t, 0, nohup, "launch", self(t), "-forget", "/bin/cat", "/proc/self/status"))
	if got&nohup != nohup {
		t.Errorf("ignored %x, want %x in it", got, nohup)
	}
}

func TestDeathSignalOfLaunchStaysTheCommands(t *testing.T) {
	needsRecord(t)
	runtime.LockOSThread() // the kernel sends the signal when the starting thread ends
	defer runtime.UnlockOSThread()
	cmd := as(t, "setup", fmt.Sprint("-death=", int(unix.SIGWINCH)), "-role=launch", "--",
		self(t), "-role=record", self(t))
	if got := strings.Fields(output(t, cmd)); got[1] != fmt.Sprint(int(unix.SIGWINCH)) {
		t.Errorf("the command's parent death signal is %s, want %d", got[1], unix.SIGWINCH)
	}
}

func TestLimitOfOpenFilesIsTheInheritedOne(t *testing.T) {
	const limits = `ulimit -Sn 1000; ulimit -Hn 4096; exec "$@"`
	sh := func(role string, argv ...string) string {
		cmd := as(t, role)
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", limits, "sh"}, argv...)
		return output(t, cmd)
	}
	if got, want := sh("launch", self(t), "-notify", "sh", "-c", "ulimit -Sn; ulimit -Hn"), "1000\n4096\n"; got != want {
		t.Errorf("the command has %q, want %q", got, want)
	}
	want := "1000 0"
	if !hasConstructor {
		want = "0 0"
	}
	got, inside := cutLast(strings.TrimSpace(sh("record", self(t))))
	if got != want {
		t.Errorf("recorded limit and death signal: got %q, want %q", got, want)
	}
	if inside == "1000" {
		t.Error("Go no longer raises its limit: the record of it is not needed any more")
	}
}

// Go crashes where it may not map enough memory: the constructor ends the process with an error before that.
func TestALimitThatGoCannotStartWithIsNamed(t *testing.T) {
	info, _ := debug.ReadBuildInfo()
	if !hasConstructor || slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("needs cgo, and no race detector, which cannot start then either")
	}
	for _, c := range []struct{ limit, json, want string }{
		{"ulimit -v 1000000", "1", `"code":65,"what":"ulimit -v is 1000000 KiB, and launch needs 1700000"`},
		{"ulimit -d 100000", "", "launch: error: ulimit -d is 100000 KiB, and launch needs 120000\n"},
	} {
		cmd := as(t, "record")
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", c.limit + `; exec "$@"`, "sh", self(t)}
		cmd.Env = append(cmd.Env, "LAUNCH_JSON="+c.json)
		var printed strings.Builder
		cmd.Stderr = &printed
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 65 || !strings.Contains(printed.String(), c.want) {
			t.Errorf("%s: %v, %q; want %q", c.limit, err, printed.String(), c.want)
		}
	}
}

// Nor where it cannot start a thread. Root may start any number, so another user tries it.
func TestALimitOfThreadsIsNamed(t *testing.T) {
	setpriv, err := exec.LookPath("setpriv")
	if !hasConstructor || os.Geteuid() != 0 || err != nil {
		t.Skip("needs cgo, root and setpriv")
	}
	program, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "launch-threads")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "launch")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(file, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := as(t, "record")
	cmd.Path, cmd.Args = setpriv, []string{"setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups",
		"prlimit", "--nproc=3:3", file}
	cmd.Dir = dir
	const want = "launch: error: ulimit -u is 3 processes and threads, and launch needs "
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 65 || !strings.Contains(string(out), want) {
		t.Errorf("exit %d, %q", cmd.ProcessState.ExitCode(), out)
	}
}

// A container whose seccomp profile is older than its glibc forbids every thread. launch runs all the same.
func TestAContainerThatForbidsThreadsIsKnown(t *testing.T) {
	if !hasConstructor {
		t.Skip("needs cgo")
	}
	const want = "forbidden: true\n"
	if out, _ := as(t, "threads").CombinedOutput(); !strings.Contains(string(out), want) {
		if glibc, _ := exec.Command("getconf", "GNU_LIBC_VERSION").Output(); string(glibc) < "glibc 2.34" {
			t.Skipf("%s does not use clone3", glibc)
		}
		t.Errorf("%q", out)
	}
	if out := output(t, as(t, "forbidden")); out != "forbidden: false\n" {
		t.Errorf("where threads are allowed: %q", out)
	}
}

// Go prints its registers and all goroutines, some hundred lines.
func TestAnAbortPrintsItsTextAlone(t *testing.T) {
	if !hasConstructor {
		t.Skip("needs cgo")
	}
	cmd := as(t, "abort")
	if out, _ := cmd.CombinedOutput(); string(out) != "the last word\n" || cmd.ProcessState.ExitCode() != 65 {
		t.Errorf("%q, %v", out, cmd.ProcessState)
	}
}

func cutLast(s string) (before, last string) {
	i := strings.LastIndexByte(s, ' ')
	return s[:i], s[i+1:]
}

// both runs a shell script that calls the command as "$@", first as it is and
// then after launch.
func both(t *testing.T, shell, script string, argv ...string) (without, with string) {
	t.Helper()
	run := func(prefix ...string) string {
		cmd := as(t, "launch")
		cmd.Dir = t.TempDir()
		cmd.Path, cmd.Args = shell, append(append([]string{shell, "-c", script, "sh"}, prefix...), argv...)
		return strings.ReplaceAll(output(t, cmd), cmd.Dir, "DIR")
	}
	return run(), run(self(t), "-notify", "--")
}

func TestCommandInheritsUmaskDirectoryAndNice(t *testing.T) {
	without, with := both(t, "/bin/sh", `umask 027; nice -n 3 "$@"`, "sh", "-c",
		`umask; pwd; nice; ulimit -a; cat /proc/self/oom_score_adj`)
	if d := cmp.Diff(without, with); d != "" {
		t.Errorf("(-without launch +with)\n%s", d)
	}
	kernel, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 less the niceness (getpriority(2))
	if err != nil {
		t.Fatal(err)
	}
	nicer := fmt.Sprintf("DIR\n%d\n", min(20-kernel+3, 19))
	if !strings.Contains(with, "0027\n") || !strings.Contains(with, nicer) {
		t.Errorf("the test sets nothing: %s", with)
	}
}

func TestCommandInheritsDescriptors(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash for <(…)")
	}
	const script = `exec 7<<<seven 63>/dev/null; "$@" <(echo piped)`
	without, with := both(t, bash, script, "sh", "-c", `ls /proc/self/fd; cat <&7; cat "$1"`, "sh")
	if d := cmp.Diff(without, with); d != "" {
		t.Errorf("(-without launch +with)\n%s", d)
	}
	if !strings.Contains(with, "\n7\n") || !strings.HasSuffix(with, "seven\npiped\n") {
		t.Errorf("the test passes nothing on: %q", with)
	}
}

func TestCommandInheritsEnvironmentByteForByte(t *testing.T) {
	env := []string{"A=1", "no equals sign", "A=2", "=odd", "", "EMPTY=", "LINES=a\nb", "B=\xff",
		varChild + "=launch", "A=3", "Z=z"}
	r, w := pipe(t)
	// os/exec would drop duplicates.
	p, err := os.StartProcess(self(t), []string{"launch", "/bin/cat", "/proc/self/environ"}, &os.ProcAttr{
		Env: env, Files: []*os.File{nil, w, os.Stderr},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	r.toEOF()
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	env[8] = varChild + "="
	want := strings.Join(env, "\x00") + "\x00"
	if d := cmp.Diff(want, strings.Join(r.all, "\n")); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestExecKeepsPidAndStatus(t *testing.T) {
	cmd := as(t, "launch", "sh", "-c", "echo $$; exit 7")
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 7 {
		t.Fatalf("got %v, want exit status 7", err)
	}
	if got, want := strings.TrimSpace(string(out)), strconv.Itoa(cmd.Process.Pid); got != want {
		t.Errorf("the command is pid %s, launch was %s", got, want)
	}
	cmd = as(t, "launch", "sh", "-c", "kill -KILL $$")
	cmd.Run()
	if ws := cmd.ProcessState.String(); ws != "signal: killed" {
		t.Errorf("got %q, want the command's own death", ws)
	}
}

func TestExecRunsScriptWithoutInterpreterLineAsAShellDoes(t *testing.T) {
	script := filepath.Join(t.TempDir(), "run")
	write(t, script, `echo "$0" "$@"`, 0o755)
	if got, want := output(t, as(t, "launch", script, "a b", "c")), script+" a b c\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExecReportsWhyItCannot(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "noise"), "\x01\x00\x02", 0o755)
	for path, want := range map[string]error{
		filepath.Join(dir, "none"):  ErrNotFound,
		filepath.Join(dir, "noise"): ErrNotExecutable,
		dir:                         ErrNotExecutable,
	} {
		// The zero State changes no signals, so the test can go on after it.
		if err := (State{}).exec(path, []string{path}, nil); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", path, err, want)
		}
	}
}
