package rail

import (
	"launch/fabric"
)

// rocev2 is the kernel's name for the type of a RoCE v2 entry (ib_cache_gid_type_str in
// drivers/infiniband/core/cache.c).
const rocev2 = "RoCE v2"

// gid returns the index of the GID for a RoCE connection, or -1. It follows NCCL
// (src/transport/net_ib/connect.cc, since 2.21), which takes the first RoCE v2 entry of the address
// family, without link-local ones. It differs in two ways. It takes an IPv6 entry if the port has
// no IPv4 address at all, as NCCL does only with NCCL_IB_ADDR_FAMILY. It ignores entries of a
// netdev in another network namespace, since no packet of a peer returns through them.
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

// ours reports whether an entry belongs to an interface in this network namespace; true
// if the table does not say.
func (v *view) ours(g fabric.GID) bool {
	_, here := v.node.Interface(g.Netdev)
	return here || g.Netdev == "" || len(v.node.Interfaces) == 0
}
