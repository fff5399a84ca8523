// Package process reads the states, parents, descendants and sockets of processes from /proc.
package process

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// Stat is the part of /proc/PID/stat that launch uses.
type Stat struct {
	State   byte   // R, S, D; Z is a zombie
	Parent  int    // 0: none, or a process of another PID namespace
	Started string // clock ticks after boot: a later process with the same PID has another
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

// Descendants returns the processes below pid that are not zombies, but not some of them and what is below these. A pid
// of 0 or less has no descendants: the kernel names 0 as the parent of the first ones, and callers end what they
// get.
func Descendants(pid int, but ...int) []int {
	if pid <= 0 {
		return nil
	}
	entries, _ := os.ReadDir("/proc")
	children := map[int][]int{}
	zombie := map[int]bool{}
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		state, parent, ok := stateOf(child)
		if !ok {
			continue // it has ended
		}
		children[parent] = append(children[parent], child)
		zombie[child] = state == 'Z'
	}
	var out []int
	for next := children[pid]; len(next) > 0; next = next[1:] {
		if slices.Contains(but, next[0]) {
			continue
		}
		if !zombie[next[0]] {
			out = append(out, next[0])
		}
		next = append(next, children[next[0]]...)
	}
	return out
}

// stateOf returns the state and the parent of a process: the first fields of /proc/PID/stat after the name, which
// may have blanks and parentheses (proc_pid_stat(5)). prometheus/procfs parses all 52 fields, and companions ask this
// of each process of a node every few seconds.
func stateOf(pid int) (state byte, parent int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(f[1]))
	return f[0][0], parent, err == nil
}

// Children returns the children that the first thread of a process has started (proc_pid_task(5)).
func Children(pid int) (out []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for w := range strings.FieldsSeq(string(text)) {
		if child, err := strconv.Atoi(w); err == nil {
			out = append(out, child)
		}
	}
	return out
}

// Held returns the process that a descriptor of handoff.Open means, which a process ("self": this one) has open; 0:
// that has ended, or fd is no such descriptor. It is a pidfd (proc_pid_fdinfo(5)), or a folder in /proc.
func Held(by string, fd int) int {
	info, _ := os.ReadFile(fmt.Sprintf("/proc/%s/fdinfo/%d", by, fd))
	_, text, isPidfd := strings.Cut(string(info), "\nPid:\t")
	if isPidfd {
		text, _, _ = strings.Cut(text, "\n")
	} else if at, err := os.Readlink(fmt.Sprintf("/proc/%s/fd/%d", by, fd)); err == nil {
		text, _ = strings.CutPrefix(at, "/proc/") // with " (deleted)" or an empty name after the end
	}
	pid, _ := strconv.Atoi(text)
	return max(pid, 0)
}

// Variable returns a variable of the environment that a process began with; "": it has none, or
// the environment cannot be read.
func Variable(pid int, name string) string {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return ""
	}
	env, _ := p.Environ()
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// Having returns the processes with a variable ("NAME=VALUE") in the environment that they began with,
// and the parent of each. Zombies have no environment.
func Having(variable string) map[int]int {
	all, _ := procfs.AllProcs()
	parents := map[int]int{}
	for _, p := range all {
		env, err := p.Environ()
		if err != nil || !slices.Contains(env, variable) {
			continue
		}
		if s, err := p.Stat(); err == nil {
			parents[p.PID] = s.PPID
		}
	}
	return parents
}

// TCP_ESTABLISHED and TCP_LISTEN of include/net/tcp_states.h, as /proc/net/tcp prints them.
const (
	tcpEstablished = "01"
	tcpListen      = "0A"
	tcpSynReceived = "03"
)

// Listening reports whether a process of this network namespace listens on port, at any address. It does not connect.
// It asks the kernel for listening sockets alone: /proc/net/tcp takes 7 ms on a machine with 24 GiB, since the kernel
// walks through all places for connections there. Without sock_diag(7) that is what it reads.
func Listening(port int) (bool, error) {
	on := false
	err := listeners(func(at netip.AddrPort) { on = on || int(at.Port()) == port })
	if err == nil {
		return on, nil
	}
	return listed(os.DirFS("/proc"), port)
}

// listed reports what Listening does, by /proc/net/tcp and tcp6.
func listed(procfs fs.FS, port int) (bool, error) {
	inode, err := Listener(procfs, netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)))
	return inode != "", err
}

// Reached returns an address of this machine at which another machine has connected to port, or zero.
func Reached(procfs fs.FS, port int) netip.Addr {
	var at netip.Addr
	_ = sockets(procfs, tcpEstablished, func(s socket) bool {
		if a := s.local.Addr(); int(s.local.Port()) == port && a.IsGlobalUnicast() && a != s.remote.Addr() {
			at = a
		}
		return !at.IsValid()
	})
	return at
}

