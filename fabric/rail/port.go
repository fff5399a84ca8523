package rail

import (
	"fmt"
	"math"

	"launch/fabric"
)

// port is one rail with the HCA and the port that it is.
type Port struct {
	Rail
	Name  string
	Card  fabric.HCA
	Facts fabric.Port
}

// file is the name of one of the port's files below the class' directory.
func (p Port) File(name string) string { return fmt.Sprintf("%s/ports/%d/%s", p.HCA, p.Port, name) }

// railPorts are the rails that are RDMA ports.
func PortsOf(n fabric.Node, f Fabric) []Port {
	var out []Port
	for _, r := range f.Rails {
		for _, h := range n.HCAs {
			for _, p := range h.Ports {
				if h.Name == r.HCA && p.Num == r.Port && r.HCA != "" {
					out = append(out, Port{Rail: r, Name: f.Name(r), Card: h, Facts: p})
				}
			}
		}
	}
	return out
}

// RoCEv2 is the type of a RoCE v2 entry, as the kernel writes it.
const RoCEv2 = rocev2

// activeMTU is what the kernel makes of an interface's MTU for RoCE, in bytes:
// the largest size of InfiniBand's that fits beside the headers (iboe_get_mtu in
// include/rdma/ib_addr.h, which takes off 96 bytes); 0 unknown.
func RoCEMTU(netdev int) int {
	const headers = 40 + 8 + 12 + 4 + 28 + 4 // GRH, UDP, BTH, XRC, atomic ETH, ICRC
	for _, size := range []int{4096, 2048, 1024, 512, 256} {
		if netdev-headers >= size {
			return size
		}
	}
	return 0
}

// packets is the most data in a packet of a rail, in bytes; 0 of what is not
// known.
type Packets struct {
	Now    int // as the port has it: libibverbs tells, and of RoCE else the interface's MTU
	Fits   int // what the interface's MTU leaves room for, as far as the port can
	Netdev int // the MTU of the interface, of RoCE
}

func (p Port) Packets(n fabric.Node) (out Packets) {
	if p.Card.Driver == "efa" {
		return Packets{}
	}
	if i, ok := n.Interface(p.Netdev); ok && p.Facts.LinkLayer == "Ethernet" {
		out.Netdev, out.Fits = i.MTU, RoCEMTU(i.MTU)
		out.Now = out.Fits
	}
	if v, ok := n.Verbs.Port(p.HCA, p.Port); ok && v.ActiveMTU > 0 {
		out.Now, out.Fits = v.ActiveMTU, min(out.Fits, v.MaxMTU)
	}
	return out
}

// carries is what so many lanes of a PCIe link carry, in Gb/s: the rates of the
// generations are PCI-SIG's, and up to the second 8 of 10 bits are data. Without a
// generation nothing is known, which is enough for any port.
func Carries(p fabric.PCI, lanes int) float64 {
	switch {
	case p.MaxGen < 1 || p.MaxGen > 7 || lanes < 1:
		return math.Inf(1)
	case p.MaxGen <= 2:
		return 2.5 * float64(p.MaxGen*lanes) * 0.8
	}
	return 8 * math.Pow(2, float64(p.MaxGen-3)) * float64(lanes)
}
