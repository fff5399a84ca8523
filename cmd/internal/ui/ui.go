// Package ui renders values from the other rooms: plain lines for people and
// logs, a live line on a terminal, JSON lines for machines. It decides
// nothing.
package ui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Schema is the version of every JSON line that launch prints.
const Schema = 1

// UI writes what launch has to say. Data goes to Out, everything else to Err.
// Its methods may be called from several goroutines.
type UI struct {
	out      *sink
	err      io.Writer
	json     bool
	colour   bool
	width    int // columns of Err; 0: a log, lines are not wrapped
	outWidth int // columns of Out; the same
	live     bool

	mu     sync.Mutex
	status string // the live line that is on the screen
}

// Options say how to render.
type Options struct {
	JSON bool
	Env  func(string) string // NO_COLOR, TERM
}

// New makes a UI for two writers; a terminal on errw gets colour (unless
// NO_COLOR or TERM=dumb) and a live line for long waits.
func New(out, errw io.Writer, o Options) *UI {
	u := &UI{out: &sink{to: out}, err: errw, json: o.JSON}
	u.width, u.outWidth = columns(errw), columns(out)
	u.live = u.width > 0 && o.Env("TERM") != "dumb"
	u.colour = u.live && o.Env("NO_COLOR") == ""
	return u
}

// columns is the width of a terminal, 0 for anything else.
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

// sink keeps why data could not be written: a full disk must not look like a
// short answer. A reader that is gone ends launch by SIGPIPE.
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

// Unwritten is why a part of the data did not get to Out; nil: all did.
func (u *UI) Unwritten() error {
	u.out.mu.Lock()
	defer u.out.mu.Unlock()
	return u.out.err
}

// JSON tells whether machines read along.
func (u *UI) JSON() bool { return u.json }

// line writes a JSON line: its type, the schema's version, and the value's fields.
func (u *UI) line(w io.Writer, kind string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("ui: " + err.Error()) // own types: cannot fail
	}
	head := fmt.Sprintf(`{"type":%q,"schema":%d`, kind, Schema)
	if s := string(b); len(s) > 2 && s[0] == '{' {
		fmt.Fprintf(w, "%s,%s\n", head, s[1:])
	} else {
		fmt.Fprintf(w, "%s,\"value\":%s}\n", head, s)
	}
}

// Emit writes v as a JSON line of a type: to stdout where it is what was asked
// for (data), else to stderr. It does nothing in text mode.
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

// Note says one line to people.
func (u *UI) Note(format string, a ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	text := fmt.Sprintf(format, a...)
	if u.json {
		u.line(u.err, "note", map[string]string{"text": text})
		return
	}
	u.clear()
	u.print(u.err, "launch: ", "        ", text)
	u.redraw()
}

// Status shows a line that the next one replaces; on anything but a terminal
// it shows nothing. An empty one removes it.
func (u *UI) Status(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.live || u.json {
		return
	}
	u.clear()
	u.status = cut(visible(text), u.width-len("launch: ")-1) // in the last column some terminals begin a new line
	u.redraw()
}

// Clear empties a terminal that data goes to, for a table that is printed anew;
// what is no terminal keeps all of them.
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

// print writes text behind a prefix, wrapped to the terminal with the
// following lines indented. A log gets one line: it wraps by itself, and grep
// finds it whole.
func (u *UI) print(w io.Writer, prefix, indent, text string) {
	width := u.width
	if w == u.out {
		width = u.outWidth
	}
	fmt.Fprintln(w, prefix+strings.Join(wrap(visible(text), width-len(indent)), "\n"+indent))
}

// visible is text without what a terminal would obey or not show: another node
// may have sent it. Parts of it that stood on lines of their own become one.
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
func cut(text string, width int) string {
	if r := []rune(text); len(r) > width {
		return string(r[:max(0, width-1)]) + "…"
	}
	return text
}

// wrap breaks text at spaces into lines of at most width columns; a width
// under 20 means no limit.
func wrap(text string, width int) []string {
	if width < 20 || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, w := range strings.Split(text, " ") {
		switch {
		case line == "":
			line = w
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > width:
			lines = append(lines, line)
			line = w
		default:
			line += " " + w
		}
	}
	return append(lines, line)
}

// paint colours a word; the word itself carries the meaning.
func (u *UI) paint(code, s string) string {
	if !u.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
