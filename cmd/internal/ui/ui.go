// Package ui renders the values of the other packages: plain lines for people and logs, a live line on a terminal,
// JSON lines for machines. It decides nothing.
package ui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// Schema is the version of every JSON line that launch prints.
const Schema = 1

// UI writes data to Out, everything else to Err. Several goroutines may call its methods.
type UI struct {
	out      *sink
	err      io.Writer
	json     bool
	colour   bool
	width    int // columns of Err; 0: a log, lines are not wrapped
	outWidth int // columns of Out; the same
	live     bool
	host     string // of this node; "": not known

	mu     sync.Mutex
	status string // the live line that is on the screen
	job    string // "": not known
	rank   int    // of this node; -1: not known
	mixed  bool   // other nodes write to the same log
}

// Options control the rendering.
type Options struct {
	JSON bool
	Host string              // the name of this node
	Env  func(string) string // NO_COLOR, TERM
}

// New returns a UI. A terminal on errw gets colour (unless NO_COLOR is set or TERM=dumb) and a live line.
func New(out, errw io.Writer, o Options) *UI {
	u := &UI{out: &sink{to: out}, err: unblocked(errw), json: o.JSON, host: o.Host, rank: -1}
	u.width, u.outWidth = columns(errw), columns(out)
	u.live = u.width > 0 && o.Env("TERM") != "dumb"
	u.colour = u.live && o.Env("NO_COLOR") == ""
	return u
}

// columns returns the width of a terminal, 0 for anything else.
func columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil || n == 0 {
		return 80
	}
	return n
}

// Watched reports whether somebody reads along: the error output is a terminal.
func (u *UI) Watched() bool { return u.width > 0 }

// sink remembers the first error of a write: a full disk must not look like a short answer. When the reader has
// closed the pipe, SIGPIPE ends launch.
type sink struct {
	to  io.Writer
	mu  sync.Mutex
	err error
}

func (s *sink) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = cmp.Or(s.err, err)
	return n, err
}

// Unwritten returns the error that kept a part of the data from Out; nil: all data was written.
func (u *UI) Unwritten() error {
	u.out.mu.Lock()
	defer u.out.mu.Unlock()
	return u.out.err
}

// JSON reports whether the output is JSON lines.
func (u *UI) JSON() bool { return u.json }

// line writes a JSON line: its type, the version of the schema, and the fields of the value.
func (u *UI) line(w io.Writer, kind string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("ui: " + err.Error()) // own types: cannot fail
	}
	head := fmt.Sprintf(`{"type":%q,"schema":%d`, kind, Schema)
	if w == u.err {
		head += u.origin(b)
	}
	if s := printable(string(b)); len(s) > 2 && s[0] == '{' {
		fmt.Fprintf(w, "%s,%s\n", head, s[1:])
	} else {
		fmt.Fprintf(w, "%s,\"value\":%s}\n", head, s)
	}
}

// origin returns the fields that say when and where a line was printed, without those that the value has itself.
func (u *UI) origin(value []byte) (head string) {
	var own map[string]json.RawMessage
	_ = json.Unmarshal(value, &own) // of a list there are none
	add := func(name string, v any) {
		if _, has := own[name]; !has {
			text, _ := json.Marshal(v)
			head += fmt.Sprintf(",%q:%s", name, printable(string(text)))
		}
	}
	add("time", time.Now().Format(time.RFC3339Nano))
	if u.host != "" {
		add("host", u.host)
	}
	if u.job != "" {
		add("job", u.job)
	}
	if u.rank >= 0 {
		add("rank", u.rank)
	}
	return head
}

// Know sets the job and the node rank of JSON lines; -1: the rank is not known yet.
func (u *UI) Know(job string, rank int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.job, u.rank = job, rank
}

// Mix has each line of a log name this node, since a scheduler puts the lines of all nodes into one.
func (u *UI) Mix() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mixed = true
}

