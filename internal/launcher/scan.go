package launcher

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// scan walks over the arguments of one prefix.
type scan struct {
	argv   []string
	at     int
	env    PrefixEnv
	module bool // a -m was found: at is its module
	kept   bool // sudo -E
}

var (
	dashNumber = regexp.MustCompile(`^-[0-9]+$`)
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
)

// prefix moves past the arguments of p, and reports whether it could.
func (s *scan) prefix(p prefix) bool {
	if p.until != "" {
		i := slices.Index(s.argv[s.at:], p.until)
		s.at += i + 1
		return i >= 0
	}
	if p.sub != "" { // options may be on both sides of the subcommand
		if !s.options(p) || s.at >= len(s.argv) || s.argv[s.at] != p.sub {
			return false
		}
		s.at++
	}
	if !s.options(p) {
		return false
	}
	if p.resets && !s.kept {
		s.env.Clear, s.env.By = true, p.names+" without -E"
	}
	if p.assigns {
		s.assignments()
	}
	if !s.module {
		s.at += p.words
	}
	return s.at <= len(s.argv)
}

func (s *scan) options(p prefix) bool {
	for s.at < len(s.argv) && !s.module {
		w := s.argv[s.at]
		switch {
		case w == "--":
			s.at++
			return true
		case w == "-" && p.assigns: // env -: the same as -i
			s.env.Clear, s.env.By = true, "env -i"
			s.at++
		case len(w) < 2 || w[0] != '-':
			return true
		case p.numbers && dashNumber.MatchString(w):
			s.at++
		case strings.HasPrefix(w, "--"):
			if !s.long(p, w) {
				return false
			}
		default:
			if !s.short(p, w) {
				return false
			}
		}
	}
	return true
}

func (s *scan) long(p prefix, w string) bool {
	name, value, attached := strings.Cut(w[2:], "=")
	known := strings.Fields(p.long)
	takes := p.values || slices.Contains(known, name+"=")
	switch {
	case p.module && name == "module" && !attached:
		s.at++
		s.module = true
	case slices.Contains(known, name), slices.Contains(known, name+"["), takes && attached:
		s.at++
	case takes:
		value = s.next()
		s.at += 2
	default:
		return false
	}
	s.clears(p, name, value)
	return true
}

// short parses a cluster of one-letter options such as -fo file.
func (s *scan) short(p prefix, w string) bool {
	for i := 1; i < len(w); i++ {
		if p.module && w[i] == 'm' {
			s.at++
			s.module = true
			return i == len(w)-1
		}
		at := strings.IndexByte(p.short, w[i])
		if w[i] == ':' || at < 0 && !p.values {
			return false
		}
		takes := at < 0 || at+1 < len(p.short) && p.short[at+1] == ':'
		if !takes {
			s.clears(p, w[i:i+1], "")
			continue
		}
		value := w[i+1:]
		if value == "" {
			value = s.next()
			s.at++
		}
		s.clears(p, w[i:i+1], value)
		break
	}
	s.at++
	return true
}

// clears records what env -i, env -u and sudo -E do.
func (s *scan) clears(p prefix, name, value string) {
	switch {
	case p.resets:
		s.kept = s.kept || name == "E" || name == "preserve-env" && value == ""
	case !p.assigns: // not env
	case name == "i", name == "ignore-environment":
		s.env.Clear, s.env.By = true, "env -i"
	case name == "u", name == "unset":
		s.env.Unset = append(s.env.Unset, value)
	}
}

func (s *scan) next() string {
	if s.at+1 < len(s.argv) {
		return s.argv[s.at+1]
	}
	return ""
}

func (s *scan) assignments() {
	for ; s.at < len(s.argv) && assignment.MatchString(s.argv[s.at]); s.at++ {
		name, value, _ := strings.Cut(s.argv[s.at], "=")
		s.env.Set = append(s.env.Set, Option{Name: name, Value: value, At: s.at, Words: 1})
	}
}

// pythonOptions are CPython's own (Python/getopt.c); c and m end them.
const pythonOptions = "+bBdEhiIJOPqRsStuvVxW:X:c:m:"

// python finds a launcher after an interpreter, which is at l.At, and returns its module.
func (l *Line) python() (module string) {
	name := path.Base(l.Argv[l.At])
	for i := l.At + 1; i < len(l.Argv); i++ {
		w := l.Argv[i]
		switch {
		case w == "--check-hash-based-pycs":
			i++
			continue
		case w == "-" || strings.HasPrefix(w, "--"):
			return ""
		case !strings.HasPrefix(w, "-"):
			return l.pythonScript(w, i, name)
		}
		for j := 1; j < len(w); j++ {
			switch at := strings.IndexByte(pythonOptions, w[j]); {
			case at < 0 || strings.IndexByte("chV:", w[j]) >= 0: // -c, and what only prints
				return ""
			case w[j] == 'm':
				module, at := w[j+1:], i
				if module == "" && i+1 < len(l.Argv) {
					module, at = l.Argv[i+1], i+1
				}
				return l.pythonModule(module, at, name+" -m")
			case at+1 < len(pythonOptions) && pythonOptions[at+1] == ':':
				if j == len(w)-1 {
					i++ // the value is the next argument
				}
				j = len(w)
			}
		}
	}
	return ""
}

func (l *Line) pythonModule(module string, at int, title string) string {
	switch module {
	case "torch.distributed.run", "torch.distributed.launch", "torchrun":
		l.Kind, l.At, l.Prefix = Torchrun, at, append(l.Prefix, title)
		return module
	case ftModule:
		l.Kind, l.At, l.Prefix, l.FT = Torchrun, at, append(l.Prefix, title), true
		return module
	}
	if at < len(l.Argv) && l.start(at) {
		l.Prefix = append(l.Prefix, title)
	}
	return ""
}

func (l *Line) pythonScript(script string, at int, title string) (module string) {
	switch {
	case torchrunName.MatchString(path.Base(script)), strings.HasSuffix(script, "torch/distributed/run.py"):
	case strings.HasSuffix(script, "torch/distributed/launch.py"):
		module = "torch.distributed.launch"
	case path.Base(script) == ftName:
		module, l.FT = ftModule, true
	default:
		if l.start(at) {
			l.Prefix = append(l.Prefix, title)
			return ""
		}
		l.Script = at
		return ""
	}
	l.Kind, l.At, l.Prefix = Torchrun, at, append(l.Prefix, title)
	return module
}
