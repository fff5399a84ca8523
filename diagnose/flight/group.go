package flight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// group is one process group as its members have recorded it.
type group struct {
	name, desc, backend string
	ranks               []int // global, in the order of the group
	known               bool  // ranks are from the recorder, not only those that were seen
	members             map[int]*member
}

// member is what one rank has recorded of a group.
type member struct {
	rank        int
	dump        *Dump
	seqs        map[int64][]*Entry // collectives by number; several where they are coalesced
	p2p         []*Entry
	first, last int64 // number of the oldest and newest collective
	sure        bool  // last is that of the program, not only of what remains
}

// groupsOf returns the groups that the dumps name, in a fixed order.
func groupsOf(dumps []*Dump) []*group {
	world := worldOf(dumps)
	all := map[string]*group{}
	type name struct{ backend, group string }
	for _, d := range dumps {
		own := map[name]*group{} // the ranks of a group are compared once for each dump
		for i := range d.Entries {
			e := &d.Entries[i]
			g := own[name{e.Backend, e.Group}]
			if g == nil {
				g = groupOf(all, d, e, world)
				own[name{e.Backend, e.Group}] = g
			}
			m := g.members[d.Rank]
			if m == nil {
				m = &member{rank: d.Rank, dump: d, seqs: map[int64][]*Entry{}}
				g.members[d.Rank] = m
			}
			m.add(e)
		}
	}
	for _, g := range all {
		g.complete(dumps)
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.backend, b.backend), cmp.Compare(len(a.name), len(b.name)),
			cmp.Compare(a.name, b.name), slices.Compare(a.ranks, b.ranks))
	})
}

// worldOf returns all ranks of the job, as far as the dumps tell.
func worldOf(dumps []*Dump) []int {
	most := 0
	for _, d := range dumps {
		most = max(most, d.Rank+1)
		for _, ranks := range d.Groups {
			most = max(most, len(ranks))
		}
	}
	out := make([]int, most)
	for i := range out {
		out[i] = i
	}
	return out
}

func groupOf(all map[string]*group, d *Dump, e *Entry, world []int) *group {
	ranks, known := d.Groups[e.Group]
	known = known && slices.Contains(ranks, d.Rank)
	switch {
	case known:
	case e.Desc == "default_pg":
		ranks, known = world, true
	default:
		ranks = nil
	}
	key := fmt.Sprintf("%q %q %v", e.Backend, e.Group, ranks)
	g := all[key]
	if g == nil {
		g = &group{name: e.Group, desc: e.Desc, backend: e.Backend, ranks: ranks, known: known, members: map[int]*member{}}
		all[key] = g
	}
	return g
}

func (m *member) add(e *Entry) {
	if e.IsP2P {
		m.p2p = append(m.p2p, e)
		return
	}
	m.seqs[e.Seq] = append(m.seqs[e.Seq], e)
	if m.first == 0 || e.Seq < m.first {
		m.first = e.Seq
	}
	m.last = max(m.last, e.Seq)
}

// complete adds the members that have called nothing, and finds out whose last number is sure.
func (g *group) complete(dumps []*Dump) {
	if !g.known {
		g.ranks = slices.Sorted(maps.Keys(g.members))
	}
	for _, d := range dumps {
		if g.members[d.Rank] == nil && slices.Contains(g.ranks, d.Rank) {
			g.members[d.Rank] = &member{rank: d.Rank, dump: d}
		}
	}
	for _, m := range g.members {
		m.sure = len(m.seqs) > 0 || !m.dump.Wrapped
		if !m.dump.Holes {
			continue
		}
		s, ok := m.status()
		m.sure = ok && len(m.p2p) == 0 // of NCCL's numbers, some are those of sends and receives
		m.last = max(m.last, s.Enqueued)
	}
}

func (m *member) status() (Status, bool) {
	for _, entries := range m.seqs {
		s, ok := m.dump.Status[entries[0].PG]
		return s, ok
	}
	return Status{}, false
}

// stuck returns the first collective of the rank in this group that has not ended; 0: none.
func (m *member) stuck() int64 {
	for _, seq := range slices.Sorted(maps.Keys(m.seqs)) {
		if !m.ended(seq) {
			return seq
		}
	}
	return 0
}

func (m *member) ended(seq int64) bool {
	return !slices.ContainsFunc(m.seqs[seq], func(e *Entry) bool { return !e.finished() })
}

// sorted returns the members by rank.
func (g *group) sorted() []*member {
	return slices.SortedFunc(maps.Values(g.members), func(a, b *member) int { return a.rank - b.rank })
}

// missing returns the ranks of the group without a dump.
func (g *group) missing() (out []int) {
	for _, r := range g.ranks {
		if g.members[r] == nil {
			out = append(out, r)
		}
	}
	return out
}

// title names the group for people.
func (g *group) title() string {
	switch {
	case g.desc == "default_pg":
		return "the default group"
	case g.desc != "" && g.desc != "undefined":
		return "group " + g.name + " (" + g.desc + ")"
	}
	return "group " + g.name
}
