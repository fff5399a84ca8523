package diagnose

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// endedAgents finds nodes whose torchrun has ended while others wait.
func (v *view) endedAgents() (out []claim) {
	if v.board == nil || v.board.Ended > 0 || slices.ContainsFunc(v.agents, func(a *agent) bool {
		return v.indexOf(a) < 0 && !v.alone(a)
	}) {
		return nil
	}
	for _, a := range v.board.Agents {
		n := v.byIndex(a.Node)
		var addr string
		for r := range v.world {
			if b := v.blob(r); b != nil && v.shareOf(r) == a.Node {
				addr = b.Addr.Addr().Unmap().String()
			}
		}
		name := v.indexName(a.Node)
		switch {
		case v.byIndexAgent(a.Node) != nil:
			continue
		case n != nil && n.scene != nil:
			if !v.readable(n) || len(v.agents) == 0 {
				continue
			}
		case addr == "" || !v.connectionsEnded(addr):
			if !v.fewerHosts(a.Node) {
				continue
			}
		}
		ranks := v.ranksOfIndex(a.Node)
		c := claimed("node.ended", verdict.Certain, fmt.Sprintf("torchrun of %s has ended; the others wait for its ranks%s",
			name, rankList(ranks)))
		c = c.of(ranks)
		c.Nodes = []string{name}
		out = append(out, c.see("store", fmt.Sprintf("role_info/%d, and no connection from that node", a.Node)))
	}
	return out
}

// endedNodes finds nodes whose launch has left while ranks of others wait in torch, or while no rank moves.
func (v *view) endedNodes() (out []claim) {
	sure := verdict.Certain
	if len(v.in(counting, keys, mesh, collective, group)) == 0 {
		sure = verdict.Likely
		if !v.allStill() {
			return nil
		}
	}
	gone := v.gone()
	for _, e := range gone {
		if n := v.byIndex(e.Rank); n != nil && n.scene != nil {
			continue
		}
		ranks := v.ranksOfIndex(e.Rank)
		if len(v.starts) == 0 && v.world == len(v.seats)+len(gone) { // one process on each node
			ranks = []int{e.Rank}
		}
		c := claimed("node.ended", sure, fmt.Sprintf("%s has left the job; the others wait for its ranks%s",
			e.Name, rankList(ranks))).of(ranks)
		c.Nodes = []string{e.Name}
		out = append(out, c.see(e.by, "launch leaves with the command, or with the machine"))
	}
	return out
}

// departed is a node whose launch has left, and the host that says so.
type departed struct {
	scene.Ended
	by string
}

// gone returns the nodes of this job whose launch has left, each once.
func (v *view) gone() (out []departed) {
	for _, h := range v.hosts {
		for _, e := range h.scene.Ended {
			known := slices.ContainsFunc(out, func(d departed) bool { return d.Ended == e })
			if !known && v.hasPort(e.Port) {
				out = append(out, departed{e, h.name})
			}
		}
	}
	return out
}

// allStill reports whether no rank moves.
func (v *view) allStill() bool { return !slices.ContainsFunc(v.seats, v.moving) }

// hasPort reports whether a rank or a torchrun of the job has this MASTER_PORT.
func (v *view) hasPort(port int) bool {
	text := strconv.Itoa(port)
	return slices.ContainsFunc(v.seats, func(s *seat) bool { return s.proc.Env["MASTER_PORT"] == text }) ||
		slices.ContainsFunc(v.agents, func(a *agent) bool { return a.line.MasterPort.Value == text })
}

func rankList(ranks []int) string {
	if len(ranks) == 0 {
		return ""
	}
	return " (" + verdict.Spans(ranks) + ")"
}

func (v *view) ranksOfIndex(i int) (out []int) {
	for r := range v.world {
		if v.shareOf(r) == i {
			out = append(out, r)
		}
	}
	return out
}

// connectionsEnded reports whether the store's host is seen, and has no connection from an address.
func (v *view) connectionsEnded(addr string) bool {
	for _, st := range v.stores {
		if !st.from.isHere(st.Store) || st.Outcome != scene.Answered {
			continue
		}
		for _, k := range st.from.scene.Sockets {
			if k.Local.Port() == st.At.Port() && k.State == "established" && k.Remote.Addr().Unmap().String() == addr {
				return false
			}
		}
		return true
	}
	return false
}

