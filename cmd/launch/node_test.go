package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/internal/process"
)

// limit is the time limit of a test that hangs; no test measures time.
const limit = 30 * time.Second

// launched returns launch as its own process: this test binary under that name.
func launched(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, exe)
	c.Args = append([]string{"launch"}, args...)
	c.Env = clean(os.Environ())
	return c
}

// clean removes the variables of other jobs.
func clean(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool {
		for _, p := range []string{"LAUNCH_", "SLURM_", "PET_", "JOB_", "RANK=", "WORLD_SIZE=", "MASTER_", "NODE_RANK="} {
			if strings.HasPrefix(kv, p) {
				return true
			}
		}
		return false
	})
}

// pair returns the arguments of a job of two nodes on this machine.
func pair(t *testing.T, command ...string) []string {
	return append([]string{"--store", "127.0.0.1:" + freePort(t), "--nnodes", "2", "--join-timeout", "20s"}, command...)
}

// node is one launch of a pair, whose output is read line by line.
type node struct {
	*exec.Cmd
	out   *bufio.Scanner
	seen  []string
	ended chan error
}

func begin(t *testing.T, args ...string) *node {
	t.Helper()
	return startIn(t, nil, args...)
}

// startIn is begin with more variables.
func startIn(t *testing.T, env []string, args ...string) *node {
	t.Helper()
	c := launched(t, args...)
	c.Env = append(c.Env, env...)
	r, w := io.Pipe()
	c.Stdout, c.Stderr = w, w
	n := &node{Cmd: c, out: bufio.NewScanner(r), ended: make(chan error, 1)}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { n.ended <- c.Wait(); w.Close() }()
	t.Cleanup(func() { _ = c.Process.Kill(); r.Close() })
	return n
}

// line reads until a line that contains text.
func (n *node) line(t *testing.T, text string) {
	t.Helper()
	for n.out.Scan() {
		n.seen = append(n.seen, n.out.Text())
		if strings.Contains(n.out.Text(), text) {
			return
		}
	}
	t.Fatalf("never printed %q; printed:\n%s", text, strings.Join(n.seen, "\n"))
}

// end waits for the end and returns the status as a shell reports it.
func (n *node) end(t *testing.T) int {
	t.Helper()
	go func() { // read on, so that no writer blocks
		for n.out.Scan() {
		}
	}()
	<-n.ended
	ws := n.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// companionOf returns the companion of a process, found by its pidfd.
func companionOf(pid int) int {
	infos, _ := filepath.Glob("/proc/[0-9]*/fdinfo/3")
	for _, f := range infos {
		b, _ := os.ReadFile(f)
		var at int
		fmt.Sscanf(f, "/proc/%d/", &at)
		if strings.Contains(string(b), fmt.Sprintf("\nPid:\t%d\n", pid)) && at != pid {
			return at
		}
	}
	return 0
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int, budget time.Duration) {
	t.Helper()
	for end := time.Now().Add(budget); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		stat, err := process.Read(pid)
		if err != nil || stat.State == 'Z' { // a zombie waits for pid 1, not for us
			return
		}
	}
	t.Errorf("process %d is still there after %s", pid, budget)
}

// running starts a pair whose commands print that they run, then sleep.
func running(t *testing.T) (a, b *node) {
	t.Helper()
	args := pair(t, "sh", "-c", "echo at work; exec sleep 60")
	a, b = begin(t, args...), begin(t, args...)
	a.line(t, "at work")
	b.line(t, "at work")
	return a, b
}
