package hosts

import (
	"fmt"
	"math"
	"strings"

	"launch/internal/finding"
	"launch/internal/mpirun"
)

// per judges a line that says where its processes go. done: the slots of all hosts need no look.
func (j *judge) per() (done bool) {
	why := Crowded(j.Run, j.MPI, j.facts, j.slotsOf)
	if why == "" {
		return false
	}
	fix := "other numbers in -np and %s, more hosts or slots in %s, or the modifier OVERSUBSCRIBE of --map-by"
	if j.Run.Per.CPUs > 0 {
		fix = "other numbers in -np and %s, or more hosts in %s"
	}
	j.slot(finding.Failf("%s (%s)", why, j.Run.Source).Breaking("mpirun refuses to start").
		Do(fix, j.Run.Per.Option, j.Run.Source))
	return true
}

// Crowded returns why Open MPI refuses a line with Per: it asks for more processes than Per places, or a host gets more
// than its slots or processors; "": it does not, or that is not known. slots returns how many slots a host has, 0: not
// known. What it counts is the most that a host can get: Open MPI refuses further lines.
func Crowded(run mpirun.Run, mpi string, facts func(mpirun.Host) mpirun.Facts, slots func(mpirun.Host) int) string {
	if run.Per == nil {
		return ""
	}
	c := crowd{Per: *run.Per, five: mpi == "openmpi5", strict: run.Strict}
	if c.N > 0 && strings.Contains(c.Of, ",") {
		return c.Option + " names several parts, and Open MPI takes one"
	}
	for _, h := range run.Hosts {
		g := room{name: h.Name, slots: slots(h), parts: 1, cpus: facts(h).Parts[c.CPU()]}
		if c.CPUs > 0 && h.Slots == 0 {
			g.slots = g.cpus // as both versions count them
		}
		if c.N > 0 && c.Of != "node" {
			g.parts = facts(h).Parts[c.Of]
		}
		if g.parts == 0 || c.strict && g.slots == 0 || c.CPUs > 0 && g.cpus == 0 {
			return ""
		}
		c.hosts = append(c.hosts, g)
	}
	np := run.NP
	if np == 0 {
		np = c.all()
	}
	return c.judge(np)
}

// crowd is where a line with Per places processes.
type crowd struct {
	mpirun.Per
	five   bool // Open MPI 5
	strict bool
	hosts  []room
}

// room is what a host has.
type room struct {
	name               string
	slots, parts, cpus int
}

// all returns how many processes Open MPI starts without -np; 0: not known.
func (c crowd) all() (np int) {
	for _, h := range c.hosts {
		switch {
		case c.N > 0 && (c.five || c.Of == "node" || c.Of == "package"):
			np += c.N * h.parts
		case c.N == 0 && (!c.five || c.Single()):
			np += h.slots
		}
	}
	return np
}

// places returns how many processes a host can get where it has slots enough.
func (c crowd) places(h room) int {
	switch {
	case c.CPUs > 1 && c.Single() && (c.five || c.N == 0):
		return 0
	case c.five && c.CPUs > 1 && c.N > 0:
		return c.N * min(h.parts, h.cpus/(c.N*c.CPUs))
	case c.N > 0:
		return c.N * h.parts
	case c.five && c.CPUs > 1:
		return h.cpus / c.CPUs
	}
	return math.MaxInt32
}

// alone reports whether Open MPI 4 gives each process processors that no other one has.
func (c crowd) alone() bool {
	return !c.five && c.CPUs > 0 && c.Of != "core" && c.Of != "hwthread"
}

// turns returns how many processes each host gets where they take one after the other in turn; nil: they do not, or the
// slots do not suffice.
func (c crowd) turns(np int) []int {
	if c.N > 0 || c.Of != "node" || c.five {
		return nil
	}
	return spread(np, 1, finding.Map(c.hosts, func(h room) int { return h.slots }))
}

// spread places np processes on hosts with so many slots, at most each at a time; nil: the slots do not suffice.
func spread(np, each int, slots []int) []int {
	out := make([]int, len(slots))
	for np > 0 {
		before := np
		for i, s := range slots {
			n := min(np, each, s-out[i])
			out[i], np = out[i]+n, np-n
		}
		if np == before {
			return nil
		}
	}
	return out
}

// judge returns why np processes are refused.
func (c crowd) judge(np int) string {
	places := 0
	for _, h := range c.hosts {
		places += c.places(h)
	}
	if np > places && places == 0 && c.Single() {
		return fmt.Sprintf("%s gives each process %d processors of one %s, which is one processor", c.Option, c.CPUs, c.Of)
	}
	if np > places {
		return fmt.Sprintf("%d processes, but %s places %d on %s", np, c.Option, places,
			finding.Count(len(c.hosts), "host"))
	}
	left := np
	turns := c.turns(np)
	for i, h := range c.hosts {
		n := min(c.places(h), left)
		if turns != nil {
			n = turns[i]
		}
		if c.N == 0 || c.five { // the rest goes to the next host
			n = min(n, h.slots)
		}
		gets := fmt.Sprintf("%s gets %s by %s, and has ", h.name, finding.Plural(n, "process", "processes"), c.Option)
		switch {
		case !c.strict:
			return ""
		case n > h.slots:
			return gets + finding.Count(h.slots, "slot")
		case c.alone() && n*c.CPUs > h.cpus:
			return gets + finding.Count(h.cpus, map[bool]string{false: "core", true: "hardware thread"}[c.Threads])
		}
		left -= n
	}
	if left > 0 {
		return fmt.Sprintf("%s and the slots of the hosts leave no room for %s", c.Option,
			finding.Plural(left, "process", "processes"))
	}
	return ""
}
