package preflight

import (
	"cmp"
	"fmt"
	"net"
	"slices"

	"launch/internal/peer"
)

// side is what bad calls have in common.
type side int

const (
	between    side = iota // two nodes
	toNode                 // calls to a node
	fromNode               // calls from a node
	toAndFrom              // both
	apart                  // nodes that fall into groups
	everywhere             // all calls
)

// blamed is one cause of bad calls: what they have in common, and whom it is.
type blamed struct {
	side  side
	nodes []Post // the node; of a link both ends; of parts the smaller ones
	rest  int    // how many others there are
	calls int    // how many calls there were on this side, good ones too
	edges []edge // the bad ones that this explains
	back  bool   // of a link: the other direction is good
}

// blame explains the bad calls by as few nodes and links as it can, the gravest
// first. The rule, in this order: all are bad, so it is none of them; the nodes
// fall into groups with all good inside and nothing good between; a node most of
// whose calls are bad, to it or from it, the worst first, without the calls that
// are explained by then; what is left is the way between two.
func blame(all []edge, n int, bad func(edge) bool, tell func(blamed)) {
	left := slices.Clone(all)
	wrong := slices.DeleteFunc(slices.Clone(all), func(e edge) bool { return !bad(e) })
	if len(wrong) == 0 {
		return
	}
	if n > 2 && len(wrong) == len(all) {
		tell(blamed{side: everywhere, rest: n, calls: len(all), edges: wrong})
		return
	}
	if small, ok := grouped(all, bad); ok {
		tell(blamed{side: apart, nodes: small, rest: n - len(small), calls: len(all), edges: wrong})
		return
	}
	for {
		b, ok := worst(left, n, bad)
		if !ok {
			break
		}
		left = slices.DeleteFunc(left, b.explains)
		tell(b)
	}
	links(left, n, bad, tell)
}

// links tells what no node explains, once for each two nodes.
func links(left []edge, n int, bad func(edge) bool, tell func(blamed)) {
	var pairs []blamed
	for _, e := range left {
		if !bad(e) {
			continue
		}
		a, b := e.from, e.to
		if a.Rank > b.Rank {
			a, b = b, a
		}
		i := slices.IndexFunc(pairs, func(p blamed) bool { return p.nodes[0].Rank == a.Rank && p.nodes[1].Rank == b.Rank })
		if i < 0 {
			i, pairs = len(pairs), append(pairs, blamed{side: between, nodes: []Post{a, b}, rest: n - 2})
		}
		pairs[i].edges = append(pairs[i].edges, e)
	}
	for _, p := range pairs {
		first := p.edges[0]
		p.back = slices.ContainsFunc(left, func(e edge) bool {
			return e.from.Rank == first.to.Rank && e.to.Rank == first.from.Rank && !bad(e)
		})
		tell(p)
	}
}

// worst is the node and side with the most bad calls, if these are more than
// half of at least two.
func worst(left []edge, n int, bad func(edge) bool) (blamed, bool) {
	type tally struct{ bad, all int }
	ins, outs, nodes := map[int]tally{}, map[int]tally{}, map[int]Post{}
	add := func(m map[int]tally, p Post, wrong bool) {
		t := m[p.Rank]
		if t.all++; wrong {
			t.bad++
		}
		m[p.Rank], nodes[p.Rank] = t, p
	}
	for _, e := range left {
		add(ins, e.to, bad(e))
		add(outs, e.from, bad(e))
	}
	guilty := func(t tally) bool { return t.all >= 2 && 2*t.bad > t.all }
	var found blamed
	most := 0
	for rank := range n {
		i, o := ins[rank], outs[rank]
		s, t := toNode, i
		switch {
		case guilty(i) && guilty(o):
			s, t = toAndFrom, tally{i.bad + o.bad, i.all + o.all}
		case guilty(o):
			s, t = fromNode, o
		case !guilty(i):
			continue
		}
		// The most bad calls; of as many the larger share; then a node that can
		// be replaced before node rank 0, which is where people meet.
		first := cmp.Or(cmp.Compare(t.bad, most), cmp.Compare(t.bad*found.calls, most*t.all))
		if most > 0 && (first < 0 || first == 0 && found.nodes[0].Rank != 0) {
			continue
		}
		most, found = t.bad, blamed{side: s, nodes: []Post{nodes[rank]}, rest: n - 1, calls: t.all}
	}
	if most == 0 {
		return found, false
	}
	for _, e := range left {
		if bad(e) && found.explains(e) {
			found.edges = append(found.edges, e)
		}
	}
	return found, true
}

