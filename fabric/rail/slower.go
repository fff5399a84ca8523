package rail

import (
	"slices"

	"launch/fabric"
)

// degraded reports whether a port is a rail that is slower than its like: the same card and subnet, in a place
// where a rail is absent. Next to a single faster one, the place must be below a GPU's switch.
func (v *view) degraded(c candidate, d *decision) bool {
	like := func(r candidate) bool {
		return r.kind == c.kind && r.hca.Type != "" && r.hca.Type == c.hca.Type && r.hca.Board == c.hca.Board &&
			r.port.SMLID == c.port.SMLID && r.hca.VF == c.hca.VF && r.port.Rate > c.port.Rate
	}
	single := len(d.rails) < 2 && !v.below(append([]candidate{c}, d.rails...))
	if single || len(d.rails) >= len(v.gpus) || v.isWayOut(c) || !slices.ContainsFunc(d.rails, like) {
		return false
	}
	absent := v.absent(d)
	room := len(d.rails)+len(absent) < len(v.gpus)
	switch v.company(c, d.rails) {
	case apart:
		return false
	case together:
		if !room {
			d.guess(c.hca.Name + " is slower than the rails, and in their network")
		}
		return true
	}
	if v.below(d.rails) {
		return room && v.hole(c, append(absent, d.rails...))
	}
	if !room { // nothing shows which of the two has the place
		d.guess(c.hca.Name + " is slower than the rails, and one like it is missing")
	}
	return room
}

// absent returns the missing rails, as ports. Where all rails are below the GPUs' switches, only those that are, too.
func (v *view) absent(d *decision) (out []candidate) {
	missing := v.missing(*d)
	for _, h := range v.node.HCAs {
		c := candidate{hca: h}
		if slices.Contains(missing, h.Name) && (!v.below(d.rails) || v.below([]candidate{c})) {
			out = append(out, c)
		}
	}
	return out
}

// below reports whether each port shares a PCIe switch with a GPU.
func (v *view) below(all []candidate) bool {
	return !slices.ContainsFunc(all, func(c candidate) bool { return v.served([]candidate{c}) == 0 })
}

// hole reports whether a GPU at the switch of a port lacks a rail: other GPUs have more, or the ports can be
// dealt to the GPUs neither here nor on the whole node.
func (v *view) hole(c candidate, rails []candidate) bool {
	most := 0
	var here []int
	for _, g := range v.gpus {
		n := v.near(g, rails)
		most = max(most, n)
		if v.behind(g.PCI, c.hca.PCI) {
			here = append(here, n)
		}
	}
	return slices.ContainsFunc(here, func(n int) bool { return n < most || n < len(here) && !v.dealt(len(rails)) })
}

// Whether a port is in the network of others.
const (
	unclear = iota
	together
	apart
)

// company reports whether a RoCE port has an address in the subnet of a rail, or none in a network that all rails
// share. A port without an address is apart from rails that have one, unless its place is below a GPU's switch.
func (v *view) company(c candidate, rails []candidate) int {
	home := v.home(c)
	homes := 0
	wide := map[string]bool{}
	for _, r := range rails {
		if h := v.home(r); h.IsValid() {
			homes++
			if home.IsValid() && h == home {
				return together
			}
		}
		wide[v.network(r)] = true
	}
	switch {
	case c.kind != RoCE || unlisted(c) || homes < len(rails):
		return unclear
	case !home.IsValid() && !v.below(append([]candidate{c}, rails...)):
		return apart
	case home.IsValid() && len(wide) == 1 && !wide[v.network(c)]:
		return apart
	}
	return unclear
}

// settle chooses the entry of each RoCE port that has several IPv4 addresses, where the first is in no network of
// the other ports and another one is: the first is an alias, to which the peers may have no route.
func (v *view) settle(all []candidate) {
	v.settled = map[string]int{}
	chosen := map[string]int{}
	for _, c := range all {
		first, ok := v.entry(c, v.gid(c))
		if c.kind != RoCE || !ok || !first.Addr.Unmap().Is4() || v.housed(first).Contains(v.addr.Unmap()) {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(all), func(o candidate) bool {
			return o.kind != RoCE || portName(o.hca.Name, o.port.Num) == portName(c.hca.Name, c.port.Num)
		})
		if v.sharing(first, others) > 0 {
			continue
		}
		best := 0
		for _, g := range c.port.GIDs {
			a := g.Addr.Unmap()
			if g.Type != RoCEv2 || !a.Is4() || a.IsLinkLocalUnicast() || !v.ours(g) {
				continue
			}
			if n := v.sharing(g, others); n > best && (n > 1 || n == len(others)) {
				best, chosen[portName(c.hca.Name, c.port.Num)] = n, g.Index
			}
		}
	}
	v.settled = chosen
}

// sharing counts the ports whose own entry is in the network of an entry, or in the same /16. An address of
// one host is in no network of ports that have a wider one.
func (v *view) sharing(g fabric.GID, others []candidate) (n int) {
	own := v.housed(g).Masked()
	for _, o := range others {
		e, ok := v.entry(o, v.gid(o))
		if !ok || !e.Addr.Unmap().Is4() {
			continue
		}
		home := v.housed(e).Masked()
		switch {
		case own.IsValid() && home.IsValid() && own.IsSingleIP() != home.IsSingleIP():
		case own.IsValid() && own == home, wide(g) == wide(e):
			n++
		}
	}
	return n
}

// entry returns an entry of a port's GID table.
func (v *view) entry(c candidate, index int) (fabric.GID, bool) {
	i := slices.IndexFunc(c.port.GIDs, func(g fabric.GID) bool { return g.Index == index })
	if i < 0 {
		return fabric.GID{}, false
	}
	return c.port.GIDs[i], true
}
