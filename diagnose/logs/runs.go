package logs

import (
	"slices"
	"strings"
)

// run is a command that a log shows, as a shell writes it, by its line.
type run struct {
	file int
	line int64
	text string
	like string // its text without what is changed to try again
	st   *stream
}

// changedForm is what is changed in a command to try again: sizes, counts, ports, times, and numbers of runs. A number
// of a node, a rank or a part makes it another command.
var changedForm = re(`(?i)([\w-]*(?:batch|bsz|size|len|workers|nproc|port|time|rdzv[-_]id|run[-_]id)[\w-]*[= ]|` +
	`-np )\d+|\d{4}-\d\d-\d\d[\dT:_-]*|\d{6,}`)

// begins notes a run.
func (p *proof) begins(r run) {
	if len(p.runs) < maxFacts*maxFacts {
		r.like = changedForm().ReplaceAllString(r.text, "$1")
		p.runs = append(p.runs, r)
	}
}

// again returns the run of an event and the last run of the same command by the same writer, but for what is changed
// to try again, where that is a later one.
func (p *proof) again(e *event) (before, last run, ok bool) {
	at := slices.IndexFunc(p.runs, func(r run) bool { return r.line == e.command })
	if at < 0 {
		return run{}, run{}, false
	}
	before = p.runs[at]
	for _, r := range p.runs[at+1:] {
		if r.st == before.st && r.like == before.like {
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
	broken := map[int64]bool{} // runs with a failure of their own that is left to explain
	for _, e := range all {
		broken[e.command] = broken[e.command] || e.cause.grade < open && !e.cause.retried && !f.undone(e)
	}
	for _, e := range all {
		before, last, ok := f.proof.again(e)
		switch {
		case ok && broken[last.line] && !f.resulted(last, false):
			former = append(former, e)
		case ok && before.text == last.text && f.resulted(last, ofLaunch(e)):
			passed = append(passed, e)
		default:
			live = append(live, e)
		}
	}
	return live, former, passed
}

// ofLaunch says whether an event is of how a launcher reaches other nodes, which any later command disproves that
// reaches them.
func ofLaunch(e *event) bool {
	return e.cause.id == "log.dns" || strings.HasPrefix(e.cause.id, "log.ssh-") || e.cause.id == "log.mpi-daemon"
}

// resulted says whether the log has results of a run, or also those of a later command.
func (f *follower) resulted(r run, later bool) bool {
	return slices.ContainsFunc(f.proof.spans, func(s span) bool {
		return s.file == int64(r.file) && (s.from == r.line || later && s.from > r.line)
	})
}

// ofFormer marks what a run before the last one had.
func ofFormer(counts []Count) []Count {
	for i := range counts {
		counts[i].Says = "in a run before this one: " + counts[i].Says
	}
	return counts
}
