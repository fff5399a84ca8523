// Package rail interprets the facts of a node: which network device plays
// which role in a training job, how sure that is, and why. It is pure: it
// reads nothing, judges no health and sets no variable.
package rail

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/fabric"
)

// Role is what a device is for, as far as the facts tell.
type Role string

const (
	Peer       Role = "peer"       // interface that carries the address the peers use
	Compute    Role = "compute"    // the training fabric: HCAs, and the interfaces that belong to them
	Management Role = "management" // could carry traffic, but something else is the way to the peers or is faster
	Member     Role = "member"     // part of a bond or bridge, which counts in its place
	Virtual    Role = "virtual"    // inside this machine or a VPN: container and VM bridges, veths, tunnels, Soft-RoCE
	Loopback   Role = "loopback"
	Unusable   Role = "unusable" // down, without a cable, without an address
)

// NIC is one network device and its role.
type NIC struct {
	Name string `json:"name"`
	HCA  bool   `json:"hca,omitempty"` // an RDMA device; else a network interface
	Role Role   `json:"role"`
	Why  string `json:"why"`
	Sure bool   `json:"sure"` // false: a rule of thumb decided
}

// Roles gives each interface (in kernel order) and then each HCA (by name) its
// role. addr is this node's address as its peers use it (see fabric.RouteTo);
// a peer's address will do where it lies in a directly connected network; the
// zero Addr is "not known yet".
func Roles(n fabric.Node, addr netip.Addr) []NIC {
	peer, peerSure := towards(n, addr)
	hcas := hcaRoles(n)
	var out []NIC
	for _, f := range n.Interfaces {
		nic := interfaceRole(n, f)
		if f.Name == peer {
			nic.Role, nic.Sure = Peer, peerSure
			nic.Why = fmt.Sprintf("carries %v, the address that the peers use", addr)
			if !peerSure {
				nic.Why = fmt.Sprintf("%v is in a network of this interface", addr)
			}
		} else if h, ok := railOf(n, hcas, f.Name); ok && nic.Role == Management {
			nic.Role, nic.Why = Compute, "belongs to "+h
		}
		out = append(out, nic)
	}
	return append(out, hcas...)
}

// towards is the interface that leads to the peers.
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

