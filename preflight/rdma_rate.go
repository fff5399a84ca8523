package preflight

import (
	"cmp"
	"context"
	"fmt"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
)

// rdmaRate compares ports of cards that are made alike.
func rdmaRate(_ context.Context, in Input) []finding.Finding {
	f := rail.Of(in.Node, in.Addr)
	ports := railPorts(in.Node, f)
	if why := noRails(in, ports); why != "" {
		return skip(why)
	}
	bus := map[string]fabric.PCI{}
	for _, p := range in.Node.PCI {
		bus[p.Addr] = p
	}
	var out []finding.Finding
	for _, p := range ports {
		best := p
		wide := bus[p.PCI]
		for _, o := range ports {
			if !alike(p.hca, o.hca) || p.port.LinkLayer != o.port.LinkLayer || p.hca.Driver == "efa" {
				continue
			}
			if o.port.Active() && o.port.Rate > best.port.Rate {
				best = o
			}
			if b := bus[o.PCI]; b.MaxLanes == wide.MaxLanes && b.Lanes > wide.Lanes {
				wide = b
			}
		}
		own := bus[p.PCI]
		if p.port.Active() && p.port.Rate > 0 && best.port.Rate > p.port.Rate {
			out = append(out, finding.Warnf("%s runs at %g Gb/s%s, %s of the same kind at %g%s", p.name, p.port.Rate, laned(p.port), best.name, best.port.Rate, laned(best.port)).
				See("/sys/class/infiniband/"+p.file("rate"), "%g", p.port.Rate).Breaking("every collective waits for the slowest rail").
				Do("mlxlink -d %s -m -c (or ethtool %s): reseat or replace its cable, look at the switch's port", p.PCI, cmp.Or(p.Netdev, p.HCA)))
		}
		switch now, could := fabric.PCIeRate(own.MaxGen, own.Lanes), fabric.PCIeRate(own.MaxGen, own.MaxLanes); {
		case in.Node.Cloud.Virtual || p.hca.VF: // the link of a guest's function is made up
		case own.Lanes > 0 && wide.Lanes > own.Lanes:
			out = append(out, finding.Warnf("%s has %d PCIe lanes, %s of the same kind has %d", p.name, own.Lanes, wide.Addr, wide.Lanes).
				See("/sys/bus/pci/devices/"+p.PCI+"/current_link_width", "%d of %d", own.Lanes, own.MaxLanes).
				Breaking("the card is slower than its port").Do("reseat the card or its riser (lspci -vv -s %s shows LnkSta)", p.PCI))
		case own.Lanes < own.MaxLanes && now > 0 && now < p.port.Rate && could >= p.port.Rate:
			out = append(out, finding.Warnf("%s has %d of its %d PCIe lanes, which carry %.0f Gb/s, and its port %g", p.name, own.Lanes, own.MaxLanes, now, p.port.Rate).
				See("/sys/bus/pci/devices/"+p.PCI+"/current_link_width", "%d of %d", own.Lanes, own.MaxLanes).
				Breaking("the card is slower than its port").Do("reseat the card or its riser, or put it into a wider slot (lspci -vv -s %s shows LnkSta)", p.PCI))
		}
	}
	if len(out) == 0 {
		out = append(out, finding.Passf("%s", f.Why))
	}
	return out
}

func laned(p fabric.Port) string {
	if p.Lanes == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d lanes)", p.Lanes)
}
