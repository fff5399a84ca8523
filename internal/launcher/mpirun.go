package launcher

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"launch/internal/setting"
)

// parseMpirun parses mpirun's options, section by section: a lone ":" begins the next program of an MPMD
// line (mpirun(1)). The options are Open MPI's until Of names another MPI.
func (l *Line) parseMpirun() {
	l.Rest = len(l.Argv)
	total, counted := 0, 0
	for start := l.At + 1; start <= len(l.Argv); {
		end := start
		for end < len(l.Argv) && l.Argv[end] != ":" {
			end++
		}
		l.Starts = append(l.Starts, start)
		if program := l.mpirunSection(start, end); program < l.Rest && len(l.Starts) == 1 {
			l.Rest = program
		}
		if n, err := strconv.Atoi(l.sectionValue("np", start, end)); err == nil {
			total += n
			counted++
		}
		start = end + 1
	}
	if counted > 0 && counted == len(l.Starts) {
		l.NP = said("mpirun -np", strconv.Itoa(total))
	}
	for _, o := range l.Options {
		switch o.Name {
		case "hostfile":
			l.Hostfile = said("mpirun --hostfile", o.Value)
		case "host":
			l.Hosts = appendHosts(l.Hosts, o.Value)
		}
	}
}

// mpirunSection records the options in Argv[start:end] and returns the index of the program after them.
func (l *Line) mpirunSection(start, end int) int {
	arity := l.arity()
	for i := start; i < end; {
		w := l.Argv[i]
		if w == "--" {
			return i + 1
		}
		if len(w) < 2 || w[0] != '-' {
			return i
		}
		name, value, attached := strings.Cut(strings.TrimLeft(w, "-"), "=")
		words := 1 + arity[name]
		switch {
		case l.Hydra():
			value, words = l.hydraValue(value, attached, arity[name], i, end)
		case attached: // PRRTE (Open MPI 5) takes --np=4
			words = 1
		case words > 1:
			value = strings.Join(l.Argv[min(i+1, end):min(i+words, end)], " ")
		}
		l.Options = append(l.Options, Option{Name: canonical(name), Value: value, At: i, Words: min(words, end-i)})
		i += words
	}
	return end
}

func (l Line) sectionValue(name string, start, end int) string {
	for _, o := range l.Options {
		if o.Name == name && o.At >= start && o.At < end {
			return o.Value
		}
	}
	return ""
}

// canonical folds the synonyms of mpirun(1) and of Hydra's mpiexec.
func canonical(name string) string {
	switch name {
	case "c", "n", "np":
		return "np"
	case "machinefile", "hostfile", "f":
		return "hostfile"
	case "H", "host", "hosts":
		return "host"
	}
	return name
}

// arity returns the number of arguments of each option that takes any, by mpirun --help of Open MPI
// 4.1 and prterun --help of PRRTE 3, or mpiexec --help of MPICH 5.0 and Intel MPI 2021.19.
func (l Line) arity() map[string]int {
	one := `am app bind-to c cf cartofile cpu-list cpu-set cpus-per-proc cpus-per-rank
		debugger default-hostfile H host hnp hostfile launch-agent machinefile map-by max-restarts max-vm-size N n np
		npernode npersocket ompi-server output-filename path personality ppr prefix preload-files rank-by report-events
		report-pid report-uri rf rankfile stdin timeout tune wd wdir x xml-file xterm
		add-host add-hostfile app-prefix display dvm-uri exec-agent initial-errhandler memory-alloc-kind output
		pidfile pset runtime-options stream-buffering wait-to-connect num-connect-retries with-ft`
	two := "mca gmca omca gomca prtemca gprtemca pmixmca gpmixmca"
	if l.Hydra() {
		one = `bind-to bootstrap bootstrap-exec bootstrap-exec-args branch-count configfile cpu-bind demux
			envlist errfile-pattern f gdb-args genvlist gpus-per-proc grr gtool gtoolfile host hostfile hosts
			hosts-group iface launcher launcher-exec localhost machine machinefile map-by membind
			memory-alloc-kinds n nameserver np order-nodes outfile-pattern path perhost ppn prepend-pattern
			rankmap rmk s topolib tune usize wdir`
		two = "env genv"
	}
	arity := map[string]int{}
	for name := range strings.FieldsSeq(one) {
		arity[name] = 1
	}
	for name := range strings.FieldsSeq(two) {
		arity[name] = 2
	}
	return arity
}

