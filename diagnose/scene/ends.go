package scene

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// ended completes the waits of processes with who can end them: all processes of the machine that have another end of
// their pipes and unix sockets open.
func ended(ctx context.Context, job []*seen, m *moment) {
	want, spaces := map[uint64]bool{}, map[uint64]int{}
	units := false
	for _, p := range job {
		if f := m.of[p.pid]; f != nil {
			for _, w := range f.waits {
				for _, n := range slices.Concat(w.pipes, w.units) {
					want[n] = true
				}
				if units = units || len(w.units) > 0; len(w.units) > 0 {
					spaces[p.net] = p.pid
				}
			}
		}
	}
	if len(want) == 0 {
		return
	}
	peers := map[uint64]uint64{}
	for _, pid := range spaces {
		maps.Copy(peers, unixPeers(procPath(pid, "ns/net")))
	}
	for n := range maps.Clone(want) {
		if peers[n] != 0 {
			want[peers[n]] = true
		}
	}
	h, hidden := holders(ctx, want)
	for _, p := range job {
		if f := m.of[p.pid]; f != nil {
			for i := range f.waits {
				f.waits[i].resolve(p.pid, peers, h)
				f.waits[i].mayBeHeld(hidden >= p.stat.started)
			}
		}
	}
}

// holder is a process that has an end of a pipe or a socket open.
type holder struct {
	pid          int
	reads, sends bool
}

// mayBeHeld clears a wait that the process's own ends alone can end, where a process began no earlier whose open files
// this user cannot read: it may have inherited them.
func (w *waiting) mayBeHeld(hidden bool) {
	if hidden && w.Own && len(w.Ends) == 0 && len(w.pipes)+len(w.units) > 0 {
		w.Wait = Wait{Thread: w.Thread, Main: w.Main, Count: w.Count}
	}
}

// holders returns the processes that have some inodes of pipes and sockets open; nil: there was no time. hidden is
// when the last one began whose open files this user cannot read, in ticks after boot; negative: no such one.
func holders(ctx context.Context, want map[uint64]bool) (out map[uint64][]holder, hidden int64) {
	out, hidden = map[uint64][]holder{}, -1
	pids, _ := list("/proc")
	for _, pid := range pids {
		if ctx.Err() != nil {
			return nil, hidden
		}
		if pid == os.Getpid() {
			continue
		}
		fds, err := list(procPath(pid, "fd"))
		if errors.Is(err, unix.EACCES) {
			if s, err := readStat(procPath(pid, "stat")); err == nil && !(s.parent == 2 && isKernelThread()) {
				hidden = max(hidden, s.started)
			}
		}
		mine := map[uint64]holder{}
		for _, fd := range fds[:min(len(fds), maxFDs)] {
			name := strconv.Itoa(fd)
			link, _ := os.Readlink(procPath(pid, "fd/"+name))
			if n := inodeOf(link, "socket"); want[n] {
				mine[n] = holder{pid, true, true}
			} else if n := inodeOf(link, "pipe"); want[n] {
				info, _ := readFile(procPath(pid, "fdinfo/"+name))
				mode := flagsOf(info) & unix.O_ACCMODE
				h := mine[n]
				mine[n] = holder{pid, h.reads || mode != unix.O_WRONLY, h.sends || mode != unix.O_RDONLY}
			}
		}
		for n, h := range mine {
			out[n] = append(out[n], h)
		}
	}
	return out, hidden
}

// resolve turns the inodes of a wait into processes. A socket that is not among this machine's unix sockets, or whose
// other end no process is seen to have, may get an answer from anywhere.
func (w *waiting) resolve(self int, peers map[uint64]uint64, h map[uint64][]holder) {
	for _, n := range slices.Concat(w.pipes, w.units) {
		other := n
		if slices.Contains(w.units, n) {
			other = peers[n]
		}
		found := false
		for _, o := range h[other] {
			ends := o.sends
			if w.On == OnRoom {
				ends = o.reads
			}
			if found = found || ends; !ends {
				continue
			}
			if o.pid == self {
				w.Own = true
			} else if !slices.Contains(w.Ends, o.pid) {
				w.Ends = append(w.Ends, o.pid)
			}
		}
		if other == 0 || !found {
			w.Wait = Wait{Thread: w.Thread, Main: w.Main, Count: w.Count}
			return
		}
	}
	slices.Sort(w.Ends)
}

// The layout of a request and an answer of sock_diag(7) for unix sockets (include/uapi/linux/unix_diag.h).
const (
	unixDiagMessage = 16 // struct unix_diag_msg
	unixDiagPeer    = 2  // UNIX_DIAG_PEER
)

// unixPeers returns the inodes of the other ends of the unix sockets of a network namespace, by inode.
func unixPeers(ns string) map[uint64]uint64 {
	fd, err := diagSocket(ns)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	const showPeer, request = 4, 16 + 24
	b := diagHead(request)
	b = append(b, unix.AF_UNIX, 0, 0, 0)
	for _, v := range []uint32{0xffffffff, 0, showPeer, 0xffffffff, 0xffffffff} { // states, inode, show, cookie
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	out := map[uint64]uint64{}
	_ = exchange(fd, b, func(body []byte) {
		if len(body) < unixDiagMessage {
			return
		}
		attributes(body[unixDiagMessage:], func(kind uint16, value []byte) {
			if kind == unixDiagPeer && len(value) >= 4 {
				out[uint64(binary.NativeEndian.Uint32(body[4:]))] = uint64(binary.NativeEndian.Uint32(value))
			}
		})
	})
	return out
}
