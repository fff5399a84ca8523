package scene

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// mounts are the types of file systems, by mount namespace and number of the mount.
type mounts struct {
	mu sync.Mutex
	of map[uint64]map[int64]string
}

// types returns the types of the mounts that a process has.
func (m *mounts) types(pid int) map[int64]string {
	ns := namespace(strconv.Itoa(pid), "mnt")
	m.mu.Lock()
	known, ok := m.of[ns]
	m.mu.Unlock()
	if ok && ns != 0 {
		return known
	}
	text, _ := readFile(procPath(pid, "mountinfo"))
	known = mountTypes(string(text))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of[ns] = known
	return known
}

// mountTypes parses /proc/PID/mountinfo: the type follows a lone hyphen (proc_pid_mountinfo(5)).
func mountTypes(text string) map[int64]string {
	out := map[int64]string{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		end := slices.Index(f, "-")
		if end < 0 || end+1 >= len(f) {
			continue
		}
		if id, err := strconv.ParseInt(f[0], 10, 64); err == nil {
			out[id] = clean(f[end+1], 64)
		}
	}
	return out
}

// disk is the type of a file system on a block device that the process's mounts do not name.
const disk = "disk"

// local are file systems that answer without a network, unless their disk fails.
var local = []string{disk, "ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs", "ramfs"}

// synthetic are file systems of the kernel, which no rank waits for.
var synthetic = []string{"proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "bpf", "debugfs", "tracefs",
	"securityfs", "nsfs", "pipefs", "sockfs", "anon_inodefs"}

// harmless are devices that never make a reader wait for hardware.
var harmless = []string{"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}

// maxFiles of a process are shown, those of networks first; maxFDs are looked at.
const maxFiles, maxFDs = 64, 8192

// readFiles returns the files that a process has open, and its sockets. It follows no path: a stat on a mount
// that does not answer would not return.
func readFiles(pid int, m *mounts) (files []File, sockets map[uint64]bool, err error) {
	fds, err := list(procPath(pid, "fd"))
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(fds)
	sockets = map[uint64]bool{}
	var types map[int64]string
	for _, fd := range fds[:min(len(fds), maxFDs)] {
		link, err := os.Readlink(procPath(pid, "fd/"+strconv.Itoa(fd)))
		if errors.Is(err, fs.ErrPermission) { // root without CAP_SYS_PTRACE lists what it may not follow
			return nil, nil, err
		}
		if err != nil {
			continue // closed
		}
		if inode := inodeOf(link, "socket"); inode != 0 {
			sockets[inode] = true
			continue
		}
		if !strings.HasPrefix(link, "/") || strings.HasPrefix(link, "/memfd:") {
			continue
		}
		if types == nil {
			types = m.types(pid)
		}
		info, _ := readFile(procPath(pid, "fdinfo/"+strconv.Itoa(fd)))
		f := File{FD: fd, Path: clean(link, 4096), Type: types[field(info, "mnt_id")], Pos: field(info, "pos")}
		if f.matters() {
			files = append(files, f)
		}
	}
	slices.SortStableFunc(files, func(a, b File) int { return cmp.Compare(a.order(), b.order()) })
	return files[:min(len(files), maxFiles)], sockets, nil
}

// matters returns whether the file is a regular one, or a device that may make a reader wait.
func (f File) matters() bool {
	if slices.Contains(synthetic, f.Type) {
		return false
	}
	dev, ok := strings.CutPrefix(f.Path, "/dev/")
	return !ok || !slices.Contains(harmless, dev) && !strings.HasPrefix(dev, "pts/")
}

func (f File) order() int {
	if slices.Contains(local, f.Type) {
		return 1
	}
	return 0
}

// The last lines of a log: so many, from so many bytes, each so long.
const lastLines, lastBytes, lastWidth = 20, 16 << 10, 400

// readLast returns the last lines that a process wrote to its standard error, else to its output, if that is a
// file of a local file system. The link in /proc leads to the open file itself: neither a path nor a
// link in it is followed, and only a regular file is opened for reading.
func readLast(p *seen, m *mounts, g *gaps) []string {
	types := m.types(p.pid)
	for _, fd := range []string{"2", "1"} {
		link, err := os.Readlink(procPath(p.pid, "fd/"+fd))
		if err != nil || !strings.HasPrefix(link, "/") || strings.HasPrefix(link, "/dev/") {
			continue
		}
		info, _ := readFile(procPath(p.pid, "fdinfo/"+fd))
		t := types[field(info, "mnt_id")]
		if t == "" && onDisk(procPath(p.pid, "fd/"+fd)) {
			t = disk
		}
		if !slices.Contains(local, t) {
			g.add(p.pid, "the last lines", fmt.Sprintf("its output is on %q, which may not answer", t),
				"read "+clean(link, maxValue))
			continue
		}
		text, err := tail(procPath(p.pid, "fd/"+fd))
		if err != nil {
			g.fail(p, "the last lines", err)
			continue
		}
		if lines := lastOf(text); len(lines) > 0 {
			return lines
		}
	}
	return nil
}

// onDisk reports whether an open file, of a mount that the process itself does not have, as a log that the scheduler
// has opened, is on a block device. No server is asked (statx(2), AT_STATX_DONT_SYNC).
func onDisk(path string) bool {
	at, err := openFile(path, unix.O_PATH)
	if err != nil {
		return false
	}
	defer unix.Close(at)
	var about unix.Statx_t
	err = unix.Statx(at, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &about)
	return err == nil && about.Dev_major != 0 // file systems without a device of their own have 0
}

// tail returns the end of a regular file.
func tail(path string) ([]byte, error) {
	at, err := openFile(path, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	var about unix.Stat_t
	if err := unix.Fstat(at, &about); err != nil || about.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, err
	}
	fd, err := openFile(fmt.Sprintf("/proc/self/fd/%d", at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	b := make([]byte, lastBytes)
	n, err := unix.Pread(fd, b, max(0, about.Size-lastBytes))
	return b[:max(n, 0)], err
}

// lastOf returns the last lines of a text, without control characters. A line that a carriage return begins
// anew, as a progress bar does, is shown as it is now.
func lastOf(text []byte) []string {
	if len(text) == lastBytes { // the first line is not whole
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			text = text[i+1:]
		}
	}
	var out []string
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		line = line[bytes.LastIndexByte(line, '\r')+1:]
		if l := strings.TrimRight(clean(uncolour(string(line)), lastWidth), " "); l != "" {
			out = append(out, l)
		}
	}
	return out[max(0, len(out)-lastLines):]
}

// uncolour drops the sequences by which terminals change colours and move.
func uncolour(line string) string {
	var out strings.Builder
	for i := 0; i < len(line); i++ {
		if line[i] != 0x1b || i+1 >= len(line) || line[i+1] != '[' {
			out.WriteByte(line[i])
			continue
		}
		for i += 2; i < len(line) && (line[i] < 0x40 || line[i] > 0x7e); i++ {
		}
	}
	return out.String()
}
