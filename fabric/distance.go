package fabric

import (
	"slices"
	"strings"
)

// Distance returns how far two PCI functions are from each other, by the bridges above
// each; "" where the bridges or a NUMA node are unknown. Behind one switch, one more
// bridge is between each device and the switch's own: the switch's port.
func (n Node) Distance(a, b string) Distance {
	pa, okA := n.Function(a)
	pb, okB := n.Function(b)
	if !okA || !okB {
		return ""
	}
	if slot(a) == slot(b) {
		return PIX
	}
	common := 0
	for common < min(len(pa.Path), len(pb.Path)) && pa.Path[common] == pb.Path[common] {
		common++
	}
	switch between := max(len(pa.Path), len(pb.Path)) - common; {
	case common >= 2 && between <= 1:
		return PIX
	case common >= 2:
		return PXB
	case common == 1:
		return PHB
	case pa.NUMA < 0 || pb.NUMA < 0:
		return ""
	case pa.NUMA == pb.NUMA:
		return NODE
	}
	return SYS
}

// slot returns an address without its function: "0000:1b:00".
func slot(addr string) string {
	s, _, _ := strings.Cut(addr, ".")
	return s
}

// Rank orders distances, the nearest first at 0; an unknown one is the farthest.
func (d Distance) Rank() int {
	order := []Distance{PIX, PXB, PHB, NODE, SYS}
	if i := slices.Index(order, d); i >= 0 {
		return i
	}
	return len(order)
}
