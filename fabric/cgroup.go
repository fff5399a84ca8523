package fabric

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// cgroup reads the limits of the groups that this process is in, of either
// version. In a container the path may be that of the host, which is not to be
// seen: then the root of what is mounted is the container's own group.
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

// parseCgroups is the path of each controller; that of version 2 is "".
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

// unlimited is what version 1 writes for no limit: the largest number of
// pages, in bytes. Nothing real is as large.
const unlimited = 1 << 60

// lowest is the lowest limit on the way up from a group, and what the group
// that has it uses; 0 where there is none.
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
