package scene

import (
	"fmt"
	"slices"
	"strconv"

	"launch/internal/process"
)

// maxProcs is how many processes of jobs are looked at closely, ranks and agents first.
const maxProcs = 1024

// jobs returns the processes of the job that Options name, else of all jobs of this node. A node is a network
// namespace, as the nodes of launch are; where none of its processes belongs to a job, jobs in containers are seen.
func (t *table) jobs(o Options, here uint64) ([]*seen, error) {
	var all []*seen
	for _, p := range t.pids() {
		if t.procs[p].role != "" {
			all = append(all, t.procs[p])
		}
	}
	if o.PID != 0 {
		job, err := t.jobOf(o.PID, all)
		return t.cut(job), err
	}
	mine := slices.DeleteFunc(slices.Clone(all), func(p *seen) bool { return !t.in(here, p) })
	if !slices.ContainsFunc(mine, func(p *seen) bool { return p.role != Holder && p.role != Child }) {
		mine = all
	}
	if o.Job != "" {
		job, err := t.named(o.Job, mine)
		return t.cut(job), err
	}
	if more := len(all) - len(mine); more > 0 && here == namespace("1", "net") {
		t.gaps.add(0, fmt.Sprintf("%d processes of jobs in other network namespaces", more),
			"there is a job in this one", "give the process id of a rank with --pid")
	}
	return t.cut(mine), nil
}

// in reports whether a process is in a network namespace. One that has ended shows none, nor does one of another
// user: it counts to where its nearest ancestor is that shows one, and to this one if there is no such ancestor.
func (t *table) in(net uint64, p *seen) bool {
	for _, a := range append([]int{p.pid}, t.above(p.pid)...) {
		if at := t.procs[a].net; at != 0 {
			return at == net
		}
	}
	return true
}

// cut drops processes beyond the limit: children first.
func (t *table) cut(job []*seen) []*seen {
	if len(job) <= maxProcs {
		return job
	}
	t.gaps.add(
		0,
		fmt.Sprintf("%d processes below ranks", len(job)-maxProcs),
		fmt.Sprintf("at most %d are read", maxProcs),
		"",
	)
	slices.SortStableFunc(job, func(a, b *seen) int { return below(a) - below(b) })
	return job[:maxProcs]
}

func below(p *seen) int {
	if p.role == Child {
		return 1
	}
	return 0
}

// links joins processes into jobs: by parents, by the store that they name, and a companion with the process that it
// watches.
func (t *table) links(all []*seen) union {
	links := union{}
	for _, p := range all {
		for _, a := range t.above(p.pid) {
			if t.procs[a].role != "" {
				links.join(strconv.Itoa(p.pid), strconv.Itoa(a))
				break
			}
		}
		for _, a := range p.addresses() {
			links.join(strconv.Itoa(p.pid), fmt.Sprint(a.net, " ", a))
		}
		if p.role == Companion {
			if held := process.Held(strconv.Itoa(p.pid), fdCommand); held != 0 {
				links.join(strconv.Itoa(p.pid), strconv.Itoa(held))
			}
		}
	}
	return links
}

// jobOf returns the processes that are linked with pid.
func (t *table) jobOf(pid int, all []*seen) ([]*seen, error) {
	if t.procs[pid] == nil {
		return nil, fmt.Errorf("no process has the pid %d, or this user cannot see it", pid)
	}
	links := t.links(all)
	want := map[string]bool{}
	near := append([]int{pid}, t.below(pid)...)
	for _, n := range near {
		if t.procs[n].role != "" {
			want[links.find(strconv.Itoa(n))] = true
		}
	}
	for _, a := range t.above(pid) {
		if len(want) == 0 && t.procs[a].role != "" {
			want[links.find(strconv.Itoa(a))] = true
		}
	}
	if len(want) == 0 {
		return nil, fmt.Errorf("process %d (%s) belongs to no job: no rank, torchrun, mpirun or launch", pid,
			clean(t.procs[pid].stat.comm, maxValue))
	}
	return slices.DeleteFunc(all, func(p *seen) bool { return !want[links.find(strconv.Itoa(p.pid))] }), nil
}

// earlier reports whether a process is older than since, and neither it nor one above it has since's parent. The tasks
// of a node have one parent, and begin one after another.
func (t *table) earlier(p *seen, since int) bool {
	of := t.procs[since]
	if of == nil || p.stat.started >= of.stat.started {
		return false
	}
	parent := of.stat.parent
	return parent <= 1 || !slices.Contains(append(t.above(p.pid), p.pid), parent)
}

// fdCommand is the descriptor by which a companion holds its command, its first after the standard ones.
const fdCommand = 3

// union joins names into sets.
type union map[string]string

func (u union) find(x string) string {
	for u[x] != "" && u[x] != x {
		x = u[x]
	}
	return x
}

func (u union) join(a, b string) {
	if a, b = u.find(a), u.find(b); a != b {
		u[a] = b
	}
}

// describe returns a process as it is shown, without what is measured.
func (p *seen) describe() Proc {
	out := Proc{PID: p.pid, Parent: p.stat.parent, Role: p.role, User: p.user, Comm: clean(p.stat.comm, maxValue),
		Argv: conceal(p.argv), State: p.stat.state, Libs: p.libs, Net: p.net, MPI: p.mpi,
		Spawned: p.spawned}
	if p.store.IsValid() {
		out.Store = p.store.String()
	}
	if p.env != nil {
		out.Env = shown(p.env)
	}
	return out
}
