package rail

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/fabric"
)

// SharesCable reports whether two HCAs share one cable: a card with two PCIe links, such as a DGX Spark's, shows
// each of its ports as the same function at both.
func SharesCable(a, b fabric.HCA) bool {
	function := func(h fabric.HCA) string { return h.PCI[strings.LastIndexByte(h.PCI, '.')+1:] }
	return a.System != "" && a.System == b.System && a.VF == b.VF && a.PCI != b.PCI && function(a) == function(b)
}

// halved reports whether an HCA shares its cable with a rail: the cable is fine, and this half of the port is off. The
// card shows two ports at each of its links, as a card with one port for each link does not.
func (v *view) halved(h fabric.HCA, rails []candidate) bool {
	ports := func(pci string) (n int) {
		for _, o := range v.node.HCAs {
			if sameSlot(o.PCI, pci) && o.System == h.System {
				n++
			}
		}
		return n
	}
	const both = 2
	return slices.ContainsFunc(rails, func(c candidate) bool {
		return SharesCable(h, c.hca) && !sameSlot(h.PCI, c.hca.PCI) && ports(h.PCI) == both && ports(c.hca.PCI) == both
	})
}

// cabled reports whether a port shares its cable with one that remains.
func cabled(c candidate, all, gone []candidate) bool {
	return slices.ContainsFunc(all, func(o candidate) bool {
		left := slices.ContainsFunc(gone, func(g candidate) bool { return g.hca.Name == o.hca.Name })
		return !left && SharesCable(c.hca, o.hca)
	})
}

// elsewhere returns the RoCE ports outside the peers' network, where there are fewer GPUs than networks: no GPU
// can use two networks, and their cables may lead to other machines. Where there are several GPUs, another network
// alone is no sign of that: the rails have one each where addresses are of one plan, or where each of several cards
// has its own. One GPU uses one network. It uses more over the halves of one cable, and over the ports of one card or
// of equal cards if their addresses are of one plan: NCCL alone would use both.
func (v *view) elsewhere(all []candidate) (out []ruled) {
	networks, cards := map[netip.Prefix]bool{}, map[string]bool{}
	plans := map[netip.Prefix]bool{} // of the ports in the peers' network
	chosen := func(c candidate) bool { return v.routed(c) && v.home(c).Contains(v.addr.Unmap()) }
	for _, c := range all {
		cards[v.cardOf(c.hca)] = true
		if p := v.home(c); v.routed(c) && p.IsValid() {
			networks[p] = true
			if chosen(c) {
				plans[plan(p)] = true
			}
		}
	}
	const several = 3 // two cards may be the job's and the storage's
	many := len(v.gpus) > 1
	each := many && len(cards) == len(all) && len(networks) == len(all) && len(all) >= several
	if len(v.gpus) == 0 || len(networks) <= len(v.gpus) || v.even(all) || each || len(plans) == 0 {
		return nil
	}
	for _, c := range all {
		mate := func(o candidate) bool { return chosen(o) && SharesCable(o.hca, c.hca) }
		like := func(o candidate) bool { return chosen(o) && v.alike(o.hca, c.hca) }
		planned := plans[plan(v.home(c))] && (many || slices.ContainsFunc(all, like))
		if c.kind != RoCE || chosen(c) || unlisted(c) || slices.ContainsFunc(all, mate) || planned {
			continue
		}
		role, _ := v.otherRole(c)
		out = append(out, ruled{c, role, fmt.Sprintf("in network %v, and the peers are in another", v.home(c)), false})
	}
	return out
}

// beyond counts the ports like a rail that only their network sets apart: the peers' one has a rail.
func (v *view) beyond(d decision) (n int) {
	home := func(c candidate) bool { return v.routed(c) && v.home(c).Contains(v.addr.Unmap()) }
	for _, o := range d.others {
		like := func(c candidate) bool { return home(c) && classOf(c) == classOf(o.candidate) && v.alike(c.hca, o.hca) }
		if v.routed(o.candidate) && !home(o.candidate) && slices.ContainsFunc(d.rails, like) {
			n++
		}
	}
	return n
}

// plan returns the block that one plan of addresses usually has: 16 bits of IPv4, 48 of IPv6.
func plan(home netip.Prefix) netip.Prefix {
	bits := 48
	if home.Addr().Is4() {
		bits = 16
	}
	out, _ := home.Addr().Prefix(min(bits, home.Bits()))
	return out
}
