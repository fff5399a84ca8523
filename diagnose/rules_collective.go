package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// waitingRanks returns the ranks in a phase.
func (v *view) in(p ...phase) (out []int) {
	for _, s := range v.seats {
		if s.rank >= 0 && slices.Contains(p, s.phase) {
			out = append(out, s.rank)
		}
	}
	return out
}

// groups finds groups that not all members create.
func (v *view) groups() (out []claim) {
	if v.board == nil {
		return nil
	}
	type size struct {
		have  []int
		world int
	}
	groups := map[int]*size{}
	for _, b := range v.board.Blobs {
		if b.Group == 0 {
			continue
		}
		g := groups[b.Group]
		if g == nil {
			g = &size{}
			groups[b.Group] = g
		}
		g.have = append(g.have, b.Index)
		g.world = max(g.world, b.World)
	}
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		g := groups[id]
		if g.world == 0 || len(g.have) >= g.world {
			continue
		}
		ranks := v.in(group)
		who := fmt.Sprintf("%d of %d members", len(g.have), g.world)
		if len(ranks) > 0 {
			who = rankWords(ranks)
		}
		c := claimed("group.subset", verdict.Certain, fmt.Sprintf(
			"%s %s in new_group (group %d, %d of %d members there), and the others do not call it", who,
			verb(ranks, "waits", "wait"), id, len(g.have), g.world))
		if len(ranks) > 0 {
			c = c.of(ranks, v.nodesOf(ranks)...)
		}
		out = append(out, c.see("store", fmt.Sprintf("/default_pg/0//%d//cpu//0/%s", id, verdict.Spans(g.have))))
	}
	return out
}

func (v *view) nodesOf(ranks []int) (out []*node) {
	for _, r := range ranks {
		out = append(out, v.nodeOf(r))
	}
	return out
}

// mismatch compares the collectives that the stacks show. Where a rank is elsewhere, the others may wait for it in
// groups of different ranks, one after the other as in a pipeline: while it works, nothing is said. To
// make a group is a collective, too.
func (v *view) mismatch() []claim {
	calls := map[string][]int{}
	first := map[string]*seat{}
	total := 0
	sure, paired, rooted := verdict.Certain, false, false
	makers := v.in(group)
	for _, s := range v.seats {
		if s.op.kind == noOp || s.rank < 0 || s.phase != collective && s.phase != group {
			continue
		}
		name := s.op.name
		total++
		calls[name] = append(calls[name], s.rank)
		first[name] = s
		paired, rooted = paired || s.op.kind == ofPair, rooted || s.op.rooted()
		if s.op.sure != verdict.Certain {
			sure = verdict.Likely
		}
	}
	switch {
	case len(calls) < 2 || v.busy() || v.inPairs() || total < v.world && paired:
		return nil
	case len(makers) > 0 && len(v.groups())+len(v.dials())+len(v.paths()) > 0:
		return nil
	case slices.ContainsFunc(v.seats, func(s *seat) bool {
		return s.rank >= 0 && s.phase != collective && works(s.proc.Moved, s.node.scene.Span)
	}):
		return nil
	}
	var parts []string
	var ranks []int
	c := claimed("collective.mismatch", sure, "")
	if total < v.world {
		c.Sure = verdict.Likely
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		o := first[name].op
		part := fmt.Sprintf("%s in %s", rankWords(calls[name]), o.whole(len(calls[name]) == 1))
		if o.rooted() {
			part += v.rootWords(calls[name], v.without(calls[name]))
		}
		parts = append(parts, part)
		c = c.see("py-spy", name+" at "+line(o.stack))
		if rooted || 2*len(calls[name]) <= total { // most may have left what has a root, or not have joined it
			ranks = append(ranks, calls[name]...)
		}
	}
	c.Says = "ranks wait in different collectives: " + strings.Join(parts, ", ") + v.quietWords()
	if len(makers) > 0 {
		c = c.do("all ranks of the job must make the same groups in the same order, each with the same list of ranks")
	}
	if len(makers) > 1 {
		c.Sure = verdict.Likely // they may wait for each other
	}
	return []claim{c.of(ranks, v.nodesOf(ranks)...)}
}

// without returns the ranks that were seen, but for some.
func (v *view) without(some []int) (out []int) {
	for _, s := range v.seats {
		if s.rank >= 0 && !slices.Contains(some, s.rank) && !slices.Contains(out, s.rank) {
			out = append(out, s.rank)
		}
	}
	return out
}

