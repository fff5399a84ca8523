package gpu

import (
	"cmp"
	"context"
	"slices"

	"launch/fabric"
	"launch/internal/finding"
	"launch/preflight"
)

// gpuPCIe finds GPUs whose PCIe link has fewer lanes than the card and its slot have, while most of its model have
// more. Where the slot is unknown, there must be several others, since a workstation may have one narrow slot. A guest
// does not see the real link.
func gpuPCIe(_ context.Context, in preflight.Input) []finding.Finding {
	bus, why := onBus(in)
	switch {
	case in.Node.Cloud.Virtual:
		return finding.Skips("a virtual machine does not show the real links")
	case len(bus) == 0:
		return finding.Skips(cmp.Or(why, "the links of the GPUs are not known"))
	}
	var out []finding.Finding
	for i, p := range bus {
		const several = 2
		var like, wide []fabric.PCI
		for j, o := range bus {
			if i != j && o.Vendor == p.Vendor && o.Device == p.Device && o.MaxLanes == p.MaxLanes && !fills(o) {
				like = append(like, o)
			}
		}
		wide = slices.DeleteFunc(slices.Clone(like), func(o fabric.PCI) bool { return o.Lanes <= p.Lanes })
		needed, most := several, len(wide) > 2*(len(like)-len(wide))
		if p.Slot > 0 {
			needed = 1
		}
		if p.Lanes >= p.MaxLanes || fills(p) || len(wide) < needed || !most {
			continue
		}
		out = append(out, finding.Warnf("GPU %s has %d of its %d PCIe lanes, %s of the same model has %d", name(in, p.Addr),
			p.Lanes, p.MaxLanes, wide[0].Addr, wide[0].Lanes).
			See("/sys/bus/pci/devices/"+p.Addr+"/current_link_width", "%d of %d", p.Lanes, p.MaxLanes).
			Breaking("all ranks wait for this GPU's exchange with its HCA and with the host").
			Do("lspci -vv -s %s   # LnkSta shows the lanes, also under load\n"+
				"power the node off and on, then reseat the GPU, its riser or its baseboard", p.Addr))
	}
	return preflight.OrPass(out, "%s", finding.Count(len(bus), "GPU"))
}

// fills reports whether a link is narrow since its slot is.
func fills(p fabric.PCI) bool { return p.Slot > 0 && p.Slot <= p.Lanes }

// onBus returns the functions of the GPUs whose links are known: those that the job sees, and all where NVML was not
// asked, as for those of other vendors.
func onBus(in preflight.Input) (out []fabric.PCI, why string) {
	u, why := preflight.GPUsOf(in)
	unasked := !in.Node.GPUs.Present && in.Node.GPUs.Absent == "" && in.Node.GPUs.Err == ""
	addrs := map[string]bool{}
	for _, d := range u.Devices {
		addrs[d.PCI] = true
	}
	for _, c := range in.Node.Cards {
		addrs[c.PCI] = addrs[c.PCI] || c.Vendor != "nvidia" || unasked
	}
	for _, p := range in.Node.PCI {
		if addrs[p.Addr] && p.Lanes > 0 && p.MaxLanes > 0 && p.Driver != "vfio-pci" {
			out = append(out, p)
		}
	}
	return out, why
}

// name returns a GPU's number and address; without NVML, its address.
func name(in preflight.Input, addr string) string {
	for _, d := range in.Node.GPUs.Devices {
		if d.PCI == addr {
			return number(d) + " (" + addr + ")"
		}
	}
	return addr
}
