package mpirun

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"launch/internal/hostlist"
)

// allocation returns the hosts that Slurm has given, with their slots, and the variable that has them; "": none.
func (r *reader) allocation() (out []hostlist.Machine, name string, err error) {
	list, name := r.variable("SLURM_JOB_NODELIST", "SLURM_NODELIST")
	if list == "" {
		return nil, "", nil
	}
	if !r.hydra() {
		has, sure := r.slurm("ras")
		v, _ := r.parameter("ras") // "slurm,pbs", or what is left out: "^slurm"
		names, without := strings.CutPrefix(v, "^")
		if !has || v != "" && slices.Contains(strings.Split(names, ","), "slurm") == without {
			return nil, "", nil
		}
		r.run.Doubt = !sure
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

// within leaves the hosts of an allocation, with at most the slots that they have there. NAME:* counts no slot.
// (Seen with Open MPI 4.1.4 and 5.0.11 in Slurm's allocations.)
func (r *reader) within(allocated []hostlist.Machine, name string) {
	slots := map[string]int{}
	for _, m := range allocated {
		slots[m.Name] = m.Slots
	}
	if n, ok := slots[r.Hostname]; ok {
		slots["localhost"] = n
	}
	var inside []Host
	var outside, starred []string
	for _, h := range r.run.Hosts {
		n, ok := slots[h.Name]
		switch {
		case !ok && h.Name == "localhost": // the head may be in the allocation by another name
			return
		case !ok:
			outside = append(outside, h.Name)
			continue
		case h.Slots == 0 && r.starred[h.Name] && r.run.Strict:
			starred = append(starred, h.Name)
			continue
		case h.Slots == 0:
			h.Slots = n
		}
		h.Slots = min(h.Slots, n) // 0: not said
		inside = append(inside, h)
	}
	for i, s := range r.run.Sections {
		for k, h := range s.Hosts {
			r.run.Sections[i].Hosts[k].Slots = min(h.Slots, cmp.Or(slots[h.Name], h.Slots))
		}
	}
	r.run.Hosts, r.run.Outside, r.run.Starred, r.run.Allocation = inside, outside, starred, name
}

// slurm reports whether Open MPI's framework (ras, plm) has a part for Slurm: a file, or in its library. sure: it is
// found, or the library without it is. A container's Open MPI often lacks it.
func (r *reader) slurm(framework string) (has, sure bool) {
	if r.Root == nil || !path.IsAbs(r.Binary) {
		return true, false
	}
	prefix := strings.TrimPrefix(path.Dir(path.Dir(r.Binary)), "/")
	for _, dir := range []string{"lib", "lib64", "lib/*-linux-gnu"} {
		for _, in := range []string{"openmpi", "prte", "openmpi/lib/openmpi*"} {
			part := path.Join(prefix, dir, in, "mca_"+framework+"_slurm.so")
			if all, _ := fs.Glob(r.Root, part); len(all) > 0 {
				return true, true
			}
		}
		for _, in := range []string{"", "openmpi"} {
			for _, name := range []string{"libopen-rte.so.[0-9]*", "libprrte.so.[0-9]*"} {
				if text := r.library(path.Join(prefix, dir, in, name)); text != nil {
					has, sure = has || bytes.Contains(text, []byte("help-"+framework+"-slurm.txt")), true
				}
			}
		}
	}
	return has || !sure, sure
}
