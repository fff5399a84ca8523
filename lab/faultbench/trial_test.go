package faultbench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"launch/lab/netns"
)

const (
	// joinTimeout is the --join-timeout of the nodes, and patience the time after
	// which the bench kills them: more than any limit of launch's own.
	joinTimeout = 25 * time.Second
	patience    = 60 * time.Second
)

// trial is one start on a few hosts.
type trial struct {
	t     *testing.T
	lab   *netns.Lab
	hosts []*host
	sick  *host       // the host to be named; the last one unless the fault changes it
	store string      // --store; "": host0
	extra *netns.Host // a host outside the job

	observable time.Time // since when the cause is visible; zero: the last start
}

// host is one host of a trial, with its command line.
type host struct {
	*netns.Host
	flags  []string // of launch
	line   []string // the command; nil: the default
	env    []string
	late   time.Duration
	wrap   []string // before launch itself
	launch string   // another launch
	absent bool     // nothing starts there
	killed bool     // by the fault itself

	mu     sync.Mutex
	lines  []line
	out    output // the ranks' own
	begun  time.Time
	ended  time.Time
	status int
}

// output is what the ranks write, and when they began.
type output struct {
	strings.Builder
	first time.Time
}

func (o *output) Write(p []byte) (int, error) {
	if o.first.IsZero() {
		o.first = time.Now()
	}
	return o.Builder.Write(p)
}

// line is one line of launch's stderr, with its time.
type line struct {
	at   time.Time
	text string
	said said
}

// said is what the bench reads of a JSON line (docs/json.md).
type said struct {
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

// about returns the text that may name a host. An index is the number in a host's
// name.
func (s said) about() string {
	text := s.What + s.Text + s.Member.Addr
	for _, i := range s.Attendance.Missing {
		text += fmt.Sprintf(" host%d", i)
	}
	return text
}

// newTrial returns n hosts, the first of which hosts the store.
func newTrial(t *testing.T, n int) *trial {
	t.Helper()
	tr := &trial{t: t, lab: netns.New(t, n+1)}
	tr.extra = tr.lab.Hosts[n]
	for _, h := range tr.lab.Hosts[:n] {
		tr.hosts = append(tr.hosts, &host{Host: h})
	}
	tr.sick = tr.hosts[n-1]
	return tr
}

// each calls f for all hosts.
func (tr *trial) each(f func(*host)) {
	for _, h := range tr.hosts {
		f(h)
	}
}

// run starts the line on every host and waits until all have ended, at most for
// patience.
func (tr *trial) run() {
	tr.t.Helper()
	tr.runEach(patience, tr.typed)
}

// runEach is run with what typed returns for each host.
func (tr *trial) runEach(patience time.Duration, typed func(*host) (env, argv []string)) {
	tr.t.Helper()
	var wg sync.WaitGroup
	for _, h := range tr.hosts {
		if h.absent {
			h.status = -1
			continue
		}
		wg.Go(func() {
			if h.late > 0 {
				select {
				case <-time.After(h.late):
				case <-tr.t.Context().Done():
				}
			}
			env, argv := typed(h)
			tr.exec(h, patience, env, argv...)
		})
	}
	wg.Wait()
	if tr.observable.IsZero() {
		for _, h := range tr.hosts {
			if h.begun.After(tr.observable) {
				tr.observable = h.begun
			}
		}
	}
}

// typed returns the environment and the command line of a host.
func (tr *trial) typed(h *host) (env, argv []string) {
	command := h.line
	if command == nil {
		command = []string{"torchrun", "--nnodes", fmt.Sprint(len(tr.hosts)), "--nproc-per-node", "2", tools.script}
	}
	store := cmp.Or(tr.store, "host0")
	argv = slices.Concat(h.wrap, []string{cmp.Or(h.launch, tools.launch), "--store", store, "--join-timeout",
		joinTimeout.String(), "--fail-fast"}, h.flags, command)
	return slices.Concat([]string{"PATH=" + tools.fake + ":" + os.Getenv("PATH")}, h.env), argv
}

// exec runs a command on a host until it ends, at most for patience.
func (tr *trial) exec(h *host, patience time.Duration, env []string, argv ...string) {
	cmd := h.Command(tr.t.Context(), argv...)
	cmd.Env = slices.Concat(cmd.Env, []string{"OMP_NUM_THREADS=1", "LAUNCH_JSON=1"}, env)
	cmd.Stdout, cmd.Stderr = &h.out, &stamped{host: h}
	h.begun = time.Now()
	if err := cmd.Start(); err != nil {
		tr.t.Error(err)
		return
	}
	late := time.AfterFunc(patience, func() { _ = h.Signal(syscall.SIGKILL) })
	err := cmd.Wait()
	late.Stop()
	h.ended = time.Now()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		tr.t.Errorf("%s: %v", h.Name, err)
	}
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if h.status = ws.ExitStatus(); ws.Signaled() {
		h.status = 128 + int(ws.Signal())
	}
}

// stamped collects the lines of a host with their times.
type stamped struct {
	host *host
	rest string
}

func (s *stamped) Write(p []byte) (int, error) {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.rest += string(p)
	for {
		text, more, whole := strings.Cut(s.rest, "\n")
		if !whole {
			return len(p), nil
		}
		l := line{at: time.Now(), text: text}
		_ = json.Unmarshal([]byte(text), &l.said) // lines of a rank are not JSON
		s.host.lines, s.rest = append(s.host.lines, l), more
	}
}

// printed returns what all hosts printed, for a failed trial.
func (tr *trial) printed() string {
	var b strings.Builder
	for _, h := range tr.hosts {
		fmt.Fprintf(&b, "%s (%s): exit %d after %s\n", h.Name, h.Addr, h.status, h.ended.Sub(h.begun).
			Round(10*time.Millisecond))
		for _, l := range h.lines {
			fmt.Fprintf(&b, "   %6.2f  %.300s\n", l.at.Sub(h.begun).Seconds(), l.text)
		}
	}
	return b.String()
}
