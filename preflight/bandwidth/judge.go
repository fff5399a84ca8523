package bandwidth

import (
	"cmp"
	"slices"

	"launch/internal/finding"
	"launch/preflight/bench"
	"launch/preflight/blame"
)

// suspect is one cause of slow flows of a plane.
type suspect struct {
	blame.Culprit
	plane   *plane
	ends    []*railEnd // its nodes
	flows   []flow     // the slow flows that it explains
	again   []flow     // the repeated measurements
	cleared bool       // it was fast when measured again
	node    bool       // on all rails of the node: reported with the first of them
}

// judge finds the suspects of a plane: the ports that are slow with most partners.
func (p *plane) judge() {
	var first []flow
	var arcs []blame.Arc
	for i := range p.flows {
		f := &p.flows[i]
		f.slow = f.speed < p.bound(*f)
		if !f.retest {
			first = append(first, *f)
			arcs = append(arcs, blame.Arc{From: f.from, To: f.to, Bad: f.slow})
		}
	}
	for _, c := range blame.Find(arcs, len(p.ends)) {
		s := &suspect{Culprit: c, plane: p,
			ends:  finding.Map(c.Nodes, func(n int) *railEnd { return p.ends[n] }),
			flows: finding.Map(c.Bad, func(i int) flow { return first[i] })}
		for _, f := range slices.Concat(p.flows, p.lost) {
			if f.retest && s.about(f) {
				s.again = append(s.again, f)
			}
		}
		p.found = append(p.found, s)
	}
}

// single reports whether one port is blamed.
func (s *suspect) single() bool {
	return s.Side == blame.ToNode || s.Side == blame.FromNode || s.Side == blame.ToAndFrom
}

// about reports whether a repeated flow concerns it.
func (s *suspect) about(f flow) bool {
	switch {
	case s.single():
		return f.from == s.Nodes[0] || f.to == s.Nodes[0]
	case s.Side == blame.Between:
		return min(f.from, f.to) == s.Nodes[0] && max(f.from, f.to) == s.Nodes[1]
	}
	return false
}

// merge finds nodes that are slow on each of several rails, also when measured again.
func (c *rates) merge() {
	ports, blamed := map[int]int{}, map[int][]*suspect{}
	for _, p := range c.planes {
		met := map[int]bool{}
		for _, f := range p.flows {
			met[p.ends[f.from].Rank] = true
		}
		for rank := range met {
			ports[rank]++
		}
		for _, s := range p.found {
			if s.single() {
				blamed[s.ends[0].Rank] = append(blamed[s.ends[0].Rank], s)
			}
		}
	}
	for rank, all := range blamed {
		if ports[rank] < 2 || len(all) < ports[rank] ||
			slices.ContainsFunc(all, func(s *suspect) bool { return s.cleared }) {
			continue
		}
		for _, s := range all {
			s.node = true
		}
	}
}

// turns is the number of rounds for suspects.
const turns = 2

// again returns the pairs to measure again: a suspected port with a port that passed and that it
// has not met, and a path between two ports once more. In each turn a port is in one pair.
func (c *rates) again() []Meeting {
	var out []Meeting
	for _, p := range c.planes {
		busy := map[int]int{} // by port: the number of turns in which it is in a pair
		doubt := map[int]int{}
		for _, s := range p.found {
			for _, n := range s.Nodes {
				if s.single() {
					doubt[n] = accused
				} else if s.Side == blame.Between {
					doubt[n] = max(doubt[n], involved)
				}
			}
		}
		for _, s := range p.found {
			if len(s.again) > 0 || len(out) >= maxAgain {
				continue
			}
			a, b, ok := 0, 0, false
			switch {
			case s.single():
				a = s.Nodes[0]
				b, ok = p.passed(a, doubt, busy)
			case s.Side == blame.Between:
				a, b, ok = s.Nodes[0], s.Nodes[1], true
			}
			if !ok || max(busy[a], busy[b]) >= turns {
				continue
			}
			busy[a]++
			busy[b]++
			x, y := p.ends[a], p.ends[b]
			if x.Rank > y.Rank {
				x, y = y, x
			}
			out = append(out, Meeting{A: x.Rank, B: y.Rank, Rail: x.Rail, With: y.Rail})
		}
	}
	return out
}

// How unsuitable a port is to judge another one. A blamed port can only clear it.
const (
	metBefore = 1
	haveOne   = 2 // for each pair that it is in
	involved  = 4 // in a slow path
	accused   = 16
)

// passed returns a partner for a port: one that passed and was not met, with the fewest pairs, the next by number.
func (p *plane) passed(of int, doubt, busy map[int]int) (best int, ok bool) {
	met, works := map[int]bool{}, map[int]bool{}
	for _, f := range p.flows {
		works[f.from] = true
		if f.from == of {
			met[f.to] = true
		}
	}
	weight := func(n int) int {
		w := haveOne*busy[n] + doubt[n]
		if met[n] {
			w += metBefore
		}
		return w
	}
	for i := 1; i < len(p.ends); i++ {
		n := (of + i) % len(p.ends)
		if !works[n] || p.ends[n].Rank == p.ends[of].Rank || busy[n] >= turns {
			continue
		}
		if !ok || weight(n) < weight(best) {
			best, ok = n, true
		}
	}
	return best, ok
}

