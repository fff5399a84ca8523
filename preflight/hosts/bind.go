package hosts

import (
	"fmt"
	"slices"

	"launch/internal/finding"
	"launch/internal/mpirun"
)

// binding judges a line that binds processes to processors, which a host has too few of.
func (j *judge) binding() {
	b := Bound(j.Run, j.MPI, j.facts, j.slotsOf)
	for _, o := range b.Few {
		j.slotOn(o.Host, finding.Failf("%s", o.What).Breaking("mpirun refuses to start").Do("%s", b.Fix))
	}
	if b.Line != "" {
		j.slotOn("", finding.Failf("%s", b.Line).Breaking("mpirun refuses to start").Do("%s", b.Fix))
	}
}

// Few is a host with fewer processors than are bound there.
type Few struct{ Host, What string }

// Binds is why Open MPI refuses to bind the processes of a line.
type Binds struct {
	Few  []Few  // hosts with too few processors
	Line string // what the line asks that no host can do; "": nothing
	Fix  string
}

// Why returns one sentence; "": Open MPI does not refuse.
func (b Binds) Why() string {
	for _, f := range b.Few {
		return f.Host + ": " + f.What
	}
	return b.Line
}

// Bound returns why Open MPI refuses to bind the processes of a line, as far as the hosts are known. slots returns how
// many slots a host has, 0: not known. (Seen with 4.1.4 and 5.0.11, lab/mpi.)
func Bound(run mpirun.Run, mpi string, facts func(mpirun.Host) mpirun.Facts, slots func(mpirun.Host) int) (out Binds) {
	if run.Bind == nil || run.NP == 0 {
		return out
	}
	b := bound{Run: run, Bind: *run.Bind, five: mpi == "openmpi5"}
	for _, h := range run.Hosts {
		parts := facts(h).Parts
		b.hosts = append(b.hosts, room{name: h.Name, slots: slots(h), cpus: parts[b.CPU()], parts: parts["hwthread"]})
	}
	switch {
	case b.List != "" && b.five:
		return b.listed()
	case b.List != "":
		return b.missing()
	case b.Shared || run.Per != nil && (run.Per.CPUs > 1 || run.Per.CPUs == 1 && !b.five): // Crowded counts them
		return out
	case b.To == "none" || b.To == "" && !(b.five && run.Strict && b.byParts()):
		return out // Open MPI 4 binds none where it has to; 5 neither, by slot and by node
	case b.five:
		return b.capped()
	}
	return b.filled()
}

// bound is a line that binds processes.
type bound struct {
	mpirun.Run
	mpirun.Bind
	five  bool
	hosts []room // parts has their hardware threads
}

// byParts reports whether the processes are mapped by parts of a host, as Open MPI 5 does on its own.
func (b bound) byParts() bool {
	return !slices.Contains([]string{"slot", "node", "ppr", "seq", "dist", "rankfile"}, b.Map)
}

// unit returns how many processors a host has, in words.
func (b bound) unit(n int) string {
	return finding.Count(n, map[string]string{"core": "core", "hwthread": "hardware thread"}[b.CPU()])
}

// fix returns what to do where places processes have a processor.
func (b bound) fix(places int) string {
	share := "--bind-to none   # or --bind-to core:overload-allowed: processes share cores"
	if b.To != "" {
		share = fmt.Sprintf("%s:overload-allowed   # processes share processors; or --bind-to none", b.Option)
	}
	return fmt.Sprintf("%s\n-np %d, or more hosts in %s", share, places, b.Source)
}

// capped is for Open MPI 5: a host gets no more processes than it has processors, and the rest goes to the next one.
func (b bound) capped() (out Binds) {
	places := 0
	for _, h := range b.hosts {
		n := h.cpus
		if b.Strict {
			n = min(n, h.slots)
		}
		if h.cpus == 0 || h.slots == 0 || b.Map == "ppr" {
			return Binds{}
		}
		places += n
	}
	if b.NP <= places {
		return out
	}
	by := b.Option
	if b.To == "" {
		by = "the default of Open MPI 5"
	}
	for _, h := range b.hosts {
		if h.slots > h.cpus || !b.Strict {
			out.Few = append(out.Few, Few{h.name, fmt.Sprintf("%s for %s, and each process gets one (%s)",
				b.unit(h.cpus), finding.Count(h.slots, "slot"), by)})
		}
	}
	out.Fix = b.fix(places)
	return out
}

// filled is for Open MPI 4, which places the processes first, and then refuses a host that has too few processors.
func (b bound) filled() (out Binds) {
	if b.To == "numa" { // it counts them otherwise with some topologies
		return out
	}
	places := 0
	for i, n := range b.places() {
		h := b.hosts[i]
		if h.cpus == 0 {
			return Binds{}
		}
		if b.Map == b.To { // bound in place, where each thread of a core counts
			h.cpus = h.parts
		}
		places += min(h.cpus, h.slots)
		if n > h.cpus {
			out.Few = append(out.Few, Few{h.name, fmt.Sprintf("%s for %s (%s)", b.unit(h.cpus),
				finding.Plural(n, "process", "processes"), b.Option)})
		}
	}
	out.Fix = b.fix(min(places, b.NP))
	if places >= b.NP { // as many as this, on all hosts
		out.Fix = fmt.Sprintf("%s:overload-allowed   # processes share processors; or --bind-to none\n"+
			"no more slots for a host than it has processors, in %s", b.Option, b.Source)
	}
	return out
}

// places returns how many processes each host gets; nil: not known.
func (b bound) places() []int {
	each, slots := b.NP, finding.Map(b.hosts, func(h room) int { return h.slots })
	switch {
	case !b.Strict, slices.Contains(slots, 0):
		return nil
	case b.Per != nil && b.Per.Of != "node":
		return nil
	case b.Per != nil:
		slots = finding.Map(slots, func(n int) int { return min(n, b.Per.N) })
	case b.Map == "node":
		each = 1
	case b.Placed != "":
		return nil
	}
	return spread(b.NP, each, slots)
}

// listed is for Open MPI 5, which places a process on each host for each word of a list.
func (b bound) listed() (out Binds) {
	places, words := 0, b.Words()
	for _, h := range b.hosts {
		if h.slots == 0 {
			return out
		}
		places += min(words, h.slots)
	}
	if b.NP <= places || !b.Strict || b.Shared || b.Map != "" && b.Map != "pe-list" {
		return out
	}
	out.Line = fmt.Sprintf("%d processes, but %s names %s, and places as many on each of %s", b.NP, b.Option,
		finding.Count(words, "processor"), finding.Count(len(b.hosts), "host"))
	out.Fix = fmt.Sprintf("name more processors, each by its number: 0,1 (a range such as 0-1 counts as one)\n"+
		"-np %d, or more hosts in %s", places, b.Source)
	return out
}

// missing is for Open MPI 4, which ends without a word where a host lacks a processor of the list.
func (b bound) missing() (out Binds) {
	last, ok := b.Last()
	for _, h := range b.hosts {
		if ok && h.parts > 0 && last >= h.parts {
			out.Few = append(out.Few, Few{h.name, fmt.Sprintf("no processor %d, which %s names: it has 0 to %d", last,
				b.Option, h.parts-1)})
			out.Fix = "name processors that each host has, in " + b.Option
		}
	}
	return out
}
