package logs

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"launch/diagnose/verdict"
	"launch/internal/finding"
)

const (
	maxVerdicts = 3
	maxOpenLead = 3
	maxSeen     = 4
	fewSteps    = 50 // signs of progress that other ranks may still write after a failure
)

// judge says what all lines together mean.
func (f *follower) judge() Reading {
	r := Reading{Files: f.files, Lines: f.lines, Bytes: f.bytes, Gaps: f.gaps, Moved: f.moved}
	f.settle()
	f.unlabel()
	f.untask()
	f.takeBack()
	f.ofTasks()
	f.placePods()
	sorted, former, passed := f.lastRuns(f.sorted())
	sorted, more := f.disproved(sorted)
	passed = append(passed, more...)
	all, began := apart(sorted, rosterID)
	live := slices.DeleteFunc(slices.Clone(all), func(e *event) bool {
		return f.undone(e) ||
			e.cause.grade == maybe && f.moved && e.vals[stepsSeen] != "true"
	})
	live, again := retried(detailed(live))
	live, more = f.outdone(live)
	passed = append(passed, more...)
	live, warnings := onlyWarned(live)
	roots := ofGrades(live, decisive, failed)
	rest := slices.DeleteFunc(ofGrades(live, open, cascade), func(e *event) bool {
		return e.cause.id == "log.peer-lost" || e.cause.id == watchdogID
	})
	if len(roots) == 0 && len(rest) > 0 {
		roots = slices.DeleteFunc(ofGrades(all, decisive, failed), func(e *event) bool {
			return e.cause.soft || f.excused(e) || e.st.progress-e.after > fewSteps || e.over() && e.st.alone
		})
	}
	roots = slices.DeleteFunc(roots, func(e *event) bool {
		return follows(e, live) || survived(e, live) || outlived(e, live)
	})
	if slices.ContainsFunc(live, func(e *event) bool { return !e.cause.quiet && e.cause.grade != maybe }) {
		roots = slices.DeleteFunc(roots, func(e *event) bool { return e.cause.quiet && !confirmed(e, live) })
	}
	roots = schedulerFirst(ofLastStart(reasonsBefore(limitsLast(roots, live), live)))
	roots = hardwareFirst(roots, live)
	used := map[*event]bool{}
	if len(roots) > 0 {
		f.decide(&r, roots, used)
	} else {
		f.openEnd(&r, live, used)
	}
	began = slices.DeleteFunc(began, func(e *event) bool { return e.over() })
	if len(began) > 0 && (r.First == nil || r.First.Cause == unknownID) {
		known := r
		known.First, known.Open = nil, nil
		if f.roster(&known, began); known.First != nil {
			r = known
		}
	}
	if r.First != nil {
		r.Cascade = append(f.cascade(all, used), ofFormer(f.cascade(former, used))...)
	} else {
		f.hosts(&r)
		r.Passed, r.Retried, r.Warned = failures(passed), failures(again), f.leads(warnings, used)
	}
	return r
}

// undone says whether an event is no failure by what else the logs show.
func (f *follower) undone(e *event) bool {
	shown := f.facts[e.cause.but]
	return e.over() || f.excused(e) || len(shown) > 0 && (!e.cause.here || shown[e.node]) ||
		e.cause.noise && f.proof.endedWell(e) > 0
}

// failures returns the first of some events as values.
func failures(some []*event) []Failure {
	return finding.Map(some[:min(len(some), maxSeen)], func(e *event) Failure { return *e.failure() })
}

// sorted returns the events in the order in which they happened, as far as the logs tell.
func (f *follower) sorted() []*event {
	all := slices.Collect(maps.Values(f.events))
	stamped := !slices.ContainsFunc(all, func(e *event) bool { return e.time.IsZero() })
	slices.SortFunc(all, func(a, b *event) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.cause.id, b.cause.id), cmp.Compare(a.rank, b.rank))
	})
	// Where some have no time, the order below is not total: what it gives depends on the order before.
	slices.SortStableFunc(all, func(a, b *event) int {
		if stamped || a.file != b.file && !a.time.IsZero() && !b.time.IsZero() {
			return a.time.Compare(b.time)
		}
		return cmp.Compare(a.order, b.order)
	})
	return all
}

// apart returns the events without those of one cause, and those.
func apart(all []*event, id string) (others, its []*event) {
	for _, e := range all {
		if e.cause.id == id {
			its = append(its, e)
		} else {
			others = append(others, e)
		}
	}
	return others, its
}

func ofGrades(all []*event, from, to grade) []*event {
	return slices.DeleteFunc(slices.Clone(all), func(e *event) bool {
		return e.cause.grade < from || e.cause.grade > to
	})
}

