package fabric

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// parseMemlock returns the soft limit of locked memory, in bytes.
func parseMemlock(limits string) (uint64, error) { return softLimit(limits, "Max locked memory") }

// parseProcs returns the soft limit of processes; 0 where it is unknown.
func parseProcs(limits string) uint64 {
	n, _ := softLimit(limits, "Max processes")
	return n
}

// softLimit returns the soft limit in a row of /proc/self/limits, which holds a
// name, a soft limit, a hard limit and a unit. math.MaxUint64 is unlimited.
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

// shm returns the bytes free in /dev/shm and its size; -1 and 0 where nothing is mounted there.
func shm() (free, size int64) {
	var st unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &st); err != nil {
		return -1, 0
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize
}
