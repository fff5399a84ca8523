package fabric

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// misforwarded returns that a VXLAN of this node sends the packets for an address to a host at which no machine
// answers: an entry of its forwarding table is old.
func misforwarded(h hop, to netip.Addr) Fault {
	link, err := netlink.LinkByName(h.iface)
	if err != nil || link.Type() != "vxlan" {
		return Fault{}
	}
	next := to
	if h.gateway.IsValid() {
		next = h.gateway.Unmap()
	}
	index := link.Attrs().Index
	near, err := netlink.NeighList(index, familyOf(next))
	if err != nil {
		return Fault{}
	}
	entries, err := netlink.NeighList(index, unix.AF_BRIDGE)
	if err != nil {
		return Fault{}
	}
	mac, hosts := forwarded(next, near, entries)
	if len(hosts) == 0 || slices.ContainsFunc(hosts, func(host netip.Addr) bool { return Neighbour(host) != Silent }) {
		return Fault{}
	}
	return oldEntry(h.iface, to, mac, hosts[0])
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