// confirmed says whether another kind of line says the same.
func confirmed(e *event, live []*event) bool {
	return slices.ContainsFunc(live, func(o *event) bool {
		return o.cause.id == e.cause.id && !o.cause.quiet && o.cause.grade <= failed
	})
}

// decide writes the verdict on the first failure, and the further ones that have a cause of their own.
func (f *follower) decide(r *Reading, roots []*event, used map[*event]bool) {
	top := first(roots)
	f.adopt(top)
	top = killed(top, roots, used)
	group := same(roots, top)
	for _, e := range group {
		used[e] = true
	}
	v := f.verdict(group)
	takeRank(group)
	if other, ok := f.versions(group); ok && top.cause.id == "log.collective-mismatch" {
		v = other
	}
	r.Verdicts = append(r.Verdicts, v)
	r.First = top.failure()
	if len(top.cause.need) > 0 {
		r.Open = append(r.Open, f.lead(group))
	}
	for _, e := range roots {
		if len(r.Verdicts) >= maxVerdicts {
			return
		}
		if used[e] || e.cause.grade != decisive || e.cause.wraps || hasCause(r.Verdicts, e.cause.id) {
			continue
		}
		more := same(roots, e)
		for _, m := range more {
			used[m] = true
		}
		other := f.verdict(more)
		other.Sure = verdict.Possible
		r.Verdicts = append(r.Verdicts, other)
	}
}

func hasCause(all []verdict.Verdict, id string) bool {
	return slices.ContainsFunc(all, func(v verdict.Verdict) bool { return v.Cause == id })
}

// same returns the events with the cause of one of them, for errors of programs with its text, and for exits with its
// code.
func same(all []*event, one *event) (out []*event) {
	out = []*event{one}
	for _, e := range all {
		if e != one && e.cause.id == one.cause.id && (one.cause.grade != failed || sameText(e.text, one.text)) &&
			(one.cause.id != exitOther.id || e.vals["code"] == one.vals["code"]) {
			out = append(out, e)
		}
	}
	return out
}

func sameText(a, b string) bool {
	drop := func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}
	return strings.Map(drop, a) == strings.Map(drop, b)
}

func (f *follower) verdict(group []*event) verdict.Verdict {
	top := group[0]
	together(group)
	ranks, nodes := whose(group)
	name := who(ranks, nodes, top)
	if top.cause.job {
		ranks, nodes = pairs(group), nil
	}
	v := verdict.Verdict{Cause: top.cause.id, Sure: verdict.Likely, Ranks: ranks, Nodes: nodes, Since: top.time,
		Says: top.says(name), Do: top.fill(top.cause.do, name), Seen: quoted(group)}
	if top.undated {
		v.Since = time.Time{}
	}
	if top.cause.grade == decisive || top.cause.grade == failed && top.trace {
		v.Sure = verdict.Certain
	}
	return v
}

func (f *follower) lead(group []*event) Lead {
	top := group[0]
	ranks, nodes := whose(group)
	name := who(ranks, nodes, top)
	if absent := f.absentees(top); len(absent) > 0 {
		top.set("absent", rankList(absent))
		ranks = absent
	}
	return Lead{Family: top.cause.id, Says: top.says(name), Ranks: ranks, Nodes: nodes, Seen: quoted(group),
		Need: finding.Map(top.cause.need, func(n string) string { return top.fill(n, name) })}
}

// leadOf returns what one of some events and those of its kind say, and marks them.
func (f *follower) leadOf(some []*event, e *event, used map[*event]bool) Lead {
	group := same(some, e)
	for _, m := range group {
		used[m] = true
	}
	return f.lead(group)
}

// leads returns what some events say, those of each kind together.
func (f *follower) leads(some []*event, used map[*event]bool) (out []Lead) {
	for _, e := range some {
		if !used[e] && len(out) < maxOpenLead {
			out = append(out, f.leadOf(some, e, used))
		}
	}
	return out
}

func quoted(group []*event) (out []finding.Seen) {
	for _, e := range group[:min(len(group), maxSeen)] {
		out = append(out, finding.Seen{Where: e.where, What: tidy(e.text)})
	}
	return out
}

