package fabric

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Taken returns why packets of this node to another one never leave it: its table local has the address of that node,
// as an agent of a cloud leaves it there, and no interface has it. It is the zero Fault elsewhere.
func Taken(dst netip.Addr) Fault {
	h, err := askRoute(netip.AddrPort{}, netip.AddrPortFrom(dst, 0))
	if err != nil || !h.local || dst.IsLoopback() || dst.IsUnspecified() {
		return Fault{}
	}
	all, err := net.InterfaceAddrs()
	if err != nil || slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(dst.AsSlice())
	}) {
		return Fault{}
	}
	return Fault{fmt.Sprintf("this node takes %s for an address of its own: its table local has it, and no interface does",
		dst), fmt.Sprintf("ip route show table local | grep -w %[1]s   # what it is from: proto, dev\n"+
		"ip route del local %[1]s table local", dst)}
}
