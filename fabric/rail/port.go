package rail

import (
	"fmt"
	"slices"

	"launch/fabric"
)

// Port is one rail with the facts of its HCA and port.
type Port struct {
	Rail
	Name  string
	Card  fabric.HCA
	Facts fabric.Port
}

// File returns the name of one of the port's files in the directory of its class.
func (p Port) File(name string) string { return fmt.Sprintf("%s/ports/%d/%s", p.HCA, p.Port, name) }

// PortsOf returns the rails that are RDMA ports.
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

// RoCEMTU returns the packet size that the kernel derives from an interface's MTU for RoCE, in bytes,
// the largest that fits with the headers (iboe_get_mtu in include/rdma/ib_addr.h); 0 if unknown.
func RoCEMTU(netdev int) int {
	const headers = 40 + 8 + 12 + 4 + 28 + 4 // GRH, UDP, BTH, XRC, atomic ETH, ICRC
	for _, size := range []int{4096, 2048, 1024, 512, 256} {
		if netdev-headers >= size {
			return size
		}
	}
	return 0
}

// Packets is the largest payload of a rail's packets, in bytes; 0 if unknown.
type Packets struct {
	Now    int // in use: from libibverbs, or for RoCE from the interface's MTU
	Fits   int // the size that the interface's MTU and the port allow
	Netdev int // the MTU of a RoCE port's interface
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

// RoCEv2 is the type of a RoCE v2 entry (ib_cache_gid_type_str in drivers/infiniband/core/cache.c).
const RoCEv2 = "RoCE v2"

// gid returns the index of the GID for a RoCE connection, or -1. It follows NCCL
// (src/transport/net_ib/connect.cc, since 2.21), which takes the first RoCE v2 entry of the address
// family, without link-local ones. It differs in three ways. It takes an IPv6 entry if the port has
// no IPv4 address at all, as NCCL does only with NCCL_IB_ADDR_FAMILY. It ignores entries of another
// network namespace, since no packet of a peer returns through them, and aliases (settle).
func (v *view) gid(c candidate) int {
	if c.kind != RoCE {
		return -1
	}
	if index, ok := v.settled[portName(c.hca.Name, c.port.Num)]; ok {
		return index
	}
	for _, four := range []bool{true, false} {
		for _, g := range c.port.GIDs {
			a := g.Addr.Unmap()
			if g.Type == RoCEv2 && a.Is4() == four && (four || !a.IsLinkLocalUnicast()) && v.ours(g) {
				return g.Index
			}
		}
	}
	return -1
}

// routed reports whether a RoCE port has an address that a router forwards.
func (v *view) routed(c candidate) bool {
	return c.kind == RoCE && slices.ContainsFunc(c.port.GIDs, func(g fabric.GID) bool {
		return g.Type == RoCEv2 && !g.Addr.Unmap().IsLinkLocalUnicast() && v.ours(g)
	})
}

// unlisted reports whether the GID table of a RoCE port could not be read: whether it has a usable entry is unknown.
func unlisted(c candidate) bool {
	return c.kind == RoCE && c.port.GIDSlots == 0 && len(c.port.GIDs) == 0
}

// ours reports whether an entry may belong to an interface in this network namespace: its interface is
// here, and one here has its address. In pods, interfaces of several namespaces have the same name.
func (v *view) ours(g fabric.GID) bool {
	_, here := v.node.Interface(g.Netdev)
	return (here || g.Netdev == "" || len(v.node.Interfaces) == 0) && fabric.Holds(v.node.Interfaces, g.Addr)
}
