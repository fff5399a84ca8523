package rail

import (
	"launch/fabric"
)

// rocev2 is how the kernel writes the type of a RoCE v2 entry
// (ib_cache_gid_type_str in drivers/infiniband/core/cache.c).
const rocev2 = "RoCE v2"

// gid is the entry of a port's table that a RoCE connection should use, or -1.
// It is NCCL's rule (src/transport/net_ib/connect.cc, since 2.21): the first
// RoCE v2 entry of the family, link-local ones left out. Two things are added:
// an IPv6 entry where the port has no IPv4 address at all, which NCCL takes
// only with NCCL_IB_ADDR_FAMILY; and entries of a netdev in another network
// namespace do not count, since no peer's packet gets back by them.
func (v *view) gid(c candidate) int {
	if c.kind != RoCE {
		return -1
	}
	for _, four := range []bool{true, false} {
		for _, g := range c.port.GIDs {
			a := g.Addr.Unmap()
			if g.Type == rocev2 && a.Is4() == four && (four || !a.IsLinkLocalUnicast()) && v.ours(g) {
				return g.Index
			}
		}
	}
	return -1
}

// ours tells whether an entry is of an interface in this network namespace;
// yes where the table does not say whose it is.
func (v *view) ours(g fabric.GID) bool {
	_, here := v.node.Interface(g.Netdev)
	return here || g.Netdev == "" || len(v.node.Interfaces) == 0
}
