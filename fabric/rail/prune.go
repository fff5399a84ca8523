package rail

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
)

// prune removes the ports from a class that are not rails. Each step needs a reason of its own; a weak
// one also needs a clear majority. No port is removed if every GPU has the same number of ports.
func (v *view) prune(all []candidate) (keep []candidate, gone []ruled) {
	keep = all
	v.settle(all)
	v.gone = len(v.lone(all))
	for _, step := range []func([]candidate) []ruled{v.narrow, v.addressless, v.limited, v.guests, v.wayOut,
		v.fillers, v.northSouth, v.odd, v.far, v.toPeers, v.elsewhere} {
		out := step(keep)
		if len(out) == 0 || len(out) == len(keep) {
			continue
		}
		gone = append(gone, out...)
		keep = slices.DeleteFunc(slices.Clone(keep), func(c candidate) bool {
			return slices.ContainsFunc(out, func(r ruled) bool { return r.hca.Name == c.hca.Name && r.port.Num == c.port.Num })
		})
	}
	return keep, gone
}

// even reports whether the ports can be dealt to the GPUs evenly, with those that lack a link: then each of them is
// probably a rail.
func (v *view) even(all []candidate) bool {
	return len(v.gpus) > 1 && (len(all)+v.dropped(all))%v.places() == 0
}

// narrow returns the ports that their PCIe link cannot carry, as HGX B200 has for NVLink's management. One in the
// place of a GPU's rail is a rail whose link has failed to train, and then the place is taken.
func (v *view) narrow(all []candidate) (out []ruled) {
	slow := func(c candidate) bool { bus := v.bus(c, all); return bus > 0 && 2*bus < c.port.Rate }
	tight := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return !slow(c) })
	rest := slices.DeleteFunc(slices.Clone(all), slow)
	for _, c := range tight {
		switch near := v.below([]candidate{c}); {
		case !v.vacant(c, tight, rest):
			why := "its PCIe link carries %.0f Gb/s and its port %g: an HCA for management, such as NVLink's"
			out = append(out, ruled{c, Management, fmt.Sprintf(why, v.bus(c, all), c.port.Rate), true})
		case near:
			rest = append(rest, c)
		}
	}
	return out
}

// bus returns what the PCIe link of a port can carry at most, in Gb/s; 0 unknown. Where the card's own generation is
// unknown, the best one of its kind counts, since a link may have trained to less.
func (v *view) bus(c candidate, all []candidate) float64 {
	p := v.pci[c.hca.PCI]
	gen := p.MaxGen
	for _, o := range all {
		if q := v.pci[o.hca.PCI]; p.MaxGen == 0 && q.Vendor == p.Vendor && q.Device == p.Device {
			gen = max(gen, q.MaxGen, q.Gen)
		}
	}
	return fabric.PCIeRate(gen, v.lanes(c))
}

// addressless returns the RoCE ports without an address that a router forwards, where others of the class
// have one. A port without any fails in its first transfer: NCCL takes entry 0 there, a link-local one of
// RoCE v1 (ncclIbGetGidIndex in src/transport/net_ib/connect.cc: validGid refuses fe80::). A port with one of
// 169.254.0.0/16 may lead over a cable to one machine, or DHCP has failed there. It is a rail where no other
// port is better, where its twin is, or where the peers have such addresses.
func (v *view) addressless(all []candidate) (out []ruled) {
	has := func(c candidate) bool { return v.gid(c) >= 0 }
	reaches := v.routed
	if v.addr.IsLinkLocalUnicast() || !slices.ContainsFunc(all, v.routed) {
		reaches = has
	}
	if !slices.ContainsFunc(all, reaches) {
		return nil
	}
	for _, c := range all {
		if c.kind != RoCE || c.hca.NodeType == nodeRNIC || reaches(c) {
			continue
		}
		why := "its interface has no address for RoCE v2, and others have one"
		if f, ok := v.node.Interface(c.port.Netdev); ok && reachable(f) {
			why = f.Name + " has an address, and the GID table has no entry of RoCE v2 for it"
		}
		if i := slices.IndexFunc(all, func(pf candidate) bool {
			return reaches(pf) && v.functionOf(c.hca, pf.hca)
		}); i >= 0 {
			why = "a virtual function of " + all[i].hca.Name + ", which is on this node too"
			out = append(out, ruled{c, Virtual, why, true})
			continue
		}
		i := slices.IndexFunc(all, func(vf candidate) bool { return reaches(vf) && v.functionOf(vf.hca, c.hca) })
		twin := slices.ContainsFunc(all, func(o candidate) bool { return reaches(o) && SharesCable(c.hca, o.hca) })
		switch {
		case has(c) && twin:
			continue
		case has(c):
			why = "its interface has only a link-local address, and others have one that a router forwards"
		case i >= 0:
			why = "has no address for RoCE; its virtual function " + all[i].hca.Name + " has"
		case unlisted(c):
			continue
		}
		// Over one cable, also the link-local entries of both ends reach each other.
		out = append(out, ruled{c, Unusable, why, !has(c) && !twin})
	}
	return out
}

