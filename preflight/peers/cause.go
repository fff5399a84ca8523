package peers

import (
	"fmt"
	"net"

	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/preflight/blame"
)

// blamed is one cause of failed calls, with the nodes and calls that it concerns.
type blamed struct {
	side  blame.Side
	nodes []Post // the node; both ends of a link; the nodes outside the largest group
	rest  int    // the number of other nodes
	calls int    // the number of calls on this side, good ones too
	edges []edge // the failed calls that this explains
	back  bool   // for a link: the other direction works
}

// eachCause reports the causes of the bad calls between n nodes; see blame.Find.
func eachCause(all []edge, n int, bad func(edge) bool, tell func(blamed)) {
	arcs, nodes := make([]blame.Arc, len(all)), map[int]Post{}
	for i, e := range all {
		arcs[i] = blame.Arc{From: e.from.Rank, To: e.to.Rank, Bad: bad(e)}
		nodes[e.from.Rank], nodes[e.to.Rank] = e.from, e.to
	}
	for _, c := range blame.Find(arcs, n) {
		b := blamed{side: c.Side, rest: c.Rest, calls: c.Tried, back: c.Back}
		for _, rank := range c.Nodes {
			b.nodes = append(b.nodes, nodes[rank])
		}
		for _, i := range c.Bad {
			b.edges = append(b.edges, all[i])
		}
		tell(b)
	}
}

// unfit returns the ranks that must leave: for a link the node that is not rank 0, and
// all nodes where nothing works.
func (b blamed) unfit() (out []int) {
	switch b.side {
	case blame.Between:
		return []int{b.nodes[1].Rank}
	case blame.Everywhere:
		for r := range b.rest {
			out = append(out, r)
		}
		return out
	}
	return ranksOf(b.nodes)
}

func (b blamed) names() string {
	return finding.Some(finding.Map(b.nodes, func(p Post) string { return p.Name }))
}

// what describes the calls, or long messages, that fail, and the nodes between which they fail.
func (b blamed) what(noun string) string {
	who, tried := b.names(), fmt.Sprintf("%d of %d tried", len(b.edges), b.calls)
	switch b.side {
	case blame.Everywhere:
		return fmt.Sprintf("%s do not get through between any of the %d nodes (%s)", noun, b.rest, tried)
	case blame.Apart:
		return fmt.Sprintf("%s do not get through between two groups of nodes: %s, and the other %d (%s)",
			noun, who, b.rest, tried)
	case blame.ToAndFrom:
		return fmt.Sprintf("%s to and from %s do not get through (%s)", noun, who, tried)
	case blame.ToNode:
		return fmt.Sprintf("%s to %s do not get through (%s), while those from it do", noun, who, tried)
	case blame.FromNode:
		return fmt.Sprintf("%s from %s do not get through (%s), while those to it do", noun, who, tried)
	}
	from, to := b.edges[0].from.Name, b.edges[0].to.Name
	if len(b.edges) > 1 {
		return fmt.Sprintf("%s between %s and %s do not get through in either direction", noun, from, to)
	}
	back := ""
	if b.back {
		back = ", while those back do"
	}
	return fmt.Sprintf("%s from %s to %s do not get through%s", noun, from, to, back)
}

// common returns a failed call with the most frequent cause.
func (b blamed) common() edge {
	n, best := map[sidechannel.Cause]int{}, b.edges[0]
	for _, e := range b.edges {
		n[e.call.Cause]++
	}
	for _, e := range b.edges {
		if n[e.call.Cause] > n[best.call.Cause] {
			best = e
		}
	}
	return best
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
