package fabric

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// fewHops is a hop limit that leads out of no site. Systems send with 64 by default, and some with 32.
const fewHops = 16

// Stuck returns why no connection of this process gets to any of some addresses, as far as this node itself shows it:
// it may open no socket or has no free port, there is no route, the interface of the route is down, has no link or no
// ARP, the node does not take packets to its own address, an entry leads to another machine (Misdirected), or packets
// end at a router. It is "" where nothing is wrong here.
func Stuck(dsts []netip.Addr) (why string) {
	for _, dst := range dsts {
		if why = stuck(dst); why == "" {
			return ""
		}
	}
	return why
}

func stuck(dst netip.Addr) string {
	dst = dst.Unmap()
	if why := callable(dst); why != "" {
		return why
	}
	r, err := RouteTo(dst)
	switch {
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EINVAL):
		return fmt.Sprintf("this node has no route to %s", dst)
	case err != nil:
		return ""
	}
	i, err := net.InterfaceByName(r.Interface)
	if err != nil || i.Flags&net.FlagLoopback != 0 {
		return ""
	}
	switch {
	case i.Flags&net.FlagUp == 0:
		return fmt.Sprintf("%s of this node, the way to %s, is down", i.Name, dst)
	case i.Flags&net.FlagRunning == 0:
		return fmt.Sprintf("%s of this node, the way to %s, has no link: no cable, or its other end is down", i.Name, dst)
	case noARP(i.Name):
		return fmt.Sprintf("%s of this node, the way to %s, neither asks nor answers for addresses (NOARP): "+
			"ip link set dev %s arp on", i.Name, dst, i.Name)
	}
	if r.Src.IsValid() && !local(r.Src) {
		return fmt.Sprintf("this node does not take packets to its own address %s: it is not in the table local "+
			"(ip route show table local)", r.Src)
	}
	if why := Misdirected(dst); why != "" {
		return why
	}
	if hops, setting := hopLimit(dst, i.Name); hops > 0 && hops < fewHops && viaRouter(dst) {
		return fmt.Sprintf("this node's packets have a hop limit of %d, and %s is after a router: sysctl -w %s=64", hops,
			dst, setting)
	}
	return ""
}

// callable returns why this node cannot begin a connection to an address at all; "": it can.
func callable(dst netip.Addr) string {
	family := unix.AF_INET
	if dst.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Sprintf("this process may not open a socket to %s (%v): seccomp, SELinux or AppArmor forbids it", dst, err)
	case err != nil:
		return ""
	}
	defer unix.Close(fd)
	if family == unix.AF_INET && errors.Is(unix.Bind(fd, &unix.SockaddrInet4{}), unix.EADDRINUSE) {
		return "this node has no free port for a connection (sysctl net.ipv4.ip_local_port_range " +
			"net.ipv4.ip_local_reserved_ports; ss -s)"
	}
	return ""
}

// noARP reports whether an interface of Ethernet has no address resolution.
func noARP(name string) bool {
	l, err := netlink.LinkByName(name)
	return err == nil && l.Attrs().EncapType == "ether" && l.Type() != "dummy" && l.Attrs().RawFlags&unix.IFF_NOARP != 0
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
