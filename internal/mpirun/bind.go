package mpirun

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Bind is what a line of Open MPI says about the processors to which processes are bound.
type Bind struct {
	To      string `json:"to,omitempty"`      // none, or a part of Facts; "": the line does not say
	Map     string `json:"map,omitempty"`     // what processes are mapped by: slot, node, ppr, a part; "": not said
	Shared  bool   `json:"shared,omitempty"`  // a processor may have several processes
	Threads bool   `json:"threads,omitempty"` // a processor is a hardware thread, and not a core
	List    string `json:"list,omitempty"`    // of processors that the processes may use; "": all
	Option  string `json:"option,omitempty"`  // as it was typed: "--bind-to core", "--cpu-set 0,1"
}

// CPU returns what counts as a processor, a part of Facts. By default Open MPI 5 binds to what it maps by.
func (b Bind) CPU() string {
	if b.Threads || cmp.Or(b.To, b.Map) == "hwthread" {
		return "hwthread"
	}
	return "core"
}

// Words returns how many words the list has. Open MPI 5 places one process for each, and a range is one word.
func (b Bind) Words() int { return strings.Count(b.List, ",") + 1 }

// Last returns the highest number of the list; ok: it has numbers and ranges only.
func (b Bind) Last() (n int, ok bool) {
	for word := range strings.FieldsFuncSeq(b.List, func(c rune) bool { return c == ',' || c == '-' }) {
		i, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || i < 0 {
			return 0, false
		}
		n, ok = max(n, i), true
	}
	return n, ok
}

// bind returns what the line says about processors; nil: more than launch understands, or no version of Open MPI that
// it knows.
func (r *reader) bind() *Bind {
	if len(r.Line.Starts) > 1 || r.Line.MPI != "openmpi4" && r.Line.MPI != "openmpi5" {
		return nil
	}
	b, clear := Bind{Threads: r.threads()}, true
	add := func(name, value, option string) {
		switch policy := policyOf(name, value); {
		case slices.Contains([]string{"rankfile", "rf", "slot-list", "dist"}, name):
			clear = false
		case policy != "":
			f := strings.Split(strings.ToLower(policy), ":")
			b.Threads = b.Threads || slices.Contains(strings.Split(strings.Join(f[1:], ","), ","), "hwtcpus")
			by, list, named := strings.Cut(f[0], "=")
			if named {
				b.List, b.Option = list, option
			}
			if !strings.Contains(name, "cpus") {
				clear = clear && b.Map == ""
				b.Map = part(by)
			}
		case boundBy(name, value) != "":
			clear = clear && b.To == "" && !b.Shared && b.policy(boundBy(name, value))
			b.Option = cmp.Or(b.Option, option)
		case slices.Contains(lists(), name):
			clear = clear && b.List == ""
			b.List, b.Option = value, option
		}
	}
	for _, o := range r.Line.Options {
		add(o.Name, o.Value, strings.TrimSpace(typedAs(o.Name)+" "+o.Value))
	}
	in := r.parameters()
	for _, d := range r.Decided {
		_, name, ok := strings.Cut(d.Name, "_MCA_")
		if !ok || !strings.Contains(name, "hwloc") && !strings.Contains(name, "bind") && !slices.Contains(in, name) {
			continue
		}
		_, counts := r.inForce(name)
		places := boundBy(name, d.Value) != "" || slices.Contains(lists(), name) || slices.Contains(in, name)
		switch {
		case strings.Contains(name, "hwthread"):
		case places && counts:
			add(name, d.Value, d.Name+"="+d.Value)
		case !slices.Contains(in, name): // of the other version, or not understood
			clear = false
		}
	}
	if !clear {
		return nil
	}
	return &b
}

// lists returns the options and parameters that list processors.
func lists() []string {
	return strings.Fields("cpu-set cpu-list hwloc_base_cpu_set hwloc_base_cpu_list hwloc_default_cpu_list")
}

// typedAs returns an option as it is typed.
func typedAs(name string) string {
	if name == "bind-to" || strings.HasPrefix(name, "cpu-") || strings.HasPrefix(name, "bind-to-") {
		return "--" + name
	}
	return dashed(name)
}

// boundBy returns what --bind-to would be for an option or a parameter; "": it binds nothing.
func boundBy(name, value string) string {
	switch name {
	case "bind-to", "hwloc_base_binding_policy", "hwloc_default_binding_policy", "prte_bind_to":
		return cmp.Or(value, "?")
	case "bind-to-core", "bind-to-socket", "bind-to-none":
		return strings.TrimPrefix(name, "bind-to-")
	}
	return ""
}

// policy reads "core", "core:overload-allowed" or ":overload-allowed". ok: launch knows the form.
func (b *Bind) policy(text string) (ok bool) {
	f := strings.FieldsFunc(strings.ToLower(text)+":", func(c rune) bool { return c == ',' })
	words := strings.Split(strings.Join(f, ":"), ":")
	b.To = part(words[0])
	for _, modifier := range words[1:] {
		switch modifier {
		case "overload-allowed", "overload":
			b.Shared = true
		case "if-supported", "no-overload", "":
		default:
			return false
		}
	}
	return b.To == "" && b.Shared || b.To == "none" || slices.Contains(parts(), b.To)
}

// part returns the name that Facts have for a part.
func part(name string) string {
	if name == "socket" || name == "skt" {
		return "package"
	}
	return name
}