// Turns sorts pairs into rounds in which no port is in two of them.
func Turns(all []Meeting) [][]Meeting {
	type port struct {
		rank int
		rail string
	}
	next := map[port]int{}
	var out [][]Meeting
	for _, m := range all {
		a, b := port{m.A, m.Rail}, port{m.B, m.With}
		t := max(next[a], next[b])
		for len(out) <= t {
			out = append(out, nil)
		}
		out[t] = append(out[t], m)
		next[a], next[b] = t+1, t+1
	}
	return out
}

// confirm clears suspects that were fast with a port that passed, or on the same path
// once more, and returns their number. A port that was slow in one direction only is then
// slow in that direction. Where another job used the rail, no suspect is named or cleared.
func (c *rates) confirm() (cleared int) {
	for _, s := range c.suspects() {
		var out, in, any bool
		for _, f := range s.again {
			slow := f.lost != "" || f.slow
			any = any || slow && s.was(f)
			out, in = out || slow && f.from == s.Nodes[0], in || slow && f.to == s.Nodes[0]
		}
		switch {
		case len(s.again) == 0:
		case s.Side == blame.Between:
			s.cleared = !any
		case s.Side == blame.FromNode:
			s.cleared = !out
		case s.Side == blame.ToNode:
			s.cleared = !in
		case !out && !in:
			s.cleared = true
		case !in:
			s.Side = blame.FromNode
		case !out:
			s.Side = blame.ToNode
		}
		if s.cleared {
			cleared++
		}
		s.cleared = s.cleared || slices.ContainsFunc(s.again, func(f flow) bool { return f.lost == bench.CauseBusy })
	}
	return cleared
}

// was reports whether the same direction was slow before.
func (s *suspect) was(f flow) bool {
	return slices.ContainsFunc(s.flows, func(o flow) bool { return o.from == f.from && o.to == f.to })
}

// suspects returns the suspects of all planes.
func (c *rates) suspects() (out []*suspect) {
	for _, p := range c.planes {
		out = append(out, p.found...)
	}
	return out
}

// named returns the ranks of the nodes that are slow or could not be measured.
func (c *rates) named() []int {
	var out []int
	for _, s := range c.suspects() {
		switch {
		case s.cleared:
		case s.Side == blame.Everywhere:
			out = append(out, ranksOfEnds(s.plane.ends)...)
		default:
			out = append(out, ranksOfEnds(s.ends)...)
		}
	}
	for _, p := range c.planes {
		out = append(out, p.dead...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// rails, ports and pairs return what a report shows.

func (c *rates) rails() []RailRate {
	var out []RailRate
	for _, p := range c.planes {
		unit := p.unit()
		p.Ports, p.Median, p.Slow, p.GPU = len(p.ends), p.usual*unit, p.refer*(1-p.slack)*unit, p.gpu()
		p.Floor = slices.Min(finding.Map(p.ends, func(e *railEnd) float64 { return e.port.Floor }))
		out = append(out, p.RailRate)
	}
	return out
}

// unit returns the reference of most of a plane's flows.
func (p *plane) unit() float64 {
	return medianOf(finding.Map(p.flows, func(f flow) float64 { return f.nominal }))
}

func (c *rates) ports() []PortRate {
	var out []PortRate
	for _, p := range c.planes {
		for _, s := range p.found {
			for _, e := range s.ends {
				if !s.cleared {
					e.Slow = cmp.Or(e.Slow, s.word())
				}
			}
		}
		expected := p.refer * p.unit()
		for _, e := range p.ends {
			if expected > 0 {
				e.Share = min(e.Out, e.In) / expected
			}
			out = append(out, e.PortRate)
		}
	}
	slices.SortStableFunc(out, func(a, b PortRate) int {
		return cmp.Or(-cmp.Compare(len(min(a.Slow, "x")), len(min(b.Slow, "x"))), cmp.Compare(a.Share, b.Share))
	})
	return out[:min(len(out), maxPorts)]
}

// word returns the fault of a port.
func (s *suspect) word() string {
	switch {
	case s.node:
		return "node"
	case s.Side == blame.ToAndFrom:
		return "port"
	case s.Side == blame.FromNode:
		return "out"
	case s.Side == blame.ToNode:
		return "in"
	case s.Side == blame.Between:
		return "way"
	}
	return "rail"
}

func (c *rates) pairs() []PairRate {
	var out []PairRate
	for _, p := range c.planes {
		for _, f := range p.flows {
			a, b := p.ends[f.from], p.ends[f.to]
			out = append(out, PairRate{From: a.Rank, To: b.Rank, Rail: a.Rail, Speed: f.speed, Expected: p.refer * f.nominal,
				Latency: f.latency, Slow: f.slow})
		}
	}
	slices.SortStableFunc(out, func(a, b PairRate) int {
		return cmp.Compare(a.Speed/max(a.Expected, 1), b.Speed/max(b.Expected, 1))
	})
	return out[:min(len(out), maxPairs)]
}
