package main

import (
	"bytes"
	"fmt"
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
	"golang.org/x/sys/unix"

	"launch/internal/exit"
)

// inheritance prints what a process inherits: signals, limits, descriptors, umask,
// directory, niceness, environment.
const inheritance = `
grep -E '^(Sig(Blk|Ign)|ShdPnd|Umask|Seccomp|NoNewPrivs|Uid|Gid|Groups|Cap)' /proc/self/status
cat /proc/self/limits /proc/self/oom_score_adj
for f in /proc/$$/fd/*; do printf '%s ' "${f##*/}"; readlink "$f"; done
pwd; nice; umask
tr '\0' '\n' </proc/$$/environ`

// around starts a program with properties that Go would change: ignored and blocked
// signals, a low limit of files, an open descriptor, and odd entries in the
// environment.
const around = `
import os, resource, signal, sys
for s in (signal.SIGPIPE, signal.SIGUSR1, signal.SIGTERM, signal.SIGQUIT):
    signal.signal(s, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGWINCH])
resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 4096))
os.dup2(os.open("/dev/zero", os.O_RDONLY), 7, inheritable=True)
os.umask(0o027); os.nice(3); os.chdir("/usr")
os.execve(sys.argv[1], sys.argv[2:], dict(os.environ, ODD="a\tb\\ 'c'", EMPTY=""))`

func TestTheCommandInheritsWhatLaunchInherited(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to set up signals and limits")
	}
	surrounded := func(c *exec.Cmd) string {
		t.Helper()
		c.Args = append([]string{"python3", "-c", around, c.Path}, c.Args...)
		c.Path = python
		c.Stdin = nil
		var out, errs bytes.Buffer
		c.Stdout, c.Stderr = &out, &errs
		if err := c.Run(); err != nil {
			t.Errorf("%v: %s", err, errs.String())
		}
		return out.String()
	}
	plain := exec.Command("/bin/sh", "-c", inheritance)
	plain.Args[0] = "sh"
	plain.Env = clean(os.Environ())
	want := surrounded(plain)
	command := []string{"sh", "-c", inheritance}

	got := surrounded(launched(t, command...))
	if diff := cmp.Diff(fds(want), fds(got)); diff != "" {
		t.Errorf("one node (-without +with launch):\n%s", diff)
	}

	args := pair(t, command...)
	other := launched(t, args...)
	var out bytes.Buffer
	other.Stdout = &out
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	got = surrounded(launched(t, args...))
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
	plan := []string{"MASTER_ADDR=", "MASTER_PORT=", "WORLD_SIZE=", "RANK=", "LOCAL_WORLD_SIZE=", "LOCAL_RANK=",
		"NODE_RANK=", "NNODES="}
	var rest []string
	for _, l := range strings.Split(got, "\n") {
		if i := slices.IndexFunc(plan, func(p string) bool { return strings.HasPrefix(l, p) }); i >= 0 {
			plan = slices.Delete(plan, i, i+1)
			continue
		}
		rest = append(rest, l)
	}
	if len(plan) > 0 {
		t.Errorf("the plan lacks %v", plan)
	}
	if diff := cmp.Diff(fds(want), fds(strings.Join(rest, "\n"))); diff != "" {
		t.Errorf("two nodes, less the plan (-without +with launch):\n%s", diff)
	}
}

// fds replaces what differs from run to run: the numbers of pipes.
func fds(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if n, target, ok := strings.Cut(l, " "); ok && strings.HasPrefix(target, "pipe:[") {
			lines[i] = n + " pipe"
		}
	}
	return strings.Join(lines, "\n")
}

func TestTheCompanionEndsWithTheCommand(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		a, b := running(t)
		ca, cb := companionOf(a.Process.Pid), companionOf(b.Process.Pid)
		if ca == 0 || cb == 0 {
			t.Fatalf("no companion of %d or %d: %d, %d", a.Process.Pid, b.Process.Pid, ca, cb)
		}
		if p := ppid(ca); p == a.Process.Pid {
			t.Errorf("the companion is a child of the command")
		}
		_ = a.Process.Signal(sig)
		if got := a.end(t); got != 128+int(sig) {
			t.Errorf("%v: the status is %d", sig, got)
		}
		gone(t, ca, time.Second)
		_ = b.Process.Signal(sig)
		b.end(t)
		gone(t, cb, time.Second) // also if the other node hosted the store
	}
}

func ppid(pid int) (p int) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for _, l := range strings.Split(string(b), "\n") {
		fmt.Sscanf(l, "PPid:\t%d", &p)
	}
	return p
}

