package rdma

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

const oneLess = "this node has one rail less; the GPUs next to it share another one"

// refused finds a card of the rails' make that has no driver, or no RDMA device, while others have one.
func refused(in preflight.Input, nic rail.NIC) (finding.Finding, bool) {
	p, ok := in.Node.Function(nic.Name)
	if !ok || !nic.Missing {
		return finding.Finding{}, false
	}
	what, fix := "no driver is bound to it", "dmesg | grep %[1]s   # shows why the driver refused it\n"+
		"echo %[1]s > /sys/bus/pci/drivers_probe   # asks the driver again"
	if i := slices.IndexFunc(in.Node.Interfaces, func(i fabric.Interface) bool { return i.PCI == p.Addr }); i >= 0 &&
		p.RDMAModule() != "" {
		what = fmt.Sprintf("shows no RDMA device, although its driver (%s) is bound and its interface (%s) is up", p.Driver,
			in.Node.Interfaces[i].Name)
		fix = "dmesg | grep -e " + p.RDMAModule() + " -e %[1]s   # shows why there is no RDMA device\n" +
			"devlink dev param show pci/%[1]s   # is RDMA switched off? (enable_rdma, enable_roce)\n" +
			"devlink dev reload pci/%[1]s   # between jobs, starts the card again"
	} else if p.Driver != "" {
		what, fix = "it is bound to "+p.Driver, "lspci -k -s %[1]s   # names the driver in use\n"+
			"driverctl unset-override %[1]s   # returns it to this machine\nif a guest has it on purpose: --skip rdma.link"
	}
	return finding.Warnf("%s is a card like the rails of this node, and %s", p.Addr, what).
		See("/sys/bus/pci/devices/"+p.Addr, "%s:%s, class %s", p.Vendor, p.Device, p.Class).
		Breaking(oneLess).Do(fix, p.Addr), true
}

// wrongMode finds a card in a rail's place whose ports are set to another link layer, or that runs iWARP.
func wrongMode(n fabric.Node, h fabric.HCA, nic rail.NIC, ports []rail.Port) (finding.Finding, bool) {
	if p, _ := n.Function(h.PCI); nic.Missing && h.NodeType == rnic {
		return finding.Warnf("%s is a card like the rails of this node, and in iWARP mode, which NCCL does not use; the "+
			"rails are in RoCE mode", h.Name).
			See("/sys/class/infiniband/"+h.Name, "%s, driver %s, node type 4: RNIC", h.PCI, p.Driver).
			Breaking(oneLess).
			Do("%s\nif it is in this mode on purpose: --skip rdma.link", toRoCE(p.Driver, h.PCI, "")), true
	}
	if !nic.Missing || len(h.Ports) == 0 || len(ports) == 0 || h.Ports[0].LinkLayer == ports[0].Facts.LinkLayer {
		return finding.Finding{}, false
	}
	mode, number := h.Ports[0].LinkLayer, map[string]int{"InfiniBand": 1, "Ethernet": 2}
	return finding.Warnf("%s is a card like the rails of this node, and in %s mode; the rails are in %s mode", h.Name,
		mode, ports[0].Facts.LinkLayer).
		See("/sys/class/infiniband/"+h.Name, "%s %s, %s", h.Type, h.PCI, nic.Why).
		Breaking(oneLess).
		Do("mlxconfig -d %s set LINK_TYPE_P1=%d   # 1 is InfiniBand, 2 Ethernet; then mlxfwreset -d %[1]s r\n"+
			"if it is in this mode on purpose: --skip rdma.link", h.PCI, number[ports[0].Facts.LinkLayer]), true
}

// outside finds an InfiniBand port in a rail's place that is no full member of a partition, or of another one.
func outside(h fabric.HCA, nic rail.NIC, rails []rail.Port) (finding.Finding, bool) {
	count := finding.Count(len(rails), "rail")
	f := finding.Warnf("%s is no full member of a partition, unlike the %s of this node", h.Name, count)
	why, purpose := "limited members cannot reach each other", "limited"
	if slices.ContainsFunc(h.Ports, func(p fabric.Port) bool { return len(rail.Partitions(p)) > 0 }) {
		f.What = fmt.Sprintf("%s is not in the partition of the %s of this node: %s", h.Name, count, nic.Why)
		why, purpose = "members of different partitions cannot reach each other", "there"
	}
	for _, p := range h.Ports {
		f = f.See("/sys/class/infiniband/"+h.Name+"/ports/"+strconv.Itoa(p.Num)+"/pkeys", "%s",
			finding.Join(p.PKeys, func(k fabric.PKey) string { return fmt.Sprintf("%d: %s", k.Index, k.Key) }))
	}
	return f.Breaking("%s, so the job leaves it out: this node has one rail less", why).
		Do("%s=full   # add it to the line of %s in opensm's partitions.conf, or in UFM\nif it is %s on purpose: --skip "+
			"rdma.link", portGUID(h), partitionOf(rails), purpose), nic.Limited
}

