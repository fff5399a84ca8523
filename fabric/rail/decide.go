package rail

import (
	"cmp"
	"fmt"
	"slices"

	"launch/fabric"
)

// decision is the training fabric of a node, as it is being decided.
type decision struct {
	kind   Kind
	why    string
	sure   bool
	doubt  string // why it is not sure
	rails  []candidate
	others []ruled        // ports that carry traffic, but not the job's
	unable map[string]NIC // HCAs that cannot be rails
	bare   []NIC          // hardware without an RDMA device
	dark   []string       // interfaces of Slingshot without carrier
}

// ruled is a port that is not a rail.
type ruled struct {
	candidate
	role Role
	why  string
	sure bool
}

// class is what the rails of one fabric have in common.
type class struct {
	kind Kind
	rate float64 // Gb/s; 0 unknown
}

func (c class) String() string {
	name := map[Kind]string{InfiniBand: "InfiniBand", RoCE: "Ethernet", EFA: "EFA", OmniPath: "Omni-Path",
		Unknown: "RDMA"}[c.kind]
	switch {
	case c.rate != 0:
		return fmt.Sprintf("%s at %g Gb/s", name, c.rate)
	case c.kind == EFA:
		return name
	}
	return name + " at an unknown rate"
}

func classOf(c candidate) class { return class{c.kind, c.port.Rate} }

// decide finds the rails: the best class of ports of one link layer and rate, without those that do not
// belong to it for another reason. docs/fabric.md has machines on which each property misleads.
func (v *view) decide() decision {
	able, unable := v.candidates()
	d := decision{unable: unable, bare: v.bare(), sure: true}
	if d.slingshot(v, able); len(d.rails) > 0 {
		return d
	}
	if len(able) == 0 {
		d.kind, d.why, d.sure = v.without(d)
		d.sockets(v)
		return d
	}
	classes, groups := map[class][]candidate{}, []class(nil)
	for _, c := range able {
		k := classOf(c)
		if c.kind == EFA { // older drivers do not report the rate of all ports
			k.rate = 0
		}
		if classes[k] == nil {
			groups = append(groups, k)
		}
		classes[k] = append(classes[k], c)
	}
	best := d.choose(v, groups, classes)
	d.kind, d.rails = best.kind, classes[best]
	var gone []ruled
	if best.kind == InfiniBand || best.kind == RoCE || best.kind == Unknown {
		d.rails, gone = v.prune(d.rails)
		for _, r := range gone {
			if !r.sure {
				d.guess(fmt.Sprintf("without %s: %s", r.hca.Name, r.why))
			}
		}
	}
	for _, g := range groups {
		switch {
		case g == best:
		case v.equal(g, best, classes):
			d.kind = Mixed
			d.guess("rails of two kinds")
			d.rails = append(d.rails, classes[g]...)
		default:
			for _, c := range classes[g] {
				d.place(v, c, best, classes)
			}
		}
	}
	d.others = append(d.others, gone...)
	slices.SortStableFunc(d.rails, inOrder)
	v.settle(d.rails)
	d.explain(v)
	return d
}

// choose returns the class of the rails, and withdraws certainty where another one could be it.
func (d *decision) choose(v *view, groups []class, of map[class][]candidate) class {
	best := v.best(groups, of)
	if other, ok := v.besides(best, groups, of); ok {
		if !v.even(of[other]) {
			d.guess("the way out of this machine is at least as fast, and not each GPU has a rail")
		}
		best = other
	}
	if len(groups) > 1 && len(of[best]) == 1 && best.kind != EFA {
		d.guess("one port next to others of another kind or rate")
	}
	for _, g := range groups {
		if best.kind != EFA && best.rate > 0 && g.rate > 2*best.rate && !v.leaves(of[g]) {
			d.guess(fmt.Sprintf("%d x %v is faster, and fewer than the ports at the GPUs' switches", len(of[g]), g))
		}
		if v.outnumbered(g, best, of) {
			d.guess(fmt.Sprintf("%v is as fast, and only has fewer ports", g))
		}
	}
	return best
}

// guess withdraws certainty, with its reason.
func (d *decision) guess(why string) {
	d.sure, d.doubt = false, cmp.Or(d.doubt, why)
}

