package scene

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Broken is a path that a rank names or had open, and that the file system answers with an error of its own.
type Broken struct {
	Path  string `json:"path"`
	By    string `json:"by"`    // what names it: "the variable DATA"
	Mount string `json:"mount"` // the mount point
	Type  string `json:"type"`  // of the file system
	Err   string `json:"err"`   // "ESTALE"
}

// maxNamed is how many paths of one rank are asked for.
const maxNamed = 32

// Retries reports whether the main thread of a process sleeps and wakes, again and again.
func (p *Proc) Retries() bool {
	return p.Syscall != nil && p.Moved.Switches >= 2 &&
		slices.Contains([]string{"nanosleep", "clock_nanosleep", "select", "pselect6"}, p.Syscall.Name)
}

// candidates returns the paths of a rank that may give an error of their file system.
func candidates(p *seen, open []File) []Broken {
	text, _ := readFile(procPath(p.pid, "mountinfo"))
	return named(p, open, mountPoints(string(text)))
}

// inRoot returns how this process names a path of another one, in the mounts of that one.
func (p *Proc) inRoot(path string) string { return procPath(p.PID, "root") + path }

// named returns the paths that a process names in its environment and command line, and files that it had open, on
// mounts other than the root.
func named(p *seen, open []File, mounts map[string]string) (out []Broken) {
	add := func(text, by string) {
		text = path.Clean(text)
		at := mountOf(mounts, text)
		known := slices.ContainsFunc(out, func(b Broken) bool { return b.Path == text })
		if at == "/" || slices.Contains(synthetic, mounts[at]) || mounts[at] == "autofs" || known ||
			len(out) >= maxNamed || len(text) > 4096 {
			return // a look mounts nothing
		}
		out = append(out, Broken{Path: clean(text, 4096), By: by, Mount: clean(at, 4096), Type: mounts[at]})
	}
	for _, f := range open {
		add(f.Path, "a file that it had open")
	}
	for _, a := range p.argv {
		if _, value, ok := strings.Cut(a, "="); ok && strings.HasPrefix(a, "-") {
			a = value
		}
		if strings.HasPrefix(a, "/") {
			add(a, "an argument of its command line")
		}
	}
	names := make([]string, 0, len(p.env))
	for name := range p.env {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for v := range strings.SplitSeq(p.env[name], ":") {
			if strings.HasPrefix(v, "/") {
				add(v, "the variable "+clean(name, maxValue))
			}
		}
	}
	return out
}

// mountPoints parses /proc/PID/mountinfo: the types by mount point; of several at one point the last one counts.
func mountPoints(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		end := slices.Index(f, "-")
		if end < 5 || end+1 >= len(f) {
			continue
		}
		at, err := strconv.Unquote(`"` + strings.ReplaceAll(f[4], `"`, `\"`) + `"`) // \040 is a blank
		if err != nil {
			at = f[4]
		}
		out[at] = clean(f[end+1], 64)
	}
	return out
}

// mountOf returns the mount point of a path, by its text alone.
func mountOf(mounts map[string]string, p string) string {
	for {
		if _, ok := mounts[p]; ok || p == "/" || p == "." {
			return p
		}
		p = path.Dir(p)
	}
}
