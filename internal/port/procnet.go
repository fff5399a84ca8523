package port

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// tcpListen is TCP_LISTEN of include/net/tcp_states.h, as /proc/net/tcp
// prints it.
const tcpListen = "0A"

// Listening tells whether something listens on port in the network namespace
// that procfs (/proc) shows, without connecting to it.
func Listening(procfs fs.FS, port int) (bool, error) {
	inode, err := listener(procfs, port)
	return inode != "", err
}

// Holder names the process that listens on port, or the launch that holds it:
// "python3 (pid 4711)". It is "" where that cannot be seen, because the
// process belongs to somebody else or to another container, or because it
// neither listens nor is a launch.
func Holder(procfs fs.FS, port int) string {
	inode, _ := listener(procfs, port)
	if inode == "" {
		inode = mutexInode(procfs, port)
	}
	if inode == "" {
		return ""
	}
	links, _ := fs.Glob(procfs, "[1-9]*/fd/*")
	for _, l := range links {
		if to, err := fs.ReadLink(procfs, l); err != nil || to != "socket:["+inode+"]" {
			continue
		}
		pid, _, _ := strings.Cut(l, "/")
		comm, err := fs.ReadFile(procfs, pid+"/comm")
		if err != nil {
			continue // ended meanwhile
		}
		return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(comm)), pid)
	}
	return ""
}

// listener is the inode of a socket that listens on port, "" for none.
func listener(procfs fs.FS, port int) (string, error) {
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		f, err := procfs.Open(table)
		if errors.Is(err, fs.ErrNotExist) && table == "net/tcp6" {
			continue // a kernel without IPv6
		}
		if err != nil {
			return "", fmt.Errorf("read %q: %w", table, err)
		}
		inode, err := findListener(f, port)
		f.Close()
		if err != nil {
			return "", fmt.Errorf("read %q: %w", table, err)
		}
		if inode != "" {
			return inode, nil
		}
	}
	return "", nil
}

// findListener reads /proc/net/tcp or tcp6: after a line of heads, fields
// split by blanks, of which the second is the local address and port in hex,
// the fourth the state and the tenth the inode
// (Documentation/networking/proc_net_tcp.rst).
func findListener(r io.Reader, port int) (inode string, err error) {
	lines := bufio.NewScanner(r)
	lines.Scan()
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != tcpListen {
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		if p, err := strconv.ParseUint(hex, 16, 16); err == nil && int(p) == port {
			return f[9], nil
		}
	}
	return "", lines.Err()
}

// mutexInode is the inode of the socket by which a launch holds port, from
// /proc/net/unix: the seventh field is the inode, the eighth the name.
func mutexInode(procfs fs.FS, port int) string {
	f, err := procfs.Open("net/unix")
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 8 && f[7] == mutexName(port) {
			return f[6]
		}
	}
	return ""
}
