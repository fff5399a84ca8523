// Package finding holds the types that all packages share: a Finding is one verdict, Seen is one
// piece of evidence. It knows no device, no protocol and no output format.
package finding

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"launch/internal/setting"
)

// Status is the outcome of one check. "Could not tell" is Skip, never Pass.
type Status string

const (
	Pass Status = "ok"   // checked and found right
	Warn Status = "warn" // works, or may work, but costs something
	Fail Status = "fail" // the job would hang or die of it
	Skip Status = "skip" // not checked; What is the reason
)

// Seen is one piece of evidence.
type Seen = setting.Seen

// Finding is the verdict of one check on one node.
type Finding struct {
	ID     string `json:"id"` // stable, dotted: "limits.memlock"; never reused
	Status Status `json:"status"`
	What   string `json:"what"`             // one line: what was seen; for Skip: the reason
	Breaks string `json:"breaks,omitempty"` // what fails in the job
	Fix    string `json:"fix,omitempty"`    // one thing to do, ready to paste
	Seen   []Seen `json:"seen,omitempty"`
	// Nodes are the names of the nodes that a finding between nodes is about, at most MaxNodes; nil: all of them, or
	// the node that prints it.
	Nodes []string `json:"nodes,omitempty"`
}

// MaxNodes limits Finding.Nodes.
const MaxNodes = 16

// About sets the nodes.
func (f Finding) About(names []string) Finding { f.Nodes = names[:min(len(names), MaxNodes)]; return f }

// Passf, Warnf, Failf and Skipf make a Finding without an ID: the table of checks adds it.
func Passf(format string, a ...any) Finding { return newf(Pass, format, a) }

// Warnf makes a warning; see Passf.
func Warnf(format string, a ...any) Finding { return newf(Warn, format, a) }

// Failf makes a failure; see Passf.
func Failf(format string, a ...any) Finding { return newf(Fail, format, a) }

// Skipf makes a skip whose text is the reason; see Passf.
func Skipf(format string, a ...any) Finding { return newf(Skip, format, a) }

func newf(s Status, format string, a []any) Finding {
	return Finding{Status: s, What: fmt.Sprintf(format, a...)}
}

// Named sets the ID.
func (f Finding) Named(id string) Finding { f.ID = id; return f }

// See adds a piece of evidence.
func (f Finding) See(where, format string, a ...any) Finding {
	f.Seen = append(f.Seen[:len(f.Seen):len(f.Seen)], Seen{Where: where, What: fmt.Sprintf(format, a...)})
	return f
}

// Breaking sets what fails in the job.
func (f Finding) Breaking(format string, a ...any) Finding {
	f.Breaks = fmt.Sprintf(format, a...)
	return f
}

// Do sets the one thing to do.
func (f Finding) Do(format string, a ...any) Finding {
	f.Fix = fmt.Sprintf(format, a...)
	return f
}

// Report is the findings of one node, in the order of the table of checks.
type Report []Finding

// Worst returns the worst status in the report: Fail, Warn, Pass, else Skip.
func (r Report) Worst() Status {
	for _, s := range []Status{Fail, Warn, Pass} {
		if slices.ContainsFunc(r, func(f Finding) bool { return f.Status == s }) {
			return s
		}
	}
	return Skip
}

// Failed returns the failures of the report.
func (r Report) Failed() []Finding {
	return slices.DeleteFunc(slices.Clone(r), func(f Finding) bool { return f.Status != Fail })
}

// Plural returns a number with the right noun: "1 node", "2 nodes".
func Plural(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Speed returns a speed in bytes per second as text.
func Speed(v float64) string {
	switch {
	case v >= 99.5e9:
		return fmt.Sprintf("%.0f GB/s", v/1e9)
	case v >= 1e9:
		return fmt.Sprintf("%.1f GB/s", v/1e9)
	case v >= 0.1e9:
		return fmt.Sprintf("%.2f GB/s", v/1e9)
	}
	return fmt.Sprintf("%.4f GB/s", v/1e9)
}

// Some returns a list of names that is cut after a few.
func Some(names []string) string {
	const few = 4
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// Skips returns a single skip.
func Skips(why string) []Finding { return []Finding{Skipf("%s", why)} }

// FailOr returns a failure where the job would certainly die, else a warning.
func FailOr(certain bool, format string, a ...any) Finding {
	if certain {
		return Failf(format, a...)
	}
	return Warnf(format, a...)
}

// Noun returns the form of a noun that fits a number.
func Noun(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// Count returns a number with its noun.
func Count(n int, word string) string { return fmt.Sprintf("%d %s", n, Noun(n, word)) }

// Size returns a number of bytes with a binary unit and few digits.
func Size(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, u := float64(n), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	if f == math.Trunc(f) || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[u])
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}

// MaxSeen limits the evidence of a finding that several devices or nodes share.
const MaxSeen = 6

// Micros returns a latency as text.
func Micros(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d.Nanoseconds())/1e3) }

// Map returns f of each element.
func Map[T, U any](all []T, f func(T) U) (out []U) {
	for _, v := range all {
		out = append(out, f(v))
	}
	return out
}

// Join returns the texts of all, separated by commas.
func Join[T any](all []T, text func(T) string) string { return strings.Join(Map(all, text), ", ") }

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