// portGUID returns the GUID of an HCA's first port as opensm takes it: the lower half of its GID, else the HCA's own.
func portGUID(h fabric.HCA) string {
	for _, p := range h.Ports {
		for _, g := range p.GIDs {
			if b := g.Addr.As16(); g.Index == 0 {
				return fmt.Sprintf("%#x", b[8:])
			}
		}
	}
	if h.GUID == "" {
		return "0xGUID"
	}
	return "0x" + strings.ReplaceAll(h.GUID, ":", "")
}

// partitionOf names the partition of which all rails are full members, by the 15 bits of its key that opensm takes.
func partitionOf(rails []rail.Port) string {
	if len(rails) > 0 {
		for _, key := range rail.Partitions(rails[0].Facts) {
			if !slices.ContainsFunc(rails, func(p rail.Port) bool { return !slices.Contains(rail.Partitions(p.Facts), key) }) {
				return fmt.Sprintf("their partition (%#x)", key&0x7fff)
			}
		}
	}
	return "their partition"
}

// halfOff finds the half of a cable that is down, while the other half is a rail.
func halfOff(h fabric.HCA, nic rail.NIC, ports []rail.Port) (finding.Finding, bool) {
	i := slices.IndexFunc(ports, func(p rail.Port) bool { return rail.SharesCable(p.Card, h) })
	if !nic.Missing || i < 0 || len(h.Ports) == 0 {
		return finding.Finding{}, false
	}
	return finding.Warnf("%s is down, and %s, which shares its cable, has a link", h.Name, ports[i].Name).
		See("/sys/class/infiniband/"+h.Name, "%s, %s", h.PCI, nic.Why).
		Breaking("each of the two carries half of what the cable does: this node has half of its rate").
		Do("ip link set %s up   # and give it an address\nif it is off on purpose: --skip rdma.link",
			cmp.Or(h.Ports[0].Netdev, "INTERFACE")), true
}

// partly finds the ports without a link of a card with several, where other cards of its kind use the same port.
func partly(n fabric.Node, h fabric.HCA, nic rail.NIC) (out []finding.Finding) {
	for _, p := range h.Ports {
		if slices.Contains(nic.Ports, p.Num) {
			out = append(out, finding.Warnf("port %d of %s has no link, unlike the same port of the other cards of its kind: "+
				"it is %s", p.Num, h.Name, rail.State(n, h, p)).
				See("/sys/class/infiniband/"+h.Name+"/ports/"+strconv.Itoa(p.Num), "%s %s, interface %s", h.Type, h.PCI,
					cmp.Or(p.Netdev, "not known")).
				Breaking("this node has one rail less; the GPU next to it has a part of its rate").
				Do("mlxlink -d %s -p %d   # inspect its cable and the switch's port\n"+
					"if it has no cable on purpose: --skip rdma.link", h.PCI, p.Num))
		}
	}
	return out
}

// dark finds a node whose rails all have no link, whatever other port the job takes. Ports whose cable is up have a
// finding of their own.
func dark(in preflight.Input, f rail.Fabric) (finding.Finding, bool) {
	out := finding.Warnf("")
	var down []string
	has, used := 0.0, 0.0 // Gb/s
	for _, h := range in.Node.HCAs {
		i := slices.IndexFunc(f.NICs, func(n rail.NIC) bool { return n.Name == h.Name && n.HCA })
		if i < 0 || !slices.Contains(f.Down, h.Name) || rail.Unserved(h) > 0 {
			continue
		}
		down = append(down, h.Name)
		has += rail.Most(h)
		out = out.See("/sys/class/infiniband/"+h.Name, "%s %s, %s", h.Type, h.PCI, f.NICs[i].Why)
	}
	instead, fraction := "TCP", ""
	if len(f.Rails) > 0 && f.Kind != rail.TCP {
		instead = f.Name(f.Rails[0])
	}
	for _, r := range f.Rails {
		used += r.Rate
	}
	if used > 0 && has > used {
		fraction = ", at a fraction of the rate"
	}
	out.Seen = out.Seen[:min(len(out.Seen), finding.MaxSeen)]
	out.What = fmt.Sprintf("none of the %s that this node has for %s has a link: %s", finding.Count(len(down), "card"),
		finding.Count(len(f.GPUs), "GPU"), finding.Some(down))
	return out.Breaking("the job uses %s instead%s", instead, fraction).
		Do("ibstat   # or ip -br link; inspect the cables, the switch and its ports\n" +
			"if they have no cable on purpose: --skip rdma.link"), len(down) > 0
}