// place gives a port of another class its role: a rail that runs slower than its like, or another.
func (d *decision) place(v *view, c candidate, best class, of map[class][]candidate) {
	if v.degraded(c, d) {
		d.rails = append(d.rails, c)
		return
	}
	r := ruled{candidate: c, sure: true}
	r.role, r.sure = v.otherRole(c)
	own, count := classOf(c), len(of[best])
	switch {
	case best.kind == EFA:
		r.role, r.sure, r.why = Management, true, "the fabric of this machine is EFA"
	case own.rate < best.rate || best.rate == 0 && own.rate == 0:
		r.why = fmt.Sprintf("%v, while others run %v", own, best)
	case own.rate > best.rate:
		r.why, r.sure = fmt.Sprintf("%v, but there are %d x %v", own, count, best), false
	default:
		r.why, r.sure = fmt.Sprintf("%v, as fast as the %d x %v%s", own, count, best, v.lesser(own, best, of)), false
	}
	d.others = append(d.others, r)
}

// lesser returns why a class is not the fabric, although it is as fast.
func (v *view) lesser(own, best class, of map[class][]candidate) string {
	switch {
	case len(of[own]) < len(of[best]):
		return " but fewer"
	case v.served(of[own]) < v.served(of[best]):
		return ", but farther from the GPUs"
	case v.leaves(of[own]):
		return ", but the way out of this machine"
	}
	return ", a network made for RDMA"
}

// best returns the class of the rails.
func (v *view) best(groups []class, of map[class][]candidate) class {
	slices.SortStableFunc(groups, func(a, b class) int {
		return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(v.networks(of[b]), v.networks(of[a])),
			preference(b.kind)-preference(a.kind))
	})
	best := groups[0]
	for _, g := range groups[1:] {
		if v.beats(g, best, of) {
			best = g
		}
	}
	return best
}

// besides returns the class that precedes the one of the machine's way out: usable, and as fast in total
// or InfiniBand of the same rate. InfiniBand itself is no mere way out: it gives way only to its like.
func (v *view) besides(best class, groups []class, of map[class][]candidate) (other class, ok bool) {
	total := func(g class) float64 { return g.rate * float64(len(of[g])) }
	if best.rate == 0 || best.kind == EFA || !v.leaves(of[best]) {
		return best, false
	}
	for _, g := range groups { // the fastest first
		bare := g.kind == RoCE && !slices.ContainsFunc(of[g], func(c candidate) bool {
			return v.gid(c) >= 0 || unlisted(c)
		})
		if v.leaves(of[g]) || bare || best.kind == InfiniBand && g.kind != InfiniBand {
			continue
		}
		managed := g.kind == InfiniBand && g.rate == best.rate &&
			slices.ContainsFunc(of[g], func(c candidate) bool { return c.port.SMLID != 0 })
		if (managed || total(g) >= total(best)) && (!ok || total(g) > total(other)) {
			other, ok = g, true
		}
	}
	return other, ok
}

// leaves reports whether all ports of a class are the machine's way out.
func (v *view) leaves(all []candidate) bool {
	return !slices.ContainsFunc(all, func(c candidate) bool { return !v.isWayOut(c) })
}

// beats reports whether class a is the training fabric, although it is after b by rate, count, kind.
func (v *view) beats(a, b class, of map[class][]candidate) bool {
	if (a.kind == EFA) != (b.kind == EFA) {
		return a.kind == EFA // the other adapters of such a machine manage NVLink
	}
	na, nb := v.networks(of[a]), v.networks(of[b])
	nearA, nearB := v.served(of[a]), v.served(of[b])
	if a.rate > 0 && b.rate > 0 && a.rate != b.rate {
		// Next to a rail for each GPU, one very fast card, or an Ethernet card, is storage.
		made := v.made(of[a], of[b])
		na, nearA = na+len(made)-len(of[a]), v.served(made)
		each := na >= len(v.gpus) || nearA == len(v.gpus)
		if a.kind != b.kind && a.kind != InfiniBand || len(v.gpus) < 2 || !each || na < 2*nb || nearA < nearB {
			return false
		}
		return 2*a.rate >= b.rate || v.dealtBelow(made) && nearB < len(v.gpus) && a.rate*float64(na) >= b.rate*float64(nb)
	}
	return cmp.Or(cmp.Compare(nearA, nearB), cmp.Compare(na, nb)) > 0
}

