package start

import (
	"testing"

	"launch/internal/finding"
	"launch/rendezvous"
)

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
