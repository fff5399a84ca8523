package rail

import (
	"cmp"
	"slices"

	"launch/fabric"
)

// forgotten reports whether an HCA is no rail only since it has no address: the rails' cards have more ports in use
// than its own, or it shares its cable with a rail. A card's second port may have a cable and no address on purpose.
// In a container, one without an interface and without a GID is another's. A card of another kind, where each GPU has
// its rails, has another purpose.
func (v *view) forgotten(h fabric.HCA, d decision) bool {
	own := func(r ruled) bool {
		return r.hca.Name == h.Name && r.kind == RoCE && r.role == Unusable && !v.hasFunction(h, d)
	}
	ofRail := func(c candidate) bool { return v.functionOf(h, c.hca) }
	nic, bad := d.unable[h.Name]
	moved := bad && d.kind != TCP && v.moved(h) && len(v.gpus) > 1 && v.lacking(h.PCI, d.rails)
	homeless := bad && nic.Role == Unusable && v.usable(h) && (moved || v.homeless(h) != "")
	inside := slices.ContainsFunc(h.Ports, func(p fabric.Port) bool { return p.Netdev != "" || len(p.GIDs) > 0 })
	like := func(c candidate) bool {
		return c.kind == RoCE && slices.ContainsFunc(h.Ports, func(p fabric.Port) bool { return p.Rate >= c.port.Rate })
	}
	switch {
	case v.leg(h, d.rails):
		return false
	case homeless && d.kind == TCP, v.halved(h, d.rails) && slices.ContainsFunc(d.others, own):
		return true
	case slices.ContainsFunc(d.rails, ofRail):
		return false
	case homeless && (!inside && v.node.Container.Kind != "" || v.hasFunction(h, d)),
		homeless && !slices.ContainsFunc(d.rails, like):
		return false
	case !homeless && !slices.ContainsFunc(d.others, own):
		return false
	case !slices.ContainsFunc(d.rails, func(c candidate) bool { return v.alike(c.hca, h) }) && !v.lacking(h.PCI, d.rails):
		return false
	}
	rails, used := map[string]int{}, map[string]int{}
	most, busy := 0, 0
	for _, r := range d.others {
		if r.role != Unusable {
			used[v.cardOf(r.hca)]++
		}
	}
	for _, c := range d.rails {
		rails[v.cardOf(c.hca)]++
		used[v.cardOf(c.hca)]++
		most = max(most, rails[v.cardOf(c.hca)])
	}
	for card := range rails {
		busy = max(busy, used[card])
	}
	return rails[v.cardOf(h)] < most && used[v.cardOf(h)] < busy
}

// moved reports whether a machine itself, and no container, lacks the interface of a RoCE port: it was given to another
// network namespace. Virtual functions are made for that.
func (v *view) moved(h fabric.HCA) bool {
	away := func(p fabric.Port) bool { return p.Active() && p.LinkLayer == "Ethernet" && p.Elsewhere != "" }
	return v.node.Container.Kind == "" && !h.VF && slices.ContainsFunc(h.Ports, away)
}

// leg reports whether an HCA's interface is in a bond whose address a rail has: the bond uses that rail's cable, and
// has this one in reserve or shares the load with it. The kernel gives the address to the port in use only.
func (v *view) leg(h fabric.HCA, rails []candidate) bool {
	bonds := func(c candidate) (out []string) {
		for _, i := range v.node.Interfaces {
			if i.Master == "" {
				continue
			}
			m, _ := v.node.Interface(i.Master)
			if m.Kind == "bond" && (i.PCI != "" && i.PCI == c.hca.PCI || i.Name == c.port.Netdev || m.Name == c.port.Netdev) {
				out = append(out, m.Name)
			}
		}
		return out
	}
	return slices.ContainsFunc(h.Ports, func(p fabric.Port) bool {
		own := bonds(candidate{hca: h, port: p})
		return len(own) > 0 && slices.ContainsFunc(rails, func(c candidate) bool {
			return c.hca.Name != h.Name && slices.ContainsFunc(bonds(c), func(b string) bool { return slices.Contains(own, b) })
		})
	})
}

// usable reports whether this process could use an HCA of its kind.
func (v *view) usable(h fabric.HCA) bool { return !NoFabric(h) && v.closed(h) == "" && !v.manages(h) }

// hasFunction reports whether a virtual function of an HCA is a rail in its place.
func (v *view) hasFunction(h fabric.HCA, d decision) bool {
	return slices.ContainsFunc(d.rails, func(c candidate) bool { return v.functionOf(c.hca, h) })
}

