package logs

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// pidForm is how lines name the process that they are of.
var pidForm = regexp.MustCompile(`(?:\bPID:? |\(pid: |^\[?[A-Za-z][\w.-]*:)(\d+)\b`)

// otherProcess says whether two lines name different processes.
func otherProcess(a, b string) bool {
	m, n := pidForm.FindStringSubmatch(a), pidForm.FindStringSubmatch(b)
	return m != nil && n != nil && m[1] != n[1]
}

// adopt gives a failure the rank that torchrun reports for the same log, or else the local rank.
func (f *follower) adopt(e *event) {
	all := f.sorted()
	for _, has := range []func(o *event) bool{
		func(o *event) bool { return o.rank >= 0 }, func(o *event) bool { return o.local >= 0 },
	} {
		for _, o := range all {
			if fromRoot := o.cause.id == exitOther.id || o.cause.id == exitKilled.id || o.cause.id == exitCrash.id; fromRoot &&
				e.rank < 0 && e.local < 0 && o.file == e.file && o.order >= e.order && has(o) && !otherProcess(e.text, o.text) {
				e.rank, e.local, e.node = o.rank, o.local, cmp.Or(e.node, o.node)
			}
		}
	}
	if e.node == "" && e.rank < 0 && e.vals["ranks"] == "" {
		e.node = f.onlyHost()
	}
	for _, o := range all {
		if e.node == "" && e.rank >= 0 && o.rank == e.rank && o.node != "" {
			e.node = o.node
		}
	}
}

var taskForm = regexp.MustCompile(`(?:sr|yhr)un: error: [\w.-]+: tasks? \d`)

// ofTasks takes the numbers of srun's tasks away from events where they are not ranks: the rank of that number writes
// that it waits for others, so a task is a launcher with several ranks.
func (f *follower) ofTasks() {
	for _, e := range f.events {
		if e.rank < 0 || !taskForm.MatchString(e.text) {
			continue
		}
		for _, o := range f.events {
			if o.rank == e.rank && o.cause.grade == waits && !o.cause.soft && !taskForm.MatchString(o.text) {
				e.rank = -1
				break
			}
		}
	}
}

// onlyHost returns the host on which all ranks run, by the lines of NCCL; "": there are several, or not all have one.
func (f *follower) onlyHost() (host string) {
	if sizes := f.facts["nranks"]; len(sizes) != 1 || !sizes[strconv.Itoa(len(f.ranks))] {
		return ""
	}
	for at := range f.ranks {
		name, _, _ := strings.Cut(at, ":")
		if host != "" && host != name {
			return ""
		}
		host = name
	}
	return host
}

// absentees returns the ranks that have no line in the logs, where an event counts those that have joined, and the logs
// have lines of just as many; nil: they do not show it.
func (f *follower) absentees(e *event) (out []int) {
	came, of := number(e.vals["came"]), number(e.vals["of"])
	if came < 1 || came >= of || of > maxStreams {
		return nil
	}
	seen := map[int]bool{}
	see := func(rank int) {
		if rank >= 0 && rank < of {
			seen[rank] = true
		}
	}
	for _, st := range f.streams {
		see(st.rank)
	}
	for _, o := range f.events {
		see(o.rank)
	}
	for _, rank := range f.ranks {
		see(rank)
	}
	for rank := range of {
		if len(seen) == came && !seen[rank] {
			out = append(out, rank)
		}
	}
	return out
}