// interfaceRole is the role of an interface by itself.
func interfaceRole(n fabric.Node, f fabric.Interface) NIC {
	nic := func(role Role, sure bool, format string, a ...any) NIC {
		return NIC{Name: f.Name, Role: role, Sure: sure, Why: fmt.Sprintf(format, a...)}
	}
	switch {
	case f.Kind == "loopback":
		return nic(Loopback, true, "loopback")
	case f.Master != "":
		return nic(Member, true, "part of %s", f.Master)
	case f.Kind == "bridge" && !overHardware(n, f.Name):
		return nic(Virtual, true, "a bridge without a network card in it, as of containers or VMs")
	case f.Kind == "tun":
		return nic(Virtual, true, "a tunnel, as of a VPN")
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
	return nic(Management, false, "%s with an address, and not known to lead to the peers", f.Kind)
}

// reachable tells whether an interface has an address beyond its own cable.
func reachable(f fabric.Interface) bool {
	return slices.ContainsFunc(f.Addrs, func(p netip.Prefix) bool { return p.Addr().IsGlobalUnicast() })
}

// overHardware tells whether a bridge has a network card, a bond or a VLAN in
// it: then it is the machine's own way out and no island.
func overHardware(n fabric.Node, bridge string) bool {
	return slices.ContainsFunc(n.Interfaces, func(f fabric.Interface) bool {
		return f.Master == bridge && (f.Kind == "physical" || f.Kind == "bond" || f.Kind == "vlan")
	})
}

// hcaRoles takes the fastest group of HCAs for the training fabric. Names and
// the link layer alone tell nothing: rails are called mlx5_bond_0 on one
// machine and management is on another, and either may be Ethernet.
func hcaRoles(n fabric.Node) []NIC {
	out := make([]NIC, len(n.HCAs))
	var able []int // those that could be rails
	for i, h := range n.HCAs {
		out[i] = unable(h)
		if out[i].Role == "" {
			able = append(able, i)
		}
	}
	efa := slices.ContainsFunc(able, func(i int) bool { return n.HCAs[i].Driver == "efa" })
	kinds := map[group]int{}
	for _, i := range able {
		kinds[groupOf(n.HCAs[i])]++
	}
	best := fastest(kinds)
	for _, i := range able {
		h, g := n.HCAs[i], groupOf(n.HCAs[i])
		nic := NIC{Name: h.Name, HCA: true, Role: Compute, Sure: best.rate > 0 && (len(kinds) == 1 || kinds[best] > 1),
			Why: fmt.Sprintf("%d x %v", kinds[g], g)}
		switch {
		case efa && h.Driver != "efa":
			nic.Role, nic.Sure, nic.Why = Management, true, "the fabric of this machine is EFA"
		case efa:
			nic.Sure, nic.Why = true, "EFA"
		case g.rate < best.rate:
			nic.Role, nic.Why = Management, fmt.Sprintf("%v, while others run %v", g, best)
		case g != best:
			nic.Role, nic.Sure = Management, false
			nic.Why = fmt.Sprintf("%v, as fast as the %d x %v and fewer", g, kinds[best], best)
		}
		out[i] = nic
	}
	return out
}

// Node types of an RDMA device (the kernel's enum rdma_node_type).
const (
	nodeRNIC     = 4
	nodeUSNIC    = 5
	nodeUSNICUDP = 6
)

// unable is the role of an HCA that cannot be a rail; the zero Role of one
// that can.
func unable(h fabric.HCA) NIC {
	nic := NIC{Name: h.Name, HCA: true, Sure: true}
	p, ok := activePort(h)
	switch {
	case h.Driver == "rdma_rxe":
		nic.Role, nic.Why = Virtual, "Soft-RoCE: done by the CPU"
	case h.NodeType == nodeRNIC:
		nic.Role, nic.Sure, nic.Why = Unusable, false, "iWARP: neither InfiniBand nor RoCE"
	case h.NodeType == nodeUSNIC || h.NodeType == nodeUSNICUDP:
		nic.Role, nic.Why = Unusable, "usNIC: neither InfiniBand nor RoCE"
	case h.Driver == "efa": // its state is a constant of the driver and proves nothing
	case len(h.Ports) == 0:
		nic.Role, nic.Why = Unusable, "shows no port"
	case !ok:
		nic.Role, nic.Why = Unusable, "no active port: "+states(h)
	case p.Elsewhere != "":
		nic.Role, nic.Why = Unusable, fmt.Sprintf("its network interface %s is not in this network namespace", p.Elsewhere)
	}
	return nic
}

// railOf finds the HCA of the training fabric that an interface belongs to.
func railOf(n fabric.Node, roles []NIC, netdev string) (string, bool) {
	for i, h := range n.HCAs {
		for _, p := range h.Ports {
			if roles[i].Role == Compute && p.Netdev == netdev {
				return h.Name, true
			}
		}
	}
	return "", false
}

// group is what the rails of one fabric have in common.
type group struct {
	rate float64 // Gb/s
	link string
}

func (g group) String() string {
	rate := fmt.Sprintf("%g Gb/s", g.rate)
	if g.rate == 0 {
		rate = "an unknown rate"
	}
	if g.link == "" || g.link == "Unknown" {
		return rate
	}
	return g.link + " at " + rate
}

func groupOf(h fabric.HCA) group {
	p, _ := activePort(h)
	return group{p.Rate, p.LinkLayer}
}

// fastest is the group with the highest rate and, of two, the larger one.
func fastest(kinds map[group]int) (best group) {
	for g, count := range kinds {
		order := cmp.Or(
			cmp.Compare(g.rate, best.rate),
			cmp.Compare(count, kinds[best]),
			strings.Compare(g.link, best.link),
		)
		if order > 0 {
			best = g
		}
	}
	return best
}

// activePort is the fastest active port; the rate of any other means nothing.
func activePort(h fabric.HCA) (best fabric.Port, ok bool) {
	for _, p := range h.Ports {
		if p.Active() && (!ok || p.Rate > best.Rate) {
			best, ok = p, true
		}
	}
	return best, ok
}

// states says what the ports of an HCA do instead of being active.
func states(h fabric.HCA) string {
	names := map[int]string{1: "down", 2: "initializing (no subnet manager?)", 3: "armed"}
	phys := map[int]string{1: "asleep", 2: "polling for a cable", 3: "disabled", 6: "recovering from link errors"}
	var out []string
	for _, p := range h.Ports {
		s := cmp.Or(names[p.State], fmt.Sprintf("in state %d", p.State))
		if w := phys[p.PhysState]; w != "" {
			s += ", " + w
		}
		out = append(out, fmt.Sprintf("port %d is %s", p.Num, s))
	}
	return strings.Join(out, "; ")
}
