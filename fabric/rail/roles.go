package rail

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"launch/fabric"
)

// towards returns the interface that leads to the peers.
func towards(n fabric.Node, addr netip.Addr) (name string, sure bool) {
	if !addr.IsValid() || addr.IsLoopback() {
		return "", false
	}
	if f, ok := n.InterfaceOf(addr); ok {
		return f.Name, true
	}
	best := -1
	for _, f := range n.Interfaces {
		for _, p := range f.Addrs {
			if f.Up && p.Bits() > best && p.Contains(addr.Unmap()) {
				name, best = f.Name, p.Bits()
			}
		}
	}
	return name, false
}

func interfaceRole(n fabric.Node, f fabric.Interface) NIC {
	nic := func(role Role, sure bool, format string, a ...any) NIC {
		return NIC{Name: f.Name, Role: role, Sure: sure, Why: fmt.Sprintf(format, a...)}
	}
	switch {
	case f.Kind == "loopback":
		return nic(Loopback, true, "loopback")
	case f.Master != "" && !inVRF(n, f):
		return nic(Member, true, "part of %s", f.Master)
	case f.Kind == "bridge" && !overHardware(n, f.Name):
		return nic(Virtual, true, "a bridge without a network card, as for containers or VMs")
	case f.Kind == "tun":
		return nic(Virtual, true, "a tunnel, as for a VPN")
	case f.Kind == "vxlan", f.Kind == "virtual":
		return nic(Virtual, false, "not a network card")
	case f.Kind == "veth" && !reachable(f):
		return nic(Virtual, true, "the host's end of a container's cable")
	case !f.Up:
		return nic(Unusable, true, "is down")
	case !f.Running:
		return nic(Unusable, true, "is up, but has no carrier")
	case !reachable(f):
		return nic(Unusable, true, "has no address that another machine could reach")
	}
	return nic(Management, false, "%s with an address; whether it leads to the peers is unknown", f.Kind)
}

// inVRF reports whether an interface keeps its address although it has a master, a routing table.
func inVRF(n fabric.Node, f fabric.Interface) bool {
	m, ok := n.Interface(f.Master)
	return ok && m.Kind == "virtual" && reachable(f)
}

// reachable reports whether an interface has an address beyond its own link.
func reachable(f fabric.Interface) bool {
	return slices.ContainsFunc(f.Addrs, func(p netip.Prefix) bool { return p.Addr().IsGlobalUnicast() })
}

// overHardware reports whether a bridge contains a network card, a bond or a VLAN.
func overHardware(n fabric.Node, bridge string) bool {
	return slices.ContainsFunc(n.Interfaces, func(f fabric.Interface) bool {
		return f.Master == bridge && (f.Kind == "physical" || f.Kind == "bond" || f.Kind == "vlan")
	})
}

// hcaRoles returns the role of each HCA, of its best port, and of hardware without an RDMA device.
func (v *view) hcaRoles(d decision) []NIC {
	missing := v.missing(d)
	var out []NIC
	for _, h := range v.node.HCAs {
		nic, bad := d.unable[h.Name]
		if !bad {
			nic = portRole(h, d)
		}
		nic.Missing = slices.Contains(missing, h.Name)
		nic.NoAddress = v.forgotten(h, d)
		out = append(out, nic)
	}
	return append(out, d.bare...)
}

func portRole(h fabric.HCA, d decision) NIC {
	nic := NIC{Name: h.Name, HCA: true}
	if i := slices.IndexFunc(d.rails, func(c candidate) bool { return c.hca.Name == h.Name }); i >= 0 {
		nic.Role, nic.Sure, nic.Why = Compute, d.sure, d.reason(d.rails[i])
		return nic
	}
	for _, r := range d.others {
		if r.hca.Name == h.Name {
			nic.Role, nic.Sure, nic.Why = r.role, r.sure, r.why
			return nic
		}
	}
	nic.Role, nic.Why = Unusable, "shows no port that a job could use"
	return nic
}

