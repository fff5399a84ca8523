package bandwidth

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"launch/internal/finding"
	"launch/preflight/bench"
	"launch/preflight/blame"
)

const slowestWaits = "every collective waits for its slowest rail"

// report returns the findings about slow ports, the failures first.
func (c *rates) report() finding.Report {
	var out finding.Report
	reported := map[int]bool{}
	for _, s := range c.suspects() {
		switch {
		case s.cleared:
		case s.node && reported[s.ends[0].Rank]:
		case s.node:
			reported[s.ends[0].Rank] = true
			out = append(out, c.slowNode(s))
		case s.single():
			out = append(out, c.slowPort(s))
		case s.Side == blame.Between:
			out = append(out, s.slowWay(len(s.plane.ends)))
		default:
			out = append(out, s.slowRail())
		}
	}
	bare := slices.DeleteFunc(slices.Clone(c.nodes), func(n Rates) bool { return len(n.Ports) > 0 })
	if len(bare) > 0 {
		names := finding.Map(bare, func(n Rates) string { return n.Name })
		out = append(out, finding.Warnf("no rail was found on %s", finding.Some(names)).Named("bench.measured").
			Breaking("it is not known what the job would use there").
			Do("launch fabric   # there: shows its devices, and why none is a rail\nor name them: --rails eth1,eth2"))
	}
	for _, p := range c.planes {
		out = append(out, p.trained()...)
		out = append(out, p.unmeasured()...)
	}
	out = append(out, c.lost()...)
	return append(out, c.betweenGPUs()...)
}

// against returns the measured and the expected speed.
func (s *suspect) against() string {
	all := slices.DeleteFunc(slices.Concat(s.flows, s.again), func(f flow) bool { return !f.slow })
	if len(all) == 0 {
		return "nothing got through when it was measured again"
	}
	var speed, want []float64
	for _, f := range all {
		speed = append(speed, f.speed)
		want = append(want, max(s.plane.refer*f.nominal, s.plane.bound(f)))
	}
	v, w := medianOf(speed), medianOf(want)
	return fmt.Sprintf("%s of %s expected (%.0f %%)", finding.Speed(v), finding.Speed(w), 100*v/w)
}

func (s *suspect) direction() string {
	switch s.Side {
	case blame.FromNode:
		return "sends slowly"
	case blame.ToNode:
		return "receives slowly"
	}
	return "is slow both ways"
}

// see adds the measurements.
func (s *suspect) see(f finding.Finding) finding.Finding {
	const enough = 6
	all := slices.Concat(s.flows, s.again)
	for i, o := range all {
		if i == enough {
			return f.See("and", "%d more", len(all)-enough)
		}
		a, b := s.plane.ends[o.from], s.plane.ends[o.to]
		where := fmt.Sprintf("%s to %s, %s", a.Node, b.Node, a.Rail)
		if o.retest {
			where += ", once more"
		}
		if o.lost != "" {
			f = f.See(where, "%s", cmp.Or(o.sample.Err, o.lost))
			continue
		}
		text := finding.Speed(o.speed) + ", " + finding.Micros(o.latency)
		if o.retrans > 0 {
			text += fmt.Sprintf(", %d segments sent again", o.retrans)
		}
		f = f.See(where, "%s", text)
	}
	return f
}

func (c *rates) slowPort(s *suspect) finding.Finding {
	e := s.ends[0]
	what := fmt.Sprintf("rail %s %s: %s", e.label(), s.direction(), s.against())
	f := finding.Warnf("%s, with %s", what, s.with()).Named("bench.port").Breaking("%s", slowestWaits)
	only := true
	for _, p := range c.planes {
		only = only && (p == s.plane || !slices.ContainsFunc(p.ends, func(o *railEnd) bool { return o.Rank == e.Rank }))
	}
	if only {
		f.What += "; it has no other rail, so this may be the node itself"
	}
	return s.see(f).Do("%s", e.look(s.Side))
}

