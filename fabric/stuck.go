package fabric

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// fewHops is a hop limit that leads out of no site. Systems send with 64 by default, and some with 32.
const fewHops = 16

// Stuck returns why no connection of this process gets to any of some addresses, as far as this node itself shows it:
// it may open no socket or has no free port, there is no route or one that forbids, the interface of the route is down,
// has no link or no ARP, the node takes the address for its own (Taken) or does not take packets to its own one, an
// entry leads to another machine (Misdirected), NAT sends the packets on to no machine, the router does not answer, its
// own queue or IPsec drops them, they end at a router, its own filter drops them or their answers, or a tunnel on the
// way is dead. It is the zero Fault where nothing is wrong here. NAT and filters are not looked at where the port is 0.
func Stuck(dsts []netip.AddrPort) (f Fault) {
	for _, dst := range dsts {
		if f = stuck(dst); f == (Fault{}) {
			return f
		}
	}
	return f
}

func stuck(to netip.AddrPort) Fault {
	dst := to.Addr().Unmap()
	c := Call{To: netip.AddrPortFrom(dst, to.Port()), Gone: All}
	if f := blocked(c); f != (Fault{}) {
		return f
	}
	r, err := RouteTo(dst)
	if err != nil {
		return Fault{}
	}
	if hops, setting := hopLimit(dst, r.Interface); hops > 0 && hops < fewHops && viaRouter(dst) {
		return Fault{fmt.Sprintf("this node's packets have a hop limit of %d, and %s is after a router", hops, dst),
			fmt.Sprintf("sysctl -w %s=64", setting)}
	}
	if f := c.sealed(r.Src); f != (Fault{}) {
		return f
	}
	return lost(c)
}

// blocked returns why packets of a call do not get to its address, whatever their hop limit.
func blocked(c Call) Fault {
	dst := c.To.Addr()
	if c.Gone == All || c.Gone == Astray {
		if f := Taken(dst); f != (Fault{}) {
			return f
		}
	}
	if c.Gone == All && c.To.Port() > 0 {
		if f := sandboxed(c.To); f != (Fault{}) {
			return f
		}
	}
	if c.Gone != Long {
		if f := unsent(dst); f != (Fault{}) {
			return f
		}
	}
	h, err := nextHop(c.From, c.To)
	if err != nil || h.local || h.iface == "" || c.Gone == Nothing {
		return Fault{}
	}
	if c.Gone == Astray {
		_, f := redirected(c.From, c.To, Astray)
		return f
	}
	if c.Gone == All {
		if on, f := redirected(c.From, c.To, All); on.IsValid() {
			return f // its packets take the way to another address
		}
		_, _ = datagram(c.From, c.To, func(int) int { return 0 }) // the kernel asks for the neighbour again
		if f := undiscovered(h.iface, h.next(dst)); f != (Fault{}) {
			return f
		}
		if f := h.routerless(dst); f != (Fault{}) {
			return f
		}
	}
	return queued(c.From, c.To, h.iface, c.Gone == Long)
}

// lost returns why a call has no answer where no table shows it: it makes one, and looks at what leaves and
// arrives.
func lost(c Call) Fault {
	h, err := nextHop(c.From, c.To)
	if err != nil || h.local || h.iface == "" || c.Gone != All {
		return Fault{}
	}
	if f := tableFull(os.DirFS("/proc")); f != (Fault{}) {
		return f
	}
	if f := h.filtered(c); f != (Fault{}) {
		return f
	}
	return h.tunnelled(c)
}

// unsent returns why no packet gets to an address by this node's interfaces, routes and neighbours.
func unsent(dst netip.Addr) Fault {
	if f := callable(dst); f != (Fault{}) {
		return f
	}
	r, err := RouteTo(dst)
	if err != nil {
		return noRoute(dst, err)
	}
	i, err := net.InterfaceByName(r.Interface)
	if err != nil || i.Flags&net.FlagLoopback != 0 {
		return Fault{}
	}
	if f := lifeless(*i, dst); f != (Fault{}) {
		return f
	}
	if r.Src.IsValid() && !local(r.Src) {
		return Fault{fmt.Sprintf("this node does not take packets to its own address %s: it is not in the table local",
			r.Src), fmt.Sprintf("ip route show table local\nip route add local %s dev %s table local", r.Src, i.Name)}
	}
	return Misdirected(dst)
}

// next returns the neighbour to which packets for an address go.
func (h hop) next(dst netip.Addr) netip.Addr {
	if h.gateway.IsValid() {
		return h.gateway
	}
	return dst
}

