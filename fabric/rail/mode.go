package rail

import (
	"slices"

	"launch/fabric"
)

// otherMode returns the link layer of a card that would be a rail in the rails' mode, or "": of the rails' type and
// board, and at the switch of a GPU that has no rail there, while most GPUs have one. One with an address that a router
// forwards, or that leads out, serves another purpose. Cards of Mellanox may be set to either mode ("VPI").
func (v *view) otherMode(h fabric.HCA, d decision) string {
	if v.iWARPMode(h, d) {
		return "iWARP"
	}
	if len(d.rails) == 0 || len(h.Ports) == 0 || !v.usable(h) || 2*v.served(d.rails) < len(v.gpus) {
		return ""
	}
	mode := h.Ports[0].LinkLayer
	like := func(c candidate) bool { return v.alike(c.hca, h) }
	if mode != "InfiniBand" && mode != "Ethernet" || !slices.ContainsFunc(d.rails, like) {
		return ""
	}
	for _, c := range d.rails {
		if c.kind != InfiniBand && c.kind != RoCE || c.port.LinkLayer == "" || c.port.LinkLayer == mode {
			return ""
		}
	}
	for _, p := range h.Ports {
		c := candidate{h, p, RoCE}
		if p.LinkLayer != mode || p.Elsewhere != "" || v.routed(c) || v.isWayOut(c) || p.Active() && mode == "InfiniBand" {
			return ""
		}
	}
	vacant := func(g GPU) bool { return v.behind(g.PCI, h.PCI) && v.near(g, d.rails) == 0 }
	if h.PCI == "" || !slices.ContainsFunc(v.gpus, vacant) {
		return ""
	}
	return mode
}

// iWARPMode reports whether an HCA would be a rail if it ran RoCE, as the other cards of its make do, and a rail is
// lacking. A second port of a card that has a rail, and the port that leads out, may run iWARP on purpose.
func (v *view) iWARPMode(h fabric.HCA, d decision) bool {
	p := v.pci[h.PCI]
	rails, like := map[string]int{}, false
	for _, c := range d.rails {
		q := v.pci[c.hca.PCI]
		like = like || c.kind == RoCE && c.hca.NodeType != nodeRNIC && q.Vendor == p.Vendor && q.Device == p.Device
		rails[v.cardOf(c.hca)]++
	}
	idle := func(i fabric.Port) bool { return i.Active() && !v.isWayOut(candidate{h, i, RoCE}) }
	return like && h.NodeType == nodeRNIC && p.RunsRoCE() && slices.ContainsFunc(h.Ports, idle) &&
		rails[v.cardOf(h)] < usual(rails) && v.lacking(h.PCI, d.rails)
}

// inOtherMode counts the cards that would be rails in the rails' mode, and returns theirs.
func (v *view) inOtherMode(d decision) (n int, mode string) {
	for _, h := range v.node.HCAs {
		if m := v.otherMode(h, d); m != "" {
			n, mode = n+1, m
		}
	}
	return n, mode
}