// with describes the partners with which it was slow.
func (s *suspect) with() string {
	partners, met := map[int]bool{}, map[int]bool{}
	for _, f := range s.flows {
		partners[f.from], partners[f.to] = true, true
	}
	delete(partners, s.Nodes[0])
	for _, f := range s.plane.flows {
		if f.from == s.Nodes[0] && !f.retest {
			met[f.to] = true
		}
	}
	text := fmt.Sprintf("%d of the %d partners it was measured with", len(partners), len(met))
	if len(s.again) > 0 {
		other := s.again[0].from
		if other == s.Nodes[0] {
			other = s.again[0].to
		}
		text += " and again with " + s.plane.ends[other].Node
	}
	return text
}

// look returns how to examine a port.
func (e *railEnd) look(side blame.Side) string {
	dev := cmp.Or(e.port.Netdev, e.port.Name)
	if e.port.HCA != "" {
		return fmt.Sprintf("mlxlink -d %s -m -c -e   # on %s (or ibdiagnet; ethtool -S %s): shows lanes, errors, the cable\n"+
			"then reseat or replace it, or inspect the switch's port", e.port.HCA, e.Node, dev)
	}
	shaped := ""
	if side != blame.ToNode {
		shaped = fmt.Sprintf("; tc -s qdisc show dev %s", dev)
	}
	return fmt.Sprintf("ethtool %s; ethtool -S %s | grep -iE 'err|drop|disc|pause'%s   # on %s\n"+
		"then reseat or replace its cable, or inspect the switch's port", dev, dev, shaped, e.Node)
}

func (c *rates) slowNode(s *suspect) finding.Finding {
	e := s.ends[0]
	var rails []string
	f := finding.Warnf("").Named("bench.node").Breaking("%s", slowestWaits)
	for _, o := range c.suspects() {
		if o.node && o.ends[0].Rank == e.Rank {
			rails = append(rails, o.ends[0].port.Name)
			f = o.see(f)
		}
	}
	f.What = fmt.Sprintf("%s %s on all its rails (%s): %s", e.Node, s.direction(), finding.Some(rails), s.against())
	return f.Do("top; cpupower frequency-info; launch fabric   # on %s: other programs, the clock, PCIe links and NUMA\n"+
		"launch check   # compares its firmware and settings with another node's", e.Node)
}

func (s *suspect) slowWay(ends int) finding.Finding {
	a, b := s.ends[0], s.ends[1]
	way := "in both directions"
	if len(s.flows) == 1 {
		from, to := s.plane.ends[s.flows[0].from], s.plane.ends[s.flows[0].to]
		way = fmt.Sprintf("from %s to %s", from.Node, to.Node)
	}
	if ends == 2 {
		f := finding.Warnf("rail %s between %s and %s is slow %s: %s", a.port.Name, a.Node, b.Node, way, s.against()).
			Named("bench.way").Breaking("%s", slowestWaits)
		return s.see(f).Do("launch bench --nnodes 3 …   # a third node shows which of the two is slow\n%s", a.look(s.Side))
	}
	f := finding.Warnf("rail %s is slow %s only between %s and %s: %s; both are as fast as others elsewhere",
		a.port.Name, way, a.Node, b.Node, s.against()).
		Named("bench.way").Breaking("collectives that pair these two wait for it")
	return s.see(f).Do("inspect the path between their switches: an uplink that is down or at a lower rate, errors on " +
		"it, or flows that share one of several uplinks")
}

func (s *suspect) slowRail() finding.Finding {
	p := s.plane
	if s.Side == blame.Apart {
		names := finding.Map(s.ends, func(e *railEnd) string { return e.Node })
		f := finding.Warnf("rail %s is slow between two groups of nodes, and fast within each: %s, and the other %d: %s",
			p.Name, finding.Some(names), s.Rest, s.against()).Named("bench.rail").
			Breaking("collectives over all nodes wait for the path between the groups")
		return s.see(f).Do("inspect the uplinks between their switches: how many are up, at which rate, and whether flows " +
			"are spread over them")
	}
	how := "than the rails of its kind"
	if p.refer <= p.usual {
		how = "than the rate, MTU and PCIe link of its ports allow"
	}
	f := finding.Warnf("rail %s is slower on all %d nodes %s: %s", p.Name, s.Rest, how, s.against()).Named("bench.rail").
		Breaking("%s", slowestWaits)
	return s.see(f).Do("inspect what they share: rate and MTU of the switches' ports, flow control, ACS and IOMMU of " +
		"the nodes")
}