// routerless returns that no machine answers for the router to which packets for an address go.
func (h hop) routerless(dst netip.Addr) Fault {
	if !h.gateway.IsValid() || settled(h.iface, h.gateway) != Silent {
		return Fault{}
	}
	return Fault{fmt.Sprintf("this node sends packets for %s to the router %s on %s, and no machine answers for that "+
		"address (ARP)", dst, h.gateway, h.iface),
		fmt.Sprintf("ip route get %s; ip neigh show %s; ping %[2]s\nis that the router's address, and is it up?", dst,
			h.gateway)}
}

// noRoute returns what the kernel's error about a route means.
func noRoute(dst netip.Addr, err error) Fault {
	show := fmt.Sprintf("ip rule; ip route get %s", dst)
	switch {
	case errors.Is(err, syscall.EACCES):
		return Fault{fmt.Sprintf("this node has a route or a rule that prohibits packets to %s", dst), show}
	case errors.Is(err, syscall.EINVAL):
		return Fault{fmt.Sprintf("this node has no route to %s, or a blackhole route", dst), show}
	case errors.Is(err, syscall.EHOSTUNREACH):
		return Fault{fmt.Sprintf("this node has an unreachable route to %s", dst), show + ": what has made it? fail2ban " +
			"makes such routes"}
	case errors.Is(err, syscall.ENETUNREACH):
		return Fault{fmt.Sprintf("this node has no route to %s", dst), "ip -br addr; ip route"}
	}
	return Fault{}
}

// lifeless returns why an interface carries nothing.
func lifeless(i net.Interface, dst netip.Addr) Fault {
	way := fmt.Sprintf("%s of this node, the way to %s, ", i.Name, dst)
	switch {
	case i.Flags&net.FlagUp == 0:
		return Fault{way + "is down", fmt.Sprintf("ip link set %s up", i.Name)}
	case i.Flags&net.FlagRunning == 0:
		return Fault{way + "has no link: no cable, or its other end is down",
			fmt.Sprintf("ip -d link show %s; ethtool %s", i.Name, i.Name)}
	case noARP(i.Name):
		return Fault{way + "neither asks nor answers for addresses (NOARP)", fmt.Sprintf("ip link set %s arp on", i.Name)}
	}
	return Fault{}
}

// callable returns why this node cannot begin a connection to an address at all.
func callable(dst netip.Addr) Fault {
	family := unix.AF_INET
	if dst.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return Fault{fmt.Sprintf("this process may not open a socket to %s (%v): seccomp, SELinux or AppArmor forbids it",
			dst, err), "grep -E 'Seccomp|NoNewPrivs' /proc/self/status; cat /proc/self/attr/current"}
	case err != nil:
		return Fault{}
	}
	defer unix.Close(fd)
	if family == unix.AF_INET && errors.Is(unix.Bind(fd, &unix.SockaddrInet4{}), unix.EADDRINUSE) {
		return Fault{"this node has no free port for a connection",
			"sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports; ss -s"}
	}
	return Fault{}
}

// noARP reports whether an interface of Ethernet has no address resolution. Some kinds do not need it.
func noARP(name string) bool {
	l, err := netlink.LinkByName(name)
	without := []string{"dummy", "ipvlan", "netkit", "vrf"}
	return err == nil && l.Attrs().EncapType == "ether" && !slices.Contains(without, l.Type()) &&
		l.Attrs().RawFlags&unix.IFF_NOARP != 0
}

// local reports whether the kernel takes packets to one of its addresses.
func local(own netip.Addr) bool {
	routes, err := netlink.RouteGet(own.AsSlice())
	return err != nil || len(routes) == 0 || routes[0].Type == unix.RTN_LOCAL
}

// hopLimit returns the hop limit of packets to an address, which leave by an interface, and its setting; 0: not known.
func hopLimit(dst netip.Addr, iface string) (hops int, setting string) {
	setting = "net/ipv4/ip_default_ttl"
	if dst.Is6() {
		setting = "net/ipv6/conf/" + iface + "/hop_limit"
	}
	text, _ := os.ReadFile("/proc/sys/" + setting)
	hops, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	return hops, setting
}

// viaRouter returns whether the route to an address has a router.
func viaRouter(dst netip.Addr) bool {
	routes, err := netlink.RouteGet(dst.AsSlice())
	return err == nil && len(routes) > 0 && routes[0].Gw != nil
}