// explains tells whether a call is on the side of the node that is blamed.
func (b blamed) explains(e edge) bool {
	rank := b.nodes[0].Rank
	return b.side != fromNode && e.to.Rank == rank || b.side != toNode && e.from.Rank == rank
}

// grouped tells the nodes outside the largest group, where groups of several have
// good calls inside, and none between them.
func grouped(all []edge, bad func(edge) bool) (small []Post, ok bool) {
	group := map[int]int{}
	nodes := map[int]Post{}
	var root func(int) int
	root = func(r int) int {
		if group[r] != r {
			group[r] = root(group[r])
		}
		return group[r]
	}
	for _, e := range all {
		for _, p := range []Post{e.from, e.to} {
			if _, known := nodes[p.Rank]; !known {
				nodes[p.Rank], group[p.Rank] = p, p.Rank
			}
		}
	}
	for _, e := range all {
		if a, b := root(e.from.Rank), root(e.to.Rank); !bad(e) && a != b {
			group[max(a, b)] = min(a, b)
		}
	}
	size, largest := map[int]int{}, -1
	for r := range nodes {
		size[root(r)]++
	}
	for r, n := range size {
		if n < 2 {
			return nil, false
		}
		if largest < 0 || n > size[largest] || n == size[largest] && r < largest {
			largest = r
		}
	}
	if len(size) < 2 || slices.ContainsFunc(all, func(e edge) bool { return bad(e) && root(e.from.Rank) == root(e.to.Rank) }) {
		return nil, false
	}
	for r, p := range nodes {
		if root(r) != largest {
			small = append(small, p)
		}
	}
	slices.SortFunc(small, func(a, b Post) int { return a.Rank - b.Rank })
	return small, true
}

// unfit are the ranks that have to leave: of a link the one that is not node
// rank 0, where nothing works all.
func (b blamed) unfit() []int {
	var out []int
	switch b.side {
	case between:
		return []int{b.nodes[1].Rank}
	case everywhere:
		for r := range b.rest {
			out = append(out, r)
		}
	default:
		for _, p := range b.nodes {
			out = append(out, p.Rank)
		}
	}
	return out
}

func (b blamed) names() string {
	var out []string
	for _, p := range b.nodes {
		out = append(out, p.Name)
	}
	return some(out)
}

// what says of calls, or of long messages, between whom they do not get through.
func (b blamed) what(noun string) string {
	who, tried := b.names(), fmt.Sprintf("%d of %d tried", len(b.edges), b.calls)
	switch b.side {
	case everywhere:
		return fmt.Sprintf("%s do not get through between any of the %d nodes (%s)", noun, b.rest, tried)
	case apart:
		return fmt.Sprintf("%s do not get through between two groups of nodes: %s, and the other %d (%s)", noun, who, b.rest, tried)
	case toAndFrom:
		return fmt.Sprintf("%s to and from %s do not get through (%s)", noun, who, tried)
	case toNode:
		return fmt.Sprintf("%s to %s do not get through (%s), those from it do", noun, who, tried)
	case fromNode:
		return fmt.Sprintf("%s from %s do not get through (%s), those to it do", noun, who, tried)
	}
	from, to := b.edges[0].from.Name, b.edges[0].to.Name
	if len(b.edges) > 1 {
		return fmt.Sprintf("%s between %s and %s do not get through in either direction", noun, from, to)
	}
	back := ""
	if b.back {
		back = ", those back do"
	}
	return fmt.Sprintf("%s from %s to %s do not get through%s", noun, from, to, back)
}

// common is a bad call with the cause that most of them have.
func (b blamed) common() edge {
	n, best := map[peer.Cause]int{}, b.edges[0]
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
