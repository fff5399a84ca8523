package launcher

import (
	"slices"
	"strconv"
	"strings"

	"launch/internal/setting"
)

// Section is the part of an mpirun line for one host.
type Section struct {
	Host  string // as --host has it: host1, user@host1
	Procs int    // processes there
	Vars  []setting.Var
}

// InSections returns the words of a line of one program with a section for each host, in the order in which mpirun
// fills the hosts, so that each host's processes get variables of their own.
func (l Line) InSections(sections []Section) []string {
	words := slices.Clone(l.Argv[:l.Starts[0]])
	for i, s := range sections {
		if i > 0 {
			words = append(words, ":")
		}
		for _, o := range l.Options {
			if l.remains(o.Name, i > 0) {
				words = append(words, l.Argv[o.At:o.At+o.Words]...)
			}
		}
		switch {
		case l.MPI == "intel": // of a list it takes other numbers with sections than without
			words = append(words, "-n", strconv.Itoa(s.Procs), "-host", s.Host)
		case l.Hydra(): // it has one list of hosts for all sections, and fills them in turn
			words = append(words, "-n", strconv.Itoa(s.Procs))
		default:
			words = append(words, "-np", strconv.Itoa(s.Procs), "--host", s.Host+":"+strconv.Itoa(s.Procs))
		}
		for _, v := range s.Vars {
			if l.Hydra() {
				words = append(words, "-env", v.Name, v.Value)
			} else {
				words = append(words, "-x", v.Name+"="+v.Value)
			}
		}
		if l.Argv[l.Rest-1] == "--" {
			words = append(words, "--")
		}
		words = append(words, l.Argv[l.Rest:]...)
	}
	return words
}

// remains reports whether an option remains in a section: all but what the sections say themselves in the first one,
// in a later one only those that hold for one program.
func (l Line) remains(option string, later bool) bool {
	own, local := "np host hostfile", `x wdir wd path prefix app-prefix preload-binary preload-files
		set-cwd-to-session-dir mca omca pmixmca prtemca am tune`
	if l.Hydra() {
		own, local = "np", "env envlist envnone envall wdir path"
	}
	if l.MPI == "intel" {
		own += " host hostfile"
	}
	if slices.Contains(strings.Fields(own), option) {
		return false
	}
	return !later || slices.Contains(strings.Fields(local), option)
}
