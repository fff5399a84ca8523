package flight

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"launch/diagnose/verdict"
	"launch/internal/finding"
)

const (
	maxVerdicts = 3
	maxSeen     = 6
)

// wait is that ranks wait in an operation for others, which have not called it.
type wait struct {
	g     *group
	seq   int64 // 0: a receive
	entry *Entry
	here  []int // the ranks that wait
	late  []int
	sure  verdict.Sure
	note  string // why it is not certain
	// absent are late ranks without a dump.
	absent bool
}

// Missing returns the ranks that the dumps name, and of which there is none.
func (s Set) Missing() (out []int) {
	var dumps []*Dump
	for i := range s.Dumps {
		dumps = append(dumps, &s.Dumps[i])
	}
	for _, g := range groupsOf(dumps) {
		out = append(out, g.missing()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Judge says which rank has not joined a collective, or calls another one; nothing where the dumps do not show it.
func (s Set) Judge() []verdict.Verdict {
	var dumps []*Dump
	for i := range s.Dumps {
		dumps = append(dumps, &s.Dumps[i])
	}
	var out []verdict.Verdict
	var waits []wait
	differ := map[int]bool{}
	for _, g := range groupsOf(dumps) {
		if v, ranks, ok := g.mismatch(); ok {
			out = append(out, v)
			for _, r := range ranks {
				differ[r] = true
			}
			continue
		}
		if w, ok := g.behind(); ok {
			waits = append(waits, w)
		}
		waits = append(waits, g.unpaired()...)
	}
	waits = slices.DeleteFunc(waits, func(w wait) bool {
		return !slices.ContainsFunc(w.late, func(r int) bool { return !differ[r] })
	})
	out = append(out, resolve(waits, dumps)...)
	slices.SortStableFunc(out, func(a, b verdict.Verdict) int { return grade(a) - grade(b) })
	return out[:min(len(out), maxVerdicts)]
}

func grade(v verdict.Verdict) int {
	return slices.Index([]verdict.Sure{verdict.Certain, verdict.Likely, verdict.Possible}, v.Sure)
}

// resolve follows the waits to the ranks that wait for no other rank.
func resolve(waits []wait, dumps []*Dump) (out []verdict.Verdict) {
	waiting := map[int]bool{}
	for _, w := range waits {
		for _, r := range w.here {
			waiting[r] = true
		}
	}
	for _, d := range dumps {
		if e := d.pending(); e != nil {
			waiting[d.Rank] = true
		}
	}
	var roots []wait
	for _, w := range waits {
		if late := slices.DeleteFunc(slices.Clone(w.late), func(r int) bool { return waiting[r] }); len(late) > 0 {
			w.late = late
			roots = append(roots, w)
		}
	}
	if len(roots) == 0 {
		if v, ok := circle(waits); ok {
			return []verdict.Verdict{v}
		}
		for i, w := range waits { // each late rank waits, in an operation whose ranks are not known
			waits[i].sure, waits[i].note = verdict.Likely, pendingOf(dumps, w.late)
		}
		roots = waits
	}
	for _, w := range roots {
		out = append(out, w.verdict())
	}
	return out
}

// pending returns the newest operation of a rank if it has not ended.
func (d *Dump) pending() *Entry {
	if len(d.Entries) == 0 {
		return nil
	}
	if e := &d.Entries[len(d.Entries)-1]; !e.finished() {
		return e
	}
	return nil
}

// pendingOf says in which operation the first of the ranks is.
func pendingOf(dumps []*Dump, ranks []int) string {
	for _, d := range dumps {
		if e := d.pending(); e != nil && slices.Contains(ranks, d.Rank) {
			return fmt.Sprintf("rank %d is in %s of group %s", d.Rank, e.Op, e.Group)
		}
	}
	return ""
}

// circle finds ranks that wait for each other in different groups.
func circle(waits []wait) (verdict.Verdict, bool) {
	for i, a := range waits {
		for _, b := range waits[i+1:] {
			if !meet(a.late, b.here) || !meet(b.late, a.here) {
				continue
			}
			v := verdict.Verdict{
				Cause: "collective.mismatch", Sure: verdict.Likely,
				Ranks: slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.here, b.here)))),
				Says: fmt.Sprintf("%s in %s, %s in %s: each waits for the other", waitIn(a.here), a.call(),
					waitIn(b.here), b.call()),
				Do:   "call the collectives of different groups in the same order on all ranks",
				Seen: append(a.g.seen(a.here), b.g.seen(b.here)...),
			}
			v.Seen = v.Seen[:min(len(v.Seen), maxSeen)]
			return v, true
		}
	}
	return verdict.Verdict{}, false
}

