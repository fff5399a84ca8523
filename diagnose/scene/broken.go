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
	mounts := mountPoints(string(text))
	out := named(p, open, mounts)
	if writes {
		out = append(out, writable(mounts)...)
	}
	return out
}

// unsized are file systems that are full by nature, or whose size says nothing.
var unsized = []string{"squashfs", "iso9660", "erofs", "cramfs", "udf", "efivarfs", "hugetlbfs", "ramfs", "devtmpfs",
	"autofs"}

// writable returns the mount points that a process may write to, one of each device, the shortest.
func writable(mounts map[string]mount) (out []Broken) {
	at := map[string]string{}
	for point, m := range mounts {
		unfit := slices.Contains(synthetic, m.kind) || slices.Contains(unsized, m.kind) || strings.HasPrefix(m.kind, "fuse")
		old, known := at[m.device]
		if !unfit && (!known || len(point) < len(old) || len(point) == len(old) && point < old) {
			at[m.device] = point
		}
	}
	for _, point := range slices.Sorted(maps.Values(at)) {
		out = append(out, Broken{Path: clean(point, 4096), Mount: clean(point, 4096), Type: mounts[point].kind})
	}
	return out[:min(len(out), maxNamed)]
}

// inRoot returns how this process names a path of another one, in the mounts of that one.
func (p *Proc) inRoot(path string) string { return procPath(p.PID, "root") + path }

// named returns the paths that a process names in its environment and command line, and files that it had open, on
// mounts other than the root.
func named(p *seen, open []File, mounts map[string]mount) (out []Broken) {
	add := func(text, by string) {
		text = path.Clean(text)
		at := mountOf(mounts, text)
		kind := mounts[at].kind
		known := slices.ContainsFunc(out, func(b Broken) bool { return b.Path == text })
		if at == "/" || slices.Contains(synthetic, kind) || kind == "autofs" || known ||
			len(out) >= maxNamed || len(text) > 4096 {
			return // a look mounts nothing
		}
		out = append(out, Broken{Path: clean(text, 4096), By: by, Mount: clean(at, 4096), Type: kind})
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

// mount is the type of a file system and its device, as 8:1.
type mount struct{ kind, device string }

// mountPoints parses /proc/PID/mountinfo, by mount point; of several at one point the last one counts.
func mountPoints(text string) map[string]mount {
	out := map[string]mount{}
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
		out[at] = mount{clean(f[end+1], 64), f[2]}
	}
	return out
}

// mountOf returns the mount point of a path, by its text alone.
func mountOf(mounts map[string]mount, p string) string {
	for {
		if _, ok := mounts[p]; ok || p == "/" || p == "." {
			return p
		}
		p = path.Dir(p)
	}
}
