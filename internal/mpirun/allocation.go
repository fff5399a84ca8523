package mpirun

import (
	"fmt"

	"launch/internal/hostlist"
)

// allocation returns the hosts that Slurm has given, with their slots, and the variable that has them; "": none.
func (r *reader) allocation() (out []hostlist.Machine, name string, err error) {
	list, name := r.variable("SLURM_JOB_NODELIST", "SLURM_NODELIST")
	if list == "" {
		return nil, "", nil
	}
	names, err := hostlist.Expand(list)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	tasks, _ := r.variable("SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE")
	counts, _ := hostlist.Counts(tasks)
	for i, n := range names {
		m := hostlist.Machine{Name: n}
		if len(counts) == len(names) {
			m.Slots = counts[i]
		}
		out = append(out, m)
	}
	return out, name, nil
}

// within leaves the hosts of an allocation, with at most the slots that they have there. (Seen with Open MPI 4.1.4 and
// 5.0.11 in Slurm's allocations.)
func (r *reader) within(allocated []hostlist.Machine, name string) {
	if v, _ := r.parameter("ras"); v != "" { // it may leave Slurm out
		return
	}
	slots := map[string]int{}
	for _, m := range allocated {
		slots[m.Name] = m.Slots
	}
	var inside []Host
	var outside []string
	for _, h := range r.run.Hosts {
		n, ok := slots[h.Name]
		switch {
		case h.Name == "localhost": // the head may be in the allocation
			return
		case !ok:
			outside = append(outside, h.Name)
			continue
		case h.Slots == 0:
			h.Slots = n
		}
		h.Slots = min(h.Slots, n) // 0: not said
		inside = append(inside, h)
	}
	r.run.Hosts, r.run.Outside, r.run.Allocation = inside, outside, name
}
