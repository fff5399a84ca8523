package logs

import (
	"regexp"
	"strings"
)

// cutOff is a traceback that a log ends in.
var cutOff = cause{
	id: unknownID, grade: unknown, soft: true,
	says: "the logs end in the middle of a traceback of {who}[, at {frame}][, in {inner}]: its error is missing",
	need: []string{"the output of all ranks, from the start of the job"},
}

// afterFrame is how many lines follow the last frame where a log ends in a traceback, at most.
const afterFrame = 3

// beheading is a traceback whose head a log lacks.
type beheading struct {
	st        *stream
	at, inner string
	line      int64 // of its last frame
}

// functionForm is a frame of a traceback, with its function.
var functionForm = regexp.MustCompile(`^\s+File "([^"]+)", line (\d+), in \S`)

// beheaded notes a frame outside of a traceback.
func (f *follower) beheaded(st *stream, body []byte) {
	m := functionForm.FindSubmatch(body)
	if m == nil {
		return
	}
	if f.beheading.st != st {
		f.beheading = beheading{st: st}
	}
	b := &f.beheading
	b.inner, b.line = packaged(string(m[1]))+":"+string(m[2]), f.line
	if !library.Match(m[1]) {
		b.at = base(string(m[1])) + ":" + string(m[2])
	}
}

// packaged returns a file with the folder of its package.
func packaged(path string) string {
	if _, file, ok := strings.Cut(path, "-packages/"); ok {
		return file
	}
	return base(path)
}

// unfinished notes the tracebacks in which the log that was read ends.
func (f *follower) unfinished() {
	for st := range f.busy {
		t := st.trace
		if t == nil || t.inner == "" && t.lines > 1 || t.of != nil || t.lines-t.framed > afterFrame {
			continue
		}
		frame := t.inner
		if t.at != "" {
			frame = t.at
		}
		f.cuts(st, map[string]string{"frame": frame})
	}
	other := f.last != nil && f.last.file == f.index
	if b := f.beheading; b.st != nil && f.line-b.line <= afterFrame && !other {
		f.cuts(b.st, map[string]string{"frame": b.at, "inner": b.inner})
	}
}

// cuts adds a traceback in which a log ends.
func (f *follower) cuts(st *stream, vals map[string]string) {
	f.current, f.chunk = nil, nil
	f.add(&cutOff, st, &prefix{rank: -1, local: -1, body: []byte(wordTrace)}, vals)
}
