package scene

import (
	"strconv"
	"strings"
)

// Keeper is the process of this node that has what another one waits for.
type Keeper struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"`
}

// keeperOf returns the process that has the lock of a file which another one waits for; nil: none of this node is seen.
func keeperOf(waiter int) *Keeper {
	pid := lockedBy(readLine("/proc/locks"), waiter)
	if pid == 0 {
		return nil
	}
	return &Keeper{PID: pid, Comm: clean(readLine(procPath(pid, "comm")), maxValue)}
}

// lockedBy returns which process has the lock that another one waits for; 0: it is not seen. text is /proc/locks: a
// line of a process that waits has the number of the lock that it waits for, and an arrow (proc_locks(5)).
func lockedBy(text string, waiter int) int {
	by := map[string]int{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) < 6:
		case f[1] != "->":
			by[f[0]], _ = strconv.Atoi(f[4])
		case f[5] == strconv.Itoa(waiter):
			return max(by[f[0]], 0) // -1: of an open file, which several processes may have
		}
	}
	return 0
}
