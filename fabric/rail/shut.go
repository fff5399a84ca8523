package rail

import (
	"slices"

	"launch/fabric"
)

// shut reports whether an HCA is no rail only since this process cannot open it: it is of a rail's make. One that
// answers with an error has failed. One whose file is missing here, or that this process may not open, may be for
// another container, as are most of a node's devices in a pod: then a rail must be lacking.
func (v *view) shut(h fabric.HCA, d decision) bool {
	nic, bad := d.unable[h.Name]
	away := func(p fabric.Port) bool { return p.Elsewhere != "" }
	like := func(c candidate) bool { return v.alike(c.hca, h) }
	switch {
	case !bad || nic.Role != Unusable || v.closed(h) == "" || NoFabric(h) || v.manages(h) || v.accelerates(h) != "",
		slices.ContainsFunc(h.Ports, away), !slices.ContainsFunc(d.rails, like),
		slices.ContainsFunc(d.rails, func(c candidate) bool { return v.functionOf(h, c.hca) || v.functionOf(c.hca, h) }):
		return false
	case !v.withheld(h):
		return true
	case v.node.Container.Kind == "" && v.whole():
		return v.lacking(h.PCI, d.rails)
	}
	return slices.ContainsFunc(v.given(), func(g GPU) bool { return v.behind(g.PCI, h.PCI) && v.near(g, d.rails) == 0 })
}

// closedRails counts the HCAs that shut finds.
func (v *view) closedRails(d decision) (n int) {
	for _, h := range v.node.HCAs {
		if v.shut(h, d) {
			n++
		}
	}
	return n
}

// withheld reports whether a device that this process cannot open is in order, as far as its answer shows.
func (v *view) withheld(h fabric.HCA) bool {
	for _, d := range v.node.Verbs.Devices {
		if d.Name == h.Name {
			return d.Withheld()
		}
	}
	return true
}

// given returns the GPUs that this process has. A container sees all on the bus, while NVML, ROCm and the files of
// NVIDIA's driver show its own.
func (v *view) given() (out []GPU) {
	if len(v.node.GPUs.Devices) > 0 {
		return v.gpus
	}
	for i, c := range v.node.Cards {
		if c.Model != "" {
			out = append(out, v.gpus[i])
		}
	}
	if out == nil && (v.node.Container.Kind == "" || v.node.KFD >= len(v.node.Cards)) {
		return v.gpus
	}
	return out
}

// whole reports whether this process has all of NVIDIA's GPUs on the bus: a container without a mark may have a part.
func (v *view) whole() bool {
	n := 0
	for _, c := range v.node.Cards {
		if c.Vendor == "nvidia" {
			n++
		}
	}
	return len(v.given()) >= n
}
