package diagnose

import (
	"fmt"
	"slices"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// undone finds ranks that wait for a key of torch's store while all others wait for ranks: no rank can set it.
func (v *view) undone() (out []claim) {
	if v.world < 2 || len(v.seats) < v.world || v.busy() {
		return nil
	}
	sure := verdict.Certain
	if v.otherClients() {
		sure = verdict.Likely
	}
	var waiting []*seat
	for _, s := range v.seats {
		switch {
		case works(s.proc.Moved, s.node.scene.Span):
			return nil
		case s.phase == inside && (v.asksStore(s) || v.pollsStore(s)):
			waiting = append(waiting, s)
		case s.phase != collective && s.phase != group:
			return nil
		}
		// A thread may set it, as one that writes a checkpoint.
		if mainStack(s.proc) == nil || len(s.proc.Stacks) > 1 {
			sure = verdict.Likely
		}
	}
	others := "and the others wait in a collective"
	if len(waiting) == len(v.seats) {
		others = "as do all others"
	}
	for _, s := range waiting {
		c := about("store.key", sure, s, "waits for a key in torch's store that no rank sets, "+others)
		if v.pollsStore(s) { // it may count, and stop
			c = about("store.key", verdict.Likely, s, "asks torch's store again and again for what no rank sets, "+others)
		}
		for _, k := range s.node.scene.Sockets {
			if k.Inode != 0 && k.Inode == s.proc.Syscall.Socket {
				c = c.see(procPath(s.proc, "syscall"), fmt.Sprintf("%s on the connection to %s", s.proc.Syscall.Name, k.Remote))
			}
		}
		out = append(out, v.seeing(c, s))
	}
	return out
}

// otherClients reports whether a process other than a rank or torchrun is, or may be, a client of the ranks' store.
// Each rank and each torchrun is one client, and the store's count of clients never goes down.
func (v *view) otherClients() bool {
	if v.board == nil || v.board.Clients < 0 ||
		v.board.Clients > v.world+max(len(v.agents), len(v.board.Agents)) {
		return true
	}
	for _, n := range v.nodes {
		if n.scene == nil {
			continue
		}
		children := map[int]bool{}
		for _, p := range n.scene.Procs {
			children[p.PID] = p.Role == scene.Child || p.Role == scene.Wrapper
		}
		if slices.ContainsFunc(n.scene.Sockets, func(k scene.Socket) bool {
			return children[k.PID] && k.State == "established" && v.isStore(n, k)
		}) {
			return true
		}
	}
	return false
}