// appendHosts adds the hosts of a --host list, without :slots. Open MPI's
// relative syntax (+n1, +e) names no host.
func appendHosts(hosts []string, list string) []string {
	for h := range strings.SplitSeq(list, ",") {
		name, _, _ := strings.Cut(h, ":")
		if name != "" && name[0] != '+' && !slices.Contains(hosts, name) {
			hosts = append(hosts, name)
		}
	}
	return hosts
}

// mpirun forwards the constants of the job, and never a fact of one node, with the
// options of the line's MPI.
func (l Line) mpirun(w World, plan []setting.Var, env []string) Exec {
	e := Exec{Argv: slices.Clone(l.Argv)}
	vars := forwardable(w, plan, l.Environ(env))
	switch why := l.noForward(env); {
	case len(vars) == 0:
	case why != "":
		var names []string
		for _, v := range vars {
			names = append(names, v.Name)
		}
		e.Notes = append(e.Notes, fmt.Sprintf("%s: launch forwards no variables (%s)", why, strings.Join(names, " ")))
	case l.Hydra():
		l.genv(&e, vars)
	default:
		l.dashX(&e, vars)
	}
	return e
}

// dashX forwards with -x in every section, since -x is for its own program only (Open MPI 4.1).
func (l Line) dashX(e *Exec, vars []setting.Var) {
	for i, start := range slices.Backward(l.Starts) {
		end := len(l.Argv)
		if i+1 < len(l.Starts) {
			end = l.Starts[i+1] - 1
		}
		var words []string
		var changes []Change
		for _, v := range vars {
			if !l.forwards(v.Name, start, end) {
				words = append(words, "-x", v.Name+"="+v.Value)
				changes = append(changes, Change{New: "-x " + v.Name + "=" + v.Value, Reason: v.Reason})
			}
		}
		e.Argv = slices.Insert(e.Argv, start, words...)
		e.Changes = append(changes, e.Changes...)
	}
}

func forwardable(w World, plan []setting.Var, env []string) []setting.Var {
	out := slices.DeleteFunc(slices.Clone(plan),
		func(v setting.Var) bool { return v.Scope != setting.Job || v.Kept })
	// The world of one node of an mpirun line may have the loopback address, which
	// is another machine on every node.
	addr, err := netip.ParseAddr(w.MasterAddr)
	if _, set := lookup(env, "MASTER_ADDR"); err == nil && !addr.IsLoopback() && !set {
		const why = "for torch's env:// initialization"
		out = append(out, identity("MASTER_ADDR", w.MasterAddr, setting.Job, why),
			identity("MASTER_PORT", w.MasterPort.String(), setting.Job, why))
	}
	return out
}

// forwards reports whether a section already has -x for the variable; PRRTE also
// accepts a trailing '*'.
func (l Line) forwards(name string, start, end int) bool {
	return slices.ContainsFunc(l.Options, func(o Option) bool {
		if o.Name != "x" || o.At < start || o.At >= end {
			return false
		}
		pattern, _, _ := strings.Cut(o.Value, "=")
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	})
}

