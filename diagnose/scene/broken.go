package scene

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Broken is a path that a rank names or had open, and that the file system answers with an error of its own.
type Broken struct {
	Path  string `json:"path"`
	By    string `json:"by"`    // what names it: "the variable DATA"; empty: it is a mount point
	Mount string `json:"mount"` // the mount point
	Type  string `json:"type"`  // of the file system
	Err   string `json:"err"`   // "ESTALE"; "ENOSPC": it is full, and the rank may fail to write
}

// maxNamed is how many paths of one rank are asked for.
const maxNamed = 32

// Retries reports whether the main thread of a process sleeps and wakes, again and again.
func (p *Proc) Retries() bool {
	return p.Syscall != nil && p.Moved.Switches >= 2 &&
		slices.Contains([]string{"nanosleep", "clock_nanosleep", "select", "pselect6"}, p.Syscall.Name)
}

// noSpace is the error of a file system that is full.
const noSpace = "ENOSPC"

// someData is more than a loop prints while it waits.
const someData = 64 << 10

// failsToWrite reports whether a process that sleeps and wakes may write to a full file system: it calls write(2), and
// writes nothing, or much at a time. A line that it prints is short.
func (p *Proc) failsToWrite() bool {
	return p.Moved.Writes > 0 && (p.Moved.Written == 0 || p.Moved.Written >= someData)
}

// candidates returns the paths of a rank that may give an error of their file system; where it may fail to write, all
// its file systems.
func candidates(p *seen, open []File, writes bool) []Broken {
	text, _ := readFile(procPath(p.pid, "mountinfo"))
	out := named(p, open, mountPoints(string(text)))
	if writes {
		out = append(out, writable(string(text))...)
	}
	return out
}

// unsized are file systems that are full by nature, or whose size says nothing.
var unsized = []string{"squashfs", "iso9660", "erofs", "cramfs", "udf", "efivarfs", "hugetlbfs", "ramfs", "devtmpfs",
	"autofs"}

// writable returns the mount points of /proc/PID/mountinfo that a process may write to, one of each device, the
// shortest.
func writable(mountinfo string) (out []Broken) {
	types, at := mountPoints(mountinfo), map[string]string{}
	for point, kind := range types {
		device := deviceOf(mountinfo, point)
		unfit := slices.Contains(synthetic, kind) || slices.Contains(unsized, kind) || strings.HasPrefix(kind, "fuse")
		if old, known := at[device]; !unfit && (!known || len(point) < len(old) || len(point) == len(old) && point < old) {
			at[device] = point
		}
	}
	for _, point := range slices.Sorted(maps.Values(at)) {
		out = append(out, Broken{Path: clean(point, 4096), Mount: clean(point, 4096), Type: types[point]})
	}
	return out[:min(len(out), maxNamed)]
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
