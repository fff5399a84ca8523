package fabric

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Misdirected returns why packets of this node to an address reach another machine or no machine: a permanent entry for
// it, or for the router there, has a hardware address, and another one answers by ARP. It is "" where no such entry is
// known, and where nothing answers. Only where there is such an entry it asks the network, which takes half a second.
func Misdirected(dst netip.Addr) string {
	dst = dst.Unmap()
	routes, err := netlink.RouteGet(dst.AsSlice())
	if err != nil || len(routes) == 0 {
		return ""
	}
	next := dst
	if a, ok := netip.AddrFromSlice(routes[0].Gw); ok {
		next = a.Unmap()
	}
	i, err := net.InterfaceByIndex(routes[0].LinkIndex)
	if err != nil || i.Flags&net.FlagLoopback != 0 {
		return ""
	}
	fixed := permanent(i.Index, next)
	if fixed == nil {
		return ""
	}
	who, err := Claimant(next, i.Name)
	if err != nil || who == nil || who.String() == fixed.String() {
		return ""
	}
	return fmt.Sprintf("this node has a permanent neighbour entry for %s with the hardware address %s, and %s answers "+
		"for it: ip neigh del %s dev %s", next, fixed, who, next, i.Name)
}

// permanent returns the hardware address that an administrator has given for a neighbour; nil: none.
func permanent(iface int, next netip.Addr) net.HardwareAddr {
	family := netlink.FAMILY_V4
	if next.Is6() {
		family = netlink.FAMILY_V6
	}
	all, err := netlink.NeighList(iface, family)
	if err != nil {
		return nil
	}
	for _, n := range all {
		if a, ok := netip.AddrFromSlice(n.IP); ok && a.Unmap() == next && n.State&unix.NUD_PERMANENT != 0 {
			return n.HardwareAddr
		}
	}
	return nil
}
