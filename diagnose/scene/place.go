package scene

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// paths are the system calls that name a file by its path, and which argument that is.
var paths = map[string]int{"open": 0, "stat": 0, "lstat": 0, "access": 0, "statfs": 0, "rename": 0, "mkdir": 0,
	"unlink": 0, "openat": 1, "openat2": 1, "newfstatat": 1, "statx": 1, "faccessat": 1, "unlinkat": 1, "renameat": 1,
	"renameat2": 1, "mkdirat": 1}

// placeLimit is how long the memory of a process in state D is waited for: another thread may hold its lock.
const placeLimit = patience / 2

// place finds the file of a system call, and its file system, by texts alone: it follows no path.
func (s *Syscall) place(pid int, args [6]uint64) {
	name := ""
	switch arg, named := paths[s.Name]; {
	case named:
		got := make(chan string, 1)
		if within(placeLimit, func() { got <- textAt(pid, args[arg]) }) {
			name = <-got
		}
		if name != "" && !path.IsAbs(name) {
			dir := "cwd"
			if fd := int32(args[0]); arg == 1 && fd != unix.AT_FDCWD {
				dir = "fd/" + strconv.Itoa(int(fd))
			}
			link, _ := os.Readlink(procPath(pid, dir))
			name = path.Join(link, name)
		}
	case s.FD >= 0:
		name, _ = os.Readlink(procPath(pid, "fd/"+strconv.Itoa(s.FD)))
	}
	if !path.IsAbs(name) {
		return // a pipe, a socket, or not readable
	}
	text, _ := readFile(procPath(pid, "mountinfo"))
	points := mountPoints(string(text))
	at := mountOf(points, path.Clean(name))
	if slices.Contains(synthetic, points[at].kind) {
		return
	}
	s.Path, s.Mount, s.Type = clean(path.Clean(name), 4096), clean(at, 4096), points[at].kind
	s.disk = points[at].device
}

// textAt returns the text that ends with a zero byte in the memory of a process; "": it cannot be read.
func textAt(pid int, at uint64) string {
	fd, err := openFile(procPath(pid, "mem"), unix.O_RDONLY)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	b := make([]byte, 4096)
	n, err := unix.Pread(fd, b, int64(at))
	if err != nil || n <= 0 {
		return ""
	}
	text, _, ended := bytes.Cut(b[:n], []byte{0})
	if !ended {
		return ""
	}
	return string(text)
}

// disks parses /proc/diskstats: how many reads and writes each device has completed (iostats in the kernel's
// Documentation).
func disks(text string) map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		reads, _ := strconv.ParseInt(f[3], 10, 64)
		writes, _ := strconv.ParseInt(f[7], 10, 64)
		out[f[0]+":"+f[1]] = reads + writes
	}
	return out
}