// recovering finds active ports whose link is down or trains again: a state that should last for milliseconds.
func recovering(ports []rail.Port) (out []finding.Finding) {
	const recovery = 6 // IBTA PortPhysicalState; of Ethernet drivers, the others are not reliable
	names := map[int]string{2: "Polling", 3: "Disabled", 4: "Training", recovery: "LinkErrorRecovery", 7: "PhyTest"}
	for _, p := range ports {
		state, bad := names[p.Facts.PhysState]
		ib := p.Facts.LinkLayer == "InfiniBand" && p.Card.NodeType == 1 && p.Card.Driver != "hfi1"
		if !bad || !p.Facts.Active() || !ib && p.Facts.PhysState != recovery {
			continue
		}
		out = append(out, finding.Warnf("the port of %s is active, and its link is not up: %s", p.Name, state).
			See("/sys/class/infiniband/"+p.File("phys_state"), "%d: %s", p.Facts.PhysState, state).
			Breaking("a bad cable or connector: packets are lost, and transfers are repeated or time out").
			Do("%s; clean, reseat or replace the cable\nuntil then leave it out: NCCL_IB_HCA=^=%s",
				cableTool(p), p.HCA))
	}
	return out
}

// oneLegged finds rails over a bond with a member that has no carrier. A member that is switched off counts only where
// the bonds of other rails have all theirs.
func oneLegged(in preflight.Input, ports []rail.Port) (out []finding.Finding) {
	members := func(bond string) (up, dark, off []string) {
		for _, i := range in.Node.Interfaces {
			switch {
			case i.Master != bond || i.Kind != "physical":
			case i.Running:
				up = append(up, i.Name)
			case i.Up:
				dark = append(dark, i.Name)
			default:
				off = append(off, i.Name)
			}
		}
		return up, dark, off
	}
	bonds := map[string]bool{} // of the rails; true: with all their members
	for _, p := range ports {
		if i, ok := in.Node.Interface(p.Netdev); ok && i.Kind == "bond" {
			up, dark, off := members(i.Name)
			bonds[i.Name] = len(up) > 1 && len(dark)+len(off) == 0
		}
	}
	whole := 0
	for _, all := range bonds {
		if all {
			whole++
		}
	}
	rest := 2*whole >= len(bonds) // have all their members
	for _, p := range ports {
		all, bond := bonds[p.Netdev]
		up, dark, off := members(p.Netdev)
		if !bond || all || len(up) == 0 || len(dark) == 0 && (len(off) == 0 || !rest) {
			continue
		}
		lost := slices.Concat(dark, off)
		delete(bonds, p.Netdev)
		out = append(out, finding.Warnf("%s runs over %s, of which %s no carrier: %s", p.Name, p.Netdev,
			map[bool]string{true: "a member has", false: "members have"}[len(lost) == 1], finding.Some(lost)).
			See("/sys/class/net/"+lost[0], "part of %s, no carrier", p.Netdev).
			See("/sys/class/net/"+up[0], "part of %s, up", p.Netdev).
			Breaking("this rail has a part of its rate, and every collective waits for it").
			Do("ethtool %s   # inspect its cable and the switch's port\nip link set %[1]s up   # if it was switched off",
				lost[0]))
	}
	return out
}

// unrailed finds the one GPU of many that has no rail at its switch, while each other has one of its own.
func unrailed(in preflight.Input, f rail.Fabric) (finding.Finding, bool) {
	const many = 8 // machines with fewer GPUs may have fewer rails
	near := func(g rail.GPU, pci string) bool {
		return in.Node.Distance(g.PCI, pci).Rank() <= fabric.PXB.Rank()
	}
	single := func(r rail.Rail) bool { // at the switch of one GPU
		n := 0
		for _, g := range f.GPUs {
			if near(g, r.PCI) {
				n++
			}
		}
		return n == 1
	}
	var alone []rail.GPU
	for _, g := range f.GPUs {
		own := slices.ContainsFunc(f.Rails, func(r rail.Rail) bool { return near(g, r.PCI) && single(r) })
		any := slices.ContainsFunc(in.Node.HCAs, func(h fabric.HCA) bool { return near(g, h.PCI) })
		switch {
		case !own && any:
			return finding.Finding{}, false
		case !own:
			alone = append(alone, g)
		}
	}
	if len(f.GPUs) < many || len(alone) != 1 || in.Node.Container.RDMA == "exclusive" {
		return finding.Finding{}, false
	}
	g := alone[0]
	p, _ := in.Node.Function(g.PCI)
	out := finding.Warnf("GPU %d (%s) has no rail at its PCIe switch, and each of the other %d has one", g.Index, g.PCI,
		len(f.GPUs)-1)
	if n := len(p.Path); n > 1 {
		out = out.See("/sys/bus/pci/devices/"+p.Path[min(1, n-1)], "no HCA below it")
	}
	return out.Breaking(oneLess).
		Do("lspci -tv   # shows the switches\ndmesg | grep -i -e pcie -e aer   # shows whether a card was lost; " +
			"power the node off and on, then reseat its card"), true
}
