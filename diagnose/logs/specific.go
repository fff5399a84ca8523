package logs

import (
	"bytes"
	"unicode"
)

// closeBy is how many lines apart a summary and the line with its reason are, at most.
const closeBy = 12

var (
	reasonWords = re(`(?i)\b(?:not (?:be )?(?:found|loaded|enough|supported|detected|available|accessible)|` +
		`not (?:be )?(?:installed|running|permitted|allowed|set)|no such|denied|exceed(?:s|ed|ing)?|insufficient|missing|` +
		`unsupported|mismatch|expected|expects|invalid|out of (?:range|memory|space)|` +
		`(?:unable to|cannot) (?:open|find|load|resolve|read))\b`)
	reasonValue  = re(`/[\w.-]+/[\w.-]|['"][^'"]{2,}['"]|\b[A-Z_]{6,}=|\b\d+ (?:of|vs|and|!=|<|>) \d|= ?\d`)
	summaryWords = re(`(?i)\binternal error\b|\bfailed\.?\s*$|\bexiting\b|\babort(?:ed|ing)?\b|\bterminat\w+|` +
		`\bnon-?zero\b|\bexit(?:ed)? (?:code|status)\b|\berror code\b|\breturn(?:ed)? code\b|\bstack ?trace\b|` +
		`\bsee (?:the )?(?:above|log|error)`)
)

// specific says how much of a reason a line has: more than 0, or less where it only sums up.
func specific(line []byte) (score int) {
	if reasonWords().Match(line) {
		score += 2
	}
	if reasonValue().Match(line) {
		score++
	}
	if summaryWords().Match(line) {
		score -= 2
	}
	return score
}

// saysMore says whether a later line of an event's kind, close to it, is the one to quote: it has the reason.
func (f *follower) saysMore(e, later *event, body []byte) bool {
	switch {
	case f.lines-e.order > closeBy:
		return false
	case e.cause.grade == unknown:
		return specific(body) > max(0, specific([]byte(e.text)))
	}
	return e.cause.grade == open && e.vals["why"] == "" && later.vals["why"] != ""
}

// reasonFirst returns events with the one in front that has more of a reason than the first one, and is close to it.
func reasonFirst(some, more []*event) []*event {
	if len(some) == 0 {
		return some
	}
	top, best := some[0], some[0]
	for _, e := range append(some[1:len(some):len(some)], more...) {
		if e.file == top.file && max(e.order-top.order, top.order-e.order) <= closeBy &&
			specific([]byte(e.text)) > max(0, specific([]byte(best.text))) {
			best = e
		}
	}
	if best == top {
		return some
	}
	out := []*event{best}
	for _, e := range some {
		if e != best {
			out = append(out, e)
		}
	}
	return out
}

// wordLastError announces NCCL's last error on the next line.
const wordLastError = "Last error:"

// lastErrors notes that the next line of a stream is NCCL's last error.
func (f *follower) lastErrors(st *stream, body []byte) {
	if bytes.HasSuffix(bytes.TrimSpace(body), []byte(wordLastError)) {
		st.lastError = f.lines
		f.opens(st)
	}
}

// afterLastError returns the cause of the line after "Last error:", which is one that NCCL writes as a warning, too.
func (f *follower) afterLastError(st *stream, p *prefix, found *cause, vals map[string]string) (*cause,
	map[string]string) {
	const near = 12
	if st.lastError == 0 || len(bytes.TrimSpace(p.body)) == 0 && f.lines-st.lastError <= near {
		return found, vals
	}
	late := f.lines-st.lastError > near
	st.lastError = 0
	f.closes(st)
	if late || found != nil && found.grade < unknown || bareError(p.body) || bytes.HasPrefix(p.body, []byte(wordTrace)) {
		return found, vals
	}
	warning := *p
	warning.body = append([]byte("NCCL WARN "), p.body...)
	f.hits = f.scan.find(warning.body, f.hits[:0])
	return f.match(&warning)
}

// continues adds the second line of an error's text to the error: it is indented, and has a number.
func (f *follower) continues(line []byte) {
	e := f.last
	if e == nil || f.lines != e.order+1 || e.file != f.index || e.cause.grade != failed && e.cause != &unexplained ||
		len(e.text) > maxQuote/2 {
		return
	}
	p := f.strip(line)
	if st := f.streams[streamKey{f.index, string(p.label)}]; st != e.st || st.pending != nil || len(p.body) == 0 ||
		p.body[0] != ' ' && p.body[0] != '\t' {
		return
	}
	text := bytes.TrimSpace(p.body)
	if !bytes.ContainsFunc(text, unicode.IsDigit) || !bytes.ContainsFunc(text, unicode.IsLetter) ||
		frameForm.Match(p.body) {
		return
	}
	e.text += " " + quote(text)
}