// fewerHosts reports whether the store's host is seen, and the connections from other hosts come from fewer
// addresses than there are other agents: with one other node, none is certain.
func (v *view) fewerHosts(index int) bool {
	if len(v.board.Shares) != 2 || index == 0 || len(v.board.Agents) != 2 {
		return false
	}
	for _, st := range v.stores {
		if !st.from.isHere(st.Store) || st.Outcome != scene.Answered {
			continue
		}
		for _, k := range st.from.scene.Sockets {
			a := k.Remote.Addr().Unmap()
			if k.Local.Port() == st.At.Port() && k.State == "established" && !slices.Contains(st.from.scene.Addrs, a) &&
				!a.IsLoopback() {
				return false
			}
		}
		return true
	}
	return false
}

// absentRanks names ranks that have not reached init while others wait for them.
func (v *view) absentRanks() (out []claim) {
	if v.board == nil || v.world == 0 || v.nameless() || len(v.in(keys, counting, mesh)) == 0 && len(v.board.Blobs) == 0 {
		return nil
	}
	var missing []int
	for _, r := range v.absentKeys() {
		if s := v.seat(r); s == nil || s.phase == unseen {
			if r != 0 || len(v.board.Shares) > 0 || v.board.Clients >= v.world { // env://: rank 0 writes its key last
				missing = append(missing, r)
			}
		}
	}
	if len(missing) == 0 || len(missing) == v.world {
		return nil
	}
	byNode := map[*node][]int{}
	for _, r := range missing {
		n := v.nodeOf(r)
		byNode[n] = append(byNode[n], r)
	}
	for n, ranks := range byNode {
		where := ""
		if n != nil {
			where = " (" + n.name + ")"
		}
		out = append(out, claimed("rank.absent", verdict.Certain, fmt.Sprintf(
			"%s%s %s not reached init_process_group; the other ranks wait there", rankWords(ranks), where,
			verb(ranks, "has", "have"))).of(ranks, n).see("store", "no key /default_pg/0//cpu//0/"+verdict.Spans(ranks)))
	}
	return out
}

// goneRanks names ranks that a node should have, and has not.
func (v *view) goneRanks() (out []claim) {
	switch {
	case v.nameless():
		return nil
	case v.board == nil || v.world == 0 || len(v.board.Blobs) == 0 && len(v.in(counting)) == 0:
		return v.goneOfNCCL()
	}
	for _, r := range v.absentKeys() {
		n := v.nodeOf(r)
		if v.seat(r) != nil {
			continue
		}
		if n == nil && len(v.board.Shares) == 0 && v.allSeen() && (r != 0 || v.board.Clients >= v.world) {
			out = append(out, claimed("rank.gone", verdict.Likely, fmt.Sprintf(
				"no process is rank %d: it was not started, or has ended; the other ranks wait for it", r)).of([]int{r}))
			continue
		}
		if n == nil || n.scene == nil || !v.readable(n) {
			continue
		}
		out = append(out, claimed("rank.gone", verdict.Certain, fmt.Sprintf(
			"rank %d is not running on %s; the other ranks wait for it in init_process_group", r, n.name)).
			of([]int{r}, n).see("store", fmt.Sprintf("no key /default_pg/0//cpu//0/%d", r)))
	}
	return out
}

// goneOfNCCL names ranks that are not on their node while others wait in NCCL, which publishes no addresses.
func (v *view) goneOfNCCL() (out []claim) {
	if !slices.ContainsFunc(v.seats, v.spins) || v.busy() {
		return nil
	}
	for r := range v.world {
		if n := v.nodeOf(r); v.seat(r) == nil && n != nil && n.scene != nil && v.readable(n) {
			out = append(out, claimed("rank.gone", verdict.Certain, fmt.Sprintf(
				"rank %d is not running on %s; the other ranks wait for it in a collective", r, n.name)).
				of([]int{r}, n).see("/proc of "+n.name, "no process has that rank"))
		}
	}
	return out
}

