package bandwidth

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"launch/internal/finding"
	"launch/preflight"
	"launch/preflight/bench"
	"launch/preflight/blame"
)

// RateChecks is the table of what CompareRates judges.
func Checks() []preflight.Check {
	out := []preflight.Check{{
		ID: "bench.port", Title: "each rail of each node is as fast as its like on other nodes",
		Doc: "A cable, a transceiver or a port that lost lanes or retries all the time: every collective waits for the slowest rail.",
	}, {
		ID: "bench.node", Title: "no node is slow on all its rails",
		Doc: "What all rails of one node share is its processor, memory, PCIe and settings.",
	}, {
		ID: "bench.way", Title: "no two nodes are slow with each other alone",
		Doc: "Both are fast with others: something between the two is slow, as an uplink of their switches.",
	}, {
		ID: "bench.rail", Title: "no rail is slow on all nodes, and no group of nodes with another",
		Doc: "What a rail of all nodes shares is its switches and their settings.",
	}, {
		ID: "bench.rate", Title: "each rail runs at the rate and width that its like has on other nodes",
		Doc: "A link that trained at less than it could carries less; this is seen without sending a byte.",
	}, {
		ID: "bench.measured", Title: "each rail could be measured",
		Doc: "A rail whose address is not reached carries nothing at all.",
	}, {
		ID: "bench.busy", Title: "no rail is in use",
		Doc: "A port that carries another job's traffic is not measured: that would disturb it, and say little. Where one comes while it is measured nothing is said of it. --force measures and judges all the same.",
	}, {
		ID: "bench.gpu", Title: "each rail is as fast from GPU to GPU as from host to host",
		Doc: "NCCL sends from the memory of one GPU into that of another. The GPU is the one beside the HCA; --memory gpu takes the nearest one however far, --memory host leaves this out.",
	}, {
		ID: "bench.history", Title: "no rail is slower than it usually was",
		Doc: "What slowly gets worse, and what all of them lost at once, is seen by comparison with the past alone: the median of the last 15 times (--history).",
	}}
	for i := range out {
		out[i].Scope = preflight.OfBench
	}
	return out
}

const slowestWaits = "every collective waits for its slowest rail"

// report says who is slow, the failures first.
func (c *rates) report() finding.Report {
	var out finding.Report
	told := map[int]bool{}
	for _, s := range c.suspects() {
		switch {
		case s.cleared:
		case s.node && told[s.ends[0].rank]:
		case s.node:
			told[s.ends[0].rank] = true
			out = append(out, c.slowNode(s))
		case s.single():
			out = append(out, c.slowPort(s))
		case s.Side == blame.Between:
			out = append(out, s.slowWay(len(s.plane.ends)))
		default:
			out = append(out, s.slowRail())
		}
	}
	var bare []string
	for _, n := range c.nodes {
		if len(n.Ports) == 0 {
			bare = append(bare, n.Name)
		}
	}
	if len(bare) > 0 {
		out = append(out, finding.Warnf("no rail was found on %s", preflight.Some(bare)).Named("bench.measured").
			Breaking("nothing is known of what the job would use there").Do("launch fabric   # there: which devices it has, and why none is a rail; or name them: --rails eth1,eth2"))
	}
	for _, p := range c.planes {
		out = append(out, p.trained()...)
		out = append(out, p.unmeasured()...)
	}
	out = append(out, lost(c)...)
	return append(out, c.besideGPUs()...)
}

