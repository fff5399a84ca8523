package rail

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
)

// Node types of an RDMA device (the kernel's enum rdma_node_type).
const (
	nodeCA          = 1
	nodeRNIC        = 4
	nodeUSNIC       = 5
	nodeUSNICUDP    = 6
	nodeUnspecified = 7
)

// noLID is the local identifier of a port that no subnet manager has configured.
const noLID = 0xffff

// unable returns the role of an HCA that cannot be a rail, and why; ok is false for any other.
func (v *view) unable(h fabric.HCA) (NIC, bool) {
	nic := func(role Role, sure bool, format string, a ...any) (NIC, bool) {
		return NIC{Name: h.Name, HCA: true, Role: role, Sure: sure, Why: fmt.Sprintf(format, a...)}, true
	}
	if role, why := foreign(h); why != "" {
		return nic(role, true, "%s", why)
	}
	if strings.HasPrefix(v.pci[h.PCI].Class, classAccelerator) {
		return nic(Unusable, true, ofAccelerator)
	}
	if name := v.accelerates(h); name != "" {
		return nic(Management, true, "only accelerates %s, the network of a Hyper-V or Azure machine: RDMA does not pass it",
			name)
	}
	if i := slices.IndexFunc(h.Ports, func(p fabric.Port) bool { return p.Active() && p.Elsewhere != "" }); i >= 0 {
		if _, twin := v.node.Interface(h.Ports[i].Elsewhere); twin { // another pod's, of the same name
			return nic(Unusable, true, "its addresses are of another network namespace, as of another pod: %s",
				strings.Join(addresses(h.Ports[i]), ", "))
		}
		return nic(Unusable, true, "its network interface %s is not in this network namespace", h.Ports[i].Elsewhere)
	}
	if v.manages(h) {
		return nic(Unusable, true, "only manages its card: it has no device node, as its function's other device has")
	}
	if why := v.closed(h); why != "" {
		return nic(Unusable, true, "%s", why)
	}
	if why := v.homeless(h); why != "" {
		return nic(Unusable, true, "%s", why)
	}
	if len(h.Ports) == 0 {
		if h.PCI == "" && !isEFA(h) {
			return nic(Virtual, false, "shows no port and is on no bus: a software device")
		}
		return NIC{}, false // a card whose ports could not be read
	}
	if !slices.ContainsFunc(h.Ports, func(p fabric.Port) bool { return p.Active() || v.unread(h, p) }) {
		return nic(Unusable, true, "no active port: %s", states(v.node, h))
	}
	return NIC{}, false
}

// NoFabric reports whether a device is no fabric by its kind, wherever it is: emulated, iWARP or usNIC.
func NoFabric(h fabric.HCA) bool {
	_, why := foreign(h)
	return why != ""
}

// ofAccelerator is why the ports of an accelerator, such as Gaudi's, are no rails. libibverbs may list them.
const ofAccelerator = "a port of an accelerator, which only its own library uses: not NCCL's"

func foreign(h fabric.HCA) (role Role, why string) {
	switch {
	case isSoft(h, "rdma_rxe", "rxe"):
		return Virtual, "Soft-RoCE: the CPU emulates it"
	case isSoft(h, "siw", "siw"):
		return Virtual, "software iWARP: the CPU emulates it"
	case h.NodeType == nodeRNIC && h.Driver != "erdma": // Alibaba's is iWARP too, but made for NCCL
		return Unusable, "iWARP: neither InfiniBand nor RoCE"
	case h.NodeType == nodeUSNIC, h.NodeType == nodeUSNICUDP, h.NodeType == 0 && strings.HasPrefix(h.Name, "usnic_"):
		return Unusable, "usNIC: neither InfiniBand nor RoCE"
	case h.Driver == "habanalabs", strings.HasPrefix(h.Name, "hbl_"): // Intel Gaudi's, whatever type its driver gives
		return Unusable, ofAccelerator
	case h.NodeType == nodeUnspecified && !isEFA(h):
		return Unusable, "a network of driver " + cmp.Or(h.Driver, "unknown") + " alone: neither InfiniBand nor RoCE"
	}
	return "", ""
}

// accelerates returns the interface of Hyper-V (driver hv_netvsc) that has an HCA's interface as its fast path; "" if
// no interface has. Where its driver is not readable, it is a master that is no bond, bridge or routing table.
func (v *view) accelerates(h fabric.HCA) string {
	for _, i := range v.node.Interfaces {
		m, ok := v.node.Interface(i.Master)
		plain := m.Driver == "" && (m.Kind == "physical" || m.Kind == "virtual") && !inVRF(v.node, i)
		if ok && i.PCI != "" && i.PCI == h.PCI &&
			(m.Driver == "hv_netvsc" || plain && strings.HasPrefix(v.node.Product, "Microsoft")) {
			return m.Name
		}
	}
	return ""
}

// manages reports whether an HCA is the second device of a function, without a device node: XDR cards have
// one (smi1) to manage their planes (RDMA_DEVICE_TYPE_SMI, which uverbs_main.c leaves out).
func (v *view) manages(h fabric.HCA) bool {
	return h.Uverbs == "" && h.PCI != "" && slices.ContainsFunc(v.node.HCAs, func(o fabric.HCA) bool {
		return o.Name != h.Name && o.PCI == h.PCI && o.Uverbs != ""
	})
}

