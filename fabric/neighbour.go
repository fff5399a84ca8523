package fabric

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Misdirected returns why packets of this node to an address reach another machine or no machine: a permanent entry
// for it, or for the router there, has a hardware address, and only others answer by ARP. It is the zero Fault where no
// such entry is known, where nothing answers, and where it is not certain. Only where there is such an entry it asks
// the network, which takes half a second.
func Misdirected(dst netip.Addr) Fault {
	dst = dst.Unmap()
	routes, err := netlink.RouteGet(dst.AsSlice())
	if err != nil || len(routes) == 0 {
		return Fault{}
	}
	next := dst
	if a, ok := netip.AddrFromSlice(routes[0].Gw); ok {
		next = a.Unmap()
	}
	i, err := net.InterfaceByIndex(routes[0].LinkIndex)
	if err != nil || i.Flags&net.FlagLoopback != 0 {
		return Fault{}
	}
	fixed := permanent(i.Index, next)
	if fixed == nil {
		return Fault{}
	}
	var all []net.HardwareAddr
	err = askARP(next, i.Name, func(who net.HardwareAddr) bool {
		all = append(all, who)
		return true
	})
	if err != nil || !elsewhere(fixed, all) {
		return Fault{}
	}
	who := all[0]
	return Fault{fmt.Sprintf("this node has a permanent neighbour entry for %s with the hardware address %s, and %s "+
		"answers for it", next, fixed, who),
		fmt.Sprintf("ip neigh del %s dev %s\nip neigh; ls /etc/ethers   # what set that "+
			"entry", next, i.Name)}
}

// elsewhere reports whether none of the answers by ARP is a machine's at a hardware address. A machine with several
// interfaces in one network may answer with each. A router that another one replaces answers with an address of both.
func elsewhere(fixed net.HardwareAddr, all []net.HardwareAddr) bool {
	shared := func(a net.HardwareAddr) bool {
		return bytes.HasPrefix(a, []byte{0, 0, 0x5e, 0, 1}) || // VRRP (RFC 9568)
			bytes.HasPrefix(a, []byte{0, 0, 0x0c}) || bytes.HasPrefix(a, []byte{0, 7, 0xb4}) // HSRP, GLBP
	}
	return len(all) > 0 && !slices.ContainsFunc(all, func(a net.HardwareAddr) bool {
		return bytes.Equal(a, fixed) || shared(a)
	})
}

// Presence is what the kernel knows of a neighbour, after packets were sent to it.
type Presence int

const (
	Unseen Presence = iota // it is no neighbour, or nothing was sent to it
	Silent                 // no machine answers for the address, by ARP or neighbour discovery
	Here                   // a machine does
)

// Neighbour returns whether a machine answers for an address in the network of an interface. It waits while the kernel
// still asks for that, for up to asks.
func Neighbour(dst netip.Addr) Presence {
	dst = dst.Unmap()
	h, err := nextHop(netip.Addr{}, netip.AddrPortFrom(dst, 0))
	if err != nil || h.gateway.IsValid() || h.local {
		return Unseen
	}
	return settled(h.iface, dst)
}

// asks is for how long the kernel asks for a neighbour: mcast_solicit (3) times retrans_time (1 s), and a little more.
const asks, askPause = 3200 * time.Millisecond, 50 * time.Millisecond

// settled is Neighbour for an interface's neighbour.
func settled(iface string, of netip.Addr) Presence {
	for end := time.Now().Add(asks); ; time.Sleep(askPause) {
		if there, asking := presence(iface, of); !asking || time.Now().After(end) {
			return there
		}
	}
}

// presence returns what the kernel's table has of an interface's neighbour, and whether it still asks for that.
func presence(iface string, of netip.Addr) (there Presence, asking bool) {
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return Unseen, false
	}
	all, _ := netlink.NeighList(i.Index, familyOf(of))
	for _, n := range all {
		if a, ok := netip.AddrFromSlice(n.IP); ok && a.Unmap() == of.Unmap() {
			switch {
			case n.State&(unix.NUD_FAILED|unix.NUD_INCOMPLETE) != 0:
				return Silent, n.State&unix.NUD_INCOMPLETE != 0
			case n.State&(unix.NUD_REACHABLE|unix.NUD_DELAY) != 0:
				return Here, false
			}
		}
	}
	return Unseen, false
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
