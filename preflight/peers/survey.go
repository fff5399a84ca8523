package peers

import (
	"slices"
	"strings"

	"launch/internal/finding"
	"launch/preflight"
)

// Survey is the result of launch check, of one node or of all nodes of a job.
type Survey struct {
	Checks []string   `json:"checks"` // IDs, the columns of Cells
	Nodes  []Surveyed `json:"nodes"`  // in rank order
	Calls  []Called   `json:"calls,omitempty"`
	// NotJudged are the checks between nodes that the user of some node switched off.
	NotJudged []string       `json:"not_judged,omitempty"`
	Report    finding.Report `json:"-"` // to print: everything of one node, or what is wrong on several, merged
}

// Surveyed is one node.
type Surveyed struct {
	Rank  int    `json:"rank"`
	Name  string `json:"name"`
	Unfit bool   `json:"unfit,omitempty"`
	Cells Cells  `json:"cells"` // in the order of Survey.Checks
}

// Called is a call from one node to another.
type Called struct {
	From int    `json:"from"` // rank
	To   int    `json:"to"`
	Bad  string `json:"bad,omitempty"` // what was wrong, or ""
}

// Cells are the outcomes of checks on one node; "" means that the node did not make the
// check. As text each is one letter: o, w, f, s, or -.
type Cells []finding.Status

const cellLetters = "-owfs"

func cellStatuses() []finding.Status {
	return []finding.Status{"", finding.Pass, finding.Warn, finding.Fail, finding.Skip}
}

// MarshalText writes the letters.
func (c Cells) MarshalText() ([]byte, error) {
	out := make([]byte, len(c))
	for i, s := range c {
		out[i] = cellLetters[max(0, slices.Index(cellStatuses(), s))]
	}
	return out, nil
}

// UnmarshalText reads the letters; an unknown one is a check that the node did not make.
func (c *Cells) UnmarshalText(text []byte) error {
	*c = make(Cells, len(text))
	for i, letter := range text {
		(*c)[i] = cellStatuses()[max(0, strings.IndexByte(cellLetters, letter))]
	}
	return nil
}

// Outcomes returns the gravest status for each ID of a report.
func Outcomes(r finding.Report) map[string]finding.Status {
	out := map[string]finding.Status{}
	for _, f := range r {
		if was, ok := out[f.ID]; !ok || preflight.Gravity(f.Status) > preflight.Gravity(was) {
			out[f.ID] = f.Status
		}
	}
	return out
}

// maxCalls is the number of calls in a survey: a picture cannot show more, and all nodes
// read it. Failed calls are first.
const maxCalls = 512

// NewSurvey returns the survey of the nodes' posts, in rank order, and of the decision.
// The table gives the order of the checks.
func NewSurvey(posts []Post, d Decision, table []preflight.Check) Survey {
	s := Survey{Checks: columns(posts, table)}
	for _, p := range posts {
		s.NotJudged = append(s.NotJudged, p.Skip...)
		n := Surveyed{Rank: p.Rank, Name: p.Name, Unfit: slices.Contains(d.Unfit, p.Rank) || len(p.Local.Failed()) > 0}
		for _, id := range s.Checks {
			n.Cells = append(n.Cells, p.Outcomes[id])
		}
		s.Nodes = append(s.Nodes, n)
	}
	slices.Sort(s.NotJudged)
	s.NotJudged = slices.Compact(s.NotJudged)
	for _, wrong := range []bool{true, false} {
		for _, e := range edges(posts) {
			if bad := e.call.bad(); (bad != "") == wrong && len(s.Calls) < maxCalls {
				s.Calls = append(s.Calls, Called{e.from.Rank, e.to.Rank, bad})
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

// bad describes what was wrong with a call.
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

// Unfit returns the names of the unfit nodes.
func (s Survey) Unfit() []string {
	var out []string
	for _, n := range s.Nodes {
		if n.Unfit {
			out = append(out, n.Name)
		}
	}
	return out
}

// All returns the findings of single nodes and between nodes, the failures first.
func (d Decision) All() finding.Report {
	all := slices.Concat(d.Nodes, d.Findings)
	slices.SortStableFunc(all, func(a, b finding.Finding) int {
		return preflight.Gravity(b.Status) - preflight.Gravity(a.Status)
	})
	return all
}
