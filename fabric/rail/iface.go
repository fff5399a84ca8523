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

// interfaceRole returns the role of an interface, on its own.
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

// inVRF reports whether an interface keeps its address although it has a master: a VRF
// is a routing table, not a switch.
func inVRF(n fabric.Node, f fabric.Interface) bool {
	m, ok := n.Interface(f.Master)
	return ok && m.Kind == "virtual" && reachable(f)
}

// reachable reports whether an interface has an address beyond its own link.
func reachable(f fabric.Interface) bool {
	return slices.ContainsFunc(f.Addrs, func(p netip.Prefix) bool { return p.Addr().IsGlobalUnicast() })
}

// overHardware reports whether a bridge contains a network card, a bond or a VLAN: then
// it leads out of the machine.
func overHardware(n fabric.Node, bridge string) bool {
	return slices.ContainsFunc(n.Interfaces, func(f fabric.Interface) bool {
		return f.Master == bridge && (f.Kind == "physical" || f.Kind == "bond" || f.Kind == "vlan")
	})
}