// made returns the ports of a class with the cards of their make at the switches of GPUs that have no port of it: a
// rail that has lost its link, or trained to less, leaves a gap, and its class is what the machine was made with. Where
// faster ports are of that make, the slower ones are those that trained to less.
func (v *view) made(all, faster []candidate) []candidate {
	out := slices.Clone(all)
	if slices.ContainsFunc(faster, func(c candidate) bool { return v.alike(c.hca, all[0].hca) }) {
		return out
	}
	for _, h := range v.node.HCAs {
		gap := func(g GPU) bool { return v.behind(g.PCI, h.PCI) && v.near(g, out) == 0 }
		if len(h.Ports) > 0 && v.alike(h, all[0].hca) && slices.ContainsFunc(v.gpus, gap) {
			out = append(out, candidate{hca: h, port: h.Ports[0], kind: all[0].kind})
		}
	}
	return out
}

// dealtBelow reports whether all ports are at the GPUs' switches, an equal number at each GPU's.
func (v *view) dealtBelow(all []candidate) bool {
	uneven := func(g GPU) bool { n := v.near(g, all); return n == 0 || n != v.near(v.gpus[0], all) }
	return len(v.gpus) > 0 && v.below(all) && !slices.ContainsFunc(v.gpus, uneven)
}

// preference between kinds that are otherwise equal: a network made only for RDMA is meant for the job.
func preference(k Kind) int { return slices.Index([]Kind{Unknown, RoCE, OmniPath, InfiniBand}, k) }

// equal reports whether two classes are rails of two kinds together. DPUs next to plain HCAs are not.
func (v *view) equal(a, b class, of map[class][]candidate) bool {
	plain := func(c candidate) bool { return !v.isBlueField(c) }
	n := v.networks(of[a])
	return a.kind != b.kind && a.rate == b.rate && a.rate > 0 && n == v.networks(of[b]) && n > 1 &&
		v.served(of[a]) == v.served(of[b]) && slices.ContainsFunc(of[a], plain) == slices.ContainsFunc(of[b], plain)
}

// outnumbered reports whether only the number of its ports speaks against class a: it is as fast and as
// near as the best, and its kind is preferred.
func (v *view) outnumbered(a, best class, of map[class][]candidate) bool {
	return a.rate == best.rate && best.kind != EFA && preference(a.kind) > preference(best.kind) &&
		v.served(of[a]) == v.served(of[best]) && v.networks(of[a]) < v.networks(of[best])
}

// networks counts the ports of a class. Those that share an interface or a bond count once: they are one
// network with one address.
func (v *view) networks(all []candidate) (n int) {
	shared := map[string]bool{}
	for _, c := range all {
		name := c.port.Netdev
		if i, ok := v.node.Interface(name); ok {
			if m, ok := v.node.Interface(i.Master); ok && m.Kind == "bond" {
				name = m.Name
			}
		}
		if name == "" || !shared[name] {
			n++
		}
		shared[name] = true
	}
	return n
}

// otherRole returns the role of a port that carries traffic and is not a rail. The machine's way out,
// and ports that are bonded for availability, are management; another fast port is probably storage.
func (v *view) otherRole(c candidate) (role Role, sure bool) {
	switch {
	case v.isWayOut(c):
		return Management, true
	case v.isBond(c) || c.port.Rate < fastEnough && c.kind == RoCE:
		return Management, c.port.Rate > 0
	}
	return Storage, false
}

// fastEnough, in Gb/s, separates storage from management among the ports next to a training fabric.
const fastEnough = 100

// isWayOut reports whether a port leads to the peers or, if they are unknown, out of this machine.
func (v *view) isWayOut(c candidate) bool {
	i, ok := v.node.Interface(c.port.Netdev)
	return ok && v.leadsOut(i)
}

// leadsOut reports whether an interface is the way to the peers, or its bond or virtual switch is.
func (v *view) leadsOut(i fabric.Interface) bool {
	out := cmp.Or(v.peer, v.node.Route.Interface)
	return out != "" && (i.Name == out || i.Master == out)
}
