package scene

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxText is how much of a file of /proc is read: more than any environment or table of mappings that helps.
const maxText = 4 << 20

// readFile returns a file of /proc. os.ReadFile would register each with the poller, which costs more
// than the read.
func readFile(path string) ([]byte, error) { return readStart(path, maxText) }

// readStart does what readFile does, and ends after that many bytes or some more.
func readStart(path string, most int) ([]byte, error) {
	fd, err := openFile(path, unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	defer unix.Close(fd)
	out := make([]byte, 0, 1024)
	for len(out) < most {
		if len(out) == cap(out) {
			out = append(out, 0)[:len(out)]
		}
		n, err := unix.Read(fd, out[len(out):cap(out)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, fmt.Errorf("read %q: %w", path, err)
		case n == 0:
			return out, nil
		default:
			out = out[:len(out)+n]
		}
	}
	return out, nil
}

func openFile(path string, flags int) (fd int, err error) {
	for {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// readLine returns a file of /proc without the line's end; "": it cannot be read.
func readLine(path string) string {
	b, _ := readFile(path)
	return strings.TrimRight(string(b), "\n")
}

// list returns the names in a folder of /proc that are numbers.
func list(dir string) ([]int, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	out := make([]int, 0, len(names))
	for _, n := range names {
		if i, err := strconv.Atoi(n); err == nil {
			out = append(out, i)
		}
	}
	return out, err
}

func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// stat is the part of /proc/PID/stat that is of use here. The sums include children that have ended
// and were waited for, so the sum over a tree only grows.
type stat struct {
	comm    string
	state   string
	parent  int
	faults  int64
	cpu     int64 // ticks
	started int64 // ticks after boot
	rss     int64 // pages
	exit    int   // of a zombie: its status, as wait(2) gives it
	// background: it is not in the group of processes that its terminal has in the foreground.
	background bool
}

// parseStat parses /proc/PID/stat (proc_pid_stat(5)). The name may hold anything, brackets too.
func parseStat(text string) (stat, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return stat{}, errors.New("parse stat: no name")
	}
	f := strings.Fields(text[end+1:])
	if len(f) < 22 {
		return stat{}, fmt.Errorf("parse stat: %d fields", len(f)+2)
	}
	number := func(field int) int64 { // as numbered by the manual
		n, _ := strconv.ParseInt(f[field-3], 10, 64)
		return n
	}
	exit := 0
	if len(f) >= 50 { // Linux 3.5
		exit = int(number(52))
	}
	return stat{
		exit: exit, background: number(7) != 0 && number(8) > 0 && number(5) != number(8),
		comm: text[open+1 : end], state: f[0], parent: int(number(4)),
		faults: number(10) + number(11) + number(12) + number(13),
		cpu:    number(14) + number(15) + number(16) + number(17), started: number(22), rss: number(24),
	}, nil
}

// readStat returns the stat of a process or thread.
func readStat(path string) (stat, error) {
	b, err := readFile(path)
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(b))
}

// field returns a number of a file of lines "name:  123 kB"; 0: it is not there.
func field(text []byte, name string) int64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				n, _ := strconv.ParseInt(string(f[0]), 10, 64)
				return n
			}
		}
	}
	return 0
}

// inodeOf returns the inode in a link like "net:[4026531840]" or "socket:[123]"; 0: it is no such link.
func inodeOf(link, kind string) uint64 {
	text, ok := strings.CutPrefix(link, kind+":[")
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// namespace returns the inode of a namespace ("net", "mnt") of a process; 0: not readable.
func namespace(pid, kind string) uint64 {
	link, _ := os.Readlink("/proc/" + pid + "/ns/" + kind)
	return inodeOf(link, kind)
}

// perSecond is USER_HZ, which Linux has fixed at 100 for what it tells programs.
const perSecond = 100

// clock turns ticks after boot into a time.
func clock(now time.Time) func(ticks int64) time.Time {
	var boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return func(int64) time.Time { return time.Time{} }
	}
	booted := now.Add(-time.Duration(boot.Nano()))
	return func(ticks int64) time.Time {
		return booted.Add(time.Duration(ticks) * (time.Second / perSecond)).Truncate(time.Millisecond).UTC()
	}
}

// patience is how long a read of one process may take. A process in D state may hold the lock of its memory,
// and then cmdline, environ, maps and mem wait for it.
const patience = 500 * time.Millisecond

// within runs f and returns false if it takes longer than limit. The thread then remains in the kernel:
// those waits end when a process is killed, so it ends with this program at the latest. A child process
// for all reads would bound them too, but costs a start of this program and a copy of all results. A
// caller that lives long asks for a scene in a child (child.Ask), so that stuck threads don't add up.
func within(limit time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
