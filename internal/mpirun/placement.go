package mpirun

import (
	"slices"
	"strings"

	"launch/internal/setting"
)

// placed returns what places the processes otherwise than by filling one host after the other.
func (r *reader) placed() string {
	if len(r.Line.Starts) > 1 {
		return "the line has several programs"
	}
	return r.placing()
}

// placing returns the option or the parameter that places processes; "": there is none.
func (r *reader) placing() string {
	names := strings.Fields("rank-by rankfile rf npernode npersocket N pernode bynode ppr cpus-per-proc cpus-per-rank " +
		"nolocal oversubscribe app dvm-uri pset")
	filling := strings.Fields("slot core socket numa package")
	if r.hydra() {
		names = strings.Fields("ppn perhost grr rr order-nodes hosts-group rankmap rmk configfile nolocal")
		filling = nil // where a process is bound, on its host
	}
	for _, o := range r.Line.Options {
		switch {
		case slices.Contains(names, o.Name):
			return "-" + o.Name
		case o.Name == "map-by" && filling != nil && !slices.Contains(filling, strings.ToLower(o.Value)):
			return "--map-by " + o.Value
		}
	}
	if v, _ := r.variable("I_MPI_PERHOST"); r.Line.MPI == "intel" && v != "" {
		return "I_MPI_PERHOST"
	}
	rules := func(d setting.Decided) bool { return strings.Contains(d.Name, "_MCA_rmaps_") }
	if i := slices.IndexFunc(r.Decided, rules); i >= 0 {
		return r.Decided[i].Name
	}
	return ""
}

// Procs returns how many processes each host of Hosts gets, where mpirun fills one host after the other. cores are
// those of a host, which has as many slots for Open MPI if no number is said. ok: launch knows.
func (run Run) Procs(cores func(host string) int) (procs []int, ok bool) {
	if run.Placed != "" {
		return nil, false
	}
	left := run.NP
	for _, h := range run.Hosts {
		n := h.Slots
		switch {
		case n == 0 && run.PerHost > 0: // Hydra
			n = run.PerHost
		case n == 0:
			n = cores(h.Name)
		}
		if run.NP > 0 {
			n = min(n, left)
		}
		left -= n
		procs = append(procs, n)
	}
	return procs, left <= 0 && (run.NP > 0 || !run.Forward)
}
