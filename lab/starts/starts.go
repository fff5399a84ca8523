// Package starts runs one command on a host of the laboratory and notes what it prints, when, and
// how it ends.
package starts

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"launch/lab/netns"
)

// Start is one command on one host.
type Start struct {
	Out    Output // its stdout
	Begun  time.Time
	Ended  time.Time
	Status int // 128 and more: the signal that ended it

	mu    sync.Mutex
	lines []Line
}

// Output is what the ranks write, and when they began.
type Output struct {
	netns.Output
	mu    sync.Mutex
	first time.Time
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	if o.first.IsZero() {
		o.first = time.Now()
	}
	o.mu.Unlock()
	return o.Output.Write(p)
}

// First returns the time of the first byte; zero: there is none.
func (o *Output) First() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.first
}

// Line is one line of stderr, with its time.
type Line struct {
	At   time.Time
	Text string
	Said Said
}

// Said is what the benches read of a JSON line of launch (docs/json.md).
type Said struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Status string `json:"status"`
	What   string `json:"what"`
	Text   string `json:"text"`
	Kind   string `json:"kind"`

	Attendance struct {
		Missing []int `json:"missing"`
	} `json:"attendance"`
	Member struct {
		Addr string `json:"addr"`
	} `json:"member"`
	Code int `json:"code"`
}

// About returns the text that may name a host. An index is the number in a host's
// name.
func (s Said) About() string {
	text := s.What + s.Text + s.Member.Addr
	for _, i := range s.Attendance.Missing {
		text += fmt.Sprintf(" host%d", i)
	}
	return text
}

// Exec runs a command on a host until it ends; after patience all processes of the host are killed.
func (s *Start) Exec(t testing.TB, h *netns.Host, patience time.Duration, env []string, argv ...string) {
	cmd := h.Command(t.Context(), argv...)
	cmd.Env = slices.Concat(cmd.Env, []string{"OMP_NUM_THREADS=1", "LAUNCH_JSON=1"}, env)
	cmd.Stdout, cmd.Stderr = &s.Out, &stamped{start: s}
	s.Begun = time.Now()
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	late := time.AfterFunc(patience, func() { _ = h.Signal(syscall.SIGKILL) })
	err := cmd.Wait()
	late.Stop()
	s.Ended = time.Now()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Errorf("%s: %v", h.Name, err)
	}
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if s.Status = ws.ExitStatus(); ws.Signaled() {
		s.Status = 128 + int(ws.Signal())
	}
}

// Lines returns what was printed on stderr until now.
func (s *Start) Lines() []Line {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

// Note adds a line, as if the command had printed it.
func (s *Start) Note(l Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, l)
}

// Printed returns how the command ended and what it printed on stderr.
func (s *Start) Printed() string {
	var b strings.Builder
	fmt.Fprintf(&b, "exit %d after %s\n", s.Status, s.Ended.Sub(s.Begun).Round(10*time.Millisecond))
	for _, l := range s.Lines() {
		fmt.Fprintf(&b, "   %6.2f  %.300s\n", l.At.Sub(s.Begun).Seconds(), l.Text)
	}
	return b.String()
}

// stamped collects the lines of a start with their times.
type stamped struct {
	start *Start
	rest  string
}

func (s *stamped) Write(p []byte) (int, error) {
	s.start.mu.Lock()
	defer s.start.mu.Unlock()
	s.rest += string(p)
	for {
		text, more, whole := strings.Cut(s.rest, "\n")
		if !whole {
			return len(p), nil
		}
		l := Line{At: time.Now(), Text: text}
		_ = json.Unmarshal([]byte(text), &l.Said) // lines of a rank are not JSON
		s.start.lines, s.rest = append(s.start.lines, l), more
	}
}
