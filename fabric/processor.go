package fabric

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// Processor returns the processor time that the control group of a process of this machine has had so far, and for how
// long a quota has held its threads, summed over the processors. Of the group and the visible ones above it, it is the
// one that was held the longest. Both are 0 where they are not readable.
func Processor(pid int) (used, held time.Duration) {
	r := Live()
	return processor(r.Proc, r.Sys, strconv.Itoa(pid))
}

// processor reads cpu.stat of version 2 or 1. Source: cgroup-v2.rst and sched-bwc.rst of the kernel.
func processor(proc, sys fs.FS, pid string) (used, held time.Duration) {
	found := false
	for dir, old := range cpuGroups(parseCgroups(readText(proc, pid+"/cgroup"))) {
		has, was, here := counters(readText(sys, path.Join(dir, "cpu.stat")))
		if old {
			account := path.Join("fs/cgroup/cpuacct", strings.TrimPrefix(dir, cpuRoot), "cpuacct.usage")
			n, _ := strconv.ParseInt(strings.TrimSpace(readText(sys, account)), 10, 64)
			has = time.Duration(n)
		}
		if here && (!found || was > held) {
			used, held, found = has, was, true
		}
	}
	return used, held
}

// counters parses cpu.stat; ok is false where no quota is counted.
func counters(text string) (used, held time.Duration, ok bool) {
	for line := range strings.Lines(text) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil:
		case name == "usage_usec":
			used = time.Duration(n) * time.Microsecond
		case name == "throttled_usec":
			held, ok = time.Duration(n)*time.Microsecond, true
		case name == "throttled_time": // version 1, nanoseconds
			held, ok = time.Duration(n), true
		}
	}
	return used, held, ok
}