func TestTheCommandOutlivesAKilledCompanion(t *testing.T) {
	a, b := running(t)
	for _, n := range []*node{a, b} {
		c := companionOf(n.Process.Pid)
		_ = syscall.Kill(c, syscall.SIGKILL)
		gone(t, c, time.Second)
	}
	time.Sleep(200 * time.Millisecond) // long enough for a command that would die of it
	for _, n := range []*node{a, b} {
		if err := n.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the command died with its companion: %v", err)
		}
	}
}

func TestAKilledCompanionEndsTheWait(t *testing.T) {
	a := begin(t, pair(t, "true")...)
	a.line(t, "1 of 2 nodes joined")
	_ = syscall.Kill(companionOf(a.Process.Pid), syscall.SIGKILL)
	if got := a.end(t); got != exit.Bug {
		t.Errorf("ended with %d, want %d", got, exit.Bug)
	}
}

func TestAKilledLaunchEndsItsCompanion(t *testing.T) {
	a := begin(t, pair(t, "true")...)
	a.line(t, "1 of 2 nodes joined")
	c := companionOf(a.Process.Pid)
	_ = a.Process.Kill()
	a.end(t)
	gone(t, c, 2*time.Second) // it leaves the store that it hosts
}

func TestSignalsBeforeTheStartEndTheWaitAndAreReported(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		args := append([]string{"--nnodes", "3"}, pair(t, "true")[:2]...)
		args = append(args, "true")
		a := begin(t, args...)
		a.line(t, "1 of 3 nodes joined")
		b := begin(t, args...)
		a.line(t, "2 of 3 nodes joined")
		c := companionOf(b.Process.Pid)
		_ = b.Process.Signal(sig)
		if got := b.end(t); got != want {
			t.Errorf("%v: ended with %d, want %d", sig, got, want)
		}
		gone(t, c, time.Second)
		a.line(t, "left: it was ended by "+unix.SignalName(sig))
		a.line(t, "1 of 3 nodes joined")
		_ = a.Process.Signal(sig)
		a.end(t)
	}
}

func TestCtrlC(t *testing.T) {
	t.Run("while it waits", func(t *testing.T) {
		person, screen, c := onTerminal(t, pair(t, "true")...)
		shows(t, screen, "1 of 2 nodes joined")
		_, _ = person.Write([]byte{3})
		shows(t, screen, "interrupted before the command ran")
		_ = c.Wait()
		if got := c.ProcessState.ExitCode(); got != 130 {
			t.Errorf("ended with %d", got)
		}
	})
	t.Run("the running command gets it", func(t *testing.T) {
		args := pair(t, "sh", "-c", "trap 'echo caught it; exit 9' INT; echo at work; while :; do sleep 0.05; done")
		other := begin(t, args...)
		person, screen, c := onTerminal(t, args...)
		shows(t, screen, "at work")
		other.line(t, "at work")
		companion := companionOf(c.Process.Pid)
		_, _ = person.Write([]byte{3})
		shows(t, screen, "caught it")
		_ = c.Wait()
		if got := c.ProcessState.ExitCode(); got != 9 {
			t.Errorf("ended with %d, want the command's 9", got)
		}
		gone(t, companion, time.Second)
		if err := other.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the other node died with it: %v", err)
		}
	})
}

func TestAPipeEndsWithTheCommand(t *testing.T) {
	args := pair(t, "true")
	other := begin(t, args...)
	began := launched(t, args...)
	out, err := began.CombinedOutput() // returns when the last writer is gone
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if c := companionOf(began.Process.Pid); c != 0 {
		if _, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", c)); err == nil {
			t.Logf("the companion %d still leaves the store, without the pipe", c)
		}
	}
	other.end(t)
}

