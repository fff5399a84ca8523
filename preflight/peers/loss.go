package peers

import (
	"cmp"
	"fmt"
	"slices"

	"launch/internal/finding"
	"launch/preflight/blame"
	"launch/preflight/calls"
	"launch/preflight/threshold"
)

// lateEnough is how many of a dozen new connections must go unanswered at first: one or two may be chance.
const lateEnough = 3

// compareLoss warns of paths that work and cost time: packets are lost, new connections are dropped, or the path is
// slow. Of these the first explains the others.
func compareLoss(posts []Post, thresholds map[string]float64) (out []judged) {
	var all, failed []edge
	for _, e := range edges(posts) {
		switch c := e.call; {
		case c.Port || c.Also:
		case c.Failed():
			failed = append(failed, e)
		case c.IfMTU > 0: // others were not measured
			all = append(all, e)
		}
	}
	all = undisputed(withoutClones(all, failed), failed, posts)
	most := threshold.Of(thresholds, "peer.loss")
	lossy := func(e edge) bool { return e.call.Lost > 0 && e.call.Lost >= most }
	for _, b := range causes(all, posts, lossy) {
		out = append(out, judged{Finding: b.lossy()})
	}
	all = sound(all, func(e edge) bool { return lossy(e) || e.call.Stall != "" })
	narrow := unscaled(all)
	for _, b := range causes(all, posts, narrow) {
		out = append(out, judged{Finding: b.narrowed()})
	}
	all = sound(all, narrow)
	least := threshold.Of(thresholds, "peer.slow") * 1e6 / 8
	slow := func(e edge) bool { return e.call.Speed > 0 && e.call.Speed < least }
	for _, b := range causes(all, posts, slow) {
		out = append(out, judged{Finding: b.slow()})
	}
	// Answers to new connections take the way of a call that failed, too.
	all = sound(slices.Concat(sound(all, slow), failed), func(e edge) bool { return e.call.Failed() })
	ownLeg := func(e edge) bool { return e.call.Never > 0 && e.call.Wrong.Why != "" }
	for _, b := range causes(all, posts, ownLeg) {
		out = append(out, judged{b.ownLeg(), ranksOf(b.guilty())})
	}
	all = sound(all, ownLeg)
	byPort := func(e edge) bool { return e.call.ByPort() }
	for _, b := range causes(all, posts, byPort) {
		out = append(out, judged{b.byPort(), b.unfit()})
	}
	all = sound(all, byPort)
	limited := limited(all)
	for _, b := range causes(all, posts, limited) {
		out = append(out, judged{b.shut(), b.unfit()})
	}
	late := func(e edge) bool { return e.call.Late >= lateEnough && !limited(e) }
	for _, b := range causes(all, posts, late) {
		out = append(out, judged{Finding: b.limited()})
	}
	return out
}

// unscaled returns whether a call lost TCP's window scaling on the way: the call back has it, or both nodes have
// offered it.
func unscaled(all []edge) func(edge) bool {
	of := map[[2]int]calls.Call{}
	for _, e := range all {
		of[[2]int{e.from.Rank, e.to.Rank}] = e.call
	}
	return func(e edge) bool {
		back, made := of[[2]int{e.to.Rank, e.from.Rank}]
		return e.call.Unscaled && made && (!back.Unscaled || e.call.Offered && back.Offered)
	}
}

// narrowed returns the warning about a path on which a device takes out the option for window scaling. Where it does so
// in the answer alone, the called node scales its windows all the same, and the caller takes 64 KB for a window of
// some hundred bytes.
func (b blamed) narrowed() finding.Finding {
	said, seen := ", and those the other way have it", "its answer lacks the option; the call back has it"
	if b.edges[0].call.Offered && slices.ContainsFunc(b.edges, func(e edge) bool {
		return e.from.Rank == b.edges[0].to.Rank && e.to.Rank == b.edges[0].from.Rank
	}) {
		said, seen = ", and both nodes offer it", "its answer lacks the option"
	}
	f := finding.Warnf("TCP's window scaling is lost on connections %s%s (%d of %d paths)", b.where(), said,
		len(b.edges), b.tried()).Named("peer.slow")
	return b.measured(f, func(edge) string { return seen }).
		Breaking("windows are 64 KB at most, or one end takes the other's for 128 times smaller: connections are slow, or "+
			"crawl and look hung").
		Do("nft list ruleset   # on %s: a rule that resets the TCP option window, or a synproxy\n"+
			"else a firewall or load balancer on the path removes it: have it leave TCP options alone\n"+
			"until then, on each node: sysctl -w net.ipv4.tcp_window_scaling=0", b.suspects())
}

