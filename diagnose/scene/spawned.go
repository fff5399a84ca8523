package scene

import (
	"bytes"
	"maps"
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
		found = found || group || connected(pid)
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
func inGroup(pid int) bool {
	return slices.ContainsFunc(threadNames(pid), func(n string) bool {
		return slices.ContainsFunc(ofTorch, func(b string) bool { return strings.HasPrefix(n, b) })
	})
}

// multiprocess reports whether a command line belongs to a child of Python's multiprocessing (Lib/multiprocessing).
func multiprocess(argv []string) bool {
	return slices.ContainsFunc(argv, func(a string) bool {
		return strings.Contains(a, "multiprocessing.spawn import spawn_main") ||
			strings.Contains(a, "multiprocessing.forkserver import main") || a == "--multiprocessing-fork"
	})
}

// connected reports whether a process has a connection of TCP, or tries to open one.
func connected(pid int) (is bool) {
	open := openSockets(pid)
	for _, name := range []string{"net/tcp", "net/tcp6"} {
		text, _ := readFile(procPath(pid, name))
		_ = parseTable(bytes.NewReader(text), func(s Socket) {
			is = is || s.State != "listen" && slices.Contains(open, s.Inode)
		})
	}
	return is
}