// allSeen reports whether more than one node is seen, and each rank that has come has a process in the scenes.
func (v *view) allSeen() bool {
	if len(v.nodes) < 2 {
		return false
	}
	for _, b := range v.board.Blobs {
		if b.Group == 0 && v.seat(b.Index) == nil {
			return false
		}
	}
	blind := func(h *node) bool { return h.scene.Node != nil && len(h.scene.Procs) == 0 } // its look was cut short
	return len(v.seats) > 0 && !slices.ContainsFunc(v.hosts, blind) &&
		!slices.ContainsFunc(v.nodes, func(n *node) bool { return n.scene == nil || !v.readable(n) })
}

// moving reports whether a rank gets on, as far as can be seen. Threads of NCCL talk to each other by themselves.
func (v *view) moving(s *seat) bool {
	return !v.polls(s) && v.acts(s)
}

// polls reports whether a rank may do no more than to call, again and again, a node that has left.
func (v *view) polls(s *seat) bool {
	m := s.proc.Moved
	m.Files = false // sockets
	return s.phase == before && s.proc.State == "S" && !works(m, s.node.scene.Span) && len(v.gone()) > 0
}

// acts reports whether a rank does anything.
func (v *view) acts(s *seat) bool {
	slow, _ := v.slow(s)
	return slow || works(s.proc.Moved, s.node.scene.Span) || strings.HasPrefix(s.proc.State, "R") ||
		!thread(s.proc, "pt_nccl_") && v.talks(s) ||
		s.phase == before && stirs(s.proc.Moved, s.node.scene.Span)
}

// linked reports whether a rank has a connection to another node of the job.
func (v *view) linked(s *seat) bool {
	return slices.ContainsFunc(s.node.scene.Sockets, func(k scene.Socket) bool {
		return k.PID == s.proc.PID && k.State == "established" && slices.ContainsFunc(v.nodes, func(n *node) bool {
			return n != s.node && n.isAt(k.Remote.Addr().Unmap())
		})
	})
}

// waiters returns the ranks that have not called init_process_group and wait for another: that one's node has left;
// or they have connections to other nodes, and it has none, or it waits for input, a lock or the reader of its output;
// or it runs another program than most ranks.
func (v *view) waiters() []*seat {
	var all, still, linked []*seat
	runs := map[string]int{}
	for _, s := range v.seats {
		if s.phase != before {
			continue
		}
		all = append(all, s)
		if v.moving(s) {
			continue
		}
		still = append(still, s)
		runs[s.proc.Comm]++
		if what, _ := v.blocked(s.node, s.proc); what == "" && v.linked(s) {
			linked = append(linked, s)
		}
	}
	most := slices.DeleteFunc(slices.Clone(still), func(s *seat) bool { return 2*runs[s.proc.Comm] <= len(all) })
	switch {
	case len(v.endedNodes()) > 0:
		return still
	case len(linked) > 0 && len(linked) < len(all):
		return linked
	case len(linked) > 0:
		return receivers(linked)
	case len(most) < len(all):
		return most
	}
	return nil
}

// apart names the ranks that are alive and not where the others wait.
func (v *view) apart() (out []claim) {
	inCollective := v.in(collective, group, calling)
	waiters := v.waiters()
	for _, s := range v.seats {
		var c claim
		moving := v.moving(s)
		switch {
		case slices.Contains(waiters, s):
			continue
		case s.phase == before && v.world != 1 && !v.outOfInit(s):
			is, yet := v.beforeInit(s)
			c = about("rank.before-init", verdict.Certain, s, is+", and does not move")
			if moving {
				c = about("rank.working", verdict.Certain, s, yet+", and works")
			}
		case s.phase == inside && len(inCollective) > 0 && !v.busy():
			out = append(out, v.elsewhere(s))
			continue
		default:
			continue
		}
		out = append(out, v.seeing(c, s))
	}
	return out
}

// elsewhere says of a rank in its script that the others wait for it in a collective.
func (v *view) elsewhere(s *seat) claim {
	c := about("rank.left", verdict.Likely, s, "is not in the collective of the others, and does not move")
	if mainStack(s.proc) != nil {
		c.Sure = verdict.Certain
	}
	if v.moving(s) {
		c = about("rank.working", verdict.Certain, s, "is not in the collective of the others yet, and works")
	}
	return v.seeing(c, s)
}