// openEnd reports failures that the logs do not explain.
func (f *follower) openEnd(r *Reading, live []*event, used map[*event]bool) {
	warnings := lesser(live)
	for _, g := range []grade{open, waits, ended, cascade, unknown, maybe} {
		some := ofGrades(live, g, g)
		if len(warnings) > 0 && g == open {
			some = slices.DeleteFunc(some, (*event).warning)
		}
		if g == unknown {
			some = reasonFirst(some, ofGrades(live, maybe, maybe))
		}
		if len(some) == 0 {
			continue
		}
		if g >= unknown && r.First != nil {
			break
		}
		switch {
		case g == cascade && r.First == nil:
			slices.SortStableFunc(some, closedLast)
		case g == open:
			slices.SortStableFunc(some, softLast)
		}
		if (g == ended || g == cascade) && r.First == nil {
			if e := reasonOf(some[0], live); e != nil {
				used[e] = true
				r.First = e.failure()
				r.Open = append(r.Open, f.lead([]*event{e}))
			}
		}
		if r.First == nil {
			f.adopt(some[0])
			r.First = some[0].failure()
		}
		if g == cascade && len(r.Open) > 0 {
			continue
		}
		for _, e := range some {
			if used[e] || len(r.Open) >= maxOpenLead {
				continue
			}
			if lead := f.leadOf(some, e, used); g <= waits || len(r.Open) == 0 {
				r.Open = append(r.Open, lead)
			}
		}
	}
	if more := f.leads(warnings, used); len(more) > 0 {
		r.Open = append(r.Open, more[:min(len(more), max(0, maxOpenLead-len(r.Open)))]...)
	}
	if v, ok := f.ofWaits(live); ok {
		r.Verdicts = append(r.Verdicts, v)
	}
}

// ofWaits compares what the ranks say that waited.
func (f *follower) ofWaits(live []*event) (verdict.Verdict, bool) {
	if v, ok := f.works.verdict(); ok {
		return v, true
	}
	if v, ok := f.settings(live); ok {
		return v, true
	}
	other := slices.ContainsFunc(live, func(e *event) bool { return e.cause.grade <= open })
	if v, ok := f.works.hole(f.size(), f.haveLines(maxRank), f.shown("program.prepares")); ok && !other {
		return v, true
	}
	if v, ok := f.versions(live); ok {
		return v, true
	}
	if v, ok := f.networks(); ok && !other && slices.ContainsFunc(live, (*event).atStart) {
		return v, true
	}
	var missing []*event
	for _, e := range live {
		switch {
		case e.cause.id == "log.clients-missing":
			return verdict.Verdict{}, false
		case e.cause.id != "log.rank-missing":
		case e.vals["missing"] == "0": // under env:// rank 0 writes its key last
			return verdict.Verdict{}, false
		case len(missing) > 0 && missing[0].vals["missing"] != e.vals["missing"]:
			return verdict.Verdict{}, false
		default:
			missing = append(missing, e)
		}
	}
	lines := 0
	for _, e := range missing {
		lines += e.lines
	}
	if lines < 2 {
		return verdict.Verdict{}, false
	}
	rank := number(missing[0].vals["missing"])
	return verdict.Verdict{
		Cause: "rank.missing", Sure: verdict.Likely, Ranks: []int{rank}, Since: missing[0].time, Seen: quoted(missing),
		Says: rankList([]int{rank}) + " did not reach init_process_group; the other ranks gave up waiting for it",
		Do:   "look at the output of that rank: it ended, hangs, or was never started",
	}, true
}

// versions says whether processes with different versions of NCCL failed to understand each other.
func (f *follower) versions(live []*event) (verdict.Verdict, bool) {
	some := slices.DeleteFunc(slices.Clone(live), func(e *event) bool {
		unconnected := e.vals["why"] != "" || strings.Contains(e.text, "POLLOUT")
		return e.cause.id != "log.nccl-bootstrap" && !strings.Contains(e.text, "bootstrap.cc") || unconnected
	})
	versions := slices.Sorted(maps.Keys(f.facts["nccl.version"]))
	if len(some) == 0 || len(versions) < 2 {
		return verdict.Verdict{}, false
	}
	return verdict.Verdict{
		Cause: "log.nccl-version-mismatch", Sure: verdict.Likely, Since: some[0].time, Seen: quoted(some),
		Says: "the nodes load different NCCL versions: " + strings.Join(versions, ", "),
		Do:   "install the same NCCL on all nodes; check LD_LIBRARY_PATH for a second one",
	}, true
}

// cascade counts what follows from the first failure.
func (f *follower) cascade(all []*event, used map[*event]bool) []Count {
	byKind := map[string]*Count{}
	var out []string
	for _, e := range all {
		if used[e] || e.cause.grade == maybe {
			continue
		}
		c := byKind[e.cause.id]
		if c == nil {
			out = append(out, e.cause.id)
			c = &Count{Kind: e.cause.id, Says: e.kind()}
			byKind[e.cause.id] = c
		}
		c.Lines += e.lines
		if e.rank >= 0 && !slices.Contains(c.Ranks, e.rank) && len(c.Ranks) < maxStreams {
			c.Ranks = append(c.Ranks, e.rank)
		}
	}
	return finding.Map(out, func(id string) Count {
		slices.Sort(byKind[id].Ranks)
		return *byKind[id]
	})
}
