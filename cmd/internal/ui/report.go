package ui

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
)

// Checked is the outcome of one launch check.
type Checked struct {
	finding.Survey
	Outcome
	Own   finding.Report // all findings of this node
	Peers []string       // IDs of the checks between nodes
	Bench *Benched       // nil: nothing was measured
}

// Outcome is what a check and a bench have in common.
type Outcome struct {
	Self    int    // this node's rank
	Job     string // identity of the job; "": this node alone, or two nodes by hand
	Node    fabric.Node
	Titles  map[string]string // what each check asks, by ID
	Version string
	At      time.Time
	Took    time.Duration
}

// self returns the row of this node.
func (c Checked) self() finding.Surveyed {
	for _, n := range c.Nodes {
		if n.Rank == c.Self {
			return n
		}
	}
	return finding.Surveyed{Name: c.Node.Hostname}
}

// Sentence returns the outcome in one line.
func (c Checked) Sentence() string {
	unfit := c.Unfit()
	switch {
	case len(c.Nodes) < 2 && len(unfit) > 0:
		return "this node is unfit"
	case len(c.Nodes) < 2:
		return "this node is fit"
	case len(unfit) == 0:
		return fmt.Sprintf("all %d nodes are fit", len(c.Nodes))
	case len(unfit) == len(c.Nodes):
		return fmt.Sprintf("all %d nodes are unfit", len(c.Nodes))
	}
	return fmt.Sprintf("%d of %d nodes unfit: %s", len(unfit), len(c.Nodes), Names(unfit, len(unfit)))
}

// Survey writes what the nodes of a job found, as data. Every node writes the same.
func (u *UI) Survey(c Checked) {
	if u.json {
		for _, f := range c.Report {
			u.Emit(true, "finding", f)
		}
		u.Emit(true, "survey", c.Survey)
		if c.Bench != nil {
			u.bandwidth(true, *c.Bench)
		}
		u.Emit(true, "summary", summary{c.Report.Worst(), c.Took.Seconds(), len(c.Nodes), c.Unfit()})
		return
	}
	u.findings(u.out, c.Report)
	if c.Bench != nil {
		u.Print(c.Bench.text())
	}
	u.Print("launch: " + visible(c.Sentence()) + "; " + c.summary() + "\n")
}

// summary returns how many checks failed and warned, and how long they took.
func (c Checked) summary() string {
	if len(c.Report) == 0 {
		return "no warning or failure in " + round(c.Took)
	}
	return Summary(c.Report, c.Took)
}

// summary is the last JSON line of launch check.
type summary struct {
	Worst   finding.Status `json:"worst"`
	Seconds float64        `json:"seconds"`
	Nodes   int            `json:"nodes"`
	Unfit   []string       `json:"unfit,omitempty"`
}

// facts returns this node as launch fabric prints it.
func (c Checked) facts() string {
	var b bytes.Buffer
	u := New(&b, io.Discard, Options{Env: func(string) string { return "" }})
	u.Fabric(c.Node, rail.Of(c.Node, c.Node.Route.Src))
	return strings.TrimSpace(b.String())
}