// forgotten reports whether an HCA is no rail only since it has no address: the rails' cards have more
// ports in use than its own. A card's second port may have a cable and no address on purpose.
// In a container, one without an interface and without a GID is another's.
func (v *view) forgotten(h fabric.HCA, d decision) bool {
	own := func(r ruled) bool { return r.hca.Name == h.Name && r.role == Unusable && !v.hasFunction(h, d) }
	nic, bad := d.unable[h.Name]
	homeless := bad && nic.Role == Unusable && v.usable(h) && v.homeless(h) != ""
	inside := slices.ContainsFunc(h.Ports, func(p fabric.Port) bool { return p.Netdev != "" || len(p.GIDs) > 0 })
	like := func(c candidate) bool {
		return c.kind == RoCE && slices.ContainsFunc(h.Ports, func(p fabric.Port) bool { return p.Rate >= c.port.Rate })
	}
	switch {
	case homeless && d.kind == TCP:
		return true
	case homeless && (!inside && v.node.Container.Kind != "" || v.hasFunction(h, d)),
		homeless && !slices.ContainsFunc(d.rails, like):
		return false
	case !homeless && !slices.ContainsFunc(d.others, own):
		return false
	}
	rails, used := map[string]int{}, map[string]int{}
	most, busy := 0, 0
	for _, r := range d.others {
		if r.role != Unusable {
			used[cardOf(r.hca)]++
		}
	}
	for _, c := range d.rails {
		rails[cardOf(c.hca)]++
		used[cardOf(c.hca)]++
		most = max(most, rails[cardOf(c.hca)])
	}
	for card := range rails {
		busy = max(busy, used[card])
	}
	return rails[cardOf(h)] < most && used[cardOf(h)] < busy
}

// usable reports whether this process could use an HCA of its kind.
func (v *view) usable(h fabric.HCA) bool { return !NoFabric(h) && v.closed(h) == "" && !v.manages(h) }

// hasFunction reports whether a virtual function of an HCA is a rail in its place.
func (v *view) hasFunction(h fabric.HCA, d decision) bool {
	return slices.ContainsFunc(d.rails, func(c candidate) bool { return v.functionOf(c.hca, h) })
}

// missing returns the HCAs that would be rails if they had a link: of the rails' type and board, and down,
// while the rails' cards have more rails and more ports in use than this card, whatever their roles.
func (v *view) missing(d decision) (out []string) {
	if len(d.rails) == 0 {
		return nil
	}
	rails, active := map[string]int{}, map[string]int{} // of each card
	for _, c := range d.rails {
		rails[cardOf(c.hca)]++
	}
	for _, h := range v.node.HCAs {
		for _, p := range h.Ports {
			if p.Active() && cmp.Or(v.kindOf(h), v.linkKind(h, p)) == d.rails[0].kind {
				active[cardOf(h)]++
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
		if card := cardOf(h); like && rails[card] < usual(rails) && active[card] < usual(busy) {
			out = append(out, h.Name)
		}
	}
	return out
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

// dead counts the HCAs without a link, if they look more like the fabric than the rails do: they are
// more and the rails are only the machine's way out, or only they are behind the GPUs' switches.
func (v *view) dead(d decision) int {
	var down []candidate
	for _, h := range v.node.HCAs {
		nic, bad := d.unable[h.Name]
		linkless := bad && nic.Role == Unusable && len(h.Ports) > 0 && h.NodeType == nodeCA &&
			!slices.ContainsFunc(h.Ports, fabric.Port.Active)
		like := slices.ContainsFunc(d.rails, func(c candidate) bool { return c.hca.Type == h.Type && c.hca.Board == h.Board })
		if linkless && !like && v.closed(h) == "" {
			down = append(down, candidate{hca: h, port: h.Ports[0]})
		}
	}
	out := !slices.ContainsFunc(d.rails, func(c candidate) bool { return !v.isWayOut(c) })
	if len(down) > len(d.rails) && out || v.served(down) > 0 && v.served(d.rails) == 0 {
		return len(down)
	}
	return 0
}

// cardOf identifies the card of an HCA: by the GUID that all its ports share, else by its PCI slot.
func cardOf(h fabric.HCA) string {
	if h.System != "" {
		return h.System
	}
	if n := len(h.PCI); n > 2 && h.PCI[n-2] == '.' {
		return h.PCI[:n-2]
	}
	return h.Name
}