// homeless returns why no packet could reach an HCA with a link, or "": no RoCE port has a GID that a peer can
// use. It is "" if a table could not be read. Where a table is empty, the interface is in another
// network namespace: the kernel makes a link-local entry for each interface that is up
// (drivers/infiniband/core/roce_gid_mgmt.c). NCCL takes such a port, and its first transfer fails.
func (v *view) homeless(h fabric.HCA) string {
	why := ""
	for _, p := range h.Ports {
		switch {
		case !p.Active():
		case p.LinkLayer != "Ethernet" || h.NodeType == nodeRNIC || v.kindOf(h) != "":
			return ""
		case len(p.GIDs) == 0 && p.GIDSlots > 0:
			why = "its GID table is empty: its interface has no address, or is in another network namespace"
		case v.byRoute() && len(p.GIDs) > 0 && !slices.ContainsFunc(p.GIDs, beyond):
			why = "it has only link-local GIDs, and this node's address is on a loopback interface: no router forwards them"
		default:
			return ""
		}
	}
	return why
}

// byRoute reports whether this node's own address is on a loopback interface, as where routes lead to each host
// (BGP): then no two nodes share a network.
func (v *view) byRoute() bool {
	a := v.addr
	if !a.IsValid() {
		a = v.node.Route.Src
	}
	i, ok := v.node.InterfaceOf(a)
	return ok && i.Kind == "loopback" && !a.IsLoopback()
}

// beyond reports whether an entry is not link-local.
func beyond(g fabric.GID) bool { return !g.Addr.Unmap().IsLinkLocalUnicast() }

// addresses returns the addresses of a port that a router forwards.
func addresses(p fabric.Port) (out []string) {
	for _, g := range p.GIDs {
		if a := g.Addr.String(); !g.Addr.IsLinkLocalUnicast() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// unread reports whether the state of a port is unknown and nothing proves that it was never up.
func (v *view) unread(h fabric.HCA, p fabric.Port) bool {
	silent := p.LinkLayer == "" && len(p.GIDs) == 0 // nothing was read
	named := p.LID != 0 && p.LID != noLID
	return p.State == 0 && (silent || named || v.linkKind(h, p) != InfiniBand)
}

// isSoft reports whether a device is a program on top of a network interface.
func isSoft(h fabric.HCA, driver, name string) bool {
	return h.Driver == driver || h.Driver == "" && h.PCI == "" && strings.HasPrefix(h.Name, name)
}

// closed returns why this process cannot use a device that sysfs shows, as in a container.
func (v *view) closed(h fabric.HCA) string {
	if !v.node.Verbs.Present {
		if h.Closed != "" && len(h.Ports) > 0 {
			return "this process cannot open it: " + h.Closed
		}
		return ""
	}
	for _, d := range v.node.Verbs.Devices {
		switch {
		case d.Name != h.Name:
		case d.Opens:
			return ""
		default:
			return "this process cannot open it: " + cmp.Or(d.Err, "no reason given")
		}
	}
	return "libibverbs does not list it: no driver for it is installed here"
}

// bare returns the HCAs on the PCI bus that show no RDMA device: their driver is not loaded, or the
// device is in another network namespace. A function assigned to a guest does not count, and a virtual one
// without a driver next to its physical one. RDMA cards of Mellanox may have the class of any network.
func (v *view) bare() (out []NIC) {
	without := v.node.WithoutRDMA()
	for _, p := range v.node.PCI {
		what := hardware(p)
		loose := p.Driver == "" && p.Vendor == fabric.VendorMellanox && p.Physfn == "" && strings.HasPrefix(p.Class, "0x02")
		if loose && what == "Ethernet" {
			what = "Mellanox"
		}
		has := slices.ContainsFunc(without, func(w fabric.PCI) bool { return w.Addr == p.Addr })
		if p.Driver == "vfio-pci" || !has && (p.Driver != "" || what == "Ethernet") ||
			p.Driver == "" && p.Physfn != "" {
			continue
		}
		why := "no driver is bound to it"
		switch p.Driver {
		case "":
		case "mlx5_core", "mlx4_core":
			why = fmt.Sprintf("no RDMA device: %s is not loaded, or it is in another network namespace",
				strings.Replace(p.Driver, "core", "ib", 1))
		default:
			why = fmt.Sprintf("driver %s shows no RDMA device", p.Driver)
		}
		out = append(out, NIC{Name: p.Addr, HCA: true, Role: Unusable, Sure: true, Why: what + " hardware, but " + why})
	}
	// The more important is first.
	order := []string{"Omni-Path", "InfiniBand", string(EFA), "Mellanox", "Ethernet"}
	rank := func(n NIC) int {
		return slices.IndexFunc(order, func(what string) bool { return strings.HasPrefix(n.Why, what) })
	}
	slices.SortStableFunc(out, func(a, b NIC) int { return rank(a) - rank(b) })
	return out
}

// hardware returns the network that a card is made for.
func hardware(p fabric.PCI) string {
	switch {
	case p.Vendor == fabric.VendorAmazon && strings.HasPrefix(p.Device, "0xefa"):
		return string(EFA)
	case strings.HasPrefix(p.Class, classInfiniBand), strings.HasPrefix(p.Class, classOldInfiniBand):
		return "InfiniBand"
	case strings.HasPrefix(p.Class, classFabric) && p.Vendor != fabric.VendorCray:
		return "Omni-Path"
	}
	return "Ethernet"
}
