package rdma

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

// noLinks is noRails on a node whose rails may be interfaces.
func noLinks(in preflight.Input) string {
	if f := rail.Of(in.Node, in.Addr); len(f.Rails) > 1 && f.Rails[0].HCA == "" {
		return unused(in)
	}
	return noRails(in)
}

// slowLinks finds the rails that are interfaces, as on Slingshot, and run at a lower rate than most others of their
// make. Where the rate is not known, it is 0.
func slowLinks(in preflight.Input, f rail.Fabric) (out []finding.Finding) {
	for _, r := range f.Rails {
		own, _ := in.Node.Function(r.PCI)
		best, fast, all := r, 0, 0
		for _, o := range f.Rails {
			p, _ := in.Node.Function(o.PCI)
			if o.HCA != "" || o.Rate == 0 || p.Device == "" || p.Vendor != own.Vendor || p.Device != own.Device {
				continue
			}
			all++
			switch {
			case o.Rate > best.Rate:
				best, fast = o, 1
			case o.Rate == best.Rate:
				fast++
			}
		}
		if r.HCA == "" && r.Rate > 0 && best.Rate > r.Rate && 2*fast > all {
			out = append(out, finding.Warnf("%s runs at %g Gb/s, %s of the same kind at %g", f.Name(r), r.Rate, f.Name(best),
				best.Rate).
				See("/sys/class/net/"+r.Netdev+"/speed", "%g", 1000*r.Rate).
				See("/sys/class/net/"+best.Netdev+"/speed", "%g", 1000*best.Rate).
				Breaking("every collective waits for the slowest rail").
				Do("ethtool %s   # reseat or replace its cable, inspect the switch's port", r.Netdev))
		}
	}
	return out
}

// rdmaRate compares ports of cards of one make.
func rdmaRate(_ context.Context, in preflight.Input) []finding.Finding {
	f := rail.Of(in.Node, in.Addr)
	ports := rail.PortsOf(in.Node, f)
	out := slowLinks(in, f)
	for _, p := range ports {
		own, _ := in.Node.Function(p.PCI)
		best, wide, fast := p, own, own
		for _, o := range ports {
			if b, _ := in.Node.Function(o.PCI); b.Device != "" && b.Vendor == own.Vendor && b.Device == own.Device &&
				b.Gen > fast.Gen {
				fast = b
			}
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
				Do("%s; reseat or replace its cable, inspect the switch's port", cableTool(p)))
		}
		if slow, ok := belowCard(p, best); ok {
			out = append(out, slow)
		}
		if f, bad := trained(in, p, own, wide, fast); bad {
			out = append(out, f)
		}
	}
	return preflight.OrPass(out, "%s", described(f))
}

// cableTool returns the command that shows a port's link: NVIDIA's own is for its cards alone.
func cableTool(p rail.Port) string {
	switch {
	case strings.HasPrefix(p.Card.Driver, "mlx"):
		return fmt.Sprintf("mlxlink -d %s -m -c   # or ethtool %s", p.PCI, cmp.Or(p.Netdev, p.HCA))
	case p.Facts.LinkLayer == "Ethernet" && p.Netdev != "":
		return fmt.Sprintf("ethtool %[1]s; ethtool -m %[1]s   # shows the link and its module", p.Netdev)
	}
	return fmt.Sprintf("ibstat %s   # shows the link", p.HCA)
}

// trained finds a rail whose PCIe link has fewer lanes than wide's, or one whose link is slower than its port: with
// fewer lanes than the card has, or with a lower generation than fast's. Where no other card has a higher generation,
// the machine was perhaps made so: then the link must have less than half of what the port needs.
func trained(in preflight.Input, p rail.Port, own, wide, fast fabric.PCI) (finding.Finding, bool) {
	gen := cmp.Or(own.Gen, own.MaxGen)
	now := fabric.PCIeRate(gen, own.Lanes)
	below := now > 0 && now < p.Facts.Rate
	carries := fmt.Sprintf("which carry %.0f Gb/s, and its port has %g Gb/s", now, p.Facts.Rate)
	what, file, has, wider := "", "current_link_width", fmt.Sprintf("%d of %d", own.Lanes, own.MaxLanes), ""
	switch could := fabric.PCIeRate(max(gen, own.MaxGen), own.MaxLanes); {
	case in.Node.Cloud.Virtual || p.Card.VF: // a guest does not see the real link
	case own.Lanes > 0 && wide.Lanes > own.Lanes:
		what = fmt.Sprintf("%d PCIe lanes, %s of the same kind has %d", own.Lanes, wide.Addr, wide.Lanes)
	case own.Lanes < own.MaxLanes && below && could >= p.Facts.Rate:
		what = fmt.Sprintf("%d of its %d PCIe lanes, %s", own.Lanes, own.MaxLanes, carries)
		wider = ", or use a wider slot"
	case below && own.Gen > 0 && (fast.Gen > own.Gen || 2*now < p.Facts.Rate && own.Gen < own.MaxGen):
		best, of := own.MaxGen, "its own best"
		if fast.Gen > own.Gen {
			best, of = fast.Gen, "that of "+fast.Addr
		}
		what = fmt.Sprintf("a PCIe link of generation %d, and %s is %d: its %d lanes carry %.0f Gb/s, and its port has %g "+
			"Gb/s", own.Gen, of, best, own.Lanes, now, p.Facts.Rate)
		file, has = "current_link_speed", fmt.Sprintf("generation %d of %d", own.Gen, max(best, own.MaxGen))
	}
	return finding.Warnf("%s has %s", p.Name, what).
		See("/sys/bus/pci/devices/"+p.PCI+"/"+file, "%s", has).
		Breaking("the card is slower than its port").
		Do("lspci -vv -s %s   # LnkSta shows speed and lanes; reseat the card or its riser%s", p.PCI, wider), what != ""
}

// belowCard finds an InfiniBand port that is slower than any switch of the last two generations would
// make it, though no other rail is faster: with one of its lanes, or at less than a quarter of its card's
// rate. Ethernet ports are not judged so, since a fast card on a slow switch is common there.
func belowCard(p, best rail.Port) (finding.Finding, bool) {
	most := rail.Most(p.Card)
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
	below := false
	for _, p := range ports {
		has := p.Packets(in.Node)
		if has.Now == 0 || has.Now >= most && has.Now >= has.Fits {
			continue
		}
		switch {
		case has.Now < has.Fits:
			below = true
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
		return finding.Passf("packets of %d bytes%s", most, larger(in, ports, most))
	}
	than := fmt.Sprintf("the others' %d bytes", most)
	if below {
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

// larger returns a hint where all rails are fast RoCE ports of whole cards with small packets: an MTU of 1500 works,
// and a larger one needs the switches. Clouds and guests cannot change it.
func larger(in preflight.Input, ports []rail.Port, now int) string {
	const fast, most = 100, 4096 // Gb/s, bytes
	fixed := func(p rail.Port) bool {
		return p.Facts.LinkLayer != "Ethernet" || p.Card.VF || p.Facts.Rate < fast || p.Netdev == in.Node.Route.Interface ||
			rail.RoCEMTU(p.Packets(in.Node).Netdev) >= most
	}
	if now >= most || in.Node.Cloud.Virtual || in.Node.Cloud.Provider != "" || slices.ContainsFunc(ports, fixed) {
		return ""
	}
	return fmt.Sprintf("; an MTU of 4200 or more, here and on the switches, allows %d", most)
}
