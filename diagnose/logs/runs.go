package logs

import "slices"

// run is a command that a log shows, as a shell writes it, by its line.
type run struct {
	file int
	line int64
	text string
}

// begins notes a run.
func (p *proof) begins(r run) {
	if len(p.runs) < maxFacts*maxFacts {
		p.runs = append(p.runs, r)
	}
}

// again returns the last run of the same command in the log of an event, but for numbers in its arguments, where that
// is a later one than the event's.
func (p *proof) again(e *event) (before, last run, ok bool) {
	at := slices.IndexFunc(p.runs, func(r run) bool { return r.line == e.command })
	if at < 0 {
		return run{}, run{}, false
	}
	before = p.runs[at]
	for _, r := range p.runs[at+1:] {
		if r.file == before.file && sameText(r.text, before.text) {
			last, ok = r, true
		}
	}
	return before, last, ok
}

// lastRuns separates the events of runs after which the same command was run again: the last run is the one to explain
// where it failed, too; where the very same command then gave its results, nothing is left to explain.
func (f *follower) lastRuns(all []*event) (live, former, passed []*event) {
	if len(f.proof.runs) < 2 {
		return all, nil, nil
	}
	failed := map[int64]bool{}
	for _, e := range all {
		failed[e.command] = failed[e.command] || e.cause.grade < harmless && !e.over() && !f.excused(e)
	}
	for _, e := range all {
		before, last, ok := f.proof.again(e)
		switch {
		case ok && failed[last.line]:
			former = append(former, e)
		case ok && before.text == last.text && f.resulted(last):
			passed = append(passed, e)
		default:
			live = append(live, e)
		}
	}
	return live, former, passed
}

// resulted says whether the log has results after the begin of a run.
func (f *follower) resulted(r run) bool {
	return slices.ContainsFunc(f.proof.spans, func(s span) bool {
		return s.file == int64(r.file) && s.to > r.line
	})
}

// ofFormer marks what a run before the last one had.
func ofFormer(counts []Count) []Count {
	for i := range counts {
		counts[i].Says = "in a run before this one: " + counts[i].Says
	}
	return counts
}
