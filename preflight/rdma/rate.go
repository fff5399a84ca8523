package rdma

import (
	"cmp"
	"context"
	"fmt"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

// rdmaRate compares ports of cards of one make.
func rdmaRate(_ context.Context, in preflight.Input) []finding.Finding {
	f := rail.Of(in.Node, in.Addr)
	ports := rail.PortsOf(in.Node, f)
	if why := noRails(in, ports); why != "" {
		return finding.Skips(why)
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
			if !alike(p.Card, o.Card) || p.Facts.LinkLayer != o.Facts.LinkLayer || p.Card.Driver == "efa" {
				continue
			}
			if o.Facts.Active() && o.Facts.Rate > best.Facts.Rate {
				best = o
			}
			if b := bus[o.PCI]; b.MaxLanes == wide.MaxLanes && b.Lanes > wide.Lanes {
				wide = b
			}
		}
		own := bus[p.PCI]
		if p.Facts.Active() && p.Facts.Rate > 0 && best.Facts.Rate > p.Facts.Rate {
			out = append(out, finding.Warnf("%s runs at %g Gb/s%s, %s of the same kind at %g%s", p.Name, p.Facts.Rate,
				laned(p.Facts), best.Name, best.Facts.Rate, laned(best.Facts)).
				See("/sys/class/infiniband/"+p.File("rate"), "%g", p.Facts.Rate).
				Breaking("every collective waits for the slowest rail").
				Do("mlxlink -d %s -m -c   # or ethtool %s; reseat or replace its cable, inspect the switch's port",
					p.PCI, cmp.Or(p.Netdev, p.HCA)))
		}
		switch now, could := fabric.PCIeRate(own.MaxGen, own.Lanes), fabric.PCIeRate(own.MaxGen, own.MaxLanes); {
		case in.Node.Cloud.Virtual || p.Card.VF: // a guest does not see the real link
		case own.Lanes > 0 && wide.Lanes > own.Lanes:
			out = append(out, finding.Warnf("%s has %d PCIe lanes, %s of the same kind has %d",
				p.Name, own.Lanes, wide.Addr, wide.Lanes).
				See("/sys/bus/pci/devices/"+p.PCI+"/current_link_width", "%d of %d", own.Lanes, own.MaxLanes).
				Breaking("the card is slower than its port").
				Do("lspci -vv -s %s   # LnkSta shows the lanes; reseat the card or its riser", p.PCI))
		case own.Lanes < own.MaxLanes && now > 0 && now < p.Facts.Rate && could >= p.Facts.Rate:
			out = append(out, finding.Warnf("%s has %d of its %d PCIe lanes, which carry %.0f Gb/s, and its port has %g Gb/s",
				p.Name, own.Lanes, own.MaxLanes, now, p.Facts.Rate).
				See("/sys/bus/pci/devices/"+p.PCI+"/current_link_width", "%d of %d", own.Lanes, own.MaxLanes).
				Breaking("the card is slower than its port").
				Do("lspci -vv -s %s   # LnkSta shows the lanes; reseat the card or its riser, or use a wider slot", p.PCI))
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
