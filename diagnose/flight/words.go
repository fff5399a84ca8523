package flight

import (
	"fmt"
	"maps"
	"slices"

	"launch/diagnose/verdict"
	"launch/internal/finding"
)

func rankList(ranks []int) string {
	return finding.Noun(len(ranks), "rank") + " " + verdict.Spans(ranks)
}

func has(ranks []int) string {
	if len(ranks) == 1 {
		return rankList(ranks) + " has"
	}
	return rankList(ranks) + " have"
}

func does(ranks []int) string {
	if len(ranks) == 1 {
		return rankList(ranks) + " does"
	}
	return rankList(ranks) + " do"
}

func waitIn(ranks []int) string {
	if len(ranks) == 1 {
		return rankList(ranks) + " waits"
	}
	return rankList(ranks) + " wait"
}

// tensors returns sizes and types for people: "[8] Float".
func (e *Entry) tensors() string {
	t := e.In
	if t == nil || e.kind() == "scatter" {
		t = e.Out
	}
	if t == nil {
		return "no tensors"
	}
	text := ""
	for i, size := range t.Sizes {
		if i == 3 {
			text += fmt.Sprintf(" and %d more", len(t.Sizes)-i)
			break
		}
		text += fmt.Sprint(size)
	}
	for _, one := range t.types() {
		text += " " + one
	}
	return text
}

// seen returns the last operation of a few ranks as evidence.
func (g *group) seen(ranks []int) (out []finding.Seen) {
	for _, r := range ranks[:min(len(ranks), 2)] {
		m := g.members[r]
		if m == nil {
			continue
		}
		where, last := m.dump.Path, g.newest(m)
		if last == nil {
			out = append(out, finding.Seen{Where: where, What: fmt.Sprintf("rank %d has called nothing in %s", r,
				g.title())})
			continue
		}
		out = append(out, finding.Seen{Where: where, What: fmt.Sprintf("rank %d: last call %s", r, last.text())})
	}
	return out
}

// calls returns what a few ranks have called as a number.
func (g *group) calls(seq int64, ranks []int) (out []finding.Seen) {
	for _, r := range ranks[:min(len(ranks), 2)] {
		m := g.members[r]
		for _, e := range m.seqs[seq][:1] {
			out = append(out, finding.Seen{Where: m.dump.Path, What: fmt.Sprintf("rank %d: %s", r, e.text())})
		}
	}
	return out
}

func (g *group) newest(m *member) (last *Entry) {
	for _, e := range slices.Concat(m.p2p, slices.Concat(slices.Collect(maps.Values(m.seqs))...)) {
		if last == nil || e.Record > last.Record {
			last = e
		}
	}
	return last
}

// text returns an operation for people: "all_reduce #3, [8] Float, completed, at train.py:18".
func (e *Entry) text() string {
	text := e.Op
	if !e.IsP2P {
		text += fmt.Sprintf(" #%d", e.Seq)
	}
	if e.In != nil || e.Out != nil {
		text += ", " + e.tensors()
	}
	switch {
	case e.finished():
		text += ", ended"
	case e.State == "started":
		text += ", started"
	default:
		text += ", not ended"
	}
	if e.At != "" {
		text += ", at " + e.At
	}
	return text
}
