package fabric

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Route is how this node reaches an address.
type Route struct {
	Src       netip.Addr `json:"src"`       // the source address of a connection
	Interface string     `json:"interface"` // the interface that it leaves by
}

// RouteTo asks the kernel how it would reach dst now, and sends nothing. For an address of this
// machine, Interface is the one that has it, not lo. The error is the kernel's.
func RouteTo(dst netip.Addr) (Route, error) {
	dst = dst.Unmap()
	r, err := routeByNetlink(dst)
	if refused(err) {
		r, err = routeByConnect(dst)
	}
	if err != nil {
		return Route{}, fmt.Errorf("find route to %v: %w", dst, err)
	}
	if r.Interface == "" || r.Src == dst {
		if name := carrier(r.Src); name != "" {
			r.Interface = name
		}
	}
	return r, nil
}

// farAway is an address of no network (RFC 5737), so the route to it is the default route.
var farAway = netip.AddrFrom4([4]byte{192, 0, 2, 1})

func defaultRoute() (Route, error) { return RouteTo(farAway) }

// RouteTo returns how this node reaches dst according to its facts, which a recording has too: as its own
// address, in a network of an interface, or by the default route. Other routes are no facts.
func (n Node) RouteTo(dst netip.Addr) (Route, error) {
	zone := dst.Zone()
	dst = dst.Unmap().WithZone("")
	if f, ok := n.InterfaceOf(dst); ok {
		return Route{Src: dst, Interface: f.Name}, nil
	}
	var r Route
	best := -1
	for _, f := range n.Interfaces {
		for _, p := range f.Addrs {
			if f.Up && p.Contains(dst) && p.Bits() > best && (zone == "" || zone == f.Name) {
				r, best = Route{Src: p.Addr(), Interface: f.Name}, p.Bits()
			}
		}
	}
	switch {
	case best >= 0:
		return r, nil
	case n.Route.Src.IsValid() && n.Route.Src.Is4() == dst.Is4() && zone == "":
		return n.Route, nil
	}
	return Route{}, fmt.Errorf("find route to %v: %w", dst, syscall.ENETUNREACH)
}

func routeByNetlink(dst netip.Addr) (Route, error) {
	var opt *netlink.RouteGetOptions
	if dst.Zone() != "" {
		opt = &netlink.RouteGetOptions{Oif: zoneName(dst.Zone())}
	}
	routes, err := netlink.RouteGetWithOptions(dst.AsSlice(), opt)
	if err != nil {
		return Route{}, err
	}
	if len(routes) == 0 {
		return Route{}, syscall.ENETUNREACH
	}
	src, ok := netip.AddrFromSlice(routes[0].Src)
	if !ok {
		return Route{}, syscall.EADDRNOTAVAIL
	}
	r := Route{Src: src.Unmap()}
	if f, err := net.InterfaceByIndex(routes[0].LinkIndex); err == nil {
		r.Interface = f.Name
	}
	return r, nil
}

// routeByConnect lets a UDP socket choose the route, for sandboxes that forbid netlink.
func routeByConnect(dst netip.Addr) (Route, error) {
	const discard = 9 // any port does
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst, discard)))
	if err != nil {
		return Route{}, err
	}
	defer c.Close()
	return Route{Src: c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone("")}, nil
}

// refused reports whether netlink is forbidden (a sandbox), rather than the route missing.
func refused(err error) bool {
	return slices.ContainsFunc([]error{syscall.EPERM, syscall.EACCES, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT,
		syscall.EOPNOTSUPP}, func(e error) bool { return errors.Is(err, e) })
}

// carrier returns the name of the interface that is up and has exactly that address; "": none.
func carrier(addr netip.Addr) string {
	list, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, f := range list {
		addrs, err := f.Addrs()
		if err != nil || f.Flags&net.FlagUp == 0 {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if p, ok := prefix(n); ok && p.Addr() == addr.WithZone("") {
					return f.Name
				}
			}
		}
	}
	return ""
}