// noForward returns why launch cannot forward variables, or "": an unknown MPI may refuse the options,
// and Open MPI ends a job that mixes -x with mca_base_env_list.
func (l Line) noForward(env []string) string {
	switch {
	case l.MPI == "":
		return "the MPI of this " + path.Base(l.Argv[l.At]) + " is unknown"
	case l.Hydra():
		return ""
	}
	for _, o := range l.Options {
		if o.Name == "app" {
			return "mpirun --app ignores the options of the line"
		}
		if strings.HasPrefix(o.Value, "mca_base_env_list ") {
			return "mca_base_env_list is set, which Open MPI does not mix with -x"
		}
	}
	if _, set := lookup(l.Environ(env), "OMPI_MCA_mca_base_env_list"); set {
		return "OMPI_MCA_mca_base_env_list is set, which Open MPI does not mix with -x"
	}
	return ""
}

// Hydra reports whether mpirun is the mpiexec of Hydra, in MPICH and Intel MPI.
func (l Line) Hydra() bool { return l.MPI == "mpich" || l.MPI == "intel" }

// HeadFirst reports whether mpirun fills the host where it runs before the others, wherever the list has it: Open MPI
// 4.1 does, 5.0 and Hydra do not (seen in lab/mpi).
func (l Line) HeadFirst() bool { return l.MPI == "openmpi4" }

// Of parses an mpirun line again for an MPI: "openmpi", "openmpi4", "openmpi5",
// "mpich", "intel"; "" is unknown. It returns other lines as they are.
func (l Line) Of(mpi string) Line {
	if l.Kind != Mpirun {
		return l
	}
	l.MPI = mpi
	l.Options, l.Starts, l.Hosts, l.NP, l.Hostfile = nil, nil, nil, Ask{}, Ask{}
	l.parseMpirun()
	return l
}

// hydraValue returns the value of the option at i and its number of arguments. A value attached by
// = is the first argument, and NAME VALUE may be NAME=VALUE (seen with both).
func (l Line) hydraValue(value string, attached bool, arity, i, end int) (string, int) {
	after := l.Argv[min(i+1, end):end]
	if attached {
		after = slices.Insert(slices.Clone(after), 0, value)
	}
	n := min(arity, len(after))
	if arity == 2 && n > 0 && strings.Contains(after[0], "=") {
		n = 1
	}
	value = strings.Join(after[:n], " ")
	if arity == 2 && n == 2 {
		value = after[0] + "=" + after[1]
	}
	if attached {
		return value, max(1, n)
	}
	return value, 1 + n
}

// genv forwards with -genv, once for the programs of all sections. The last -genv of a name wins,
// and a section's -env before it, so a variable on the line already wins (seen with both).
func (l Line) genv(e *Exec, vars []setting.Var) {
	var words []string
	for _, v := range vars {
		set := slices.ContainsFunc(l.Options,
			func(o Option) bool { return o.Name == "genv" && strings.HasPrefix(o.Value, v.Name+"=") })
		if set {
			continue
		}
		words = append(words, "-genv", v.Name, v.Value)
		e.Changes = append(e.Changes, Change{New: "-genv " + v.Name + " " + v.Value, Reason: v.Reason})
	}
	e.Argv = slices.Insert(e.Argv, l.Starts[0], words...)
}

// OnHosts returns the words of a line with other hosts, each perhaps with ":slots", in place of its own. Intel's
// mpiexec takes one number for all hosts: that of the first.
func (l Line) OnHosts(hosts []string) []string {
	argv := slices.Clone(l.Argv)
	var each []string
	if hosts = slices.Clone(hosts); l.MPI == "intel" {
		for i, h := range hosts {
			name, slots, ok := strings.Cut(h, ":")
			if hosts[i] = name; ok && each == nil {
				each = []string{"-ppn", slots}
			}
		}
	}
	for _, o := range slices.Backward(l.Options) {
		switch o.Name {
		case "hostfile", "host", "machine", "default-hostfile":
			argv = slices.Delete(argv, o.At, o.At+o.Words)
		}
	}
	flag := "--host"
	if l.Hydra() {
		flag = "-hosts"
	}
	return slices.Insert(argv, l.Starts[0], append(each, flag, strings.Join(hosts, ","))...)
}
