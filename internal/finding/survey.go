package finding

import (
	"slices"
	"strings"
)

// Survey is what launch check has found, on one node or on all nodes of a job.
type Survey struct {
	Checks []string   `json:"checks"` // IDs, the columns of Cells
	Nodes  []Surveyed `json:"nodes"`  // in rank order
	Calls  []Called   `json:"calls,omitempty"`
	// NotJudged are the checks between nodes that the user of some node left out.
	NotJudged []string `json:"not_judged,omitempty"`
	Report    Report   `json:"-"` // what is printed: all of one node, or the merged warnings and failures of several
}

// Surveyed is one node of a survey.
type Surveyed struct {
	Rank  int    `json:"rank"`
	Name  string `json:"name"`
	Unfit bool   `json:"unfit,omitempty"`
	Cells Cells  `json:"cells"` // in the order of Survey.Checks
}

// Called is one call from one node to another.
type Called struct {
	From int    `json:"from"` // rank
	To   int    `json:"to"`
	Bad  string `json:"bad,omitempty"` // what was wrong; "": nothing
}

// Cells are the outcomes of the checks on one node; "" is a check that was not
// made. As text each is one letter: o, w, f, s, or -.
type Cells []Status

const cellLetters = "-owfs"

func cellStatuses() []Status { return []Status{"", Pass, Warn, Fail, Skip} }

// MarshalText writes the letters.
func (c Cells) MarshalText() ([]byte, error) {
	out := make([]byte, len(c))
	for i, s := range c {
		out[i] = cellLetters[max(0, slices.Index(cellStatuses(), s))]
	}
	return out, nil
}

// UnmarshalText reads the letters; an unknown one is a check that was not made.
func (c *Cells) UnmarshalText(text []byte) error {
	*c = make(Cells, len(text))
	for i, letter := range text {
		(*c)[i] = cellStatuses()[max(0, strings.IndexByte(cellLetters, letter))]
	}
	return nil
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

// Outcomes returns the gravest status for each ID of a report; a skip is graver than a pass.
func (r Report) Outcomes() map[string]Status {
	gravity := func(s Status) int { return slices.Index([]Status{Pass, Skip, Warn, Fail}, s) }
	out := map[string]Status{}
	for _, f := range r {
		if was, ok := out[f.ID]; !ok || gravity(f.Status) > gravity(was) {
			out[f.ID] = f.Status
		}
	}
	return out
}