// inPairs reports whether all calls are between two ranks, which differ by nature.
func (v *view) inPairs() bool {
	return !slices.ContainsFunc(v.seats, func(s *seat) bool { return s.phase == collective && s.op.kind != ofPair })
}

// crossed finds ranks that wait for each other in send and recv: the stacks of all ranks of the job are in one of them,
// and nothing is on the way. A send that had its recv would be over.
func (v *view) crossed() []claim {
	calls := map[string][]int{}
	c := claimed("collective.crossed", verdict.Certain, "")
	ranks := map[int]bool{}
	for _, s := range v.seats {
		_, known := v.quiet(s.node)
		if s.op.kind != ofPair || s.rank < 0 || s.phase != collective || !known || v.onTheWay(s) ||
			works(s.proc.Moved, s.node.scene.Span) {
			return nil
		}
		if len(s.proc.Stacks) > 1 || s.op.sure != verdict.Certain { // a thread of the script may send later
			c.Sure = verdict.Likely
		}
		name := s.op.name
		if calls[name] == nil {
			c = c.see("py-spy", s.op.whole(true)+" at "+line(s.op.stack))
		}
		calls[name], ranks[s.rank] = append(calls[name], s.rank), true
	}
	if v.world < 2 || len(ranks) < v.world || v.busy() {
		return nil
	}
	if len(calls["send"])+len(calls["Work.wait"]) == 0 {
		c.Says = "all ranks wait to receive (dist.recv), and no rank sends" + v.quietWords()
		return []claim{c}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		if name == "send" || name == "recv" {
			parts = append(parts, fmt.Sprintf("%s in dist.%s", rankWords(calls[name]), name))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s in %s", rankWords(calls[name]), name))
	}
	c.Says = "all ranks wait in send or recv, and no send has its recv: " + strings.Join(parts, ", ") + v.quietWords()
	return []claim{c}
}

// onTheWay reports whether data of a rank may be on its way: it waits in a connection to another rank, or NCCL may
// carry it, which moves no bytes of sockets.
func (v *view) onTheWay(s *seat) bool {
	byNCCL := thread(s.proc, "pt_nccl_") && !s.proc.Still
	return byNCCL || slices.ContainsFunc(s.node.scene.Sockets, func(k scene.Socket) bool {
		return k.PID == s.proc.PID && k.State == "established" && k.SendQ+k.RecvQ > 0 && !v.isStore(s.node, k)
	})
}

// busy reports whether bytes have moved between ranks during the look, or NCCL has launched collectives.
func (v *view) busy() bool {
	if r, _ := v.ras(); r != nil && r.Moved {
		return true
	}
	for _, n := range v.nodes {
		if q, known := v.quiet(n); known && q < n.scene.Span {
			return true
		}
	}
	return false
}

// longest returns for how long no byte has moved between the ranks of the node that waits the longest; 0: not known.
func (v *view) longest() (out time.Duration) {
	for _, n := range v.nodes {
		q, _ := v.quiet(n)
		out = max(out, q)
	}
	return out
}

func (v *view) quietWords() string {
	if longest := v.longest(); longest > 0 {
		return fmt.Sprintf("; no byte has moved between ranks for %s", ago(longest))
	}
	return ""
}

// closed finds ranks that have ended after init.
func (v *view) closed() (out []claim) {
	var gone []int
	for _, s := range v.seats {
		if s.phase != collective && s.phase != inside && s.phase != mesh {
			continue
		}
		for _, k := range s.node.scene.Sockets {
			if k.PID == s.proc.PID && k.State == "close-wait" && !v.isStore(s.node, k) {
				if r := v.rankAt(k.Remote.Addr().Unmap().String(), k.Remote.Port()); r >= 0 && v.seat(r) == nil {
					gone = append(gone, r)
				}
			}
		}
	}
	for r := range v.world {
		n := v.nodeOf(r)
		if v.blob(r) != nil && v.seat(r) == nil && n != nil && n.scene != nil && len(v.in(collective, mesh, keys)) > 0 &&
			v.readable(n) {
			gone = append(gone, r)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	c := claimed("peer.ended", verdict.Certain, "")
	c = c.of(gone, v.nodesOf(gone)...)
	c.Says = fmt.Sprintf("%s %s ended, and other ranks wait for it", rankWords(c.Ranks), verb(c.Ranks, "has", "have"))
	return []claim{c}
}

// readable reports whether all processes of ranks on a node could be read: one that is not seen is not there.
func (v *view) readable(n *node) bool {
	return !slices.ContainsFunc(n.scene.Procs, func(p scene.Proc) bool {
		return (p.Role == scene.Rank || p.Role == scene.Agent) && p.Env == nil ||
			p.Role == scene.Rank && p.Env["RANK"] == ""
	})
}

// thinMesh names pairs of ranks without a connection, where nothing deeper was found.
func (v *view) thinMesh() []claim {
	if v.board == nil || len(v.absentKeys()) > 0 || v.world < 2 || slices.ContainsFunc(v.seats, lazy) {
		return nil
	}
	var short []int
	for _, s := range v.seats {
		if s.rank >= 0 && s.phase == mesh && len(v.peersOf(s)) < v.world-1 {
			short = append(short, s.rank)
		}
	}
	if len(short) == 0 {
		return nil
	}
	return []claim{claimed("mesh.incomplete", verdict.Certain, fmt.Sprintf(
		"all addresses are published, and %s %s connections to other ranks", rankWords(short),
		verb(short, "lacks", "lack"))).of(short, v.nodesOf(short)...)}
}

func lazy(s *seat) bool { return s.proc.Env["TORCH_GLOO_LAZY_INIT"] == "1" }

// exits finds agents that wait for the others at their end.
func (v *view) exits() []claim {
	if v.board == nil || v.board.Ended < 1 || v.board.Ended >= max(len(v.board.Agents), 1) {
		return nil
	}
	var running []int
	var nodes []*node
	for _, s := range v.seats {
		running = append(running, v.known(s)...)
		nodes = append(nodes, s.node)
	}
	sure := verdict.Certain
	if slices.ContainsFunc(v.seats, func(s *seat) bool { return !endless(s.proc) }) {
		sure = verdict.Likely // one that sleeps, or waits for a thread or a child that does, goes on without help
	}
	c := claimed("exit.barrier", sure, fmt.Sprintf(
		"%d of %d torchruns have ended well and wait for the others, whose ranks still run%s", v.board.Ended,
		len(v.board.Agents), rankList(running))).of(running, nodes...).see("store", "terminal_state/num_members")
	for _, s := range v.seats[:min(len(v.seats), 3)] {
		if m := mainStack(s.proc); m != nil {
			c = c.see("py-spy", seatName(s)+" at "+line(m))
		}
	}
	return []claim{c}
}

// endless reports whether the main thread of a process waits without a time limit for what another one sends by a
// socket. A pipe may be a child's, which works.
func endless(p *scene.Proc) bool {
	if p.Syscall == nil || p.Syscall.Socket == 0 {
		return false
	}
	if p.Syscall.Name == "poll" {
		return p.Syscall.Limit < 0
	}
	waits := []string{"read", "readv", "recvfrom", "recvmsg", "recvmmsg", "accept", "accept4"}
	return slices.Contains(waits, p.Syscall.Name)
}

// idle says that all wait in a collective, where no reason was found.
func (v *view) idle() []claim {
	ranks, what := v.in(collective), "in a collective"
	if len(ranks) == 0 {
		ranks, what = v.in(calling), "in torch.distributed.rpc"
	}
	if len(ranks) == 0 || v.busy() {
		return nil
	}
	var ops []string
	var seen []finding.Seen
	for _, s := range v.seats {
		switch {
		case works(s.proc.Moved, s.node.scene.Span) && !hasRPC(s.proc):
			return nil
		case s.op.kind == noOp || s.phase != collective && s.phase != calling || slices.Contains(ops, s.op.String()):
		default:
			ops = append(ops, s.op.String())
			seen = append(seen, finding.Seen{Where: "py-spy", What: s.op.whole(true) + " at " + line(s.op.stack)})
		}
	}
	if len(ops) > 0 {
		what = "in " + strings.Join(ops, " or ")
	}
	c := claimed("collective.idle", verdict.Possible, fmt.Sprintf("%s %s %s%s",
		rankWords(ranks), verb(ranks, "waits", "wait"), what, v.quietWords()))
	c.Seen = seen[:min(len(seen), maxSeen)]
	if !slices.ContainsFunc(v.seats, func(s *seat) bool { return s.rank >= 0 && mainStack(s.proc) == nil }) {
		c = c.do("start again with TORCH_DISTRIBUTED_DEBUG=DETAIL: it compares the calls of the ranks, and their sizes")
	}
	if len(v.in(collective)) == 0 {
		c = c.do("look at what the called ranks do: launch doctor on their nodes; a call waits for rpc_timeout, without " +
			"end if that is 0")
	}
	return []claim{c}
}
