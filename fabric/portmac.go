package fabric

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// mostAsked is how many machines of a network are asked whether they hear this node.
const mostAsked = 3

// Unheard returns that no machine of the network that leads to an address answers this node's ARP, where the interface
// has a hardware address that the port of a switch may not admit. It asks the other machines that this node knows,
// which takes half a second and needs CAP_NET_RAW. It is the zero Fault where no other machine is known.
func Unheard(dst netip.Addr) Fault {
	h, err := nextHop(netip.Addr{}, netip.AddrPortFrom(dst.Unmap(), 0))
	if err != nil || h.local || !h.src.Is4() {
		return Fault{}
	}
	l, err := netlink.LinkByName(h.iface)
	if err != nil {
		return Fault{}
	}
	odd := foreignMAC(l)
	if odd == "" {
		return Fault{}
	}
	routers, others := h.neighbourhood(context.Background(), dst.Unmap())
	asked := slices.DeleteFunc(append(routers, others...), func(a netip.Addr) bool {
		_, near := interfaceIn(h.src, a)
		return !near
	})
	asked = asked[:min(len(asked), mostAsked)]
	if len(asked) == 0 {
		return Fault{}
	}
	q, err := newARP(h.iface, asked)
	if err != nil {
		return Fault{}
	}
	defer q.close()
	heard := false
	err = q.answers(arpPatience, func(netip.Addr, net.HardwareAddr) bool {
		heard = true
		return false
	})
	if err != nil || heard {
		return Fault{}
	}
	return Fault{fmt.Sprintf("no machine answers this node's ARP on %[1]s, %[2]s neither, and %[1]s %[3]s: the "+
		"virtual switch, the hypervisor or the port of the switch may drop frames with it (forged transmits, MAC spoofing "+
		"check, port security)", h.iface, asked[0], odd),
		fmt.Sprintf("ip -d link show %s   # on this node: its hardware address\n"+
			"in the virtual switch (VMware: promiscuous mode, forged transmits) or for the virtual function (ip link set PF "+
			"vf N spoofchk off): admit it\nor use the machine's own network: --network host, or ipvlan in place of macvlan",
			h.iface)}
}

// foreignMAC returns what is unusual about the hardware address of a link; "": nothing.
func foreignMAC(l netlink.Link) string {
	a := l.Attrs()
	if v, ok := l.(*netlink.Macvlan); ok {
		if v.Mode == netlink.MACVLAN_MODE_PASSTHRU {
			return ""
		}
		return fmt.Sprintf("is a macvlan with a hardware address of its own (%s)", a.HardwareAddr)
	}
	if len(a.PermHWAddr) == 6 && len(a.HardwareAddr) == 6 && !bytes.Equal(a.PermHWAddr, make([]byte, 6)) &&
		!bytes.Equal(a.PermHWAddr, a.HardwareAddr) && a.MasterIndex == 0 {
		return fmt.Sprintf("has the hardware address %s in place of its own, %s", a.HardwareAddr, a.PermHWAddr)
	}
	return ""
}