func meet(a, b []int) bool {
	return slices.ContainsFunc(a, func(r int) bool { return slices.Contains(b, r) })
}

// behind finds the ranks that have not called the first collective that not all ranks have called.
func (g *group) behind() (wait, bool) {
	members := slices.DeleteFunc(g.sorted(), func(m *member) bool { return !m.sure })
	if len(members) == 0 {
		return wait{}, false
	}
	lowest := slices.MinFunc(members, func(a, b *member) int { return cmp.Compare(a.last, b.last) }).last
	w := wait{g: g, seq: lowest + 1, sure: verdict.Certain}
	for _, m := range members {
		switch stuck := m.stuck(); {
		case m.last == lowest:
			w.late = append(w.late, m.rank)
		case stuck > 0 && stuck <= lowest:
			return wait{}, false // in a collective that all have called
		case stuck > 0 || m.gaveUp(w.seq):
			w.here = append(w.here, m.rank)
			w.seen(m)
		}
	}
	if len(w.late) == len(members) {
		return g.absent(members, lowest)
	}
	if len(w.here) == 0 || w.entry == nil {
		return wait{}, false
	}
	for _, m := range members {
		switch {
		case m.last > lowest:
		case m.dump.Changed.UnixNano() < w.entry.Created:
			w.sure, w.note = verdict.Likely, fmt.Sprintf("the dump of rank %d is older than that call", m.rank)
		case m.stuck() > 0 || m.dump.Holes || !g.known:
			w.sure = verdict.Likely
		}
	}
	if w.entry.finished() {
		w.sure, w.note = verdict.Likely, "that call has ended, as after a time limit"
	}
	return w, true
}

// seen takes the call of a rank that waits as the one to show: the first of them.
func (w *wait) seen(m *member) {
	if entries := m.seqs[w.seq]; len(entries) > 0 && (w.entry == nil || entries[0].Created < w.entry.Created) {
		w.entry = entries[0]
	}
}

// gaveUp says whether a rank has ended a collective in which no rank can end before all have called it.
func (m *member) gaveUp(seq int64) bool {
	entries := m.seqs[seq]
	return m.last == seq && len(entries) > 0 && slices.ContainsFunc(entries, func(e *Entry) bool {
		return slices.Contains([]string{"all_reduce", "barrier", "all_gather", "all_to_all"}, e.kind())
	})
}

// absent finds the ranks without a dump where all others wait.
func (g *group) absent(members []*member, seq int64) (wait, bool) {
	w := wait{g: g, seq: seq, late: g.missing(), sure: verdict.Likely, absent: true}
	if len(w.late) == 0 || !g.known || len(members) < len(g.members) || len(g.members) < 2 {
		return wait{}, false
	}
	for _, m := range members {
		if m.stuck() != seq {
			return wait{}, false
		}
		w.here = append(w.here, m.rank)
		w.seen(m)
	}
	return w, w.entry != nil
}

func (w *wait) verdict() verdict.Verdict {
	v := verdict.Verdict{Cause: "rank.left", Sure: w.sure, Ranks: w.late, Since: time.Unix(0, w.entry.Created)}
	there, at := waitIn(w.here), ""
	if w.entry.At != "" {
		at = ", at " + w.entry.At
	}
	switch {
	case w.absent:
		v.Says = fmt.Sprintf("%s in %s%s; there is no dump of %s", there, w.call(), at, rankList(w.late))
		v.Do = fmt.Sprintf("look at the log and the process of %s: has it ended, or does it do something else?",
			rankList(w.late))
		v.Seen = w.g.seen(w.here)
		return v
	case w.seq == 0:
		v.Says = fmt.Sprintf("%s not called the send for %s of %s; %s there%s", has(w.late), w.entry.Op, w.g.title(),
			there, at)
	default:
		v.Says = fmt.Sprintf("%s not called %s; %s there%s", has(w.late), w.call(), there, at)
	}
	if w.note != "" {
		v.Says += " (" + w.note + ")"
	}
	v.Do = fmt.Sprintf("look at what %s after the last call: fewer steps, an error, or a wait for something else?",
		does(w.late))
	v.Seen = append(w.g.seen(w.late), w.g.seen(w.here)...)
	v.Seen = v.Seen[:min(len(v.Seen), maxSeen-1)]
	if missing := w.g.missing(); len(missing) > 0 {
		v.Seen = append(v.Seen, finding.Seen{Where: "dumps", What: "no dump of " + rankList(missing)})
	}
	return v
}

func (w *wait) call() string {
	if w.seq == 0 {
		return w.entry.Op + " of " + w.g.title()
	}
	return fmt.Sprintf("%s #%d of %s", w.entry.kind(), w.seq, w.g.title())
}
