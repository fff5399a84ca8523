package rail

import (
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
		nic.Ports = v.partly(h, d.rails)
		nic.NoAddress = v.forgotten(h, d)
		nic.Limited = v.outside(h, d)
		nic.Shut = v.shut(h, d)
		if mode := v.otherMode(h, d); mode != "" {
			nic.Role, nic.Missing, nic.Why = Unusable, true, "in "+mode+" mode, and the rails are not: "+nic.Why
		}
		out = append(out, nic)
	}
	return append(out, v.unbound(d)...)
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
