package fabric

import (
	"slices"
	"strings"
)

// Distance tells how far two PCI functions are from each other, by the chain
// of bridges above each; "" where that, or a NUMA node, is not known. Behind
// one switch there is one more bridge between each device and the switch's own:
// its port.
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

// slot is an address less its function: "0000:1b:00".
func slot(addr string) string {
	s, _, _ := strings.Cut(addr, ".")
	return s
}

// Rank orders distances, the nearest 0; an unknown one is the farthest.
func (d Distance) Rank() int {
	order := []Distance{PIX, PXB, PHB, NODE, SYS}
	if i := slices.Index(order, d); i >= 0 {
		return i
	}
	return len(order)
}
