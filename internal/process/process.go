// Package process reads from /proc what the kernel says of the processes of this machine: state,
// parent, start time, descendants, and the sockets that they listen on.
package process

import (
	"strconv"

	"github.com/prometheus/procfs"
)

// Stat is the part of /proc/PID/stat that launch uses.
type Stat struct {
	State   byte   // R, S, D; Z is a zombie
	Parent  int    // 0: none, or a process of another PID namespace
	Started string // clock ticks after boot: tells a process from a later one with the same PID
}

// Read returns the stat of a process that exists.
func Read(pid int) (Stat, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return Stat{}, err
	}
	s, err := p.Stat()
	if err != nil {
		return Stat{}, err
	}
	return Stat{State: s.State[0], Parent: s.PPID, Started: strconv.FormatUint(s.Starttime, 10)}, nil
}

// Descendants returns the processes below pid that are not zombies.
func Descendants(pid int) []int {
	all, _ := procfs.AllProcs()
	children := map[int][]int{}
	zombie := map[int]bool{}
	for _, p := range all {
		s, err := p.Stat()
		if err != nil {
			continue // it has ended
		}
		children[s.PPID] = append(children[s.PPID], p.PID)
		zombie[p.PID] = s.State == "Z"
	}
	var out []int
	for next := children[pid]; len(next) > 0; next = next[1:] {
		if !zombie[next[0]] {
			out = append(out, next[0])
		}
		next = append(next, children[next[0]]...)
	}
	return out
}