// from returns the node that each line of a shared log begins with; "": the log is this node's.
func (u *UI) from() string {
	if !u.mixed || u.width > 0 || u.host == "" {
		return ""
	}
	return visible(u.host) + ": "
}

// printable returns JSON in which what does not print, as a terminal's C1 codes and marks that reverse text,
// is escaped: encoding/json leaves it as it is.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Emit writes v as a JSON line: data, which the user asked for, to Out, else to Err. In text mode it does
// nothing.
func (u *UI) Emit(data bool, kind string, v any) {
	if !u.json {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	w := u.err
	if data {
		w = u.out
	}
	u.line(w, kind, v)
}

// Note writes one line for people.
func (u *UI) Note(format string, a ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	text := fmt.Sprintf(format, a...)
	if u.json {
		u.line(u.err, "note", map[string]string{"text": text})
		return
	}
	u.clear()
	u.print(u.err, "launch: "+u.from(), "        ", text)
	u.redraw()
}

// Status shows a line, on a terminal only, that the next one replaces; "" removes it.
func (u *UI) Status(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.live || u.json {
		return
	}
	u.clear()
	// some terminals begin a new line when the last column is used
	u.status = cut(visible(text), u.width-len("launch: ")-1)
	u.redraw()
}

// Clear empties the terminal, if Out is one, for a table that replaces the last one.
func (u *UI) Clear() {
	if u.outWidth > 0 && !u.json {
		u.Print("\x1b[H\x1b[2J")
	}
}

func (u *UI) clear() {
	if u.status != "" {
		fmt.Fprint(u.err, "\r\x1b[K")
	}
}

func (u *UI) redraw() {
	if u.status != "" {
		fmt.Fprint(u.err, "launch: "+u.status)
	}
}

// print writes text after a prefix, wrapped to the terminal; a log gets one line, which grep finds whole.
func (u *UI) print(w io.Writer, prefix, indent, text string) {
	width := u.width
	if w == u.out {
		width = u.outWidth
	}
	fmt.Fprintln(w, prefix+strings.Join(wrap(visible(text), width-len(indent)), "\n"+indent))
}

// prose matches a line of a fix that is a sentence and not a command to copy.
var prose = regexp.MustCompile(`^[^#]*(, | (an?|and|are|is|of|or|that|the|to|with) )`)

// fix writes what to do, the first line after a prefix and the others indented. A command is never broken.
func (u *UI) fix(w io.Writer, prefix, indent, text string) {
	if text == "" {
		return
	}
	for l := range strings.SplitSeq(text, "\n") {
		if prose.MatchString(l) {
			u.print(w, prefix, indent, l)
		} else {
			fmt.Fprintln(w, prefix+visible(l))
		}
		prefix = indent
	}
}

// visible returns text, which another node may have sent, on one line and without control characters.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
			b.WriteString("; ")
		case r == '\t':
			b.WriteByte(' ')
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// cut shortens text to width columns and shows that it did.
func cut(s string, width int) string { return text.Snip(s, max(width, 1), "…") }

// wrap breaks text at spaces into lines of at most width columns (under 20: no limit); a longer word remains
// whole.
func wrap(s string, width int) (lines []string) {
	if width < 20 || text.StringWidthWithoutEscSequences(s) <= width {
		return []string{s}
	}
	var run []string
	flush := func() {
		for l := range strings.Lines(text.WrapSoft(strings.Join(run, " "), width)) {
			lines = append(lines, strings.TrimRight(l, " \n"))
		}
		run = nil
	}
	for _, word := range strings.Fields(s) {
		if text.StringWidthWithoutEscSequences(word) > width {
			flush()
			lines = append(lines, word)
		} else {
			run = append(run, word)
		}
	}
	flush()
	return lines
}

// paint colours a text whose words carry the meaning without the colour, too.
func (u *UI) paint(code, s string) string {
	if !u.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
