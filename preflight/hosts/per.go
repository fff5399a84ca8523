package hosts

import (
	"fmt"

	"launch/internal/finding"
	"launch/internal/mpirun"
)

// per judges a line that places processes on each host or part of one. done: the slots of all hosts need no look.
func (j *judge) per() (done bool) {
	p := j.Run.Per
	if p == nil {
		return false
	}
	parts := func(h mpirun.Host) int {
		switch p.Of {
		case "package":
			return j.facts(h).Packages
		case "numa":
			return j.facts(h).NUMA
		}
		return 1
	}
	why := Crowded(j.Run, j.MPI, parts, j.slotsOf)
	if why == "" {
		return false
	}
	j.add("mpi.slots", "", finding.Failf("%s (%s)", why, j.Run.Source).Breaking("mpirun refuses to start").
		Do("other numbers in -np and %s, more hosts or slots in %s, or the modifier OVERSUBSCRIBE of --map-by", p.Option,
			j.Run.Source))
	return true
}

// Crowded returns why Open MPI refuses a line with Per: it asks for more processes than Per places, or a host gets more
// than its slots; "": it does not, or that is not known. parts returns how many nodes, packages or NUMA nodes a host
// has, 0: not known; slots how many slots it has.
func Crowded(run mpirun.Run, mpi string, parts, slots func(mpirun.Host) int) string {
	p := run.Per
	if p == nil {
		return ""
	}
	places := 0
	for _, h := range run.Hosts {
		n := parts(h)
		if n == 0 || run.Strict && slots(h) == 0 {
			return ""
		}
		places += n * p.N
	}
	if run.NP > places {
		return fmt.Sprintf("%d processes, but %s places %d on %s", run.NP, p.Option, places,
			finding.Count(len(run.Hosts), "host"))
	}
	left := run.NP
	if left == 0 {
		left = places
	}
	for _, h := range run.Hosts {
		n := min(parts(h)*p.N, left)
		if has := slots(h); run.Strict && n > has {
			if mpi != "openmpi5" { // Open MPI 5 places the rest on the next host
				return fmt.Sprintf("%s gets %s by %s, and has %s", h.Name, finding.Plural(n, "process", "processes"), p.Option,
					finding.Count(has, "slot"))
			}
			n = has
		}
		left -= n
	}
	if left > 0 {
		return fmt.Sprintf("%s and the slots of the hosts leave no room for %s", p.Option,
			finding.Plural(left, "process", "processes"))
	}
	return ""
}
