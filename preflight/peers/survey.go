package peers

import (
	"slices"

	"launch/internal/finding"
	"launch/preflight"
)

// maxCalls is the number of calls in a survey: a picture cannot show more, and all nodes
// read it. Failed calls are first.
const maxCalls = 512

// NewSurvey returns the survey of the nodes' posts, in rank order, and of the decision.
// The table gives the order of the checks.
func NewSurvey(posts []Post, d Decision, table []preflight.Check) finding.Survey {
	s := finding.Survey{Checks: columns(posts, table)}
	for _, p := range posts {
		s.NotJudged = append(s.NotJudged, p.Skip...)
		n := finding.Surveyed{Rank: p.Rank, Name: p.Name, Unfit: slices.Contains(d.Unfit, p.Rank) ||
			len(p.Local.Failed()) > 0}
		for _, id := range s.Checks {
			n.Cells = append(n.Cells, p.Outcomes[id])
		}
		s.Nodes = append(s.Nodes, n)
	}
	slices.Sort(s.NotJudged)
	s.NotJudged = slices.Compact(s.NotJudged)
	for _, wrong := range []bool{true, false} {
		for _, e := range edges(posts) {
			if bad := e.call.Bad(); (bad != "") == wrong && len(s.Calls) < maxCalls {
				s.Calls = append(s.Calls, finding.Called{From: e.from.Rank, To: e.to.Rank, Bad: bad})
			}
		}
	}
	return s
}

// columns returns the checks that some node made, in the order of the table and with
// those that are not in it at the end.
func columns(posts []Post, table []preflight.Check) []string {
	made := map[string]bool{}
	for _, p := range posts {
		for id := range p.Outcomes {
			made[id] = true
		}
	}
	var out, more []string
	for _, c := range table {
		if made[c.ID] {
			out = append(out, c.ID)
			delete(made, c.ID)
		}
	}
	for id := range made {
		more = append(more, id)
	}
	slices.Sort(more)
	return append(out, more...)
}

// All returns the findings of single nodes and between nodes, the failures first.
func (d Decision) All() finding.Report {
	all := slices.Concat(d.Nodes, d.Findings)
	slices.SortStableFunc(all, func(a, b finding.Finding) int {
		return preflight.Gravity(b.Status) - preflight.Gravity(a.Status)
	})
	return all
}
