package start

import (
	"errors"
	"strings"
	"testing"
	"time"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/rendezvous"
)

func TestANodeThatWaitedForAnotherStartEndsWithWhatItSaw(t *testing.T) {
	own := job.Store{Embedded: true, Host: "host0", Port: 29377, Endpoints: []string{"host0:29377"}}
	etcd := job.Store{Endpoints: []string{"http://host0:2379"}}
	for name, tc := range map[string]struct {
		store job.Store
		ended bool
		code  int
		want  []string
	}{
		"its store has ended": {own, true, exit.Unreachable, []string{"the store at host0:29377 has ended", "(host1, host0)",
			"start launch with the same line"}},
		"it still runs": {own, false, exit.Missing, []string{"still runs on host1, host0", "--nnodes 3",
			"--store host0:29378"}},
		"it still runs, over an etcd": {etcd, false, exit.Missing, []string{"still runs on host1, host0", "--job"}},
	} {
		s := &Start{Opt: &Options{JoinTimeout: 40 * time.Second}}
		s.Job.Store.V = tc.store
		m := &rendezvous.MissingError{Running: "host1, host0", Ended: tc.ended}
		m.Want = 2
		var e *exit.Error
		if !errors.As(s.missing(m), &e) || e.Code != tc.code {
			t.Fatalf("%s: got %+v", name, e)
		}
		for _, w := range tc.want {
			if !strings.Contains(e.What+"\n"+e.Fix, w) {
				t.Errorf("%s: got %q, %q; want %q", name, e.What, e.Fix, w)
			}
		}
		if tc.store.Embedded && strings.Contains(e.Fix, "--job") {
			t.Errorf("%s: an embedded store is its job's alone: %q", name, e.Fix)
		}
	}
}

func TestTheOthersLearnWhyThisNodeIsUnfit(t *testing.T) {
	self := rendezvous.Member{Index: -1, Host: "b"}
	of := func(what string, nodes ...string) finding.Finding { return finding.Failf("%s", what).About(nodes) }
	for name, tc := range map[string]struct {
		peer, local finding.Report
		want        string
	}{
		"a finding about it":      {finding.Report{of("a is slow", "a"), of("b is cut", "b")}, nil, "it is unfit: b is cut"},
		"one that names no node":  {finding.Report{of("all are cut")}, nil, "it is unfit: all are cut"},
		"its own":                 {nil, finding.Report{of("no space")}, "it is unfit: no space"},
		"a warning is no failure": {finding.Report{finding.Warnf("slow")}, nil, "it is unfit"},
	} {
		s := &Start{}
		s.World = &rendezvous.World{Self: self}
		s.Peer, s.Local = tc.peer, tc.local
		if got := s.unfitBy(); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
