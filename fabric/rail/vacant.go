package rail

import (
	"cmp"
	"slices"

	"launch/fabric"
)

// vacant reports whether a GPU lacks the rail that a card would be: one at the card's switch. Where no switch is
// visible, the cards of its like must be exactly as many as the rails that lack, and as wide as a rail: more cards, or
// narrower ones, were made for another purpose.
func (v *view) vacant(c candidate, like, rails []candidate) bool {
	if v.below([]candidate{c}) {
		return v.hole(c, rails)
	}
	wide := func(r candidate) bool { return v.lanes(r) == v.lanes(c) }
	return !v.below(rails) && len(like) == len(v.gpus)-len(rails) && slices.ContainsFunc(rails, wide)
}

// lacking reports whether the rails leave a place for a card: they cannot be dealt to the GPUs evenly, or a GPU at the
// card's switch has fewer of them than another. Where each GPU has its rails, one more card is a spare one.
func (v *view) lacking(addr string, rails []candidate) bool {
	if len(rails) == 0 || !v.even(rails) {
		return true
	}
	most := 0
	for _, g := range v.gpus {
		most = max(most, v.near(g, rails))
	}
	return slices.ContainsFunc(v.gpus, func(g GPU) bool { return v.near(g, rails) < most && v.behind(g.PCI, addr) })
}

// lanes returns how many PCIe lanes a card has at most; where only those in use are known, these. 0 unknown.
func (v *view) lanes(c candidate) int {
	p := v.pci[c.hca.PCI]
	return cmp.Or(p.MaxLanes, p.Lanes)
}

// outside reports whether an HCA is no rail only since it is no full member of the rails' partition, and a GPU lacks a
// rail.
func (v *view) outside(h fabric.HCA, d decision) bool {
	var limited []candidate
	for _, r := range d.others {
		if r.kind == InfiniBand && r.role == Unusable {
			limited = append(limited, r.candidate)
		}
	}
	i := slices.IndexFunc(limited, func(c candidate) bool { return c.hca.Name == h.Name })
	return i >= 0 && v.vacant(limited[i], limited, slices.Concat(v.absent(&d), d.rails))
}

// unbound returns the cards without an RDMA device. One of the rails' kind without a driver is missing: the driver is
// loaded, and has refused it.
func (v *view) unbound(d decision) []NIC {
	out := slices.Clone(d.bare)
	for _, p := range v.node.PCI {
		if !v.refused(p, d.rails) {
			continue
		}
		i := slices.IndexFunc(out, func(n NIC) bool { return n.Name == p.Addr })
		if i < 0 {
			why := hardware(p) + " hardware, but no driver is bound to it"
			switch {
			case v.halfLoaded(p):
				why = hardware(p) + " hardware, but driver " + p.Driver + " shows no RDMA device"
			case p.Driver != "":
				why = hardware(p) + " hardware, bound to " + p.Driver + ", as for a guest"
			}
			i, out = len(out), append(out, NIC{Name: p.Addr, HCA: true, Role: Unusable, Sure: true, Why: why})
		}
		out[i].Missing = true
	}
	return out
}

// refused reports whether a function is of a rail's make and has no driver or no RDMA device, and a rail is lacking.
// One for guests counts if a GPU that is not a guest's lacks a rail at its switch.
func (v *view) refused(p fabric.PCI, rails []candidate) bool {
	has := func(h fabric.HCA) bool { return h.PCI == p.Addr || sameSlot(h.PCI, p.Addr) }
	make := func(c candidate) bool {
		q := v.pci[c.hca.PCI]
		return p.Device != "" && q.Vendor == p.Vendor && q.Device == p.Device && q.VF == p.VF
	}
	if p.Physfn != "" || slices.ContainsFunc(v.node.HCAs, has) || !slices.ContainsFunc(rails, make) {
		return false
	}
	if p.Driver == "" || v.halfLoaded(p) {
		return v.lacking(p.Addr, rails)
	}
	return p.Driver == "vfio-pci" && slices.ContainsFunc(v.gpus, func(g GPU) bool {
		return v.pci[g.PCI].Driver != "vfio-pci" && v.behind(g.PCI, p.Addr) && v.near(g, rails) == 0
	})
}

// halfLoaded reports whether a function has no RDMA device although it is here: its driver makes one, and its interface
// is in this network namespace and has a link. The port that leads out may have RDMA switched off on purpose, and a
// driver may end it for the ports of a bond.
func (v *view) halfLoaded(p fabric.PCI) bool {
	return p.RDMAModule() != "" && v.node.Container.RDMA != "exclusive" &&
		slices.ContainsFunc(v.node.Interfaces, func(i fabric.Interface) bool {
			return i.PCI == p.Addr && i.Up && i.Running && i.Master == "" && !v.leadsOut(i)
		})
}

// dead returns the HCAs without a link, if they look more like the fabric than the rails do: the rails are only the
// machine's way out, and they are more or wait for a subnet manager, or only they are at the GPUs' switches. Cards
// that are slower than all ports in use are spare ones.
func (v *view) dead(d decision, used []candidate) []candidate {
	var down []candidate
	for _, h := range v.node.HCAs {
		nic, bad := d.unable[h.Name]
		linkless := bad && nic.Role == Unusable && len(h.Ports) > 0 && h.NodeType == nodeCA &&
			!slices.ContainsFunc(h.Ports, fabric.Port.Active)
		like := slices.ContainsFunc(d.rails, func(c candidate) bool { return v.alike(c.hca, h) })
		if linkless && !like && v.closed(h) == "" && !slower(h, used) {
			down = append(down, candidate{hca: h, port: h.Ports[0]})
		}
	}
	out := !slices.ContainsFunc(d.rails, func(c candidate) bool { return !v.isWayOut(c) })
	wait := slices.ContainsFunc(down, func(c candidate) bool { return Unserved(c.hca) > 0 })
	if out && (wait || len(down) > len(d.rails)) || v.served(down) > 0 && v.served(d.rails) == 0 {
		return down
	}
	return nil
}

// dark returns the names of the dead HCAs, if they are the rails of a machine that was made for them: a card for each
// of four GPUs or more, or cards at the switches of half of them. A machine with fewer GPUs may have spare cards, but
// none with a cable.
func (v *view) dark(d decision, used []candidate) (out []string) {
	down := v.dead(d, used)
	made := map[string]bool{}
	for _, c := range down {
		made[v.cardOf(c.hca)] = true
		out = append(out, c.hca.Name)
	}
	const many = 4
	n := len(v.gpus)
	if n < 2 || len(made) < 2 || (n < many || len(made) < n) && 2*v.served(down) < n {
		if len(d.rails) == 0 {
			return nil
		}
		out = nil
		for _, c := range down {
			if Unserved(c.hca) > 0 {
				out = append(out, c.hca.Name)
			}
		}
	}
	return out
}

// Unserved returns the number of an InfiniBand port whose cable is up and that no subnet manager has made active, or
// 0. An HCA with an active port has no such port.
func Unserved(h fabric.HCA) int {
	if slices.ContainsFunc(h.Ports, fabric.Port.Active) {
		return 0
	}
	for _, p := range h.Ports {
		if waits(p) {
			return p.Num
		}
	}
	return 0
}

// refusals counts the cards of the rails' make that have no driver, and those that have one and no RDMA device.
func (v *view) refusals(d decision) (bare, half int) {
	for _, p := range v.node.PCI {
		switch {
		case !v.refused(p, d.rails):
		case v.halfLoaded(p):
			half++
		default:
			bare++
		}
	}
	return bare, half
}
