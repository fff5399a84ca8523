package hosts

import (
	"fmt"

	"launch/internal/finding"
)

// sections judges the slots of each program of a line that has several. done: the slots of all hosts need no look.
func (j *judge) sections() (done bool) {
	used := map[string]int{}
	for i, s := range j.Run.Sections {
		left, slots, free := s.NP, 0, 0
		for _, h := range s.Hosts {
			room := max(0, h.Slots-used[h.Name])
			slots, free = slots+h.Slots, free+room
			n := room
			if s.NP > 0 {
				n = min(room, left)
			}
			used[h.Name] += n
			left -= n
		}
		if left <= 0 || !j.Run.Strict {
			continue
		}
		have := finding.Count(slots, "slot")
		if free < slots {
			have += fmt.Sprintf(", and the programs before it leave %d", free)
		}
		j.slot(finding.Failf("%s for program %d of the line, but its hosts have %s (--host)",
			finding.Plural(s.NP, "process", "processes"), i+1, have).
			Breaking("mpirun refuses to start").
			Do("another -np or more slots in the --host of that program, or, in the first one: --map-by :OVERSUBSCRIBE"))
		return true
	}
	return false
}

// allotted judges hosts of the line that an allocation does not have by that name, or of which no slot counts. done:
// where there are any, launch does not know which slots count.
func (j *judge) allotted() (done bool) {
	run := j.Run
	if slots, known := j.slots(); run.Starred != nil && (run.Hosts == nil || known && run.NP > slots) {
		j.slot(finding.Failf("NAME:* in --host counts no slot in an allocation (%s): %s", run.Allocation,
			finding.Some(run.Starred)).Breaking("mpirun refuses to start").
			Do("--host %s:N with a number, or drop --host", run.Starred[0]))
		return true
	}
	if len(run.Outside) == 0 {
		return false
	}
	j.add("mpi.slots", "", finding.Warnf("%s of %s: not in the allocation by that name (%s)",
		finding.Some(run.Outside), run.Source, run.Allocation).
		Breaking("mpirun leaves such a host out, or refuses to start").
		Do("name hosts of the allocation alone: scontrol show hostnames"))
	return true
}
