package peers

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/preflight"
	"launch/preflight/calls"
)

// cells reads outcomes from their letters.
func cells(t *testing.T, letters string) (c finding.Cells) {
	t.Helper()
	if err := c.UnmarshalText([]byte(letters)); err != nil {
		t.Fatal(err)
	}
	if text, err := c.MarshalText(); err != nil || string(text) != letters {
		t.Errorf("%q is %q as text (%v)", letters, text, err)
	}
	return c
}

func TestASurveyIsWhatAllNodesFound(t *testing.T) {
	own := func(fs ...finding.Finding) (out finding.Report) { return fs }
	posts := []Post{
		{Rank: 0, Name: "a", Calls: []calls.Call{{To: 1}, {To: 2, Cause: sidechannel.Refused}}},
		{Rank: 1, Name: "b", Calls: []calls.Call{{To: 2, Stall: "there"}}, Skip: []string{"same.nccl"}},
		{Rank: 2, Name: "c", Calls: []calls.Call{{To: 9}}, Skip: []string{"same.nccl", "peer.clock"}},
	}
	for i, r := range []finding.Report{
		own(finding.Passf("").Named("shm.size"), finding.Warnf("").Named("user.z"), finding.Passf("").Named("command.found")),
		own(finding.Passf("").Named("env.x"), finding.Failf("").Named("env.x"), finding.Skipf("").
			Named("shm.size"), finding.Passf("").Named("command.found")),
		own(finding.Skipf("").Named("command.found")),
	} {
		posts[i].Outcomes, posts[i].Local = r.Outcomes(), Problems(r)
	}
	got := NewSurvey(posts, Decision{Unfit: []int{2}}, []preflight.Check{{ID: "command.found"}, {ID: "shm.size"}})
	want := finding.Survey{
		Checks: []string{"command.found", "shm.size", "env.x", "user.z"},
		Nodes: []finding.Surveyed{
			{Rank: 0, Name: "a", Cells: cells(t, "oo-w")},
			{Rank: 1, Name: "b", Cells: cells(t, "osf-"), Unfit: true}, // by its own check
			{Rank: 2, Name: "c", Cells: cells(t, "s---"), Unfit: true}, // by the others
		},
		Calls: []finding.Called{{From: 0, To: 2, Bad: "refused"}, {From: 1, To: 2, Bad: "long messages stall"},
			{From: 0, To: 1}},
		NotJudged: []string{"peer.clock", "same.nccl"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b", "c"}, got.Unfit()); diff != "" {
		t.Errorf("unfit (-want +got):\n%s", diff)
	}
}

func TestASurveyOfManyNodesKeepsTheCallsThatFailed(t *testing.T) {
	var posts []Post
	for r := range 1000 {
		p := Post{Rank: r, Name: fmt.Sprint("n", r), Calls: []calls.Call{{To: (r + 1) % 1000}}}
		if r >= 990 {
			p.Calls[0].Cause = sidechannel.Dropped
		}
		posts = append(posts, p)
	}
	s := NewSurvey(posts, Decision{}, nil)
	if len(s.Calls) != maxCalls || s.Calls[9].Bad != "dropped" || s.Calls[10].Bad != "" {
		t.Errorf("%d calls, %+v", len(s.Calls), s.Calls[:min(12, len(s.Calls))])
	}
}

func TestFailuresComeFirst(t *testing.T) {
	d := Decision{Nodes: finding.Report{finding.Warnf("").Named("a"), finding.Failf("").Named("b")},
		Findings: finding.Report{finding.Failf("").Named("c"), finding.Skipf("").Named("d"), finding.Warnf("").Named("e")}}
	var got []string
	for _, f := range d.All() {
		got = append(got, f.ID)
	}
	if diff := cmp.Diff([]string{"b", "c", "a", "e", "d"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
