package mpi

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/internal/pty"
	"launch/lab/netns"
)

// trial is one start: a rig, the line, and where it is typed.
type trial struct {
	*Rig
	t    *testing.T
	user string
	line []string
	env  []string
	tty  bool         // typed at a terminal, where ssh may ask
	said netns.Output // of the last run, also while it runs
}

// newTrial has the line of a healthy start on n hosts.
func newTrial(t *testing.T, mpi string, n int) *trial {
	t.Helper()
	tr := &trial{Rig: New(t, Find(t, mpi), n), t: t, user: User}
	tr.line = tr.Line(tr.Names()...)
	return tr
}

// names replaces the hosts of the line.
func (tr *trial) names(hosts ...string) { tr.line = tr.Line(hosts...) }

// outcome is what a start came to.
type outcome struct {
	Seconds float64
	Exit    int  // -1: a signal
	Cut     bool // it had not ended, and was killed
	Said    string
}

// run types the line on the head, after launch if that side is asked for, and waits for its end.
func (tr *trial) run(side string, limit time.Duration) outcome {
	tr.t.Helper()
	ctx, cancel := context.WithTimeout(tr.t.Context(), limit)
	defer cancel()
	return tr.runUntil(ctx, side)
}

// runUntil is run until a context ends.
func (tr *trial) runUntil(ctx context.Context, side string) outcome {
	tr.t.Helper()
	head := tr.Hosts[0]
	line := tr.line
	switch side {
	case launchSide:
		head.Install(tools.launch, "launch")
		line = append([]string{"launch"}, line...)
	case checkSide:
		head.Install(tools.launch, "launch")
		line = append([]string{"launch", "check", "--"}, line...)
	}
	cmd := head.As(ctx, tr.user, line...)
	cmd.Env = append(cmd.Env, tr.env...)
	tr.said = netns.Output{}
	said := &tr.said
	cmd.Stdout, cmd.Stderr = said, said
	read := func() {}
	if tr.tty {
		person, programs := pty.Open(tr.t)
		done := make(chan struct{})
		go func() { defer close(done); _, _ = io.Copy(said, person) }()
		read = func() { // the last words are still in the terminal
			_ = programs.Close()
			select {
			case <-done:
			case <-time.After(grace):
			}
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = programs, programs, programs
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	began := time.Now()
	err := cmd.Run()
	read()
	o := outcome{Seconds: time.Since(began).Seconds(), Cut: ctx.Err() != nil, Exit: cmd.ProcessState.ExitCode()}
	if err != nil && !o.Cut && !errors.As(err, new(*exec.ExitError)) && !errors.Is(err, exec.ErrWaitDelay) {
		tr.t.Fatal(err)
	}
	o.Said = strings.NewReplacer("\r\n", "\n", "\x00", "").Replace(said.String())
	return o
}

// remains returns files and processes of launch that are left on the hosts, after a while at most.
func (tr *trial) remains(while time.Duration) string {
	tr.t.Helper()
	left := ""
	for end := time.Now().Add(while); ; time.Sleep(200 * time.Millisecond) {
		left = ""
		for _, h := range tr.Hosts {
			left += h.left()
		}
		if left == "" || time.Now().After(end) {
			return left
		}
	}
}

// left returns what is left of launch on a host. Its own commands do not count.
func (h *Host) left() string {
	h.rig.t.Helper()
	out := ""
	for line := range strings.Lines(h.Sh("ps -eo args")) {
		if strings.Contains(line, "launch") && !strings.Contains(line, "<defunct>") {
			out += h.Name + " runs " + line
		}
	}
	const find = "find /tmp /var/tmp /dev/shm /root /home /run -name '*launch*' 2>/dev/null ||:"
	for line := range strings.Lines(h.Sh(find)) {
		out += h.Name + " has " + line
	}
	return out
}

// whole reports whether one world of n ranks had its allreduce, and no other world was there.
func (o outcome) whole(n int) bool {
	return strings.Contains(o.Said, worldOf(n)) && strings.Count(o.Said, "a world of ") == 1
}

func worldOf(n int) string {
	return "a world of " + itoa(n) + ": sum " + itoa(n) + "\n"
}

// useful returns the lines that are no frame and no empty line.
func (o outcome) useful() []string {
	return slices.DeleteFunc(strings.Split(o.Said, "\n"), func(l string) bool {
		return strings.Trim(l, "-=+ \t*@") == ""
	})
}

// record keeps an outcome for the table, in bin/mpibench.
func record(t *testing.T, name, mpi, side string, r result) {
	t.Helper()
	r.Case, r.MPI, r.Side = name, mpi, side
	if len(asked) == 0 {
		return
	}
	if err := os.MkdirAll(results(), 0o755); err != nil {
		t.Fatal(err)
	}
	r.write(t)
}
