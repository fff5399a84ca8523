package start

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"launch/cmd/internal/storeaddr"
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

// What the missing nodes have said decides what to do, and where it explains all, nothing else is proposed.
func TestTheHintOfAMissingNodeFollowsFromWhyItLeft(t *testing.T) {
	left := func(why string) rendezvous.Attendance {
		return rendezvous.Attendance{Left: []rendezvous.Member{{Index: -1, Host: "host2", Left: why}}}
	}
	noted := rendezvous.Attendance{Unfit: []rendezvous.Note{{Name: "host2", Text: "no script"}}}
	other := left("it was refused: it has --nnodes 4, this job has 3")
	const again, fixed = "start launch with the same line", "fix the unfit node, then start"
	for name, tc := range map[string]struct {
		a          rendezvous.Attendance
		joined     int
		fix, never string
		generic    bool // what to do where the reason is not known is proposed, too
	}{
		"nothing is known":        {rendezvous.Attendance{}, 2, again, "unfit", true},
		"it left as unfit":        {left("it is unfit"), 2, fixed, "--nnodes", false},
		"with a reason":           {left("it is unfit: no space"), 2, fixed, "--nnodes", false},
		"it could not register":   {noted, 2, fixed, "--nnodes", false},
		"another one is missing":  {left("it is unfit"), 1, "fix the unfit node; start launch", "--nnodes", true},
		"another number of nodes": {other, 2, "same --nnodes", "unfit", false},
		"it was interrupted":      {left("it was ended by SIGINT"), 2, again, "unfit", true},
	} {
		s := &Start{Opt: &Options{JoinTimeout: time.Minute}, store: &storeaddr.Place{Serve: make([]netip.AddrPort, 1)}}
		s.Job.Store.V = job.Store{Embedded: true, Host: "host0"}
		tc.a.Joined, tc.a.Want = tc.joined, 3
		var e *exit.Error
		if !errors.As(s.missing(&rendezvous.MissingError{Attendance: tc.a}), &e) {
			t.Fatal(name)
		}
		has := func(text string) bool { return strings.Contains(e.Fix, text) }
		if !has(tc.fix) || has(tc.never) || has("raise --join-timeout") != tc.generic || has("getent hosts") != tc.generic {
			t.Errorf("%s: %q", name, e.Fix)
		}
	}
}
