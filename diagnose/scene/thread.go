package scene

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// thread is one thread at one moment.
type thread struct {
	name, wchan, state string
	cpu                int64
	ran                string // how long it ran, and how often, as the scheduler counts
}

// maxThreads of one process are read.
const maxThreads = 4096

// readThreads returns the threads of a process by their ids.
func readThreads(pid int) map[int]thread {
	tids, _ := list(procPath(pid, "task"))
	out := make(map[int]thread, len(tids))
	for _, tid := range tids[:min(len(tids), maxThreads)] {
		dir := procPath(pid, "task/"+strconv.Itoa(tid)+"/")
		s, err := readStat(dir + "stat")
		if err != nil {
			continue // it has ended
		}
		out[tid] = thread{name: clean(s.comm, maxValue), wchan: channel(readLine(dir + "wchan")), state: s.state,
			cpu: s.cpu, ran: ran(readLine(dir + "schedstat"))}
	}
	return out
}

// ran drops the second number of schedstat, the time that the thread waited for a CPU.
func ran(schedstat string) string {
	f := strings.Fields(schedstat)
	if len(f) < 3 {
		return ""
	}
	return f[0] + " " + f[2]
}

// channel returns a wait channel without what compilers append; 0 stands for none.
func channel(wchan string) string {
	if wchan == "0" {
		return ""
	}
	name, _, _ := strings.Cut(wchan, ".")
	return clean(name, maxValue)
}

// still returns whether no thread ran between two moments, and none came or ended.
func still(before, after map[int]thread) bool { return len(after) > 0 && maps.Equal(before, after) }

// futex is how a thread waits for one.
type futex struct{ timed, shared bool }

// readFutexes returns how those threads wait that wait for a futex.
func readFutexes(pid int, all map[int]thread) map[int]futex {
	out := map[int]futex{}
	for tid, t := range all {
		if strings.HasPrefix(t.wchan, "futex") {
			out[tid] = futexOf(readLine(procPath(pid, "task/"+strconv.Itoa(tid)+"/syscall")))
		}
	}
	return out
}

// grouped counts threads of the same name, place and state.
func grouped(all map[int]thread, futexes map[int]futex) []Thread {
	count := map[Thread]int{}
	for tid, t := range all {
		f := futexes[tid]
		count[Thread{Name: t.name, Wchan: t.wchan, State: t.state, Timed: f.timed, Shared: f.shared}]++
	}
	var out []Thread
	for t, n := range count {
		t.Count = n
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Thread) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Wchan, b.Wchan),
			cmp.Compare(a.State, b.State), order(a.Timed, b.Timed), order(a.Shared, b.Shared))
	})
	return out
}

// order puts what is false first.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// The operations by which a futex waits (linux/futex.h); futexPrivate and futexClock modify them.
const (
	futexWait, futexWaitBitset = 0, 9
	futexPrivate, futexClock   = 128, 256
)

// futexOf returns how a thread waits whose /proc/PID/task/TID/syscall is text: the fourth argument of futex(2) is a
// time limit. Other processes can wake it if its operation is not private, as for a semaphore of multiprocessing.
func futexOf(text string) futex {
	s, args, err := parseSyscall(text)
	if err != nil || s.Name != "futex" {
		return futex{}
	}
	return futexBy(args)
}

// futexBy is futexOf with the arguments of the call.
func futexBy(args [6]uint64) futex {
	return futex{timed: timed(args), shared: args[1]&futexPrivate == 0}
}

// timed reports whether a call of futex(2) waits with a time limit.
func timed(args [6]uint64) bool {
	op := args[1] &^ (futexPrivate | futexClock)
	return (op == futexWait || op == futexWaitBitset) && args[3] != 0
}

// errRunning is a thread in no system call.
var errRunning = errors.New("it is in no system call")

// parseSyscall parses /proc/PID/syscall: the number and six arguments, or "running", or -1.
func parseSyscall(text string) (Syscall, [6]uint64, error) {
	var args [6]uint64
	f := strings.Fields(text)
	if len(f) == 0 {
		return Syscall{}, args, errors.New("parse syscall: no text")
	}
	nr, err := strconv.Atoi(f[0])
	if err != nil || nr < 0 || len(f) < 1+len(args) {
		return Syscall{}, args, errRunning
	}
	for i := range args {
		if args[i], err = strconv.ParseUint(strings.TrimPrefix(f[i+1], "0x"), 16, 64); err != nil {
			return Syscall{}, args, fmt.Errorf("parse syscall: %w", err)
		}
	}
	c := calls[nr]
	s := Syscall{Nr: nr, Name: c.name, FD: -1}
	switch {
	case c.name == "poll":
		s.Limit = wait(int32(args[2]))
	case c.name == "futex":
		s.Timed = timed(args)
	case c.fd:
		s.FD = int(int32(args[0]))
	}
	return s, args, nil
}

// wait turns poll's limit in milliseconds into a duration; negative: none.
func wait(ms int32) time.Duration {
	if ms < 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

// readSyscall returns the system call of the main thread; nil: it is in no call. Of one that does not sleep, but waits
// for the kernel (state D), it returns the file, too.
func readSyscall(pid int, state string) (*Syscall, error) {
	text, err := readFile(procPath(pid, "syscall"))
	if err != nil {
		return nil, err
	}
	s, args, err := parseSyscall(string(text))
	if err != nil {
		return nil, nil //nolint:nilerr // running
	}
	if s.Name == "poll" || s.Name == "ppoll" {
		err = polled(pid, &s, args)
	}
	if s.FD >= 0 {
		link, _ := os.Readlink(procPath(pid, "fd/"+strconv.Itoa(s.FD)))
		s.Socket = inodeOf(link, "socket")
		s.Terminal = strings.HasPrefix(link, "/dev/pts/") || strings.HasPrefix(link, "/dev/tty")
	}
	if s.Socket != 0 && s.Limit > 0 && s.Limit <= time.Minute {
		s.Asks = datagrams(pid, s.Socket)
	}
	if s.Name == "flock" || s.Name == "fcntl" {
		s.Owner = ownerOf(pid)
	}
	if state == "D" {
		s.place(pid, args)
	}
	return &s, err
}

// polled reads from the memory of a process the first descriptor that it polls, and ppoll's limit.
func polled(pid int, s *Syscall, args [6]uint64) error {
	fd, err := openFile(procPath(pid, "mem"), unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var b [16]byte
	if args[1] > 0 {
		if n, err := unix.Pread(fd, b[:4], int64(args[0])); err == nil && n == 4 {
			s.FD = int(int32(binary.NativeEndian.Uint32(b[:])))
		}
	}
	if s.Name != "ppoll" {
		return nil
	}
	s.Limit = -1
	if n, err := unix.Pread(fd, b[:], int64(args[2])); args[2] != 0 && err == nil && n == len(b) {
		s.Limit = limitOf(int64(binary.NativeEndian.Uint64(b[:])), int64(binary.NativeEndian.Uint64(b[8:])))
	}
	return nil
}

// limitOf turns a timespec into a duration, at most a year.
func limitOf(sec, nsec int64) time.Duration {
	const year = 365 * 24 * 3600
	if sec < 0 || nsec < 0 {
		return -1
	}
	return time.Duration(min(sec, year))*time.Second + time.Duration(min(nsec, 1e9))
}
