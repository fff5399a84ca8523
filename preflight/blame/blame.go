// Package blame finds which nodes or links explain the failures among attempts
// between nodes.
package blame

import (
	"cmp"
	"slices"
)

// side is what bad arcs have in common.
type Side int

const (
	Between    Side = iota // two nodes
	ToNode                 // arcs to a node
	FromNode               // arcs from a node
	ToAndFrom              // both
	Apart                  // nodes that fall into groups
	Everywhere             // all arcs
)

// arc is what was tried from one node to another, by numbers from 0 on: a call,
// or a flow between two ports.
type Arc struct {
	From, To int
	Bad      bool
}

// culprit is one reason for bad arcs: what they have in common, and whom it is.
type Culprit struct {
	Side  Side
	Nodes []int // the node; of a link both ends; of parts the smaller ones
	Rest  int   // how many others there are
	Tried int   // how many arcs there were on this side, good ones too
	Bad   []int // the bad arcs that this explains, by their place
	Back  bool  // of a link: the other direction is good
}

// culprits explains the bad ones of the arcs between n nodes by as few nodes and
// links as it can, the gravest first. The rule, in this order: all are bad, so it
// is none of them; the nodes fall into groups with all good inside and nothing
// good between; a node most of whose arcs are bad, to it or from it, the worst
// first, without the arcs that are explained by then; what is left is the way
// between two.
func Find(all []Arc, n int) []Culprit {
	var left, wrong []int
	for i, a := range all {
		left = append(left, i)
		if a.Bad {
			wrong = append(wrong, i)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	if n > 2 && len(wrong) == len(all) {
		return []Culprit{{Side: Everywhere, Rest: n, Tried: len(all), Bad: wrong}}
	}
	if small, ok := grouped(all); ok {
		return []Culprit{{Side: Apart, Nodes: small, Rest: n - len(small), Tried: len(all), Bad: wrong}}
	}
	var out []Culprit
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
func links(all []Arc, left []int, n int) []Culprit {
	var pairs []Culprit
	for _, i := range left {
		e := all[i]
		if !e.Bad {
			continue
		}
		a, b := min(e.From, e.To), max(e.From, e.To)
		p := slices.IndexFunc(pairs, func(p Culprit) bool { return p.Nodes[0] == a && p.Nodes[1] == b })
		if p < 0 {
			p, pairs = len(pairs), append(pairs, Culprit{Side: Between, Nodes: []int{a, b}, Rest: n - 2})
		}
		pairs[p].Bad = append(pairs[p].Bad, i)
	}
	for p, c := range pairs {
		first := all[c.Bad[0]]
		pairs[p].Back = slices.ContainsFunc(left, func(i int) bool {
			return all[i].From == first.To && all[i].To == first.From && !all[i].Bad
		})
	}
	return pairs
}

// worst is the node and side with the most bad arcs, if these are more than half
// of at least two.
func worst(all []Arc, left []int, n int) (Culprit, bool) {
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
		add(ins, all[i].To, all[i].Bad)
		add(outs, all[i].From, all[i].Bad)
	}
	guilty := func(t tally) bool { return t.all >= 2 && 2*t.bad > t.all }
	var found Culprit
	most := 0
	for node := range n {
		i, o := ins[node], outs[node]
		s, t := ToNode, i
		switch {
		case guilty(i) && guilty(o):
			s, t = ToAndFrom, tally{i.bad + o.bad, i.all + o.all}
		case guilty(o):
			s, t = FromNode, o
		case !guilty(i):
			continue
		}
		// The most bad arcs; of as many the larger share; then a node that can be
		// replaced before node rank 0, which is where people meet.
		first := cmp.Or(cmp.Compare(t.bad, most), cmp.Compare(t.bad*found.Tried, most*t.all))
		if most > 0 && (first < 0 || first == 0 && found.Nodes[0] != 0) {
			continue
		}
		most, found = t.bad, Culprit{Side: s, Nodes: []int{node}, Rest: n - 1, Tried: t.all}
	}
	if most == 0 {
		return found, false
	}
	for _, i := range left {
		if all[i].Bad && found.explains(all[i]) {
			found.Bad = append(found.Bad, i)
		}
	}
	return found, true
}

// explains tells whether an arc is on the side of the node that is blamed.
func (c Culprit) explains(a Arc) bool {
	return c.Side != FromNode && a.To == c.Nodes[0] || c.Side != ToNode && a.From == c.Nodes[0]
}

// grouped tells the nodes outside the largest group, where groups of several have
// good arcs inside, and none between them.
func grouped(all []Arc) (small []int, ok bool) {
	group := map[int]int{}
	var root func(int) int
	root = func(r int) int {
		if group[r] != r {
			group[r] = root(group[r])
		}
		return group[r]
	}
	for _, a := range all {
		for _, node := range []int{a.From, a.To} {
			if _, known := group[node]; !known {
				group[node] = node
			}
		}
	}
	for _, e := range all {
		if a, b := root(e.From), root(e.To); !e.Bad && a != b {
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
	if len(size) < 2 || slices.ContainsFunc(all, func(a Arc) bool { return a.Bad && root(a.From) == root(a.To) }) {
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