// missing returns the HCAs that would be rails if they had a link: of the rails' type and board, and down,
// while the rails' cards have more rails and more ports in use than this card, whatever their roles, and a rail is
// lacking.
func (v *view) missing(d decision) (out []string) {
	if len(d.rails) == 0 {
		return nil
	}
	rails, active := map[string]int{}, map[string]int{} // of each card
	for _, c := range d.rails {
		rails[v.cardOf(c.hca)]++
	}
	for _, h := range v.node.HCAs {
		for _, p := range h.Ports {
			if p.Active() && cmp.Or(v.kindOf(h), v.linkKind(h, p)) == d.rails[0].kind {
				active[v.cardOf(h)]++
			}
		}
	}
	busy := map[string]int{} // of the cards with a rail
	for card := range rails {
		busy[card] = max(rails[card], active[card])
	}
	for _, h := range v.node.HCAs {
		nic, bad := d.unable[h.Name]
		if !bad || nic.Role != Unusable || len(h.Ports) == 0 || h.Ports[0].Elsewhere != "" || !v.usable(h) ||
			slices.ContainsFunc(h.Ports, fabric.Port.Active) {
			continue
		}
		like := slices.ContainsFunc(d.rails, func(c candidate) bool {
			return v.alike(c.hca, h) && c.kind == cmp.Or(v.kindOf(h), v.linkKind(h, h.Ports[0]))
		})
		card := v.cardOf(h)
		if like && (v.halved(h, d.rails) || rails[card] < usual(rails) && active[card] < usual(busy) &&
			v.lacking(h.PCI, d.rails)) {
			out = append(out, h.Name)
		}
	}
	return out
}

// partly returns the ports of an HCA that would be rails if they had a link: the port of that number is a rail of most
// cards of its kind, and another port of this card is one. A number that is down everywhere has no cable on purpose.
func (v *view) partly(h fabric.HCA, rails []candidate) (out []int) {
	const clear = 2          // times as many have it
	on := map[int]int{}      // cards by the number of a rail
	all := map[string]bool{} // the cards with a rail
	for _, c := range rails {
		if v.alike(c.hca, h) && len(c.hca.Ports) > 1 {
			on[c.port.Num]++
			all[c.hca.Name] = true
		}
	}
	for _, p := range h.Ports {
		lack := len(all) - on[p.Num]
		if all[h.Name] && !p.Active() && p.State != 0 && p.Elsewhere == "" && on[p.Num] >= clear*lack {
			out = append(out, p.Num)
		}
	}
	return out
}

// dropped counts the ports that partly finds.
func (v *view) dropped(rails []candidate) (n int) {
	for _, h := range v.node.HCAs {
		n += len(v.partly(h, rails))
	}
	return n
}

// usual returns the number that most cards have; of equally common ones the smallest.
func usual(of map[string]int) (most int) {
	count := map[int]int{}
	for _, n := range of {
		count[n]++
	}
	for n, times := range count {
		if times > count[most] || times == count[most] && n < most {
			most = n
		}
	}
	return most
}

// alike reports whether two HCAs are of one make. Cards whose driver names no type and no board are alike
// only if they have one PCI id.
func (v *view) alike(a, b fabric.HCA) bool {
	same := a.Driver == b.Driver && a.Type == b.Type && a.Board == b.Board && a.VF == b.VF
	if a.Type != "" || a.Board != "" {
		return same
	}
	p, q := v.pci[a.PCI], v.pci[b.PCI]
	return same && p.Device != "" && p.Vendor == q.Vendor && p.Device == q.Device
}

// cardOf identifies the card of an HCA: by the GUID that all its ports share, else by its PCI slot. Cards of Broadcom
// have a GUID for each port, so the functions of one slot have the first one's.
func (v *view) cardOf(h fabric.HCA) string {
	first := h
	for _, o := range v.node.HCAs {
		if sameSlot(o.PCI, h.PCI) && o.PCI < first.PCI {
			first = o
		}
	}
	return cmp.Or(first.System, slotOf(h.PCI), h.Name)
}

// slotOf returns the address of a function without its number; "" where there is none.
func slotOf(addr string) string {
	if n := len(addr); n > 2 && addr[n-2] == '.' {
		return addr[:n-2]
	}
	return ""
}

// SameCard reports whether two PCI functions are of one card, by their addresses.
func SameCard(a, b string) bool { return sameSlot(a, b) }

// sameSlot reports whether two functions are of one card.
func sameSlot(a, b string) bool { return slotOf(a) != "" && slotOf(a) == slotOf(b) }
