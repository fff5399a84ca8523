package preflight

import (
	"cmp"
	"slices"
)

// side is what bad arcs have in common.
type side int

const (
	between    side = iota // two nodes
	toNode                 // arcs to a node
	fromNode               // arcs from a node
	toAndFrom              // both
	apart                  // nodes that fall into groups
	everywhere             // all arcs
)

// arc is what was tried from one node to another, by numbers from 0 on: a call,
// or a flow between two ports.
type arc struct {
	from, to int
	bad      bool
}

// culprit is one reason for bad arcs: what they have in common, and whom it is.
type culprit struct {
	side  side
	nodes []int // the node; of a link both ends; of parts the smaller ones
	rest  int   // how many others there are
	tried int   // how many arcs there were on this side, good ones too
	bad   []int // the bad arcs that this explains, by their place
	back  bool  // of a link: the other direction is good
}

// culprits explains the bad ones of the arcs between n nodes by as few nodes and
// links as it can, the gravest first. The rule, in this order: all are bad, so it
// is none of them; the nodes fall into groups with all good inside and nothing
// good between; a node most of whose arcs are bad, to it or from it, the worst
// first, without the arcs that are explained by then; what is left is the way
// between two.
func culprits(all []arc, n int) []culprit {
	var left, wrong []int
	for i, a := range all {
		left = append(left, i)
		if a.bad {
			wrong = append(wrong, i)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	if n > 2 && len(wrong) == len(all) {
		return []culprit{{side: everywhere, rest: n, tried: len(all), bad: wrong}}
	}
	if small, ok := grouped(all); ok {
		return []culprit{{side: apart, nodes: small, rest: n - len(small), tried: len(all), bad: wrong}}
	}
	var out []culprit
	for {
		c, ok := worst(all, left, n)
		if !ok {
			return append(out, links(all, left, n)...)
		}
		left = slices.DeleteFunc(left, func(i int) bool { return c.explains(all[i]) })
		out = append(out, c)
	}
}

// links is what no node explains, once for each two nodes.
func links(all []arc, left []int, n int) []culprit {
	var pairs []culprit
	for _, i := range left {
		e := all[i]
		if !e.bad {
			continue
		}
		a, b := min(e.from, e.to), max(e.from, e.to)
		p := slices.IndexFunc(pairs, func(p culprit) bool { return p.nodes[0] == a && p.nodes[1] == b })
		if p < 0 {
			p, pairs = len(pairs), append(pairs, culprit{side: between, nodes: []int{a, b}, rest: n - 2})
		}
		pairs[p].bad = append(pairs[p].bad, i)
	}
	for p, c := range pairs {
		first := all[c.bad[0]]
		pairs[p].back = slices.ContainsFunc(left, func(i int) bool {
			return all[i].from == first.to && all[i].to == first.from && !all[i].bad
		})
	}
	return pairs
}

// worst is the node and side with the most bad arcs, if these are more than half
// of at least two.
func worst(all []arc, left []int, n int) (culprit, bool) {
	type tally struct{ bad, all int }
	ins, outs := map[int]tally{}, map[int]tally{}
	add := func(m map[int]tally, node int, wrong bool) {
		t := m[node]
		if t.all++; wrong {
			t.bad++
		}
		m[node] = t
	}
	for _, i := range left {
		add(ins, all[i].to, all[i].bad)
		add(outs, all[i].from, all[i].bad)
	}
	guilty := func(t tally) bool { return t.all >= 2 && 2*t.bad > t.all }
	var found culprit
	most := 0
	for node := range n {
		i, o := ins[node], outs[node]
		s, t := toNode, i
		switch {
		case guilty(i) && guilty(o):
			s, t = toAndFrom, tally{i.bad + o.bad, i.all + o.all}
		case guilty(o):
			s, t = fromNode, o
		case !guilty(i):
			continue
		}
		// The most bad arcs; of as many the larger share; then a node that can be
		// replaced before node rank 0, which is where people meet.
		first := cmp.Or(cmp.Compare(t.bad, most), cmp.Compare(t.bad*found.tried, most*t.all))
		if most > 0 && (first < 0 || first == 0 && found.nodes[0] != 0) {
			continue
		}
		most, found = t.bad, culprit{side: s, nodes: []int{node}, rest: n - 1, tried: t.all}
	}
	if most == 0 {
		return found, false
	}
	for _, i := range left {
		if all[i].bad && found.explains(all[i]) {
			found.bad = append(found.bad, i)
		}
	}
	return found, true
}

// explains tells whether an arc is on the side of the node that is blamed.
func (c culprit) explains(a arc) bool {
	return c.side != fromNode && a.to == c.nodes[0] || c.side != toNode && a.from == c.nodes[0]
}

// grouped tells the nodes outside the largest group, where groups of several have
// good arcs inside, and none between them.
func grouped(all []arc) (small []int, ok bool) {
	group := map[int]int{}
	var root func(int) int
	root = func(r int) int {
		if group[r] != r {
			group[r] = root(group[r])
		}
		return group[r]
	}
	for _, a := range all {
		for _, node := range []int{a.from, a.to} {
			if _, known := group[node]; !known {
				group[node] = node
			}
		}
	}
	for _, e := range all {
		if a, b := root(e.from), root(e.to); !e.bad && a != b {
			group[max(a, b)] = min(a, b)
		}
	}
	size, largest := map[int]int{}, -1
	for r := range group {
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
	if len(size) < 2 || slices.ContainsFunc(all, func(a arc) bool { return a.bad && root(a.from) == root(a.to) }) {
		return nil, false
	}
	for r := range group {
		if root(r) != largest {
			small = append(small, r)
		}
	}
	slices.Sort(small)
	return small, true
}