// zoneName returns the interface of an IPv6 zone, which may be its number.
func zoneName(zone string) string {
	if i, err := strconv.Atoi(zone); err == nil {
		if f, err := net.InterfaceByIndex(i); err == nil {
			return f.Name
		}
	}
	return zone
}

// dumpTries is how often a list is read again if it changed during the read (containers start and end).
const dumpTries = 3

// links returns the kernel's list of the interfaces of this network namespace with their addresses.
func links() ([]Interface, error) {
	list, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	addrs, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	rules, noRules := dump(func() ([]netlink.Rule, error) { return netlink.RuleList(netlink.FAMILY_V4) })
	names := map[int]string{}
	for _, l := range list {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	var out []Interface
	for _, l := range list {
		a := l.Attrs()
		f := Interface{
			Index: a.Index, Name: a.Name, Kind: linkKind(l), MTU: a.MTU, NUMA: -1, Up: a.Flags&net.FlagUp != 0,
			Running: a.Flags&net.FlagRunning != 0,
		}
		if a.EncapType == "ether" {
			f.MAC = a.HardwareAddr.String()
		}
		if a.Slave != nil || a.MasterIndex != 0 {
			f.Master = names[a.MasterIndex]
		}
		if noRules == nil {
			f.Ruled = []netip.Addr{}
		}
		for _, addr := range addrs {
			if p, ok := prefix(addr.IPNet); ok && addr.LinkIndex == a.Index {
				f.Addrs = append(f.Addrs, p)
				if addr.Flags&unix.IFA_F_DADFAILED != 0 {
					f.Taken = append(f.Taken, p.Addr())
				}
				if noRules == nil && ruled(rules, p.Addr()) {
					f.Ruled = append(f.Ruled, p.Addr())
				}
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// ruled reports whether a rule chooses the routing table of what an address sends. What this machine sends arrives, for
// a rule, from lo.
func ruled(rules []netlink.Rule, a netip.Addr) bool {
	return slices.ContainsFunc(rules, func(r netlink.Rule) bool {
		src, ok := prefix(r.Src)
		return ok && src.Bits() > 0 && src.Contains(a) && (r.IifName == "" || r.IifName == "lo") && r.OifName == "" &&
			r.Mark == 0
	})
}

func dump[T any](list func() ([]T, error)) (out []T, err error) {
	for range dumpTries {
		if out, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return out, err
}

// linkKind translates the kernel's kind of a link; "" where it has none, as for hardware.
func linkKind(l netlink.Link) string {
	if l.Attrs().Flags&net.FlagLoopback != 0 {
		return "loopback"
	}
	switch t := l.Type(); t {
	case "device":
		return ""
	case "bond", "bridge", "vlan", "veth", "macvlan", "ipvlan", "vxlan", "ipoib":
		return t
	default:
		same := map[string]string{"team": "bond", "macvtap": "macvlan", "ipvtap": "ipvlan", "tun": "tun",
			"tuntap": "tun", "wireguard": "tun"}
		return cmp.Or(same[t], "virtual")
	}
}

func prefix(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), ones), true
}

// leastMTU is the least MTU with which an interface has IPv6 (RFC 8200), bytes.
const leastMTU = 1280

// TooSmall returns that an interface of this node has no IPv6, as an address of that family needs it: its MTU is below
// what IPv6 takes, and the kernel has removed it with all its addresses. "": no interface is such a one.
func TooSmall(own netip.Addr) string {
	if !own.Is6() || own.Is4In6() {
		return ""
	}
	all, _ := net.Interfaces()
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 && i.MTU > 0 && i.MTU < leastMTU {
			return fmt.Sprintf("%s has an MTU of %d, and IPv6 needs %d: the kernel has taken IPv6 and its addresses off it "+
				"(ip link set %[1]s mtu %[3]d, or more)", i.Name, i.MTU, leastMTU)
		}
	}
	return ""
}
