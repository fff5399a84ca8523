// Package blame finds which nodes or links explain the failures among attempts between nodes.
package blame

import (
	"cmp"
	"slices"
)

// Side is what bad arcs have in common.
type Side int

const (
	Between    Side = iota // two nodes
	ToNode                 // the arcs to a node
	FromNode               // the arcs from a node
	ToAndFrom              // the arcs to and from a node
	Apart                  // nodes that fall into groups
	Everywhere             // all arcs
)

// Arc is one attempt from a node to another, such as a call, or a flow between ports. Nodes are numbers from 0 on.
type Arc struct {
	From, To int
	Bad      bool
	// Known: From itself shows why the arc is bad, so that To is not at fault, if most bad arcs to it show nothing.
	Known bool
}

// Culprit is one cause of bad arcs.
type Culprit struct {
	Side  Side
	Nodes []int // the node; both ends of a link; the nodes outside the largest group
	Rest  int   // the number of other nodes
	Tried int   // the number of arcs on this side, good ones too
	Bad   []int // the indices of the bad arcs that this explains
	Back  bool  // most arcs of the other direction are good: of a link, to a node, or from one
}

// Find explains the bad arcs between n nodes by as few nodes and links as possible, the gravest first.
// In this order: all arcs are bad, so no single node is the cause, unless all are to or from one; the
// nodes fall into groups with only good arcs inside and only bad ones between; most arcs to or from a
// node are bad, the worst node first, leaving out the arcs explained so far; what remains is the link
// between two nodes. Known arcs count only for the node that they are from.
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
	if n > 2 && len(wrong) == len(all) && !oneEnd(all) {
		return []Culprit{{Side: Everywhere, Rest: n, Tried: len(all), Bad: wrong}}
	}
	if small, ok := grouped(all); ok {
		return []Culprit{{Side: Apart, Nodes: small, Rest: n - len(small), Tried: len(all), Bad: wrong}}
	}
	all = excused(all)
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

// oneEnd reports whether all arcs are to one node, or all from one: the others were not tried.
func oneEnd(all []Arc) bool {
	return !slices.ContainsFunc(all, func(a Arc) bool { return a.To != all[0].To }) ||
		!slices.ContainsFunc(all, func(a Arc) bool { return a.From != all[0].From })
}

// links returns the arcs that no node explains, once for each pair of nodes.
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

// worst returns the node and side with the most bad arcs, if more than half of at least two are bad.
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
		if !all[i].Known {
			add(ins, all[i].To, all[i].Bad)
		}
		add(outs, all[i].From, all[i].Bad)
	}
	guilty := func(t tally) bool { return t.all >= 2 && 2*t.bad > t.all }
	var found Culprit
	most := 0
	for node := range n {
		i, o := ins[node], outs[node]
		s, t, back := ToNode, i, o
		switch {
		case guilty(i) && guilty(o):
			s, t, back = ToAndFrom, tally{i.bad + o.bad, i.all + o.all}, tally{}
		case guilty(o):
			s, t, back = FromNode, o, i
		case !guilty(i):
			continue
		}
		// First the most bad arcs, then their larger share, then a node other than node
		// rank 0, which is harder to replace.
		first := cmp.Or(cmp.Compare(t.bad, most), cmp.Compare(t.bad*found.Tried, most*t.all))
		if most > 0 && (first < 0 || first == 0 && found.Nodes[0] != 0) {
			continue
		}
		most, found = t.bad, Culprit{Side: s, Nodes: []int{node}, Rest: n - 1, Tried: t.all, Back: 2*back.bad < back.all}
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

// explains reports whether an arc is on the side of the blamed node.
func (c Culprit) explains(a Arc) bool {
	return c.Side != FromNode && a.To == c.Nodes[0] && !a.Known || c.Side != ToNode && a.From == c.Nodes[0]
}

// excused returns the arcs with Known only where it is true of fewer than half of the bad ones to a node: what many
// callers show of one node is its own fault.
func excused(all []Arc) []Arc {
	bad, known := map[int]int{}, map[int]int{} // by the node to which they are
	for _, a := range all {
		if a.Bad {
			bad[a.To]++
		}
		if a.Bad && a.Known {
			known[a.To]++
		}
	}
	all = slices.Clone(all)
	for i, a := range all {
		all[i].Known = a.Bad && a.Known && 2*known[a.To] < bad[a.To]
	}
	return all
}

// grouped returns the nodes outside the largest group, if there are groups of several
// nodes with only good arcs inside and only bad ones between them.
func grouped(all []Arc) (small []int, ok bool) {
	groups, nodes := Groups[int]{}, map[int]bool{}
	for _, a := range all {
		nodes[a.From], nodes[a.To] = true, true
		if !a.Bad {
			groups.Unite(a.From, a.To)
		}
	}
	size, largest := map[int]int{}, -1
	for r := range nodes {
		size[groups.Of(r)]++
	}
	for r, n := range size {
		if n < 2 {
			return nil, false
		}
		if largest < 0 || n > size[largest] || n == size[largest] && r < largest {
			largest = r
		}
	}
	inside := func(a Arc) bool { return groups.Of(a.From) == groups.Of(a.To) }
	if len(size) < 2 || slices.ContainsFunc(all, func(a Arc) bool { return a.Bad && inside(a) }) {
		return nil, false
	}
	for r := range nodes {
		if groups.Of(r) != largest {
			small = append(small, r)
		}
	}
	slices.Sort(small)
	return small, true
}

// Groups unites values in groups, each named by its smallest value.
type Groups[K cmp.Ordered] map[K]K

// Of returns the name of a value's group.
func (g Groups[K]) Of(v K) K {
	if _, united := g[v]; !united {
		return v
	}
	g[v] = g.Of(g[v])
	return g[v]
}

// Unite makes one group of the groups of two values.
func (g Groups[K]) Unite(a, b K) {
	if a, b = g.Of(a), g.Of(b); a != b {
		g[max(a, b)] = min(a, b)
	}
}