// against is how fast it was, and what was expected.
func (s *suspect) against() string {
	all := append(slices.Clone(s.flows), s.again...)
	all = slices.DeleteFunc(all, func(f flow) bool { return !f.slow })
	if len(all) == 0 {
		return "nothing got through when it was measured again"
	}
	var speed, want []float64
	for _, f := range all {
		speed = append(speed, f.speed)
		want = append(want, max(s.plane.refer*f.nominal, s.plane.bound(f)))
	}
	v, w := medianOf(speed), medianOf(want)
	return fmt.Sprintf("%s of %s expected (%.0f %%)", preflight.Speed(v), preflight.Speed(w), 100*v/w)
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

// see adds what was measured.
func (s *suspect) see(f finding.Finding) finding.Finding {
	const enough = 6
	all := append(slices.Clone(s.flows), s.again...)
	for i, o := range all {
		if i == enough {
			return f.See("and", "%d more", len(all)-enough)
		}
		a, b := s.plane.ends[o.from], s.plane.ends[o.to]
		where := fmt.Sprintf("%s to %s, %s", a.node, b.node, a.port.Name)
		if o.retest {
			where += ", once more"
		}
		if o.lost != "" {
			f = f.See(where, "%s", cmp.Or(o.sample.Err, o.lost))
			continue
		}
		sent := o.sample.Out
		if o.sample.From != a.rank {
			sent = o.sample.Back
		}
		text := preflight.Speed(o.speed) + ", " + preflight.Micros(o.latency)
		if sent.Retrans > 0 {
			text += fmt.Sprintf(", %d segments sent again", sent.Retrans)
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
		only = only && (p == s.plane || !slices.ContainsFunc(p.ends, func(o *railEnd) bool { return o.rank == e.rank }))
	}
	if only {
		f.What += "; it has no other rail, so this may be the node itself"
	}
	return s.see(f).Do("%s", e.look(s.Side))
}

// with is by whom it was seen.
func (s *suspect) with() string {
	partners := map[int]bool{}
	for _, f := range s.flows {
		partners[f.from], partners[f.to] = true, true
	}
	delete(partners, s.Nodes[0])
	text := fmt.Sprintf("%d of %d it met", len(partners), s.met())
	if len(s.again) > 0 {
		other := s.again[0].from
		if other == s.Nodes[0] {
			other = s.again[0].to
		}
		text += " and again with " + s.plane.ends[other].node
	}
	return text
}

func (s *suspect) met() int {
	all := map[int]bool{}
	for _, f := range s.plane.flows {
		if f.from == s.Nodes[0] && !f.retest {
			all[f.to] = true
		}
	}
	return len(all)
}

// look is the one thing to do about a port.
func (e *railEnd) look(side blame.Side) string {
	dev := cmp.Or(e.port.Netdev, e.port.Name)
	if e.port.HCA != "" {
		return fmt.Sprintf("on %s: mlxlink -d %s -m -c -e   (or ibdiagnet; ethtool -S %s): lanes, errors, the cable; reseat or replace it, look at the switch's port", e.node, e.port.HCA, dev)
	}
	shaped := ""
	if side != blame.ToNode {
		shaped = fmt.Sprintf("; tc -s qdisc show dev %s", dev)
	}
	return fmt.Sprintf("on %s: ethtool %s; ethtool -S %s | grep -iE 'err|drop|disc|pause'%s\nthen reseat or replace its cable, and look at the switch's port", e.node, dev, dev, shaped)
}

func (c *rates) slowNode(s *suspect) finding.Finding {
	e := s.ends[0]
	var rails []string
	f := finding.Warnf("").Named("bench.node").Breaking("%s", slowestWaits)
	for _, o := range c.suspects() {
		if o.node && o.ends[0].rank == e.rank {
			rails = append(rails, o.ends[0].port.Name)
			f = o.see(f)
		}
	}
	f.What = fmt.Sprintf("%s %s on all its rails (%s): %s", e.node, s.direction(), preflight.Some(rails), s.against())
	return f.Do("on %s: top (another program?); cpupower frequency-info; launch fabric (PCIe links, NUMA); then compare its firmware and settings with another node's: launch check", e.node)
}

func (s *suspect) slowWay(ends int) finding.Finding {
	a, b := s.ends[0], s.ends[1]
	way := "in both directions"
	if len(s.flows) == 1 {
		from, to := s.plane.ends[s.flows[0].from], s.plane.ends[s.flows[0].to]
		way = fmt.Sprintf("from %s to %s", from.node, to.node)
	}
	if ends == 2 {
		f := finding.Warnf("rail %s between %s and %s is slow %s: %s", a.port.Name, a.node, b.node, way, s.against()).
			Named("bench.way").Breaking("%s", slowestWaits)
		return s.see(f).Do("which of the two it is, a third node tells: launch bench --nnodes 3 …\n%s", a.look(s.Side))
	}
	f := finding.Warnf("rail %s is slow %s between %s and %s alone: %s; both are as fast as others elsewhere", a.port.Name, way, a.node, b.node, s.against()).
		Named("bench.way").Breaking("collectives that pair these two wait for it")
	return s.see(f).Do("look at what is between their switches: an uplink that is down or at a lower rate, errors on it, flows that share one of several")
}

func (s *suspect) slowRail() finding.Finding {
	p := s.plane
	if s.Side == blame.Apart {
		var names []string
		for _, e := range s.ends {
			names = append(names, e.node)
		}
		f := finding.Warnf("rail %s is slow between two groups of nodes, and fast within each: %s, and the other %d: %s", p.name, preflight.Some(names), s.Rest, s.against()).Named("bench.rail").
			Breaking("collectives over all nodes wait for what is between the groups")
		return s.see(f).Do("look at the uplinks between their switches: how many are up, at which rate, and whether flows are spread over them")
	}
	how := "than the rails of its kind"
	if p.refer <= p.median {
		how = "than its ports are good for by their own rate, MTU and PCIe link"
	}
	f := finding.Warnf("rail %s is slower on all %d nodes %s: %s", p.name, s.Rest, how, s.against()).Named("bench.rail").Breaking("%s", slowestWaits)
	return s.see(f).Do("what all of them share is the rail's switches and what was set alike: rate and MTU of the switch's ports, flow control, ACS and IOMMU of the nodes")
}

// trained says which ports run at less than their like on the other nodes.
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
		out = append(out, finding.Warnf("rail %s runs at %g Gb/s%s, on %d other nodes at %g", e.label(), e.port.Rate, width, count[usual], usual.gbit).Named("bench.rate").
			Breaking("%s", slowestWaits).Do("%s", e.look(blame.ToAndFrom)))
	}
	return out
}

