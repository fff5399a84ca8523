package rail

import (
	"slices"

	"launch/fabric"
)

// otherMode returns the link layer of a card that would be a rail in the rails' mode, or "": of the rails' type and
// board, and at the switch of a GPU that has no rail there, while most GPUs have one. One with an address that a router
// forwards, or that leads out, serves another purpose. Cards of Mellanox may be set to either mode ("VPI").
func (v *view) otherMode(h fabric.HCA, d decision) string {
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

// inOtherMode counts the cards that would be rails in the rails' mode, and returns theirs.
func (v *view) inOtherMode(d decision) (n int, mode string) {
	for _, h := range v.node.HCAs {
		if m := v.otherMode(h, d); m != "" {
			n, mode = n+1, m
		}
	}
	return n, mode
}
