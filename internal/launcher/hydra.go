package launcher

import (
	"slices"
	"strings"

	"launch/internal/setting"
)

// Hydra reports whether mpirun is the mpiexec of Hydra, in MPICH and Intel MPI.
func (l Line) Hydra() bool { return l.MPI == "mpich" || l.MPI == "intel" }

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

// hydraArity returns the number of arguments of each option that takes any, by
// mpiexec --help of MPICH 5.0 and Intel MPI 2021.19.
func hydraArity() map[string]int {
	arity := map[string]int{"env": 2, "genv": 2}
	for name := range strings.FieldsSeq(`
		bind-to bootstrap bootstrap-exec bootstrap-exec-args branch-count configfile cpu-bind demux
		envlist errfile-pattern f gdb-args genvlist gpus-per-proc grr gtool gtoolfile host hostfile hosts hosts-group iface
		launcher launcher-exec localhost machine machinefile map-by membind memory-alloc-kinds n nameserver np order-nodes
		outfile-pattern path perhost ppn prepend-pattern rankmap rmk s topolib tune usize wdir`) {
		arity[name] = 1
	}
	return arity
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
		if l.hydraSets(v.Name) {
			continue
		}
		words = append(words, "-genv", v.Name, v.Value)
		e.Changes = append(e.Changes, Change{New: "-genv " + v.Name + " " + v.Value, Reason: v.Reason})
	}
	e.Argv = slices.Insert(e.Argv, l.Starts[0], words...)
}

// hydraSets reports whether the line sets a variable for all sections.
func (l Line) hydraSets(name string) bool {
	return slices.ContainsFunc(l.Options, func(o Option) bool {
		return o.Name == "genv" && strings.HasPrefix(o.Value, name+"=")
	})
}