func (p *plane) link() string {
	var all []string
	for _, e := range p.ends {
		all = append(all, e.port.Link)
	}
	return medianOf(all)
}

// unmeasured says what could not be measured, and who it is.
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
		var who []string
		for _, n := range c.Nodes {
			who = append(who, p.ends[n].node)
		}
		first := all[c.Bad[0]].sample
		where := "between any nodes"
		switch {
		case c.Side == blame.Between:
			where = "between " + strings.Join(who, " and ")
		case len(who) > 0:
			where = "with " + preflight.Some(who)
		}
		for _, n := range c.Nodes {
			p.dead = append(p.dead, p.ends[n].rank)
		}
		if c.Side == blame.Everywhere {
			p.dead = append(p.dead, ranksOfEnds(p.ends)...)
		}
		f := finding.Warnf("rail %s could not be measured %s: %s", p.name, where, cmp.Or(first.Err, first.Cause)).Named("bench.measured").
			Breaking("what carries nothing now may hang the job when it uses this rail").
			Do("%s", p.ends[all[c.Bad[0]].from].reach(first.Cause))
		out = append(out, f)
	}
	if busy := busyOf(p); len(busy) > 0 {
		out = append(out, finding.Skipf("rail %s is not judged where others use it, in %d of its pairs (--force measures and judges them all the same): %s", p.name, len(busy), busy[0].Err).Named("bench.busy"))
	}
	return out
}

// reach is what to do about a port that could not be measured.
func (e *railEnd) reach(cause string) string {
	if cause == bench.CauseLeft {
		return "look at what launch printed there; then measure again"
	}
	if e.port.HCA != "" {
		return fmt.Sprintf("on %s: ibv_devinfo -v -d %s (active? a GID of an address?); ulimit -l (unlimited?); dmesg | tail\nlaunch bench --tcp … measures the same rail without RDMA", e.node, e.port.HCA)
	}
	return fmt.Sprintf("on %s: ping -I %s to the other's address on that rail; is it up, with an address of the same network? ip addr\n"+
		"where rails share a switch, each may answer for the other: sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2", e.node, e.port.Name)
}

func ranksOfEnds(ends []*railEnd) (out []int) {
	for _, e := range ends {
		out = append(out, e.rank)
	}
	return out
}
