package fabric

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Freezer returns the file below /sys of the control group whose freezer holds a process of this machine, as
// "fs/cgroup/job/cgroup.freeze". If frozen is false, its group is not frozen, or not visible here, as in a
// container: then file is of its own group.
func Freezer(pid int) (file string, frozen bool) {
	r := Live()
	return freezer(r.Proc, r.Sys, strconv.Itoa(pid))
}

// freezer reads the freezer of version 1 or 2, of the group of a process and of those above it. Source: cgroup-v2.rst
// and freezer-subsystem.rst of the kernel.
func freezer(proc, sys fs.FS, pid string) (file string, frozen bool) {
	groups := parseCgroups(readText(proc, pid+"/cgroup"))
	for _, f := range []struct{ controller, root, state, frozen, own, file string }{
		{"freezer", "fs/cgroup/freezer", "freezer.state", "FROZEN", "freezer.self_freezing", "freezer.state"},
		{"", "fs/cgroup", "cgroup.events", "frozen 1", "cgroup.freeze", "cgroup.freeze"},
		{"", "fs/cgroup/unified", "cgroup.events", "frozen 1", "cgroup.freeze", "cgroup.freeze"},
	} {
		at, ok := groups[f.controller]
		if !ok {
			continue
		}
		if file == "" && at != "/" {
			file = path.Join(f.root, at, f.file)
		}
		if !slices.Contains(strings.Split(readText(sys, path.Join(f.root, at, f.state)), "\n"), f.frozen) {
			continue
		}
		for _, dir := range groupsFrom(f.root, at) {
			if strings.TrimSpace(readText(sys, path.Join(dir, f.own))) == "1" {
				return path.Join(dir, f.file), true
			}
		}
	}
	return file, false
}
