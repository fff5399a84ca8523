package ui

import (
	"fmt"
	"io"
	"strings"
	"time"

	"launch/internal/finding"
)

var colours = map[finding.Status]string{finding.Pass: "32", finding.Warn: "33", finding.Fail: "31", finding.Skip: "2"}

// Findings prints a report: all of it, or only what is wrong.
func (u *UI) Findings(r finding.Report, all bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clear()
	defer u.redraw()
	for _, f := range r {
		if !all && f.Status != finding.Fail && f.Status != finding.Warn {
			continue
		}
		if u.json {
			u.line(u.err, "finding", f)
			continue
		}
		u.finding(u.err, f)
	}
}

// finding is one row in fixed columns, with what it breaks and what to do
// below it.
func (u *UI) finding(w io.Writer, f finding.Finding) {
	const indent = "             " // below the ID
	head := fmt.Sprintf("launch: %s %-16s", u.paint(colours[f.Status], fmt.Sprintf("%-4s", f.Status)), f.ID)
	if len(f.ID) > 15 {
		head += " "
	}
	u.print(w, head, strings.Repeat(" ", 30), f.What)
	if f.Status == finding.Pass || f.Status == finding.Skip {
		return
	}
	for _, s := range f.Seen {
		u.print(w, indent+"seen    ", indent+"        ", s.Where+": "+s.What)
	}
	if f.Breaks != "" {
		u.print(w, indent+"breaks  ", indent+"        ", f.Breaks)
	}
	if f.Fix != "" {
		for i, l := range strings.Split(f.Fix, "\n") {
			label := "fix     "
			if i > 0 {
				label = "        "
			}
			u.print(w, indent+label, indent+"        ", l)
		}
	}
}

// Summary is the report's last line.
func Summary(r finding.Report, took time.Duration) string {
	n := map[finding.Status]int{}
	for _, f := range r {
		n[f.Status]++
	}
	var parts []string
	for _, p := range []struct {
		s    finding.Status
		word string
	}{{finding.Fail, "failed"}, {finding.Warn, "to look at"}, {finding.Skip, "skipped"}, {finding.Pass, "ok"}} {
		if n[p.s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[p.s], p.word))
		}
	}
	return fmt.Sprintf("%s in %s", strings.Join(parts, ", "), round(took))
}

// Report writes a whole report as data.
func (u *UI) Report(r finding.Report, took time.Duration) {
	if u.json {
		for _, f := range r {
			u.Emit(true, "finding", f)
		}
		u.Emit(true, "summary", map[string]any{"worst": r.Worst(), "seconds": took.Seconds()})
		return
	}
	for _, f := range r {
		u.finding(u.out, f)
	}
	fmt.Fprintln(u.out, "launch: "+Summary(r, took))
}

// Failure is why launch ends without becoming the command.
type Failure struct {
	Code int    `json:"code"` // exit status
	What string `json:"what"`
	Fix  string `json:"fix,omitempty"`
}

// Fail says why launch ends.
func (u *UI) Fail(f Failure) {
	u.Status("")
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.json {
		u.line(u.err, "error", f)
		return
	}
	u.print(u.err, "launch: "+u.paint("31", "error: "), "               ", f.What)
	for _, l := range lines(f.Fix) {
		u.print(u.err, "launch: hint:  ", "               ", l)
	}
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// round keeps a duration readable: two or three digits.
func round(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Print writes data.
func (u *UI) Print(s string) { _, _ = io.WriteString(u.out, s) }
