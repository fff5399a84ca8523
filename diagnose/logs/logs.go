// Package logs reads the logs of a distributed job that failed or hangs. It finds which rank failed
// first, with which error, and the cause as far as the logs decide it.
package logs

import (
	"io"
	"slices"
	"time"

	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// Reading is what the logs say.
type Reading struct {
	// Verdicts are the causes that the logs decide, the first failure first.
	Verdicts []verdict.Verdict `json:"verdicts,omitempty"`
	// Open are failures whose cause the logs do not decide.
	Open []Lead `json:"open,omitempty"`
	// First is the first failure; nil: the logs have none.
	First *Failure `json:"first,omitempty"`
	// Cascade counts the failures that follow from the first one.
	Cascade []Count `json:"cascade,omitempty"`
	// Passed are lines that look like failures, after which the program gave its results; where there is no failure.
	Passed []Failure `json:"passed,omitempty"`
	// Retried are lines that look like failures, after which the program tries again; where there is no failure.
	Retried []Failure `json:"retried,omitempty"`
	// Warned are warnings after which programs go on; where there is no failure.
	Warned []Lead `json:"warned,omitempty"`
	// Moved says whether a line shows steps of a job, or that it ended well.
	Moved bool  `json:"moved"`
	Files int   `json:"files"`
	Lines int64 `json:"lines"`
	Bytes int64 `json:"bytes"` // unpacked
	Gaps  []Gap `json:"gaps,omitempty"`
}

// Lead is a failure with several possible causes, and what to gather to decide between them.
type Lead struct {
	Family string         `json:"family"` // ID, as "log.rdma-timeout"
	Says   string         `json:"says"`
	Ranks  []int          `json:"ranks,omitempty"`
	Nodes  []string       `json:"nodes,omitempty"`
	Seen   []finding.Seen `json:"seen,omitempty"`
	Need   []string       `json:"need,omitempty"`
}

// Failure is one failure of one process.
type Failure struct {
	Rank    int       `json:"rank"`  // -1: the log does not name it
	Local   int       `json:"local"` // local rank; -1: the log does not name it
	Node    string    `json:"node,omitempty"`
	Error   string    `json:"error"`        // the line, without its prefix
	At      string    `json:"at,omitempty"` // the innermost line of the program: file:line
	Where   string    `json:"where"`        // log:line
	Time    time.Time `json:"time,omitzero"`
	Undated bool      `json:"undated,omitempty"` // no time of the log has a year; Time has the year of the file
	Cause   string    `json:"cause"`             // ID of the table of causes
}

// Count is how often one kind of consequence is in the logs.
type Count struct {
	Kind  string `json:"kind"` // ID of the table of causes
	Says  string `json:"says"`
	Lines int    `json:"lines"`
	Ranks []int  `json:"ranks,omitempty"`
}

// Gap is a log that was not read, or not to its end.
type Gap struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Need returns what to gather where the logs do not decide, without repetitions.
func (r Reading) Need() []string {
	var out []string
	seen := map[string]bool{}
	for _, o := range r.Open {
		for _, n := range o.Need {
			if !seen[n] {
				seen[n] = true
				out = append(out, n)
			}
		}
	}
	return out
}

// Read reads logs: files, also gzipped ones, directories with all logs below them, and "-" for stdin.
// A log that cannot be read is a gap; no readable log at all is an error.
func Read(stdin io.Reader, paths ...string) (Reading, error) {
	return ReadBut(func(string) bool { return false }, stdin, paths...)
}

// ReadBut reads logs as Read does, without the files that are to be skipped.
func ReadBut(skip func(path string) bool, stdin io.Reader, paths ...string) (Reading, error) {
	found, gaps, err := gather(paths)
	if err != nil {
		return Reading{}, err
	}
	found = slices.DeleteFunc(found, func(s source) bool { return skip(s.path) })
	f := newFollower()
	f.gaps = gaps
	for _, s := range found {
		f.readSource(s, stdin)
	}
	if f.files == 0 {
		return Reading{}, noneReadable(f.gaps)
	}
	r := f.judge()
	f.own.conclude(&r)
	return r, nil
}