func TestAKilledCompanionStopsNoNodeAfterTheGo(t *testing.T) {
	dir := t.TempDir()
	torchrun, over := filepath.Join(dir, "torchrun"), filepath.Join(dir, "over")
	script := fmt.Sprintf("#!/bin/sh\necho at work\nuntil [ -e %s ]; do sleep 0.1; done\n", over)
	if err := os.WriteFile(torchrun, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	store := pair(t)[:4]
	a := begin(t, slices.Concat(store, []string{"--node-rank", "0", torchrun, "-m", "t"})...)
	b := begin(t, slices.Concat(store, []string{"--node-rank", "1", torchrun, "-m", "t"})...)
	a.line(t, "at work")
	b.line(t, "at work")
	_ = syscall.Kill(companionOf(b.Process.Pid), syscall.SIGKILL)
	if err := os.WriteFile(over, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{a, b} {
		if got := n.end(t); got != 0 {
			t.Errorf("ended with %d", got)
		}
	}
}

func TestACompanionKilledBeforeItReachesTheStoreEndsTheWait(t *testing.T) {
	args := append([]string{"--store-host", "no"}, pair(t, "true")...)
	a := begin(t, args...)
	a.line(t, "the store does not answer")
	_ = syscall.Kill(companionOf(a.Process.Pid), syscall.SIGKILL)
	if got := a.end(t); got != exit.Bug {
		t.Errorf("ended with %d, want %d", got, exit.Bug)
	}
}

func TestTheChildVariableOfAnotherProcessHasNoEffect(t *testing.T) {
	c := launched(t, "sh", "-c", "exit 5")
	c.Env = append(c.Env, "LAUNCH_CHILD=companion")
	_ = c.Run()
	if got := c.ProcessState.ExitCode(); got != 5 {
		t.Errorf("ended with %d, want the command's 5", got)
	}
}

// A node whose companion is killed looks like a lost node: it stops answering.
func TestTheOthersNameANodeThatIsLostAfterTheStart(t *testing.T) {
	for _, tc := range []struct{ flag, one, lost string }{
		{"--warn-only", "1 of 2 nodes joined", "was lost (seen at"},
		{"--json", `"come":1`, `"id":"node.lost"`},
		{"--fail-fast", "1 of 2 nodes joined", "was lost (seen at"},
	} {
		args := append([]string{tc.flag}, pair(t, "sh", "-c", "echo at work; exec sleep 60")...)
		host := begin(t, args...)
		host.line(t, tc.one)
		other := begin(t, args...)
		host.line(t, "at work")
		other.line(t, "at work")
		_ = syscall.Kill(companionOf(other.Process.Pid), syscall.SIGKILL)
		host.line(t, tc.lost)
		if tc.flag != "--fail-fast" {
			continue
		}
		if host.end(t); host.ProcessState.String() != "signal: terminated" {
			t.Errorf("ended with %v, want a death by SIGTERM", host.ProcessState)
		}
	}
}

// memoryGroup returns the file of a new control group's processes, with a limit in bytes.
func memoryGroup(t *testing.T, limit string) (procs string) {
	t.Helper()
	for _, g := range []struct{ root, limit string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		dir, err := os.MkdirTemp(g.root, "launch-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			for range 100 { // until the companion has ended
				if os.Remove(dir) == nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Errorf("%s remains", dir)
		})
		if os.WriteFile(filepath.Join(dir, g.limit), []byte(limit), 0o644) == nil {
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	t.Skip("needs to make a control group with a limit of memory")
	return ""
}

func TestAProcessThatTheKernelKillsForLackOfMemoryIsReported(t *testing.T) {
	procs := memoryGroup(t, "400000000")
	args := pair(t, "sh", "-c", `[ "$RANK" = 0 ] || head -c 1000000000 /dev/zero | tail; exec sleep 60`)
	host := begin(t, args...)
	host.line(t, "1 of 2 nodes joined")
	other := begin(t, args...)
	if err := os.WriteFile(procs, []byte(strconv.Itoa(other.Process.Pid)), 0o644); err != nil { // before its companion
		t.Fatal(err)
	}
	other.line(t, "out of memory: the kernel has killed 1 of this node's processes (seen at ")
}

// With restarts the others start again without this node, so its command must end.
func TestADeadCompanionEndsTheCommandOfARunWithRestarts(t *testing.T) {
	args := append([]string{"--restarts", "1", "--spares", "1"}, pair(t, "sh", "-c", "echo at work; exec sleep 60")...)
	host := begin(t, args...)
	host.line(t, "1 of 2 nodes joined")
	other := begin(t, args...)
	host.line(t, "at work")
	other.line(t, "at work")
	_ = syscall.Kill(companionOf(other.Process.Pid), syscall.SIGKILL)
	other.line(t, "ending the command on this node: the other nodes may start again without it")
	other.end(t)
	if got := other.ProcessState.ExitCode(); got != 70 {
		t.Errorf("ended with %d, want 70", got)
	}
	host.line(t, "is gone; ending the command on this node")
	if err := host.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	host.end(t)
}

// A command that does not end is killed by a second signal, with what it has started: also what is stopped.
func TestASecondSignalKillsACommandThatLaunchWaitsFor(t *testing.T) {
	n := begin(t, "--restarts", "1", "sh", "-c",
		"trap '' TERM; sh -c 'kill -STOP $$' & echo at work $!; while :; do sleep 0.05; done")
	n.line(t, "at work ")
	var stopped int
	if _, err := fmt.Sscanf(n.seen[len(n.seen)-1], "at work %d", &stopped); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{"once more kills them", "a second signal"} {
		if err := n.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		n.line(t, answer)
	}
	n.end(t)
	gone(t, stopped, time.Second)
}