// trained reports ports with a lower rate than on the other nodes.
func (p *plane) trained() (out finding.Report) {
	type rate struct {
		gbit  float64
		lanes int
	}
	count := map[rate]int{}
	var usual rate
	for _, e := range p.ends {
		if r := (rate{e.port.Rate, e.port.Lanes}); r.gbit > 0 {
			count[r]++
			if n, m := count[r], count[usual]; n > m || n == m && r.gbit > usual.gbit {
				usual = r
			}
		}
	}
	for _, e := range p.ends {
		if e.port.Rate <= 0 || e.port.Rate >= usual.gbit || e.port.Link != p.link() || 2*count[usual] < len(p.ends) {
			continue
		}
		width := ""
		if e.port.Lanes > 0 && e.port.Lanes < usual.lanes {
			width = fmt.Sprintf(" with %d of %d lanes", e.port.Lanes, usual.lanes)
		}
		out = append(out, finding.Warnf("rail %s runs at %g Gb/s%s, on %d other nodes at %g",
			e.label(), e.port.Rate, width, count[usual], usual.gbit).Named("bench.rate").
			Breaking("%s", slowestWaits).Do("%s", e.look(blame.ToAndFrom)))
	}
	return out
}

func (p *plane) link() string {
	return medianOf(finding.Map(p.ends, func(e *railEnd) string { return e.port.Link }))
}

// unmeasured reports failed measurements and their cause.
func (p *plane) unmeasured() (out finding.Report) {
	var arcs []blame.Arc
	var all []flow
	for _, f := range slices.Concat(p.flows, p.lost) {
		if f.retest || f.lost == bench.CauseBusy {
			continue
		}
		all = append(all, f)
		arcs = append(arcs, blame.Arc{From: f.from, To: f.to, Bad: f.lost != ""})
	}
	for _, c := range blame.Find(arcs, len(p.ends)) {
		ends := finding.Map(c.Nodes, func(n int) *railEnd { return p.ends[n] })
		who := finding.Map(ends, func(e *railEnd) string { return e.Node })
		first := all[c.Bad[0]].sample
		where := "with " + finding.Some(who)
		switch c.Side {
		case blame.Between:
			where = "between " + strings.Join(who, " and ")
		case blame.Everywhere:
			where, ends = "between any nodes", p.ends
		}
		p.dead = append(p.dead, ranksOfEnds(ends)...)
		out = append(out, finding.Warnf("rail %s could not be measured %s: %s", p.Name, where,
			cmp.Or(first.Err, first.Cause)).
			Named("bench.measured").Breaking("a rail that carries no data may hang the job that uses it").
			Do("%s", p.ends[all[c.Bad[0]].from].reach(first.Cause)))
	}
	busy := slices.DeleteFunc(slices.Clone(p.lost), func(f flow) bool { return f.lost != bench.CauseBusy })
	if pairs := len(busy) / 2; pairs > 0 { // both directions of each
		out = append(out, finding.Skipf("rail %s is not judged in %d of its pairs, since other jobs use it (--force "+
			"measures and judges them anyway): %s", p.Name, pairs, busy[0].sample.Err).Named("bench.busy"))
	}
	return out
}

// reach returns what to do about a port that could not be measured.
func (e *railEnd) reach(cause string) string {
	if cause == bench.CauseLeft {
		return "look at what launch printed there; then measure again"
	}
	if e.port.HCA != "" {
		return fmt.Sprintf("ibv_devinfo -v -d %s; ulimit -l; dmesg | tail   "+
			"# on %s: active? a GID of an address? unlimited?\nwithout RDMA, on the same rail: launch bench --tcp …",
			e.port.HCA, e.Node)
	}
	return fmt.Sprintf("ip addr; ping -I %s PEER   # on %s; PEER is the other's address on that rail, in the same "+
		"network\n"+
		"where rails share a switch, each may answer for the other: "+
		"sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2", e.port.Name, e.Node)
}

func ranksOfEnds(ends []*railEnd) []int {
	return finding.Map(ends, func(e *railEnd) int { return e.Rank })
}