// limited returns the InfiniBand ports that are no full member of any partition, where others are: limited members
// cannot reach each other (IBTA 10.9.3). HGX B200 has such ports for NVLink's management.
func (v *view) limited(all []candidate) (out []ruled) {
	full := func(c candidate) bool {
		return slices.ContainsFunc(c.port.PKeys, fabric.PKey.Full)
	}
	if !slices.ContainsFunc(all, full) {
		return nil
	}
	for _, c := range all {
		if c.kind == InfiniBand && len(c.port.PKeys) > 0 && !full(c) {
			out = append(out, ruled{c, Unusable, "only a limited member of its partitions, and others are full ones", true})
		}
	}
	for i := range out {
		out[i].sure = 2*len(out) <= len(all)
	}
	return append(out, v.strangers(all)...)
}

// guests returns the virtual functions whose physical function is visible too: they are for guests.
func (v *view) guests(all []candidate) (out []ruled) {
	for _, vf := range all {
		i := slices.IndexFunc(all, func(pf candidate) bool { return v.functionOf(vf.hca, pf.hca) })
		if i >= 0 {
			why := "a virtual function of " + all[i].hca.Name + ", which is on this node too"
			out = append(out, ruled{vf, Virtual, why, false})
		}
	}
	return out
}

// functionOf reports whether vf is a virtual function of pf: by its link physfn
// (Documentation/ABI/testing/sysfs-bus-pci), else by the GUID that all ports of a card share, else by
// the bridge above both.
func (v *view) functionOf(vf, pf fabric.HCA) bool {
	own, other := v.pci[vf.PCI], v.pci[pf.PCI]
	switch {
	case !vf.VF || pf.VF:
		return false
	case own.Physfn == pf.PCI && pf.PCI != "":
		return true
	case own.Physfn != "": // of a bond, the first function has the device of both
		return sameSlot(own.Physfn, pf.PCI) && !slices.ContainsFunc(v.node.HCAs, func(h fabric.HCA) bool {
			return h.PCI == own.Physfn
		})
	case sameSlot(vf.PCI, pf.PCI):
		return true
	case pf.System != "" && vf.System != "":
		return pf.System == vf.System
	}
	return len(own.Path) > 0 && slices.Equal(own.Path, other.Path)
}

// wayOut returns the port of the default route, if the GPUs need one less or its network is another.
func (v *view) wayOut(all []candidate) []ruled {
	return v.surplus(all, v.node.Route.Interface, " is this machine's way out")
}

// toPeers does the same for the port that leads to the peers. It is asked last: their addresses may be
// those of a rail.
func (v *view) toPeers(all []candidate) []ruled {
	if v.peer == v.node.Route.Interface {
		return nil
	}
	return v.surplus(all, v.peer, " leads to the peers")
}

// surplus returns the port of an interface, if the rest can be dealt to the GPUs and all cannot.
func (v *view) surplus(all []candidate, netdev, why string) []ruled {
	i := slices.IndexFunc(all, func(c candidate) bool {
		f, ok := v.node.Interface(c.port.Netdev)
		return ok && netdev != "" && (f.Name == netdev || f.Master == netdev)
	})
	if i < 0 || len(all) < 3 || v.dealt(len(all)) {
		return nil
	}
	home, _ := common(all, v.network)
	apart := home != "" && v.network(all[i]) != "" && home != v.network(all[i])
	if !apart && !v.dealt(len(all)-1) {
		return nil
	}
	return []ruled{{all[i], Management, all[i].port.Netdev + why, false}}
}

// dealt reports whether so many ports can be dealt to the GPUs, or the GPUs to the ports, evenly.
func (v *view) dealt(ports int) bool {
	gpus := v.places()
	return len(v.gpus) > 1 && (ports%gpus == 0 || gpus%ports == 0)
}

// fillers returns the ports of another card than most, near no GPU, where all of the rest are below the GPUs' switches:
// that they make the number even is no sign that they are rails.
func (v *view) fillers(all []candidate) (out []ruled) {
	const clear = 4 // times as many are of the other card
	most, few := common(all, v.card)
	rest := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return v.card(c) != most })
	if most == "" || len(rest) < clear*len(few) || !v.even(all) || !v.below(rest) {
		return nil
	}
	for _, c := range few {
		if v.served([]candidate{c}) == 0 && c.hca.PCI != "" {
			role, _ := v.otherRole(c)
			why := fmt.Sprintf("card %s and near no GPU, while the rest is %s, below the GPUs' switches", v.card(c), most)
			out = append(out, ruled{c, role, why, false})
		}
	}
	return out
}

// northSouth returns the DPUs among plain HCAs.
func (v *view) northSouth(all []candidate) (out []ruled) {
	if v.even(all) {
		return nil
	}
	for _, c := range all {
		if v.isBlueField(c) {
			role, _ := v.otherRole(c)
			out = append(out, ruled{c, role, "a BlueField DPU among other cards, usually for storage and management", false})
		}
	}
	if len(v.gpus) > 1 && len(out) > 0 && len(out)%len(v.gpus) == 0 {
		return nil // one for each GPU: they are the rails
	}
	return out
}

