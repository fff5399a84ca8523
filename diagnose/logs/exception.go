package logs

import (
	"bytes"
	"strings"
	"unicode"
)

// exceptionName returns the name at the beginning of a line that a traceback ends with; "": it is no such line.
func exceptionName(body []byte) string {
	const most = 150
	at := 0
	for at < len(body) && at < most && nameByte(body[at]) {
		at++
	}
	name := body[:at]
	for at < len(body) && body[at] == '^' { // of a line that two processes wrote
		at++
	}
	switch rest := body[at:]; {
	case len(name) == 0 || digit(name[0]) || name[0] == '.':
		return ""
	case len(rest) == 0, string(rest) == ":", bytes.HasPrefix(rest, []byte(": ")):
		return string(name)
	}
	return ""
}

func nameByte(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || digit(c) || c == '_' || c == '.' }

// Names of the modules in which packages of Python have their exceptions.
const (
	dotErrors     = ".errors."
	dotExceptions = ".exceptions."
)

// bareError says whether a line is an exception with its text, though no traceback is before it.
func bareError(body []byte) bool {
	name := exceptionName(body)
	return (strings.HasSuffix(name, "Error") || strings.HasSuffix(name, "Exception") ||
		strings.Contains(name, dotErrors) || strings.Contains(name, dotExceptions)) && len(body) > len(name)
}

// unglog takes the prefix of a logger off a line of a traceback, so that it looks like one.
func (f *follower) unglog(st *stream, p *prefix) {
	const shortest = len("E0102 10:00:00 a:1] ")
	if len(p.body) < shortest || p.body[0] < 'C' || p.body[0] > 'W' || !digit(p.body[1]) && !digit(p.body[2]) {
		return
	}
	m := glogPrefix.Find(p.body)
	if m == nil {
		return
	}
	if rest := p.body[len(m):]; st.trace != nil || bareError(rest) || bytes.HasPrefix(rest, []byte(wordTrace)) {
		p.body = rest
	}
}

// awaits notes an error whose text begins on the next line.
func (f *follower) awaits(st *stream, e *event) {
	if e != nil && e.lines == 1 && strings.HasSuffix(strings.TrimSpace(e.text), ":") {
		st.pending = e
		f.opens(st)
	}
}

// message adds the first line of the text to the error that waits for it.
func (f *follower) message(st *stream, body []byte) {
	const near = 6
	text := bytes.TrimSpace(body)
	if e := st.pending; f.lines-e.order <= near {
		if !bytes.ContainsFunc(text, unicode.IsLetter) || bytes.HasSuffix(text, []byte("root error(s) found.")) {
			return
		}
		e.text = strings.TrimSpace(e.text) + " " + string(bytes.ToValidUTF8(text[:min(len(text), maxQuote)], []byte("?")))
	}
	st.pending = nil
	f.closes(st)
}

// ownErrors are errors of programs, whatever their text says.
var ownErrors = []string{
	"ImportError", "ModuleNotFoundError", "FileNotFoundError", "SyntaxError", "NameError", "AttributeError", "TypeError",
	"KeyError", "IndexError", "IndentationError", "ZeroDivisionError", "UnboundLocalError", "PermissionError",
	"NotADirectoryError", "IsADirectoryError",
}

// outsideWords are words of errors that may come from elsewhere.
var outsideWords = []string{
	"timeout", "timed out", "connect", "socket", "nccl", "cuda", "network", "store", "rendezvous", "gloo", "mpi ", "mpi_",
	"initializ", "initialis", "unreachable", "refused", "ucx", "internal error", "terminated", "died", "unavailable",
	"grpc", "rpc", "broken pipe", "subprocess", "child process", "worker", "inner error", "generic failure",
	"unknown error", "unspecified", "deadline",
}

// ofException returns the cause for an exception that the table does not know.
func (f *follower) ofException(body []byte) *cause {
	name := exceptionName(body)
	for _, own := range ownErrors {
		if name == own {
			return &rankFailed
		}
	}
	if len(f.outside.find(bytes.ToLower(body[:min(len(body), maxQuote)]), nil)) > 0 {
		return &unexplained
	}
	return &rankFailed
}

var rankFailed = cause{
	id: "rank.failed", grade: failed,
	says: "{who} failed first: {error}{at}",
	do:   "fix this error; the failures of the other ranks follow from it",
}

// bareCauses are exceptions that have no text: their name alone is on the line.
var bareCauses = []cause{{
	id: rankFailed.id, grade: rankFailed.grade, words: []string{"AssertionError", "NotImplementedError"},
	form: re(`^(?:AssertionError|NotImplementedError):?\s*$`),
	says: rankFailed.says, do: rankFailed.do,
}}

var unexplained = cause{
	id: "log.unexplained", grade: open,
	says: "{who} failed first: {error}{at}; the log does not say why",
	need: []string{"the output of all ranks, from the start of the job", "a run with NCCL_DEBUG=INFO"},
}
