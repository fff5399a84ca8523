package fabric

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// parseMemlock returns the soft limit of locked memory, in bytes.
func parseMemlock(limits string) (uint64, error) { return softLimit(limits, "Max locked memory") }

// hardLimit returns the hard limit in a row of /proc/self/limits; math.MaxUint64: unlimited, 0: unknown.
func hardLimit(limits, row string) uint64 {
	for line := range strings.Lines(limits) {
		rest, ok := strings.CutPrefix(line, row)
		f := strings.Fields(rest)
		if !ok || len(f) < 2 {
			continue
		}
		n, _ := softLimit(row+" "+f[1], row) // 0: not a number
		return n
	}
	return 0
}

// softLimit returns the soft limit in a row of /proc/self/limits; math.MaxUint64: unlimited.
func softLimit(limits, row string) (uint64, error) {
	for line := range strings.Lines(limits) {
		rest, ok := strings.CutPrefix(line, row)
		if !ok {
			continue
		}
		f := strings.Fields(rest)
		if len(f) == 0 {
			break
		}
		if f[0] == "unlimited" {
			return math.MaxUint64, nil
		}
		n, err := strconv.ParseUint(f[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("soft limit %q is not a number", f[0])
		}
		return n, nil
	}
	return 0, fmt.Errorf("no row %q", row)
}

// finite returns the soft limit in a row of /proc/self/limits; 0: unlimited, or unknown.
func finite(limits, row string) uint64 {
	if n, err := softLimit(limits, row); err == nil && n != math.MaxUint64 {
		return n
	}
	return 0
}

// parsePortRange reads the two numbers of net.ipv4.ip_local_port_range.
func parsePortRange(s string) ([2]int, error) {
	f := strings.Fields(s)
	if len(f) != 2 {
		return [2]int{}, fmt.Errorf("%q is not two ports", s)
	}
	var r [2]int
	for i := range f {
		n, err := strconv.ParseUint(f[i], 10, 16)
		if err != nil {
			return [2]int{}, fmt.Errorf("%q is not a port", f[i])
		}
		r[i] = int(n)
	}
	if r[0] > r[1] {
		return [2]int{}, fmt.Errorf("%q is an empty range", s)
	}
	return r, nil
}

// shm returns the bytes free in /dev/shm, 0 where no inode is, and its size; -1 and 0 where nothing is mounted there.
func shm() (free, size int64) {
	var st unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &st); err != nil {
		return -1, 0
	}
	if free = int64(st.Bavail) * st.Bsize; st.Files > 0 && st.Ffree == 0 {
		free = 0
	}
	return free, int64(st.Blocks) * st.Bsize
}

// denied reports whether this user may not write into a folder.
func denied(folder string) bool {
	err := unix.Faccessat(unix.AT_FDCWD, folder, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	return errors.Is(err, unix.EACCES)
}

// fewThreads is the room in a control group below which launch uses one core: Go has threads for each.
const fewThreads = 64

// Narrow reports whether a control group has room for few more processes and threads.
func (c Cgroup) Narrow() bool { return c.Pids > 0 && c.Pids-c.PidsUsed < fewThreads }

// CgroupOf returns the limits of this process' group.
func CgroupOf(r Roots) Cgroup { return cgroup(r.Proc, r.Sys) }

// cgroup reads the limits of this process' control groups, version 1 or 2. In a container the path
// may be the host's and not visible; then the mounted root is the container's own group.
func cgroup(proc, sys fs.FS) Cgroup {
	groups := parseCgroups(readText(proc, "self/cgroup"))
	var c Cgroup
	c.Memory, _ = memory(sys, groups)
	c.Held = held(proc, sys, groups, c.Memory)
	c.Stalls = stalls(sys, groups)
	c.CPUs = cpus(sys, groups)
	if at, v2 := groups[""]; v2 {
		c.Pids, c.PidsUsed = lowest(sys, "fs/cgroup", at, "pids.max", "pids.current")
	}
	if at, v1 := groups["pids"]; v1 && c.Pids == 0 {
		c.Pids, c.PidsUsed = lowest(sys, "fs/cgroup/pids", at, "pids.max", "pids.current")
	}
	return c
}

// cpus returns the lowest quota of processor time (cpu.max; version 1: cpu.cfs_quota_us), in cores; 0: none.
func cpus(sys fs.FS, groups map[string]string) (least float64) {
	for dir, old := range cpuGroups(groups) {
		f := strings.Fields(readText(sys, path.Join(dir, "cpu.max")))
		if old {
			f = strings.Fields(readText(sys, path.Join(dir, "cpu.cfs_quota_us")) + " " +
				readText(sys, path.Join(dir, "cpu.cfs_period_us")))
		}
		if len(f) != 2 {
			continue
		}
		quota, _ := strconv.ParseFloat(f[0], 64) // "max" and -1: none
		period, _ := strconv.ParseFloat(f[1], 64)
		if quota > 0 && period > 0 && (least == 0 || quota/period < least) {
			least = quota / period
		}
	}
	return least
}

// cpuRoot is where version 1 has the groups of processor time.
const cpuRoot = "fs/cgroup/cpu"

// cpuGroups returns the folders of the groups that share out processor time, each with whether it is of version 1.
func cpuGroups(groups map[string]string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for controller, root := range map[string]string{"": "fs/cgroup", "cpu": cpuRoot} {
			at, ok := groups[controller]
			if !ok {
				continue
			}
			for _, dir := range groupsFrom(root, at) {
				if !yield(dir, controller != "") {
					return
				}
			}
		}
	}
}

