package scene

import (
	"bytes"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// spawned finds the ranks that the script of a process starts itself, as torch.multiprocessing.spawn does: its children
// with torch that are in a process group, or that connect to one. What numbers the process in their environment is
// inherited, and no number of theirs. What torchrun has started is itself a rank, whose children may connect to
// anything.
func (t *table) spawned(p *seen) (ranks []*seen) {
	if inGroup(p.pid) || slices.ContainsFunc(t.above(p.pid), func(a int) bool { return t.procs[a].role == Agent }) {
		return nil
	}
	found := false
	for _, pid := range t.children[p.pid] {
		c := t.procs[pid]
		group := inGroup(pid)
		if c.role != "" || !c.python() || !t.torch(c) || !group && !multiprocess(c.argv) {
			continue
		}
		found = found || group || connected(tcpOf(pid))
		ranks = append(ranks, c)
	}
	if !found {
		return nil
	}
	for _, c := range ranks {
		c.role, c.spawned, c.env = Rank, true, maps.Clone(c.env)
		for _, name := range []string{"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK"} {
			if c.env[name] == p.env[name] {
				delete(c.env, name)
			}
		}
	}
	return ranks
}

// inGroup reports whether a process has threads that torch starts in a rank.
func inGroup(pid int) bool { return threadOf(pid, ofTorch...) }

// threadOf reports whether a process has a thread whose name begins with one of some.
func threadOf(pid int, names ...string) bool {
	return slices.ContainsFunc(threadNames(pid), func(n string) bool {
		return slices.ContainsFunc(names, func(b string) bool { return strings.HasPrefix(n, b) })
	})
}

// multiprocess reports whether a command line belongs to a child of Python's multiprocessing (Lib/multiprocessing).
func multiprocess(argv []string) bool {
	return slices.ContainsFunc(argv, func(a string) bool {
		return strings.Contains(a, "multiprocessing.spawn import spawn_main") ||
			strings.Contains(a, "multiprocessing.forkserver import main") || a == "--multiprocessing-fork"
	})
}

// connected reports whether one of a process's sockets is a connection, or a try to open one.
func connected(own []Socket) bool {
	return slices.ContainsFunc(own, func(k Socket) bool { return k.State != "listen" })
}

// tcpOf returns the TCP sockets of a process.
func tcpOf(pid int) (out []Socket) {
	open := openSockets(pid)
	for _, name := range []string{"net/tcp", "net/tcp6"} {
		text, _ := readFile(procPath(pid, name))
		_ = parseTable(bytes.NewReader(text), func(k Socket) {
			if slices.Contains(open, k.Inode) {
				out = append(out, k)
			}
		})
	}
	return out
}

// findStores finds the stores of ranks that their environment does not number: the script may have another address than
// it, or none is there.
func (t *table) findStores() {
	sockets := map[*seen][]Socket{}
	stores := map[netip.AddrPort]bool{}
	for _, pid := range t.pids() {
		p := t.procs[pid]
		if p.role != Rank || p.env["RANK"] != "" {
			continue
		}
		sockets[p] = tcpOf(pid)
		if threadOf(pid, "pt_tcpstore") {
			if at := hosted(sockets[p]); at.IsValid() {
				stores[at] = true
			}
		}
	}
	for p, own := range sockets {
		for _, k := range own {
			if at := unmapped(k.Remote); k.State == "established" && stores[at] {
				p.store = at
			}
		}
	}
}

// hosted returns the address at which a process listens and has a connection to itself, as the one with torch's store
// has, a client of which it is; not valid: there is none. Gloo opens no connection to its own rank.
func hosted(own []Socket) netip.AddrPort {
	for _, k := range own {
		other := func(o Socket) bool { return o.State == k.State && o.Local == k.Remote && o.Remote == k.Local }
		listens := func(o Socket) bool { return o.State == "listen" && o.Local.Port() == k.Remote.Port() }
		if k.State == "established" && slices.ContainsFunc(own, other) && slices.ContainsFunc(own, listens) {
			return unmapped(k.Remote)
		}
	}
	return netip.AddrPort{}
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
