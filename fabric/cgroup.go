package fabric

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// cgroup reads the limits of this process' control groups, version 1 or 2. In a container the path
// may be the host's and not visible; then the mounted root is the container's own group.
func cgroup(proc, sys fs.FS) Cgroup {
	groups := parseCgroups(readText(proc, "self/cgroup"))
	var c Cgroup
	if at, v2 := groups[""]; v2 {
		c.Memory, _ = lowest(sys, "fs/cgroup", at, "memory.max", "")
		c.Pids, c.PidsUsed = lowest(sys, "fs/cgroup", at, "pids.max", "pids.current")
	}
	if at, v1 := groups["memory"]; v1 && c.Memory == 0 {
		c.Memory, _ = lowest(sys, "fs/cgroup/memory", at, "memory.limit_in_bytes", "")
	}
	if at, v1 := groups["pids"]; v1 && c.Pids == 0 {
		c.Pids, c.PidsUsed = lowest(sys, "fs/cgroup/pids", at, "pids.max", "pids.current")
	}
	return c
}

// parseCgroups returns the path of each controller; version 2 has the key "".
func parseCgroups(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || !path.IsAbs(f[2]) {
			continue
		}
		for controller := range strings.SplitSeq(f[1], ",") {
			out[controller] = path.Clean(f[2])
		}
	}
	return out
}

// unlimited is the value that version 1 writes for no limit: the largest number of pages, in bytes.
const unlimited = 1 << 60

// lowest returns the lowest limit of a group and the groups above it, and the usage of
// the group with that limit; 0 for no limit.
func lowest(sys fs.FS, root, at, limit, used string) (least, uses int64) {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(readText(sys, name)), 10, 64)
		if err != nil || n < 0 || n >= unlimited { // "max", or no such file
			return 0
		}
		return n
	}
	for ; ; at = path.Dir(at) {
		dir := path.Join(root, at)
		if n := number(path.Join(dir, limit)); n > 0 && (least == 0 || n < least) {
			least, uses = n, 0
			if used != "" {
				uses = number(path.Join(dir, used))
			}
		}
		if at == "/" {
			return least, uses
		}
	}
}
