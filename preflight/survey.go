package preflight

import (
	"slices"
	"strings"

	"launch/internal/finding"
)

// maxCalls is how many calls a survey holds: more than that nobody sees in a
// picture, and all nodes read it. Those that failed come first.
const maxCalls = 512

// Compare makes a survey of what the nodes, in rank order, posted and of what
// was decided.
func Compare(posts []Post, d Decision) finding.Survey {
	s := finding.Survey{Checks: columns(posts)}
	for _, p := range posts {
		s.NotJudged = append(s.NotJudged, p.Skip...)
		n := finding.Surveyed{Rank: p.Rank, Name: p.Name, Unfit: slices.Contains(d.Unfit, p.Rank) || len(p.Local.Failed()) > 0}
		var cells strings.Builder
		for _, id := range s.Checks {
			cells.WriteByte(finding.Cell(p.Outcomes[id]))
		}
		n.Cells = cells.String()
		s.Nodes = append(s.Nodes, n)
	}
	slices.Sort(s.NotJudged)
	s.NotJudged = slices.Compact(s.NotJudged)
	for _, wrong := range []bool{true, false} {
		for _, e := range edges(posts) {
			if bad := e.call.bad(); (bad != "") == wrong && len(s.Calls) < maxCalls {
				s.Calls = append(s.Calls, finding.Called{From: e.from.Rank, To: e.to.Rank, Bad: bad})
			}
		}
	}
	return s
}

// columns are the checks that some node has made, in the order of the table,
// with those that are not in it behind.
func columns(posts []Post) []string {
	made := map[string]bool{}
	for _, p := range posts {
		for id := range p.Outcomes {
			made[id] = true
		}
	}
	var out, more []string
	for _, c := range Checks() {
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

// bad is what was wrong with a call, in a word or two.
func (c Call) bad() string {
	switch {
	case c.Cause != "":
		return string(c.Cause)
	case c.Other != "":
		return "another node answers"
	case c.Stall != "":
		return "long messages stall"
	case c.Hole:
		return "full packets vanish"
	}
	return ""
}

// Titles returns what each check asks, by the check's ID.
func Titles() map[string]string {
	out := map[string]string{}
	for _, c := range slices.Concat(Checks(), PeerChecks(), RateChecks()) {
		out[c.ID] = c.Title
	}
	return out
}

// All is what several nodes found: on themselves and beside each other, the
// failures first.
func (d Decision) All() finding.Report {
	all := slices.Concat(d.Nodes, d.Findings)
	slices.SortStableFunc(all, func(a, b finding.Finding) int { return counts(b.Status) - counts(a.Status) })
	return all
}
