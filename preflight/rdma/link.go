package rdma

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/fabric/verbs"
	"launch/internal/finding"
	"launch/preflight"
)

// rdmaLink reports cards like the rails that have no link. Where no rail is left, it reports ports
// with a cable that nothing brings up: an InfiniBand fabric without a subnet manager.
func rdmaLink(_ context.Context, in preflight.Input) []finding.Finding {
	f := rail.Of(in.Node, in.Addr)
	ports := rail.PortsOf(in.Node, f)
	var out []finding.Finding
	var idle []string // ports that nothing brings up, for one cause
	last, manager := "", finding.Warnf("")
	for _, nic := range f.NICs {
		i := slices.IndexFunc(in.Node.HCAs, func(h fabric.HCA) bool { return h.Name == nic.Name })
		if !nic.HCA && nic.Missing { // Slingshot
			out = append(out, finding.Warnf("%s is a link of this node's fabric and has no carrier", nic.Name).
				See("/sys/class/net/"+nic.Name, "%s", nic.Why).
				Breaking("this node has one rail less; the GPUs next to it share another one").
				Do("ethtool %s   # inspect its cable and the switch's port\nif it has no cable on purpose: --skip rdma.link",
					nic.Name))
		}
		if !nic.HCA || i < 0 {
			continue
		}
		h := in.Node.HCAs[i]
		if f, bad := barred(h, nic); bad && (nic.Missing || len(ports) == 0) {
			out = append(out, f)
			continue
		}
		switch waiting := unmanaged(h); {
		case waiting > 0 && (nic.Missing || len(ports) == 0):
			idle, last = append(idle, fmt.Sprintf("%s port %d", h.Name, waiting)), h.Name
			manager = manager.See("/sys/class/infiniband/"+h.Name, "%s", nic.Why)
		case !slices.ContainsFunc(h.Ports, fabric.Port.Active) && silent(in, h) != "" &&
			slices.ContainsFunc(ports, func(p rail.Port) bool {
				return p.Card.Type == h.Type && h.Type != "" && p.Card.VF == h.VF
			}):
			out = append(out, finding.Warnf("%s is like the rails of this node and does not answer: %s", h.Name, silent(in, h)).
				See("/sys/class/infiniband/"+h.Name, "%s %s, %s", h.Type, h.PCI, nic.Why).
				Breaking("this node has one rail less; programs that ask this card may hang").
				Do("dmesg | grep -e mlx5 -e %s\nmlxfwreset -d %s r   # or take this node out and power it off and on", h.PCI,
					h.PCI))
		case nic.Missing:
			out = append(out, finding.Warnf("%s is like the rails of this node and has no link: %s", h.Name, nic.Why).
				See("/sys/class/infiniband/"+h.Name, "%s %s, %s", h.Type, h.PCI, nic.Why).
				Breaking("this node has one rail less; the GPUs next to it share another one").
				Do("ibstat %s   # inspect its cable and the switch's port\nif it has no cable on purpose: --skip rdma.link",
					h.Name))
		}
	}
	if len(idle) > 0 {
		manager.What = finding.Some(idle) + map[bool]string{true: " waits", false: " wait"}[len(idle) == 1] +
			" for a subnet manager"
		out = append(out, manager.Breaking("the port carries no traffic; NCCL takes another network").
			Do("systemctl start opensm   # on one machine of the fabric, or start the switch's subnet manager\n"+
				"sminfo -C %s   # shows whether one runs", last))
	}
	if why := noRails(in); len(out) == 0 && why != "" && f.Kind != rail.Slingshot {
		return finding.Skips(why)
	}
	return preflight.OrPass(out, "%s", described(f))
}

// barred finds a virtual function that its physical function or the subnet manager holds down: the cable is up
// and the manager is known.
func barred(h fabric.HCA, nic rail.NIC) (finding.Finding, bool) {
	i := slices.IndexFunc(h.Ports, func(p fabric.Port) bool { return rail.Barred(h, p) })
	if i < 0 || slices.ContainsFunc(h.Ports, fabric.Port.Active) {
		return finding.Finding{}, false
	}
	p := h.Ports[i]
	return finding.Warnf("%s port %d is a virtual function that is down, although its cable is up", h.Name, p.Num).
		See("/sys/class/infiniband/"+h.Name, "%s", nic.Why).
		See("sm_lid of "+h.Name, "%#x: the subnet manager is known", p.SMLID).
		Breaking("the port carries no traffic; NCCL takes another network").
		Do("ip link set PF vf N node_guid GUID; ip link set PF vf N port_guid GUID   # on the machine itself: a GUID that " +
			"is not zero\nip link set PF vf N state auto   # its link policy, not down\nvirt_enabled 2   # in opensm.conf, or " +
			"enable virtualization in UFM"), true
}

