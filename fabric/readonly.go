package fabric

import (
	"fmt"
	"io/fs"
	"slices"
)

// Mount is a file system as some processes see it.
type Mount struct {
	Path, Kind, Source, Device string
	// Refuses is the option that shows that nothing can be written; "": it can. A process may lack the right to.
	Refuses string
	Demands bool // to become read-only after an error (errors=remount-ro)
}

// refuses are these options. ext4 has the last two after an error since Linux 6.15, and no "ro" then.
var refuses = []string{"ro", "emergency_ro", "shutdown"}

// MountsOf returns the mounts of a process at which files can be, the one on top of each place. It asks no file system.
func MountsOf(proc fs.FS, pid int) (out []Mount) {
	for _, m := range parseMounts(readText(proc, fmt.Sprintf("%d/mountinfo", pid))) {
		switch m.kind {
		case "proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "securityfs", "debugfs", "tracefs", "bpf",
			"autofs", "nsfs":
			continue
		}
		one := Mount{Path: m.at, Kind: m.kind, Source: m.source, Device: m.device,
			Demands: slices.Contains(m.options, "errors=remount-ro")}
		if i := slices.IndexFunc(m.options, func(o string) bool { return slices.Contains(refuses, o) }); i >= 0 {
			one.Refuses = m.options[i]
		}
		out = slices.DeleteFunc(out, func(o Mount) bool { return o.Path == m.at })
		out = append(out, one)
	}
	return out
}

// Holds reports whether a path without links is on a mount, of all mounts of a process.
func (m Mount) Holds(all []Mount, name string) bool {
	places := make([]mount, len(all))
	for i, o := range all {
		places[i].at = o.Path
	}
	return holds(places, name).at == m.Path
}