// memory returns the limit of the memory of control groups, and what is used of it; 0: none.
func memory(sys fs.FS, groups map[string]string) (limit, used int64) {
	if at, v2 := groups[""]; v2 {
		limit, used = lowest(sys, "fs/cgroup", at, "memory.max", "memory.current")
	}
	if at, v1 := groups["memory"]; v1 && limit == 0 {
		limit, used = lowest(sys, "fs/cgroup/memory", at, "memory.limit_in_bytes", "memory.usage_in_bytes")
	}
	return limit, used
}

// held returns how many bytes of a limit of memory are taken by files in memory (memory.stat: shmem; version 1:
// total_shmem), as in /dev/shm: the kernel gives back what caches files on disks, and these only to swap. What free
// swap could take does not count.
func held(proc, sys fs.FS, groups map[string]string, limit int64) int64 {
	at, root, file, name := groups["memory"], "fs/cgroup/memory", "memory.limit_in_bytes", "total_shmem"
	if at == "" {
		at, root, file, name = groups[""], "fs/cgroup", "memory.max", "shmem"
	}
	if at == "" || limit == 0 {
		return 0
	}
	for _, dir := range groupsFrom(root, at) {
		if n, _ := strconv.ParseInt(strings.TrimSpace(readText(sys, path.Join(dir, file))), 10, 64); n == limit {
			swap := row(readText(proc, "meminfo"), "SwapFree:") << 10
			return max(0, row(readText(sys, path.Join(dir, "memory.stat")), name)-swap)
		}
	}
	return 0
}

// row returns the number after a name at the beginning of a line; 0: there is no such line.
func row(text, name string) (n int64) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, _ = strconv.ParseInt(f[1], 10, 64)
		}
	}
	return n
}

// stalls reports whether a group of version 1 has a limit of memory and no OOM killer (memory.oom_control): a process
// that needs more then waits in the kernel (Documentation/admin-guide/cgroup-v1/memory.rst, section 10).
func stalls(sys fs.FS, groups map[string]string) bool {
	at, v1 := groups["memory"]
	if !v1 {
		return false
	}
	return slices.ContainsFunc(groupsFrom("fs/cgroup/memory", at), func(dir string) bool {
		n, err := strconv.ParseInt(strings.TrimSpace(readText(sys, path.Join(dir, "memory.limit_in_bytes"))), 10, 64)
		return err == nil && n > 0 && n < unlimited &&
			strings.Contains(readText(sys, path.Join(dir, "memory.oom_control")), "oom_kill_disable 1\n")
	})
}

// OOMKills returns how many processes the kernel has killed for lack of memory: of the control group of
// this process (memory.events; version 1: memory.oom_control), else, foreign, of the whole machine (/proc/vmstat).
func OOMKills(proc, sys fs.FS) (kills int64, foreign bool) {
	groups := parseCgroups(readText(proc, "self/cgroup"))
	texts := []string{readText(sys, path.Join("fs/cgroup", groups[""], "memory.events")),
		readText(sys, path.Join("fs/cgroup/memory", groups["memory"], "memory.oom_control")), readText(proc, "vmstat")}
	for i, text := range texts {
		for line := range strings.Lines(text) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				kills, _ = strconv.ParseInt(strings.TrimSpace(n), 10, 64)
				return kills, i == len(texts)-1
			}
		}
	}
	return 0, false
}

// available returns how many bytes of memory this process may still use.
func available(proc, sys fs.FS) int64 {
	free := row(readText(proc, "meminfo"), "MemAvailable:") << 10
	if limit, used := memory(sys, parseCgroups(readText(proc, "self/cgroup"))); limit > 0 {
		free = min(free, limit-used)
	}
	return max(free, 0)
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

// lowest returns the lowest limit of a group and those above it, and the usage of that group; 0: none.
func lowest(sys fs.FS, root, at, limit, used string) (least, uses int64) {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(readText(sys, name)), 10, 64)
		if err != nil || n < 0 || n >= unlimited { // "max", or no such file
			return 0
		}
		return n
	}
	for _, dir := range groupsFrom(root, at) {
		if n := number(path.Join(dir, limit)); n > 0 && (least == 0 || n < least) {
			least, uses = n, 0
			if used != "" {
				uses = number(path.Join(dir, used))
			}
		}
	}
	return least, uses
}

// groupsFrom returns the folders of a control group and of the groups above it.
func groupsFrom(root, at string) (dirs []string) {
	for {
		dirs = append(dirs, path.Join(root, at))
		if at == "/" {
			return dirs
		}
		at = path.Dir(at)
	}
}