// described returns the training fabric in one line, and whether it is a guess.
func described(f rail.Fabric) string {
	if f.Guess() != "" {
		return f.Why + " (a guess)"
	}
	return f.Why
}

// silent returns why something of an HCA could not be read, or "".
func silent(in preflight.Input, h fabric.HCA) string {
	at := "class/infiniband/" + h.Name
	for _, u := range in.Node.Unknown {
		if u.What == at || strings.HasPrefix(u.What, at+"/") {
			return strings.TrimPrefix(u.What, "class/infiniband/") + ": " + u.Why
		}
	}
	return ""
}

// unmanaged returns the number of an InfiniBand port whose cable is up and that no
// subnet manager has configured (IBTA state 2, INIT; 5 is LinkUp), or 0.
func unmanaged(h fabric.HCA) int {
	if slices.ContainsFunc(h.Ports, fabric.Port.Active) {
		return 0
	}
	for _, p := range h.Ports {
		if p.LinkLayer == "InfiniBand" && p.PhysState == 5 && (p.State == 2 || p.State == 1) {
			return p.Num
		}
	}
	return 0
}

const overTCP = "NCCL takes TCP, and reports it only with NCCL_DEBUG=INFO"

// cardsAlone finds a node with GPUs whose HCAs are on the bus without an RDMA device: the part of the
// driver that makes it is not loaded, or the devices are in another network namespace. Ethernet cards
// count only if there is one for each of several GPUs, since a single card may serve any purpose.
func cardsAlone(in preflight.Input) (finding.Finding, bool) {
	u, why := preflight.GPUsOf(in)
	off := false
	for _, d := range in.Job.Decided {
		off = off || d.Name == "NCCL_NET" || d.Name == "NCCL_IB_DISABLE"
	}
	if why != "" || off || len(in.Node.HCAs) > 0 || len(in.Job.Line.Argv) > 0 && !in.Job.Several() {
		return finding.Finding{}, false
	}
	const several = 4
	cards := slices.DeleteFunc(in.Node.WithoutRDMA(), func(p fabric.PCI) bool { return p.VF })
	made := slices.DeleteFunc(slices.Clone(cards), func(p fabric.PCI) bool {
		return !strings.HasPrefix(p.Class, "0x0207") && p.Driver != "efa" && p.Driver != "hfi1"
	})
	what := "InfiniBand or EFA card"
	if len(made) == 0 && len(cards) >= max(several, len(u.Devices)) {
		made, what = cards, "card"
	}
	if len(made) == 0 {
		return finding.Finding{}, false
	}
	f := finding.Warnf("%s here, and no RDMA device: the RDMA part of the driver is not loaded, or the devices are in "+
		"another network namespace", are(len(made), what))
	for _, p := range made[:min(len(made), finding.MaxSeen)] {
		f = f.See("/sys/bus/pci/devices/"+p.Addr, "driver %s, class %s, no infiniband/ below it", p.Driver, p.Class)
	}
	fix := fixFor(in, verbs.NoStack, fabric.HCA{})
	if mode := in.Node.Container.RDMA; mode == "exclusive" || in.Node.Container.Kind != "" {
		f = f.See("RDMA namespaces", "%s", cmp.Or(mode, "not known"))
		fix = "docker run --network host --device /dev/infiniband …   # or a resource of the RDMA device plugin\n" +
			"rdma link   # on the machine itself: shows whether it has any"
	}
	return f.Breaking(overTCP).Do("%s", fix), true
}

