package fabric

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// l2Hosts returns the hardware address of a neighbour in an overlay, and the hosts to which packets for that go;
// without an entry for it those to which all unknown go, and no hardware address.
func l2Hosts(iface int, next netip.Addr) (mac string, hosts []netip.Addr) {
	near, err := netlink.NeighList(iface, familyOf(next))
	if err != nil {
		return "", nil
	}
	entries, err := netlink.NeighList(iface, unix.AF_BRIDGE)
	if err != nil {
		return "", nil
	}
	if mac, hosts = forwarded(next, near, entries); len(hosts) > 0 {
		return mac, hosts
	}
	_, hosts = forwarded(next, []netlink.Neigh{{IP: next.AsSlice(), HardwareAddr: make(net.HardwareAddr, 6)}}, entries)
	return "", hosts
}

// forwarded returns the hardware address of a neighbour in an overlay, and the hosts to which packets for that go.
func forwarded(next netip.Addr, near, entries []netlink.Neigh) (mac string, hosts []netip.Addr) {
	for _, n := range near {
		if a, ok := netip.AddrFromSlice(n.IP); ok && a.Unmap() == next && len(n.HardwareAddr) > 0 {
			mac = n.HardwareAddr.String()
		}
	}
	for _, e := range entries {
		a, ok := netip.AddrFromSlice(e.IP)
		if a = a.Unmap(); ok && mac != "" && e.HardwareAddr.String() == mac && !a.IsUnspecified() {
			hosts = append(hosts, a)
		}
	}
	return mac, hosts
}

func oldEntry(iface string, to netip.Addr, mac string, host netip.Addr) Fault {
	return Fault{fmt.Sprintf("%s of this node (VXLAN) sends packets for %s to the host %s, and no machine answers there: "+
		"the entry is old", iface, to, host),
		fmt.Sprintf("bridge fdb show dev %s | grep %s; ip neigh show dev %[1]s\n"+
			"the host of %[3]s is another one by now: restart what writes these entries (flannel, calico-node), or\n"+
			"bridge fdb replace %[2]s dev %[1]s dst HOST", iface, mac, to)}
}
