package launcher

import (
	"path"
	"slices"
	"strings"

	"launch/internal/setting"
)

// Carries returns the variables of libraries, as "NAME=VALUE" texts, that the line gives to processes on other hosts;
// env is what launch inherited. Hydra gives all that it has, unless an option says which, and Open MPI what -x names
// (seen in lab/mpi). A line of several programs counts as one.
func (l Line) Carries(env []string) (out []string) {
	env = l.Environ(env)
	add := func(name, value string) {
		if setting.Library(name) == "" {
			return
		}
		out = slices.DeleteFunc(out, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		out = append(out, name+"="+value)
	}
	matching := func(pattern string) {
		for _, kv := range env {
			name, value, _ := strings.Cut(kv, "=")
			ok, err := path.Match(pattern, name)
			if l.MPI == "openmpi4" { // it knows no patterns
				ok = pattern == name
			}
			if ok && err == nil {
				add(name, value)
			}
		}
	}
	if l.Hydra() {
		which := "*"
		for _, o := range l.Options {
			switch o.Name {
			case "genvnone", "envnone":
				which = ""
			case "genvlist", "envlist":
				which = o.Value
			}
		}
		for pattern := range strings.SplitSeq(which, ",") {
			matching(pattern)
		}
	}
	for _, o := range l.Options { // -x is Open MPI's, the others Hydra's
		switch name, value, given := strings.Cut(o.Value, "="); {
		case o.Name == "x" && !given:
			matching(name)
		case o.Name == "x" || o.Name == "genv" || o.Name == "env":
			add(name, value)
		}
	}
	return out
}
