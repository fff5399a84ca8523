package launcher

import (
	"slices"
	"strings"

	"launch/internal/setting"
)

// Hydra tells whether mpirun is Hydra's mpiexec, which MPICH and Intel MPI have.
func (l Line) Hydra() bool { return l.MPI == "mpich" || l.MPI == "intel" }

// Of reads an mpirun line as that of an MPI: "openmpi", "openmpi4", "openmpi5",
// "mpich", "intel"; "" is one that is not known. Other lines stay as they are.
func (l Line) Of(mpi string) Line {
	if l.Kind != Mpirun {
		return l
	}
	l.MPI = mpi
	l.Options, l.Starts, l.Hosts, l.NP, l.Hostfile = nil, nil, nil, Ask{}, Ask{}
	l.parseMpirun()
	return l
}

// hydraArity is the number of words behind each option that takes any, over
// mpiexec --help of MPICH 5.0 and Intel MPI 2021.19.
func hydraArity() map[string]int {
	arity := map[string]int{"env": 2, "genv": 2}
	for name := range strings.FieldsSeq(`bind-to bootstrap bootstrap-exec bootstrap-exec-args branch-count configfile cpu-bind demux
		envlist errfile-pattern f gdb-args genvlist gpus-per-proc grr gtool gtoolfile host hostfile hosts hosts-group iface
		launcher launcher-exec localhost machine machinefile map-by membind memory-alloc-kinds n nameserver np order-nodes
		outfile-pattern path perhost ppn prepend-pattern rankmap rmk s topolib tune usize wdir`) {
		arity[name] = 1
	}
	return arity
}

// hydraValue is the value of the option at i and the words that it takes:
// what is attached by = is the first of its words, and NAME VALUE may be
// NAME=VALUE (seen with both).
func (l Line) hydraValue(value string, attached bool, arity, i, end int) (string, int) {
	behind := l.Argv[min(i+1, end):end]
	if attached {
		behind = slices.Insert(slices.Clone(behind), 0, value)
	}
	n := min(arity, len(behind))
	if arity == 2 && n > 0 && strings.Contains(behind[0], "=") {
		n = 1
	}
	value = strings.Join(behind[:n], " ")
	if arity == 2 && n == 2 {
		value = behind[0] + "=" + behind[1]
	}
	if attached {
		return value, max(1, n)
	}
	return value, 1 + n
}

// genv forwards with -genv, once: it counts for the programs of all sections.
// Of two for a name the last one counts, and a section's -env before both, so
// that what stands on the line already wins (seen with both).
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

// hydraSets tells whether the line sets a variable for the programs of all
// sections.
func (l Line) hydraSets(name string) bool {
	return slices.ContainsFunc(l.Options, func(o Option) bool {
		return o.Name == "genv" && strings.HasPrefix(o.Value, name+"=")
	})
}
