// Package proc reads what the kernel tells of a process in /proc/PID/stat.
package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Stat is what is used of that line.
type Stat struct {
	State   byte   // R, S, D; Z is a zombie
	Parent  int    // 0: it has none, or one of another PID namespace
	Started string // clock ticks after boot: tells a process from a later one with its PID
}

// Read is the line of a process that exists.
func Read(pid int) (Stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	s, err := parse(string(b))
	if err != nil {
		return Stat{}, fmt.Errorf("parse /proc/%d/stat: %w", pid, err)
	}
	return s, nil
}

// parse reads fields 3, 4 and 22 of proc(5). Field 2, the name, is in
// parentheses and may hold anything, these and spaces too.
func parse(line string) (Stat, error) {
	end := strings.LastIndexByte(line, ')')
	f := strings.Fields(line[end+1:])
	if end < 0 || len(f) < 20 || len(f[0]) != 1 {
		return Stat{}, fmt.Errorf("%d fields behind a name at %d", len(f), end)
	}
	parent, err := strconv.Atoi(f[1])
	if err != nil {
		return Stat{}, fmt.Errorf("the parent: %w", err)
	}
	if _, err := strconv.ParseUint(f[19], 10, 64); err != nil {
		return Stat{}, fmt.Errorf("the start time: %w", err)
	}
	return Stat{State: f[0][0], Parent: parent, Started: f[19]}, nil
}
