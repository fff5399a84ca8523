package fabric

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Taken returns why packets of this node to another one never leave it: its table local has the address of that node,
// as an agent of a cloud leaves it there, and no interface has it. It is the zero Fault elsewhere.
func Taken(dst netip.Addr) Fault {
	h, err := askRoute(netip.AddrPort{}, netip.AddrPortFrom(dst, 0))
	if err != nil || !h.local || dst.IsLoopback() || dst.IsUnspecified() {
		return Fault{}
	}
	all, err := net.InterfaceAddrs()
	if err != nil || has(all, dst) {
		return Fault{}
	}
	return TakenFault(dst)
}

// TakenFault returns what Taken says of an address that a node takes for its own.
func TakenFault(dst netip.Addr) Fault {
	return Fault{fmt.Sprintf("this node takes %s for an address of its own: its table local has it, and no interface does",
		dst), fmt.Sprintf("ip route show table local | grep -w %[1]s   # what it is from: proto, dev\n"+
		"ip route del local %[1]s table local", dst)}
}

// AllTaken returns the single addresses that this node's table local has and no interface: see Taken. There are few.
func AllTaken() (out []netip.Addr) {
	routes, err := dump(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL},
			netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
	})
	own, errs := net.InterfaceAddrs()
	if err != nil || errs != nil {
		return nil
	}
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		p, ok := prefix(r.Dst)
		if ok && p.IsSingleIP() && p.Addr().IsGlobalUnicast() && !has(own, p.Addr()) {
			out = append(out, p.Addr())
		}
	}
	return out
}

// has reports whether an address is one of an interface's.
func has(all []net.Addr, one netip.Addr) bool {
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(one.AsSlice())
	})
}