// Callers returns the other ends of the connections that other machines have to a port of this one.
func Callers(procfs fs.FS, port int) (out []netip.AddrPort) {
	_ = sockets(procfs, tcpEstablished, func(s socket) bool {
		if a := s.remote.Addr(); int(s.local.Port()) == port && a != s.local.Addr() && !a.IsLoopback() {
			out = append(out, s.remote)
		}
		return true
	})
	return out
}

// HalfOpen returns the addresses of other machines that call a port of this one, and have not acknowledged the answer.
func HalfOpen(procfs fs.FS, port int) (out []netip.Addr) {
	_ = sockets(procfs, tcpSynReceived, func(s socket) bool {
		if a := s.remote.Addr(); int(s.local.Port()) == port && !a.IsLoopback() && !slices.Contains(out, a) {
			out = append(out, a)
		}
		return true
	})
	return out
}

// Owner is a process that has a socket open. The zero Owner is a process that this user cannot see.
type Owner struct{ PID, Name string }

func (o Owner) String() string {
	if o.PID == "" {
		return ""
	}
	return fmt.Sprintf("%s (pid %s)", o.Name, o.PID)
}

// OwnerOf returns the process that has the socket with this inode open.
func OwnerOf(procfs fs.FS, inode string) Owner {
	links, _ := fs.Glob(procfs, "[1-9]*/fd/*")
	for _, l := range links {
		if to, err := fs.ReadLink(procfs, l); err != nil || to != "socket:["+inode+"]" {
			continue
		}
		pid, _, _ := strings.Cut(l, "/")
		comm, err := fs.ReadFile(procfs, pid+"/comm")
		if err != nil {
			continue // it has ended
		}
		return Owner{pid, strings.TrimSpace(string(comm))}
	}
	return Owner{}
}

// Listener returns the inode of the TCP socket that prevents listening at an address, or "".
func Listener(procfs fs.FS, at netip.AddrPort) (inode string, err error) {
	err = sockets(procfs, tcpListen, func(s socket) bool {
		if s.local.Port() == at.Port() && conflict(s.local.Addr(), at.Addr().Unmap()) {
			inode = s.inode
		}
		return inode == ""
	})
	return inode, err
}

// UnixSocket returns the inode of the unix socket with this name, or "". An abstract name begins
// with '@'. In /proc/net/unix the seventh field is the inode and the eighth the name.
func UnixSocket(procfs fs.FS, name string) string {
	f, err := procfs.Open("net/unix")
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 8 && f[7] == name {
			return f[6]
		}
	}
	return ""
}

// socket is a line of /proc/net/tcp or tcp6.
type socket struct {
	local, remote netip.AddrPort
	inode         string
}

// sockets calls more for each TCP socket in a state until more returns false. prometheus/procfs would
// parse every line first; the host of a store with 10,000 nodes asks this often.
func sockets(procfs fs.FS, state string, more func(socket) bool) error {
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		f, err := procfs.Open(table)
		if errors.Is(err, fs.ErrNotExist) && table == "net/tcp6" {
			continue // a kernel without IPv6
		}
		if err != nil {
			return fmt.Errorf("read %q: %w", table, err)
		}
		on, err := readSockets(f, state, more)
		f.Close()
		if err != nil {
			return fmt.Errorf("read %q: %w", table, err)
		}
		if !on {
			break
		}
	}
	return nil
}

// readSockets reads /proc/net/tcp or tcp6. After a header line the fields are split by blanks: the
// second and third are the local and remote address and port in hex, the fourth is the state, the
// tenth the inode (Documentation/networking/proc_net_tcp.rst). It returns false if more did.
func readSockets(r io.Reader, state string, more func(socket) bool) (bool, error) {
	lines := bufio.NewScanner(r)
	lines.Scan()
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != state {
			continue
		}
		if !more(socket{end(f[1]), end(f[2]), f[9]}) {
			return false, nil
		}
	}
	return true, lines.Err()
}

// end parses an address and port of these tables; invalid text gives the zero AddrPort.
func end(text string) netip.AddrPort {
	addr, port, _ := strings.Cut(text, ":")
	p, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(local(addr), uint16(p))
}

// local parses an address of these tables: 32-bit words in the machine's byte order; else zero.
func local(text string) netip.Addr {
	b, err := hex.DecodeString(text)
	if err != nil || len(b)%4 != 0 {
		return netip.Addr{}
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, _ := netip.AddrFromSlice(b)
	return a.Unmap()
}

// conflict reports whether listening at a prevents it at b: one address covers the other.
func conflict(a, b netip.Addr) bool {
	covers := func(a, b netip.Addr) bool { return a.IsUnspecified() && (a.Is6() || b.Is4()) }
	return a.IsValid() && (a == b || covers(a, b) || covers(b, a))
}
