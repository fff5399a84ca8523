package logs

import (
	"cmp"
	"regexp"
	"slices"
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

// otherNode says whether two nodes are known to be different ones.
func otherNode(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return a != "" && b != "" && a != b
}

// killed joins the line of the kernel that killed a process for its memory and the reports of its end, by the number of
// the process on the same node. It returns that line, with the rank and node of the reports, and marks these; else the
// root itself.
func killed(root *event, roots []*event, used map[*event]bool) *event {
	var kill *event
	pid := ""
	for _, e := range append([]*event{root}, roots...) {
		n, m := killedForm.FindStringSubmatch(e.text), pidForm.FindStringSubmatch(root.text)
		its := root.cause.id == exitKilled.id && m != nil && n != nil && n[1] == m[1]
		if e.cause.id == "log.host-oom" && n != nil && (e == root || its && !otherNode(e.node, root.node)) {
			kill, pid = e, n[1]
			break
		}
	}
	if kill == nil {
		return root
	}
	for _, e := range roots {
		if m := pidForm.FindStringSubmatch(e.text); e.cause.id == exitKilled.id && m != nil && m[1] == pid &&
			!otherNode(e.node, kill.node) {
			used[e] = true
			kill.rank, kill.local = max(kill.rank, e.rank), max(kill.local, e.local)
			kill.node = cmp.Or(kill.node, e.node)
		}
	}
	if kill.rank >= 0 {
		kill.set("of", rankList([]int{kill.rank}))
	}
	return kill
}

// killedForm is how the kernel names a process that it kills.
var killedForm = regexp.MustCompile(`Kill(?:ed)? process (\d+)\b`)

// adopt gives a failure the rank that torchrun reports for the same log, or else the local rank.
func (f *follower) adopt(e *event) {
	all := f.sorted()
	elsewhere := killedForm.MatchString(e.text) && slices.ContainsFunc(all, func(o *event) bool {
		return o.cause.id == exitKilled.id && otherNode(o.node, e.node)
	})
	for _, has := range []func(o *event) bool{
		func(o *event) bool { return o.rank >= 0 }, func(o *event) bool { return o.local >= 0 },
	} {
		for _, o := range all {
			if fromRoot := o.cause.id == exitOther.id || o.cause.id == exitKilled.id || o.cause.id == exitCrash.id; fromRoot &&
				!elsewhere && e.rank < 0 && e.local < 0 && o.file == e.file && o.order >= e.order && has(o) &&
				!otherProcess(e.text, o.text) && !lostAPeer(all, e, o) {
				e.rank, e.local, e.node = o.rank, o.local, cmp.Or(e.node, o.node)
			}
		}
	}
	if e.node == "" && e.rank < 0 {
		e.node = f.onlyHost(e.command)
	}
	for _, o := range all {
		if e.node == "" && e.rank >= 0 && o.rank == e.rank && o.node != "" {
			e.node = o.node
		}
	}
}

// lostAPeer says whether the end of a process is that of a rank whose own line says that it lost another one, and not
// of the process that wrote an error before.
func lostAPeer(all []*event, e, end *event) bool {
	rank := end.rank
	for _, o := range all { // torchrun names the rank of a local rank in its report
		if rank < 0 && o.rank >= 0 && o.local == end.local && o.file == end.file && o.order > end.order {
			rank = o.rank
		}
	}
	return rank >= 0 && e.cause.grade < cascade && slices.ContainsFunc(all, func(o *event) bool {
		return o.cause.id == "log.peer-lost" && !o.cause.noise && o.rank == rank && o.file == e.file &&
			o.order > e.order && o.order < end.order
	})
}

var taskForm = regexp.MustCompile(`(?:sr|yhr)un: error: [\w.-]+: tasks? \d`)

// ofTasks takes the numbers of srun's tasks away from events where they may not be ranks: the rank of that number
// writes that it waits for others, so the task that ended may be a launcher with several ranks.
func (f *follower) ofTasks() {
	var tasks []*event
	waiting := map[int]bool{}
	for _, e := range f.events {
		switch {
		case e.rank < 0:
		case taskForm.MatchString(e.text):
			tasks = append(tasks, e)
		case e.cause.grade == waits:
			waiting[e.rank] = true
		}
	}
	for _, e := range tasks {
		if waiting[e.rank] {
			e.rank = -1
		}
	}
}

// size returns the number of ranks, as NCCL reports it; 0: it does not, or for several groups of them.
func (f *follower) size() int {
	if len(f.facts["nranks"]) != 1 {
		return 0
	}
	for n := range f.facts["nranks"] {
		return number(n)
	}
	return 0
}

// onlyHost returns the host on which all ranks of a command run, by the lines of NCCL after it in the same log; "":
// there are several, or not all have one.
func (f *follower) onlyHost(command int64) (host string) {
	if sizes := f.facts["nranks"]; len(sizes) != 1 || !sizes[strconv.Itoa(len(f.ranks))] {
		return ""
	}
	for at, r := range f.ranks {
		name, _, _ := strings.Cut(at, ":")
		if host != "" && host != name || r.command != command {
			return ""
		}
		host = name
	}
	return host
}

// absentees returns the ranks that have no line in the logs, where an event counts those that have joined, and the logs
// have lines of just as many; nil: they do not show it.
func (f *follower) absentees(e *event) (out []int) {
	joined, of := number(e.vals["joined"]), number(e.vals["of"])
	if joined < 1 || joined >= of || of > maxStreams {
		return nil
	}
	seen := f.haveLines(of)
	for rank := range of {
		if len(seen) == joined && !seen[rank] {
			out = append(out, rank)
		}
	}
	return out
}

// haveLines returns which ranks below a number have lines in the logs.
func (f *follower) haveLines(of int) map[int]bool {
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
	for _, r := range f.ranks {
		see(r.rank)
	}
	return seen
}
