package logs

import (
	"bytes"
	"slices"
)

// handledForm is in the line next to the traceback of an error that the program handles: it has another way.
var handledForm = re(`(?i)\b(?:(?:re-?)?trying|(?:will|to) (?:re-?try|try again|fall back)|trie[sd] again|` +
	`falling back|skipping|ignoring|continuing without)\b`)

// nearHandled is how many lines are between a traceback and that line, at most.
const nearHandled = 8

// announced says whether the line before the head of a traceback, of the same writer, says that the error is handled.
func (f *follower) announced(p *prefix) bool {
	before := bytes.TrimRight(f.chunk, "\r\n")
	const longest = 2000
	before = before[max(0, len(before)-longest):]
	last := strip(before[bytes.LastIndexByte(before, '\n')+1:])
	return bytes.Equal(last.label, p.label) && handledForm().Match(last.body)
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

// outlived says whether an error that its program handled is not the one that ended the job: another one is later. The
// end of a process, or what others lose by it, does not count: it may follow from this error.
func outlived(e *event, live []*event) bool {
	return e.handled && slices.ContainsFunc(live, func(o *event) bool {
		return o.order > e.order && o.cause.grade <= waits && !o.warning()
	})
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
	return e.cause.grade == open && e.cause.soft && e.lines <= few && e.mild
}

// follows says whether a process crashed, or one that no line names was killed, shortly after an error: the end follows
// from that. A library reports an error before it crashes, and a launcher kills what an error has left.
func follows(end *event, live []*event) bool {
	const near = 200
	crash := end.cause.id == exitCrash.id && end.cause.wraps
	killed := end.cause.id == exitKilled.id && end.rank < 0 && end.local < 0 && end.node == ""
	return (crash || killed) && slices.ContainsFunc(live, func(e *event) bool {
		if e.file != end.file || e.order >= end.order || end.order-e.order >= near {
			return false
		}
		if crash {
			return e.cause.grade == open && !e.warning()
		}
		return e.isError() && e.cause.id != "log.nccl-warn" &&
			(e.cause.grade == open || e.cause.grade == waits || e.cause.id == "log.wrapper")
	})
}

// errorForm is how torch, NCCL and SGLang write what they report as an error.
var errorForm = re(`^\[E\d* ?\d|\bNCCL WARN |\bReceived sigquit from a child process`)

// isError says whether an event is an error by the form of its line, and not for its words alone.
func (e *event) isError() bool {
	text := []byte(e.text)
	return e.trace || bareError(text) || errorForm().Match(text)
}