// rdmaOpen warns only if no device opens: a container often has one of its host's devices.
func rdmaOpen(_ context.Context, in preflight.Input) []finding.Finding {
	active := slices.DeleteFunc(slices.Clone(in.Node.HCAs), func(h fabric.HCA) bool {
		return !slices.ContainsFunc(h.Ports, fabric.Port.Active) || h.PCI == ""
	})
	v := in.Node.Verbs
	if f, bad := cardsAlone(in); bad {
		return []finding.Finding{f}
	}
	if f, bad := driverless(in); bad {
		return []finding.Finding{f}
	}
	switch why := noRDMA(in); {
	case why != "":
		return finding.Skips(why)
	case len(active) == 0:
		return finding.Skips("no active RDMA port here")
	case strings.Contains(v.Err, "libibverbs.so"):
		return []finding.Finding{finding.Warnf("%s here, but libibverbs is not installed", are(len(active), "RDMA device")).
			See("libibverbs", "%s", v.Err).Breaking(overTCP).Do("%s", fixFor(in, verbs.NoLibrary, active[0]))}
	case v.Err == verbs.ErrNoStack.Error():
		return []finding.Finding{finding.Warnf("%s here, but %s", are(len(active), "RDMA device"), v.Err).
			See("libibverbs", "%s", v.Err).Breaking(overTCP).Do("%s", fixFor(in, verbs.NoStack, active[0]))}
	case !v.Present:
		return finding.Skips("could not tell: " + cmp.Or(v.Err, "libibverbs was not asked"))
	}
	f := finding.Warnf("%s here, but this process can open none", are(len(active), "RDMA device")).Breaking(overTCP)
	var causes []verbs.Cause
	var fixes []string
	for _, h := range active {
		i := slices.IndexFunc(v.Devices, func(d verbs.Device) bool { return d.Name == h.Name })
		cause := verbs.NotListed
		switch {
		case i >= 0 && v.Devices[i].Opens:
			return []finding.Finding{finding.Passf("%s opens", h.Name)}
		case i < 0:
			f = f.See("libibverbs", "%s is not listed: its file in /dev/infiniband or the library for %s is missing",
				h.Name, cmp.Or(h.Driver, "it"))
		default:
			cause = v.Devices[i].Cause
			f = f.See(cmp.Or(h.Uverbs, "libibverbs"), "%s: %s", h.Name, v.Devices[i].Err)
		}
		if !slices.Contains(causes, cause) {
			causes, fixes = append(causes, cause), append(fixes, fixFor(in, cause, h))
		}
	}
	return []finding.Finding{f.Do("%s", strings.Join(fixes, "\n"))}
}

// are returns a number with its noun and verb.
func are(n int, word string) string {
	return finding.Count(n, word) + map[bool]string{true: " is", false: " are"}[n == 1]
}

// rdmaRate compares ports of cards of one make.
func rdmaRate(_ context.Context, in preflight.Input) []finding.Finding {
	f := rail.Of(in.Node, in.Addr)
	ports := rail.PortsOf(in.Node, f)
	var out []finding.Finding
	for _, p := range ports {
		own, _ := in.Node.Function(p.PCI)
		best, wide := p, own
		for _, o := range ports {
			if !alike(p.Card, o.Card) || p.Facts.LinkLayer != o.Facts.LinkLayer || p.Card.Driver == "efa" {
				continue
			}
			if o.Facts.Active() && o.Facts.Rate > best.Facts.Rate {
				best = o
			}
			if b, _ := in.Node.Function(o.PCI); b.MaxLanes == wide.MaxLanes && b.Lanes > wide.Lanes {
				wide = b
			}
		}
		if p.Facts.Active() && p.Facts.Rate > 0 && best.Facts.Rate > p.Facts.Rate {
			out = append(out, finding.Warnf("%s runs at %g Gb/s%s, %s of the same kind at %g%s", p.Name, p.Facts.Rate,
				laned(p.Facts), best.Name, best.Facts.Rate, laned(best.Facts)).
				See("/sys/class/infiniband/"+p.File("rate"), "%g", p.Facts.Rate).
				Breaking("every collective waits for the slowest rail").
				Do("mlxlink -d %s -m -c   # or ethtool %s; reseat or replace its cable, inspect the switch's port",
					p.PCI, cmp.Or(p.Netdev, p.HCA)))
		}
		if slow, ok := belowCard(p, best); ok {
			out = append(out, slow)
		}
		what, wider := "", ""
		switch now, could := fabric.PCIeRate(own.MaxGen, own.Lanes), fabric.PCIeRate(own.MaxGen, own.MaxLanes); {
		case in.Node.Cloud.Virtual || p.Card.VF: // a guest does not see the real link
		case own.Lanes > 0 && wide.Lanes > own.Lanes:
			what = fmt.Sprintf("%d PCIe lanes, %s of the same kind has %d", own.Lanes, wide.Addr, wide.Lanes)
		case own.Lanes < own.MaxLanes && now > 0 && now < p.Facts.Rate && could >= p.Facts.Rate:
			what = fmt.Sprintf("%d of its %d PCIe lanes, which carry %.0f Gb/s, and its port has %g Gb/s",
				own.Lanes, own.MaxLanes, now, p.Facts.Rate)
			wider = ", or use a wider slot"
		}
		if what != "" {
			out = append(out, finding.Warnf("%s has %s", p.Name, what).
				See("/sys/bus/pci/devices/"+p.PCI+"/current_link_width", "%d of %d", own.Lanes, own.MaxLanes).
				Breaking("the card is slower than its port").
				Do("lspci -vv -s %s   # LnkSta shows the lanes; reseat the card or its riser%s", p.PCI, wider))
		}
	}
	return preflight.OrPass(out, "%s", described(f))
}