// odd returns the ports that differ from a clear majority, or one that fits the GPUs, in one property.
func (v *view) odd(all []candidate) []ruled {
	if v.even(all) {
		return nil
	}
	for _, p := range []struct {
		times int // how many times more the rest must be
		of    func(candidate) string
		why   string
	}{
		{2, func(c candidate) string { return map[bool]string{true: "a bond", false: "no bond"}[v.isBond(c)] },
			"%[2]s, and the rest is %[1]s"},
		{2, func(c candidate) string {
			return map[bool]string{true: "a virtual function", false: "a physical function"}[c.hca.VF]
		}, "%[2]s, and the rest is %[1]s"},
		{4, v.card, "card %[2]s, while the rest is %[1]s"},
		{4, subnet, "in the subnet of manager %[2]s, the rest in that of %[1]s"},
		{2, v.network, "in network %[2]s, the rest in %[1]s"},
		{4, stem, "interface named %[2]s…, the rest %[1]s…"},
	} {
		most, few := common(all, p.of)
		rest := len(all) - len(few)
		dealt := len(v.gpus) > 1 && rest > len(few) && rest%len(v.gpus) == 0
		if most == "" || len(few) == 0 || rest < p.times*len(few) && !dealt {
			continue
		}
		var out []ruled
		for _, c := range few {
			if !v.alone(c, all) && !cabled(c, all, few) {
				role, _ := v.otherRole(c)
				out = append(out, ruled{c, role, fmt.Sprintf(p.why, most, p.of(c)), false})
			}
		}
		return out
	}
	return nil
}

// far returns the ports that are near no GPU, if the rest is behind the GPUs' switches.
func (v *view) far(all []candidate) (out []ruled) {
	if v.even(all) || 2*v.served(all) < len(v.gpus) {
		return nil
	}
	for _, c := range all {
		if v.served([]candidate{c}) == 0 && c.hca.PCI != "" {
			role, _ := v.otherRole(c)
			out = append(out, ruled{c, role, "no GPU is behind the same PCIe switch, unlike the rest", false})
		}
	}
	return out
}

// common returns the value of most ports ("": a tie), and the ports with another known value.
func common(all []candidate, of func(candidate) string) (most string, others []candidate) {
	count := map[string]int{}
	for _, c := range all {
		if s := of(c); s != "" {
			count[s]++
		}
	}
	tie := false
	for s, n := range count {
		if n > count[most] {
			most, tie = s, false
		} else if s != most && n == count[most] {
			tie = true
		}
	}
	if tie || count[most] < 2 {
		return "", nil
	}
	for _, c := range all {
		if s := of(c); s != "" && s != most {
			others = append(others, c)
		}
	}
	return most, others
}

// card returns an HCA's type; for virtual functions, which share one, also their firmware's family.
func (v *view) card(c candidate) string {
	t := cmp.Or(c.hca.Type, v.pci[c.hca.PCI].Device)
	if major, _, ok := strings.Cut(c.hca.Firmware, "."); ok && c.hca.VF && t != "" {
		t += " with firmware " + major
	}
	return t
}

// subnet returns an InfiniBand port's subnet: the LID of its manager, and its prefix unless it is the
// default one (IBTA volume 1, 4.1.1: the first half of the port's GID).
func subnet(c candidate) string {
	if c.kind != InfiniBand || c.port.SMLID == 0 {
		return ""
	}
	out := strconv.Itoa(c.port.SMLID)
	if len(c.port.GIDs) > 0 && c.port.GIDs[0].Index == 0 {
		if p, err := c.port.GIDs[0].Addr.Prefix(64); err == nil && !p.Addr().IsLinkLocalUnicast() {
			out += " of " + p.String()
		}
	}
	return out
}

// network returns the first bytes of a RoCE port's IPv4 address. Those of rails rarely differ.
func (v *view) network(c candidate) string {
	if g, ok := v.entry(c, v.gid(c)); ok && g.Addr.Unmap().Is4() {
		return wide(g)
	}
	i := slices.IndexFunc(c.port.GIDs, func(g fabric.GID) bool { return g.Addr.Unmap().Is4() })
	if i < 0 {
		return ""
	}
	return wide(c.port.GIDs[i])
}

// wide returns the first bytes of an IPv4 address.
func wide(g fabric.GID) string {
	b := g.Addr.Unmap().As4()
	return fmt.Sprintf("%d.%d.0.0/16", b[0], b[1])
}

// stem returns a port's interface up to its first number, unless an address made the name.
func stem(c candidate) string {
	i := strings.IndexAny(c.port.Netdev, "0123456789")
	if i < 1 || strings.HasPrefix(c.port.Netdev, "en") || c.kind != RoCE {
		return ""
	}
	return c.port.Netdev[:i]
}
