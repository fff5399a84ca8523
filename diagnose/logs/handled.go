package logs

import (
	"bytes"
	"slices"
)

// handledForm is in the line next to the traceback of an error that the program handles: it has another way.
var handledForm = re(`(?i)\b(?:re-?tr(?:y|ies|ied|ying)|tr(?:y|ies|ying) (?:once more|again|another|the next)|` +
	`attempt \d|fall(?:s|ing)?[ -]?back|skip(?:s|ped|ping)|continu(?:e|es|ing)|ignor(?:e|es|ed|ing)|instead|` +
	`will be disabled)\b`)

// nearHandled is how many lines are between a traceback and that line, at most.
const nearHandled = 8

// announced says whether the line before the head of a traceback, of the same writer, says that the error is handled.
func (f *follower) announced(p *prefix) bool {
	before := bytes.TrimRight(f.chunk, "\r\n")
	const longest = 2000
	before = before[max(0, len(before)-longest):]
	last := strip(before[bytes.LastIndexByte(before, '\n')+1:])
	return bytes.Equal(last.label, p.label) && handledForm().Match(last.body) && !bareError(last.body)
}

// awaitsHandling notes an error whose next line may say that it is handled.
func (f *follower) awaitsHandling(st *stream, e *event) {
	if e != nil && e.cause.grade == failed {
		st.raised = e
		f.opens(st)
	}
}

// handling reads the first line of a stream after an error.
func (f *follower) handling(st *stream, body []byte) {
	if len(bytes.TrimSpace(body)) == 0 {
		return
	}
	e := st.raised
	st.raised = nil
	f.closes(st)
	e.handled = e.handled || f.lines-e.order <= nearHandled && handledForm().Match(body) && !bareError(body)
}

// outlived says whether an error that its program handled is not the one that ended the job: another one is later.
func outlived(e *event, live []*event) bool {
	if !e.handled {
		return false
	}
	for _, o := range live {
		if o.order > e.order && !o.handled && o.cause.grade < harmless {
			return true
		}
	}
	return false
}

// warnForm begins a warning of torch.
var warnForm = re(`^\[W\d* ?\d`)

// lesser returns the warnings among events, where they are no more than that: others have an error after them.
func lesser(live []*event) (out []*event) {
	for i, e := range live {
		if !e.warning() {
			continue
		}
		if !slices.ContainsFunc(live[i:], func(o *event) bool { return o.cause.grade > open && o.cause.grade < harmless }) {
			return nil
		}
		out = append(out, e)
	}
	return out
}

// warning says whether an event is no more than a warning, after which the library tries again.
func (e *event) warning() bool {
	const few = 10
	return e.cause.grade == open && e.cause.soft && e.lines <= few && warnForm().MatchString(e.text)
}
