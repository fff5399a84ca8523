package ui

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"launch/internal/exit"
	"launch/internal/finding"
)

var colours = map[finding.Status]string{finding.Pass: "32", finding.Warn: "33", finding.Fail: "31", finding.Skip: "2"}

// Findings writes a report to Err: all of it, or only warnings and failures.
func (u *UI) Findings(r finding.Report, all bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clear()
	defer u.redraw()
	if !all {
		r = slices.DeleteFunc(slices.Clone(r), func(f finding.Finding) bool {
			return f.Status != finding.Fail && f.Status != finding.Warn
		})
	}
	if u.json {
		for _, f := range r {
			u.line(u.err, "finding", f)
		}
		return
	}
	u.findings(u.err, r)
}

func (u *UI) findings(w io.Writer, r finding.Report) {
	wide := idWidth(r)
	for _, f := range r {
		u.finding(w, f, wide)
	}
}

// idWidth returns the width of the column of IDs.
func idWidth(r finding.Report) int {
	wide := 14 // fits most IDs, so that reports line up
	for _, f := range r {
		wide = max(wide, len(f.ID))
	}
	return wide
}

// finding writes one row in columns, below it the evidence, what the job loses, and what to do.
func (u *UI) finding(w io.Writer, f finding.Finding, wide int) {
	const indent = "             " // below the ID
	id := fmt.Sprintf("%-*s  ", wide, visible(f.ID))
	head := "launch: " + u.paint(colours[f.Status], fmt.Sprintf("%-4s", visible(string(f.Status)))) + " " + id
	if w == u.err {
		head += u.from()
	}
	u.print(w, head, indent+strings.Repeat(" ", len(id)), f.What)
	if f.Status == finding.Pass || f.Status == finding.Skip {
		return
	}
	if w == u.err && u.width == 0 {
		u.details(w, f, id)
		return
	}
	for _, s := range f.Seen {
		u.print(w, indent+"seen    ", indent+"        ", s.Where+": "+s.What)
	}
	if f.Breaks != "" {
		u.print(w, indent+"breaks  ", indent+"        ", f.Breaks)
	}
	u.fix(w, indent+"fix     ", indent+"        ", f.Fix)
}

// details writes the lines below a finding for a log, where lines of other nodes may be in between: each has the ID and
// the node.
func (u *UI) details(w io.Writer, f finding.Finding, id string) {
	from := "launch:      " + id
	if u.host != "" {
		from += visible(u.host) + "  "
	}
	for _, s := range f.Seen {
		fmt.Fprintln(w, from+"seen    "+visible(s.Where+": "+s.What))
	}
	if f.Breaks != "" {
		fmt.Fprintln(w, from+"breaks  "+visible(f.Breaks))
	}
	word := "fix     "
	for l := range strings.Lines(f.Fix) {
		fmt.Fprintln(w, from+word+visible(strings.TrimSuffix(l, "\n")))
		word = "        "
	}
}

// Summary returns the last line of a report.
func Summary(r finding.Report, took time.Duration) string {
	n := map[finding.Status]int{}
	for _, f := range r {
		n[f.Status]++
	}
	var parts []string
	for _, p := range []struct {
		s    finding.Status
		word string
	}{{finding.Fail, "failed"}, {finding.Warn, "warned"}, {finding.Skip, "skipped"}, {finding.Pass, "ok"}} {
		if n[p.s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[p.s], p.word))
		}
	}
	if len(parts) == 0 {
		parts = []string{"no check ran"}
	}
	return fmt.Sprintf("%s in %s", strings.Join(parts, ", "), round(took))
}

// Report writes all of a report, as data.
func (u *UI) Report(r finding.Report, took time.Duration) {
	if u.json {
		for _, f := range r {
			u.Emit(true, "finding", f)
		}
		u.Emit(true, "summary", map[string]any{"worst": r.Worst(), "seconds": took.Seconds()})
		return
	}
	looked, skipped := apart(r)
	u.findings(u.out, looked)
	for _, s := range skipped {
		u.print(u.out, "launch: "+u.paint(colours[finding.Skip], "skip")+" ", "             ", s.What+": "+s.ID)
	}
	fmt.Fprintln(u.out, "launch: "+Summary(r, took))
}

// apart returns a report without the skips that share a reason, and these in one row for each reason.
func apart(r finding.Report) (looked, skipped finding.Report) {
	same := map[string]int{}
	for _, f := range r {
		if f.Status == finding.Skip {
			same[f.What]++
		}
	}
	for _, f := range r {
		if f.Status != finding.Skip || same[f.What] == 1 {
			looked = append(looked, f)
			continue
		}
		i := slices.IndexFunc(skipped, func(s finding.Finding) bool { return s.What == f.What })
		if i < 0 {
			skipped = append(skipped, f)
		} else {
			skipped[i].ID += ", " + f.ID
		}
	}
	return looked, skipped
}

// Fail writes why launch ends, and what to do.
func (u *UI) Fail(f exit.Error) {
	u.Status("")
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.json {
		u.line(u.err, "error", f)
		return
	}
	u.print(u.err, "launch: "+u.paint("31", "error: ")+u.from(), "               ", f.What)
	for l := range strings.SplitSeq(f.Fix, "\n") {
		u.fix(u.err, "launch: hint:  "+u.from(), "               ", l)
	}
}

// round returns a duration with two or three digits.
func round(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Print writes data as it is.
func (u *UI) Print(s string) { _, _ = io.WriteString(u.out, s) }
