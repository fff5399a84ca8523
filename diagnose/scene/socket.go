package scene

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSockets are shown, those first that are not simply connected.
const maxSockets = 4096

// want is which sockets of a network namespace belong to the job.
type want struct {
	pid    int              // a process of that namespace
	owners map[uint64]*seen // of the inodes of the job's processes
	ports  map[uint16]bool  // that the job uses, of any process
}

// sockets returns the sockets of the job's processes, and those on ports that the job uses; more are further ports, by
// network namespace.
func sockets(job []*seen, at *moment, here uint64, more map[uint64]map[uint16]bool, g *gaps) []Socket {
	spaces := map[uint64]*want{}
	for _, p := range job {
		ns := cmp.Or(p.net, here)
		w := spaces[ns]
		if w == nil {
			w = &want{pid: p.pid, owners: map[uint64]*seen{}, ports: map[uint16]bool{}}
			spaces[ns] = w
		}
		for _, a := range p.addresses() {
			w.ports[uint16(a.port)] = true
		}
		maps.Copy(w.ports, more[ns])
		if f := at.of[p.pid]; f != nil {
			for inode := range f.sockets { // a child inherits those of its parent, which owns them
				if o := w.owners[inode]; o == nil || below(p) < below(o) || below(p) == below(o) && p.pid < o.pid {
					w.owners[inode] = p
				}
			}
		}
	}
	var out []Socket
	for ns, w := range spaces {
		out = append(out, w.read(ns, here, g)...)
	}
	slices.SortFunc(out, compareSockets)
	if more := len(out) - maxSockets; more > 0 {
		g.add(0, fmt.Sprintf("%d sockets", more), fmt.Sprintf("at most %d are shown", maxSockets), "")
		out = out[:maxSockets]
	}
	return out
}

// Stuck returns to which addresses connections of this network namespace are stuck that processes of a job have open.
// pids returns the processes, and is called only where there is such a connection of any process.
func Stuck(pids func() []int) []netip.Addr { return remotes(Socket.Stuck, pids) }

// Unopened returns to which addresses processes of a job call in vain.
func Unopened(pids func() []int) []netip.Addr { return remotes(Socket.Unopened, pids) }

// Unheard returns connections of this network namespace from a local port, of any process, on which data was
// acknowledged before, and what was sent since is not, however often.
func Unheard(port uint16) (out []Socket) {
	_ = dump("", func(k Socket) {
		if k.Local.Port() == port && k.Stuck() && k.Info.Unacked > 0 && k.Info.Acked > 0 {
			out = append(out, k)
		}
	})
	return out
}

// Heard returns from which addresses processes of a job have received data within a time.
func Heard(within time.Duration, pids func() []int) []netip.Addr {
	return remotes(func(k Socket) bool {
		return k.State == "established" && k.Info != nil && k.Info.Received > 0 && k.Info.LastRecv < within
	}, pids)
}

// Open returns to which addresses processes of a job have open connections.
func Open(pids func() []int) []netip.Addr {
	return remotes(func(k Socket) bool { return k.State == "established" }, pids)
}

// remotes returns the other ends of the connections of some processes that are as wanted.
func remotes(wanted func(Socket) bool, pids func() []int) (to []netip.Addr) {
	at := map[uint64]netip.Addr{} // by inode
	_ = dump("", func(k Socket) {
		if k.Inode != 0 && wanted(k) {
			at[k.Inode] = k.Remote.Addr().Unmap()
		}
	})
	if len(at) == 0 {
		return nil
	}
	for _, pid := range pids() {
		for _, inode := range openSockets(pid) {
			if a, found := at[inode]; found && !slices.Contains(to, a) {
				to = append(to, a)
			}
		}
	}
	return to
}

// compareSockets puts first what is not simply connected, then orders by the ends.
func compareSockets(a, b Socket) int {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Net, b.Net), cmp.Compare(a.PID, b.PID),
		a.Local.Compare(b.Local), a.Remote.Compare(b.Remote), cmp.Compare(a.Inode, b.Inode))
}

func (s Socket) rank() int {
	switch {
	case s.State != "established", s.Info != nil && (s.Info.Retransmits > 0 || s.Info.Backoff > 0):
		return 0
	case s.RecvQ > 0 || s.SendQ > 0:
		return 1
	}
	return 2
}

