package scene

import (
	"strconv"
	"strings"
)

// Owner is the process of this node that has what another one waits for.
type Owner struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"`
}

// maxLocks is how much of /proc/locks is read, some 4,000 locks: the kernel goes through all from the start for each
// 4 KiB, and no process gets a lock meanwhile.
const maxLocks = 256 << 10

// ownerOf returns the process that has the lock of a file which another one waits for; nil: no process of this node is
// seen to have it.
func ownerOf(waiter int) *Owner {
	text, _ := readStart("/proc/locks", maxLocks)
	pid, file := lockedBy(string(text), waiter)
	if pid == 0 || !hasLock(pid, file) {
		return nil
	}
	return &Owner{PID: pid, Comm: clean(readLine(procPath(pid, "comm")), maxValue)}
}

// lockedBy returns which process has taken the lock that another one waits for, and of which file; 0: it is not seen.
// text is /proc/locks: a line of a process that waits has the number of the lock that it waits for, and an arrow
// (proc_locks(5)).
func lockedBy(text string, waiter int) (pid int, file string) {
	number := ""
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) < 6:
		case f[1] != "->":
			number, file = f[0], f[5]
			pid, _ = strconv.Atoi(f[4])
		case f[5] == strconv.Itoa(waiter) && f[0] == number:
			return max(pid, 0), file // -1: of an open file, which several processes may have
		}
	}
	return 0, ""
}

// hasLock reports whether a process has an open file with a lock of that file. The one that took a lock by flock(2) may
// have ended, as flock(1) does where a shell has the file open, and its number may be in use again.
func hasLock(pid int, file string) bool {
	fds, _ := list(procPath(pid, "fdinfo"))
	for _, fd := range fds {
		info, _ := readFile(procPath(pid, "fdinfo/"+strconv.Itoa(fd)))
		for line := range strings.Lines(string(info)) {
			if f := strings.Fields(line); len(f) > 6 && f[0] == "lock:" && f[2] != "->" && f[6] == file {
				return true
			}
		}
	}
	return false
}
