package mpirun

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"launch/internal/setting"
)

// Per is what a line of Open MPI says about where its processes go: how many each part of a host gets, and how many
// processors each process.
type Per struct {
	N       int    `json:"n,omitempty"`       // processes of each part; 0: the slots decide
	Of      string `json:"of"`                // node, slot, or a part of Facts; "node,1": several
	CPUs    int    `json:"cpus,omitempty"`    // that each process has alone; 0: launch does not count them
	Threads bool   `json:"threads,omitempty"` // a processor is a hardware thread, and not a core
	Option  string `json:"option"`            // as it was typed: "--map-by ppr:2:node"
}

// Single reports whether a part is one processor.
func (p Per) Single() bool { return p.Of == "hwthread" || p.Of == "core" && !p.Threads }

// CPU returns what counts as a processor, a part of Facts.
func (p Per) CPU() string {
	if p.Threads {
		return "hwthread"
	}
	return "core"
}

// per returns what the line says about where processes go; nil: nothing, or more than launch understands.
func (r *reader) per() *Per {
	if r.hydra() || len(r.Line.Starts) > 1 {
		return nil
	}
	var out, each *Per // where processes go, and what --cpus-per-proc says
	clear := true
	add := func(name, value, option string) {
		policy := policyOf(name, value)
		if policy == "" {
			return
		}
		p, ok := readPolicy(policy)
		p.Option = option
		into := &out
		if strings.Contains(name, "cpus") {
			into = &each
		}
		clear = clear && ok && *into == nil // which of two is in force depends on the version
		*into = &p
	}
	for _, o := range r.Line.Options {
		add(o.Name, o.Value, strings.TrimSpace(dashed(o.Name)+" "+o.Value))
	}
	for _, name := range r.parameters() {
		if d, ok := r.inForce(name); ok {
			add(name, d.Value, d.Name+"="+d.Value)
		}
	}
	switch {
	case !clear, out != nil && each != nil && out.CPUs > 0:
		return nil
	case out == nil:
		out = each
	case each != nil:
		out.CPUs, out.Option = each.CPUs, out.Option+" "+each.Option
	}
	if out == nil {
		return nil
	}
	out.Threads = out.Threads || r.threads()
	if !r.run.Strict || r.binds() {
		out.CPUs = 0
	}
	if out.N == 0 && out.CPUs == 0 {
		return nil
	}
	return out
}

// dashed returns an option as it is typed.
func dashed(name string) string {
	if name == "map-by" || strings.HasPrefix(name, "cpus-") {
		return "--" + name
	}
	return "-" + name
}

// policyOf returns what --map-by would be for an option, or for a parameter; "": it places nothing.
func policyOf(name, value string) string {
	switch _, last, _ := strings.Cut(name, "rmaps_"); cmp.Or(last, name) {
	case "npernode", "N", "base_n_pernode", "ppr_n_pernode":
		return "ppr:" + value + ":node"
	case "pernode", "base_pernode", "ppr_pernode":
		if isFalse(value) {
			return ""
		}
		return "ppr:1:node"
	case "npersocket", "base_n_persocket", "ppr_n_persocket":
		return "ppr:" + value + ":socket"
	case "ppr", "base_pattern", "ppr_pattern":
		return "ppr:" + value
	case "cpus-per-proc", "cpus-per-rank", "base_cpus_per_proc", "base_cpus_per_rank":
		return "slot:PE=" + value
	case "map-by", "base_mapping_policy", "default_mapping_policy", "map_by", "prte_map_by":
		return value
	}
	return ""
}

// isFalse reports whether Open MPI reads the value of a boolean parameter as false (mca_base_var_enum_bool_vfs).
func isFalse(value string) bool {
	value = strings.ToLower(strings.TrimSpace(value))
	n, err := strconv.Atoi(value)
	return err == nil && n == 0 || slices.Contains([]string{"f", "false", "no", "n", "disabled"}, value)
}

// parameters returns the MCA parameters that place processes.
func (r *reader) parameters() []string {
	if r.Line.MPI == "openmpi5" {
		return []string{"rmaps_default_mapping_policy", "prte_map_by", "map_by"}
	}
	return strings.Fields("rmaps_base_mapping_policy rmaps_base_n_pernode rmaps_ppr_n_pernode rmaps_base_pernode " +
		"rmaps_ppr_pernode rmaps_base_n_persocket rmaps_ppr_n_persocket rmaps_base_pattern rmaps_ppr_pattern " +
		"rmaps_base_cpus_per_proc rmaps_base_cpus_per_rank")
}

// inForce returns a parameter that mpirun reads. Open MPI 5 takes those of PRRTE as PRTE_MCA_, and from --mca.
func (r *reader) inForce(name string) (setting.Decided, bool) {
	five := r.Line.MPI == "openmpi5"
	i := slices.IndexFunc(r.Decided, func(d setting.Decided) bool {
		return five && d.Name == "PRTE_MCA_"+name || d.Name == "OMPI_MCA_"+name && (!five || d.From == "mpirun --mca")
	})
	if i < 0 {
		return setting.Decided{}, false
	}
	return r.Decided[i], true
}

// threads reports whether hardware threads count as processors.
func (r *reader) threads() bool {
	_, ok := r.option("use-hwthread-cpus")
	return ok || slices.ContainsFunc(r.Decided, func(d setting.Decided) bool {
		return strings.Contains(d.Name, "use_hwthread") && !isFalse(d.Value) ||
			strings.Contains(strings.ToLower(d.Value), "hwtcpus")
	})
}

// binds reports whether the line decides which processors are used otherwise than by a core for each; then launch does
// not count them.
func (r *reader) binds() bool {
	b := r.run.Bind
	return b == nil || b.List != "" || b.Shared || b.To != "" && b.To != "core" && b.To != "hwthread"
}

// readPolicy reads "ppr:2:node:PE=4", "slot:PE=2" or ":PE=2". Modifiers are separated by a colon, or a comma.
func readPolicy(policy string) (p Per, ok bool) {
	f := strings.Split(strings.ToLower(policy), ":")
	p = Per{Of: cmp.Or(f[0], "slot")}
	f = f[1:]
	if p.Of == "ppr" {
		if len(f) < 2 {
			return Per{}, false
		}
		if p.N, ok = number(f[0]); !ok {
			return Per{}, false
		}
		p.Of, f = f[1], f[2:]
	}
	several := p.N > 0 && strings.Contains(p.Of, ",")
	for modifier := range strings.SplitSeq(strings.Join(f, ","), ",") {
		if n, pe := strings.CutPrefix(modifier, "pe="); pe {
			if p.CPUs, ok = number(n); !ok {
				return Per{}, false
			}
		}
		p.Threads = p.Threads || modifier == "hwtcpus"
	}
	p.Of = part(p.Of)
	return p, several || p.Of == "node" || p.N == 0 && p.Of == "slot" || slices.Contains(parts(), p.Of)
}

// number reads a number of processes or processors, from 1 to maxPer.
func number(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 1 && n <= maxPer
}

// maxPer bounds a number that is typed.
const maxPer = 1 << 20
