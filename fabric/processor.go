package fabric

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// Processor returns the processor time that the control group of a process of this machine has had so far, and for how
// long a quota has held its threads, summed over the processors; how many periods of the quota there were in which its
// threads ran, and how many of these held them. Of the group and the visible ones above it, it is the one that was held
// the longest. All are 0 where they are not readable.
func Processor(pid int) (used, held time.Duration, periods, throttled int64) {
	r := Live()
	c := processor(r.Proc, r.Sys, strconv.Itoa(pid))
	return c.used, c.held, c.periods, c.throttled
}

// counters are those of cpu.stat.
type counters struct {
	used, held         time.Duration
	periods, throttled int64
}

// processor reads cpu.stat of version 2 or 1. Source: cgroup-v2.rst and sched-bwc.rst of the kernel.
func processor(proc, sys fs.FS, pid string) (most counters) {
	found := false
	for dir, old := range cpuGroups(parseCgroups(readText(proc, pid+"/cgroup"))) {
		c, here := parseCPUStat(readText(sys, path.Join(dir, "cpu.stat")))
		if old {
			account := path.Join("fs/cgroup/cpuacct", strings.TrimPrefix(dir, cpuRoot), "cpuacct.usage")
			n, _ := strconv.ParseInt(strings.TrimSpace(readText(sys, account)), 10, 64)
			c.used = time.Duration(n)
		}
		if here && (!found || c.held > most.held) {
			most, found = c, true
		}
	}
	return most
}

// parseCPUStat parses cpu.stat; ok is false where no quota is counted.
func parseCPUStat(text string) (c counters, ok bool) {
	for line := range strings.Lines(text) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil:
		case name == "usage_usec":
			c.used = time.Duration(n) * time.Microsecond
		case name == "nr_periods":
			c.periods = n
		case name == "nr_throttled":
			c.throttled = n
		case name == "throttled_usec":
			c.held, ok = time.Duration(n)*time.Microsecond, true
		case name == "throttled_time": // version 1, nanoseconds
			c.held, ok = time.Duration(n), true
		}
	}
	return c, ok
}