// sound returns the calls between nodes of which neither call is bad: answers take the way back.
func sound(all []edge, bad func(edge) bool) []edge {
	pair := func(e edge) [2]int { return [2]int{min(e.from.Rank, e.to.Rank), max(e.from.Rank, e.to.Rank)} }
	out := map[[2]int]bool{}
	for _, e := range all {
		out[pair(e)] = out[pair(e)] || bad(e)
	}
	return slices.DeleteFunc(slices.Clone(all), func(e edge) bool { return out[pair(e)] })
}

// lossy returns the warning about lost packets.
func (b blamed) lossy() finding.Finding {
	worst := slices.MaxFunc(b.edges, func(x, y edge) int { return cmp.Compare(x.call.Lost, y.call.Lost) })
	share := fmt.Sprintf("about %.0f %% of them", 100*worst.call.Lost)
	if worst.call.Lost > 0.7 {
		share = "most of them"
	}
	f := finding.Warnf("packets %s are lost, %s (%d of %d paths)", b.where(), share, len(b.edges), b.tried()).
		Named("peer.loss")
	return b.measured(f, func(e edge) string { return fmt.Sprintf("%.0f %% of small packets lost", 100*e.call.Lost) }).
		Breaking("TCP waits 0.2 s and more before it sends a packet again: every collective is slow, connections may fail").
		Do("ip -s link; tc -s qdisc; nft list ruleset   # on %s: which counter of drops or errors rises\n"+
			"then change the cable or switch port, or correct the filter or queue that drops", b.suspects())
}

// slow returns the warning about a slow path.
func (b blamed) slow() finding.Finding {
	best := slices.MaxFunc(b.edges, func(x, y edge) int { return cmp.Compare(x.call.Speed, y.call.Speed) })
	f := finding.Warnf("the network path %s is slow: %s at most (%d of %d paths)", b.where(), rate(best.call.Speed),
		len(b.edges), b.tried()).Named("peer.slow")
	return b.measured(f, func(e edge) string { return rate(e.call.Speed) }).
		Breaking("every collective is as slow as the slowest path").
		Do("ethtool IFACE; tc -s qdisc   # on %s: the speed of the link, and a limit\n"+
			"or choose a faster network: --addr 10.0.0.0/16", b.suspects())
}

// measured adds what was measured on the paths.
func (b blamed) measured(f finding.Finding, said func(edge) string) finding.Finding {
	f = f.About(namesOf(b.nodes))
	for _, e := range b.edges[:min(len(b.edges), finding.MaxSeen)] {
		f = f.See(fmt.Sprintf("%s to %s at %s", e.from.Name, e.to.Name, hostOf(e.call.Addr)), "%s", said(e))
	}
	return f
}

// tried returns how many paths were measured where the cause lies.
func (b blamed) tried() int { return max(b.Tried, len(b.edges)) }

// suspects names the nodes to look at.
func (b blamed) suspects() string {
	if len(b.nodes) == 0 {
		return "each node"
	}
	return b.names()
}

// where describes between which nodes bad paths lie.
func (b blamed) where() string {
	switch b.Side {
	case blame.Everywhere:
		return fmt.Sprintf("between all of the %d nodes", b.Rest)
	case blame.Apart:
		return fmt.Sprintf("between two groups of nodes, %s and the other %d,", b.names(), b.Rest)
	case blame.ToAndFrom:
		return "to and from " + b.names()
	case blame.ToNode:
		return "to " + b.names()
	case blame.FromNode:
		return "from " + b.names()
	}
	from, to := b.edges[0].from.Name, b.edges[0].to.Name
	if len(b.edges) > 1 {
		return fmt.Sprintf("between %s and %s", from, to)
	}
	return fmt.Sprintf("from %s to %s", from, to)
}

// rate returns a speed in bytes per second as bits.
func rate(v float64) string { return fmt.Sprintf("%.2g Mbit/s", v*8/1e6) }