// read returns the wanted sockets of one namespace, with tcp_info where the kernel gives it.
func (w *want) read(ns, here uint64, g *gaps) []Socket {
	var out []Socket
	add := func(s Socket) {
		owner := w.owners[s.Inode]
		if s.Inode == 0 {
			owner = nil
		}
		local, remote := w.ports[s.Local.Port()], w.ports[s.Remote.Port()]
		if s.State == stateTimeWait || owner == nil && !local && !remote {
			return
		}
		if owner != nil {
			s.PID = owner.pid
		}
		s.Net = ns
		if len(out) < 4*maxSockets {
			out = append(out, s)
		}
	}
	path := ""
	if ns != here {
		path = procPath(w.pid, "ns/net")
	}
	err := dump(path, add)
	if err == nil {
		return out
	}
	g.add(0, fmt.Sprintf("what TCP knows of connections in network namespace %d", ns), plain(err), "run it as root")
	out = nil
	for _, name := range []string{"net/tcp", "net/tcp6"} {
		text, _ := readFile(procPath(w.pid, name))
		_ = parseTable(bytes.NewReader(text), add)
	}
	return out
}

// parseTable parses /proc/net/tcp or tcp6 (Documentation/networking/proc_net_tcp.rst).
func parseTable(r io.Reader, each func(Socket)) error {
	lines := bufio.NewScanner(r)
	lines.Scan()
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 {
			continue
		}
		state, err := strconv.ParseUint(f[3], 16, 8)
		if err != nil {
			continue
		}
		s := Socket{State: stateName(int(state)), Local: tableEnd(f[1]), Remote: tableEnd(f[2])}
		send, recv, _ := strings.Cut(f[4], ":")
		s.SendQ, s.RecvQ = hex32(send), hex32(recv)
		s.User, _ = strconv.Atoi(f[7])
		s.Inode, _ = strconv.ParseUint(f[9], 10, 64)
		if s.Local.IsValid() {
			each(s)
		}
	}
	return lines.Err()
}

func hex32(text string) uint32 {
	n, _ := strconv.ParseUint(text, 16, 32)
	return uint32(n)
}

// tableEnd parses an address and port: 32-bit words in the machine's byte order; else zero.
func tableEnd(text string) netip.AddrPort {
	addr, port, _ := strings.Cut(text, ":")
	p, err := strconv.ParseUint(port, 16, 16)
	b, err2 := hex.DecodeString(addr)
	if err != nil || err2 != nil || len(b)%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(p))
}

// holders finds the processes outside of the job that listen on its ports, and notes them in all.
func (t *table) holders(all []Socket, job []*seen) []*seen {
	missing := map[uint64][]int{}
	for i, s := range all {
		if s.State == stateListen && s.PID == 0 && s.Inode != 0 {
			missing[s.Inode] = append(missing[s.Inode], i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	inJob := map[int]bool{}
	for _, p := range job {
		inJob[p.pid] = true
	}
	var out []*seen
	for _, pid := range t.pids() {
		p := t.procs[pid]
		if p.stuck.Load() || inJob[pid] {
			continue
		}
		found := false
		for _, inode := range openSockets(pid) {
			for _, i := range missing[inode] {
				all[i].PID, found = pid, true
			}
			delete(missing, inode)
		}
		if found {
			if p.role = Holder; len(out) < 64 {
				out = append(out, p)
			}
		}
	}
	for _, at := range missing {
		s := all[at[0]]
		why, fix := t.gaps.denied(s.User, "no process that can be read has it open")
		t.gaps.add(0, fmt.Sprintf("which process listens on port %d", s.Local.Port()), why, fix)
	}
	return out
}

// openSockets returns the inodes of the sockets that a process has open.
func openSockets(pid int) []uint64 {
	fds, _ := list(procPath(pid, "fd"))
	var out []uint64
	for _, fd := range fds[:min(len(fds), maxFDs)] {
		link, _ := os.Readlink(procPath(pid, "fd/"+strconv.Itoa(fd)))
		if inode := inodeOf(link, "socket"); inode != 0 {
			out = append(out, inode)
		}
	}
	return out
}
