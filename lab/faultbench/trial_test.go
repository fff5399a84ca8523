package faultbench

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"launch/lab/netns"
	"launch/lab/starts"
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
	starts.Start
	flags  []string // of launch
	line   []string // the command; nil: the default
	env    []string
	late   time.Duration
	wrap   []string // before launch itself
	launch string   // another launch
	absent bool     // nothing starts there
	killed bool     // by the fault itself

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
			h.Status = -1
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
			h.Exec(tr.t, h.Host, patience, env, argv...)
		})
	}
	wg.Wait()
	if tr.observable.IsZero() {
		for _, h := range tr.hosts {
			if h.Begun.After(tr.observable) {
				tr.observable = h.Begun
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

// printed returns what all hosts printed, for a failed trial.
func (tr *trial) printed() string {
	var b strings.Builder
	for _, h := range tr.hosts {
		fmt.Fprintf(&b, "%s (%s): %s", h.Name, h.Addr, h.Printed())
	}
	return b.String()
}