// cardRates are what one InfiniBand port of a card carries at most, in Gb/s, by hca_type (the data sheets of
// Connect-IB and ConnectX-2 to ConnectX-8: QDR, FDR, EDR, HDR, NDR, XDR with four lanes).
var cardRates = map[string]float64{"MT26428": 40, "MT4099": 56, "MT4103": 56, "MT4113": 56, "MT4115": 100,
	"MT4119": 100, "MT4121": 100, "MT4123": 200, "MT4129": 400, "MT4131": 800}

// belowCard finds an InfiniBand port that is slower than any switch of the last two generations would
// make it, though no other rail is faster: with one of its lanes, or at less than a quarter of its card's
// rate. Ethernet ports are not judged so, since a fast card on a slow switch is common there.
func belowCard(p, best rail.Port) (finding.Finding, bool) {
	most := cardRates[p.Card.Type]
	if p.Facts.LinkLayer != "InfiniBand" || !p.Facts.Active() || p.Facts.Rate == 0 || best.Facts.Rate > p.Facts.Rate ||
		p.Facts.Lanes != 1 && 4*p.Facts.Rate >= most {
		return finding.Finding{}, false
	}
	f := finding.Warnf("%s runs at %g Gb/s%s, and its card carries up to %g", p.Name, p.Facts.Rate, laned(p.Facts), most)
	if most == 0 {
		f.What = fmt.Sprintf("%s runs at %g Gb/s with one lane", p.Name, p.Facts.Rate)
	}
	return f.See("/sys/class/infiniband/"+p.File("rate"), "%g%s", p.Facts.Rate, laned(p.Facts)).
		See("/sys/class/infiniband/"+p.HCA+"/hca_type", "%s", p.Card.Type).
		Breaking("a bad cable or connector makes a port fall back to one lane or to its lowest rate").
		Do("iblinkinfo   # or ibstat %s here and on the other nodes; reseat or replace its cable", p.HCA), true
}

func laned(p fabric.Port) string {
	if p.Lanes == 0 {
		return ""
	}
	return " (" + finding.Count(p.Lanes, "lane") + ")"
}

// rdmaMTU compares the rails with each other, and each with its interface.
func rdmaMTU(_ context.Context, in preflight.Input) finding.Finding {
	ports := ports(in)
	most, right := 0, 0
	for _, p := range ports {
		has := p.Packets(in.Node)
		most, right = max(most, has.Now), max(right, has.Netdev)
	}
	if most == 0 {
		return finding.Skipf("the packet size is not known: no RoCE rail has a known interface, and libibverbs does not " +
			"report it")
	}
	var small, line []string
	f := finding.Warnf("")
	behind := false
	for _, p := range ports {
		has := p.Packets(in.Node)
		if has.Now == 0 || has.Now >= most && has.Now >= has.Fits {
			continue
		}
		switch {
		case has.Now < has.Fits:
			behind = true
			line = append(line, fmt.Sprintf("ip link set dev %s down; ip link set dev %[1]s up", p.Netdev))
			small = append(small, fmt.Sprintf("%s (%d, although MTU %d of %s has room for %d)",
				p.Name, has.Now, has.Netdev, p.Netdev, has.Fits))
		case has.Netdev > 0:
			line = append(line, fmt.Sprintf("ip link set dev %s mtu %d", p.Netdev, right))
			small = append(small, fmt.Sprintf("%s (%s, MTU %d)", p.Name, p.Netdev, has.Netdev))
		default:
			small = append(small, fmt.Sprintf("%s (%d)", p.Name, has.Now))
		}
		if has.Netdev > 0 {
			f = f.See("MTU of "+p.Netdev, "%d, so RoCE has room for %d", has.Netdev, rail.RoCEMTU(has.Netdev))
		}
		if v, ok := in.Node.Verbs.Port(p.HCA, p.Port); ok {
			f = f.See("active_mtu of "+p.Name, "%d, at most %d (libibverbs)", v.ActiveMTU, v.MaxMTU)
		}
	}
	if len(small) == 0 {
		return finding.Passf("packets of %d bytes", most)
	}
	than := fmt.Sprintf("the others' %d bytes", most)
	if behind {
		than = "they could"
	}
	f.What = fmt.Sprintf("%d of %s send smaller packets than %s: %s",
		len(small), finding.Count(len(ports), "rail"), than, finding.Some(small))
	f = f.Breaking("these rails are slower; where only one end of a connection has the larger size, large messages vanish")
	if len(line) == 0 {
		return f.Do("ibv_devinfo   # shows max_mtu and active_mtu\n" +
			"on InfiniBand the subnet manager's partition has the limit (mtu=5 in opensm's partitions.conf)")
	}
	return f.Do("%s\nand in the network's configuration, if the switch supports it", strings.Join(line, "; "))
}
