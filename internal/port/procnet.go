package port

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// TCP_ESTABLISHED and TCP_LISTEN of include/net/tcp_states.h, as /proc/net/tcp
// prints them.
const (
	tcpEstablished = "01"
	tcpListen      = "0A"
)

// Listening tells whether something listens on port, at whatever address, in
// the network namespace that procfs (/proc) shows, without connecting to it.
func Listening(procfs fs.FS, port int) (bool, error) {
	inode, err := listener(procfs, Everywhere(port))
	return inode != "", err
}

// Reached is an address of this machine at which another one has connected to
// port; the zero Addr while none has. A connection between two addresses of
// loopback, or from an address to itself, is this machine's own.
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

// Use is who has a port of this machine.
type Use struct {
	Taken  bool   // nobody else can listen there, or a launch holds it
	Launch bool   // the one who has it is a launch
	By     string // "python3 (pid 4711)"; "" where that cannot be seen: it is another user's, another container's, or it does not listen
}

// Look tells who has a port; procfs is /proc. It holds nothing, not even for a
// moment, that would keep a launch from having the port. The error is what
// else stands in the way of using it.
func Look(procfs fs.FS, at netip.AddrPort) (Use, error) {
	socket, err := bindTo(at)
	inode := ""
	switch {
	case err == nil:
		socket.Close()
		inode = mutexInode(procfs, int(at.Port()))
		if inode == "" {
			return Use{}, nil
		}
		return Use{Taken: true, Launch: true, By: owner(procfs, inode).String()}, nil
	case !errors.Is(err, unix.EADDRINUSE):
		return Use{}, fmt.Errorf("bind %s: %w", at, err)
	}
	if inode, err = listener(procfs, at); err != nil || inode == "" {
		return Use{Taken: true}, nil
	}
	by := owner(procfs, inode)
	return Use{Taken: true, Launch: strings.HasPrefix(by.comm, "launch"), By: by.String()}, nil
}

// process is one that has a socket; the zero value is one that cannot be seen.
type process struct{ pid, comm string }

func (p process) String() string {
	if p.pid == "" {
		return ""
	}
	return fmt.Sprintf("%s (pid %s)", p.comm, p.pid)
}

// owner is the process that has a socket open.
func owner(procfs fs.FS, inode string) process {
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
		return process{pid, strings.TrimSpace(string(comm))}
	}
	return process{}
}

// listener is the inode of a socket that listens where at would, "" for none.
func listener(procfs fs.FS, at netip.AddrPort) (inode string, err error) {
	err = sockets(procfs, tcpListen, func(s socket) bool {
		if s.local.Port() == at.Port() && meet(s.local.Addr(), at.Addr().Unmap()) {
			inode = s.inode
		}
		return inode == ""
	})
	return inode, err
}

// socket is a line of these tables.
type socket struct {
	local, remote netip.AddrPort
	inode         string
}

// sockets looks at those of TCP in a state, one after the other, for as long as
// more says so.
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

// readSockets reads /proc/net/tcp or tcp6: after a line of heads, fields
// split by blanks, of which the second and third are the local and the remote
// address and port in hex, the fourth the state and the tenth the inode
// (Documentation/networking/proc_net_tcp.rst). on: more did not end it.
func readSockets(r io.Reader, state string, more func(socket) bool) (on bool, err error) {
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

// end is an address and port as these tables print them; what is none has the
// zero Addr.
func end(text string) netip.AddrPort {
	addr, port, _ := strings.Cut(text, ":")
	p, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(local(addr), uint16(p))
}

// local is an address as these tables print it: words of 32 bits in the
// machine's own order. What is none is the zero Addr.
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

// meet tells whether one who listens at a keeps another from listening at b:
// they are the same, or one of them covers the other. :: covers both families.
func meet(a, b netip.Addr) bool {
	covers := func(a, b netip.Addr) bool { return a.IsUnspecified() && (a.Is6() || b.Is4()) }
	return a.IsValid() && (a == b || covers(a, b) || covers(b, a))
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
