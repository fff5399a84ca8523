package fabric

import (
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// redirectedRoute is RTCF_REDIRECTED (include/uapi/linux/in_route.h): a router has sent an ICMP redirect.
const redirectedRoute = 0x00040000

// Course is how this node sends the packets of a connection, and what the others know of its end.
type Course struct {
	Interface string
	Index     int        // of the interface, which may get another name
	Gateway   netip.Addr // zero: the other machine is a neighbour
	Table     int        // of the route
	Redirect  bool       // the gateway was named by a router, with an ICMP redirect
	Hardware  string     // the hardware address of the interface that has this node's end; "": it has no such address
}

// CourseOf returns how this node sends the packets of a connection now, from its end here to the other one. It
// sends nothing. The error is the kernel's where there is no route.
func CourseOf(from, to netip.AddrPort) (Course, error) { return Courses()(from, to) }

// Courses returns what CourseOf is, for many connections at about the same time: it lists the interfaces once for each
// address of this node.
func Courses() func(from, to netip.AddrPort) (Course, error) {
	hardware := map[netip.Addr]string{}
	return func(from, to netip.AddrPort) (c Course, err error) {
		h, err := askRoute(from, to)
		if err != nil {
			return c, err
		}
		own := from.Addr().Unmap()
		if _, known := hardware[own]; !known {
			i, _ := interfaceWith(own)
			hardware[own] = i.HardwareAddr.String()
		}
		return Course{h.iface, h.index, h.gateway, h.table, h.redirect, hardware[own]}, nil
	}
}

// Same reports whether packets go the same way, from the same hardware address.
func (c Course) Same(d Course) bool {
	return c.Index == d.Index && c.Gateway == d.Gateway && c.Hardware == d.Hardware
}

// Turned returns what has changed since packets of a connection went another way, and arrived; the zero Fault: nothing.
func (c Course) Turned(before Course, from, to netip.AddrPort) Fault {
	here, there := from.Addr().Unmap(), to.Addr().Unmap()
	switch {
	case c.Index != before.Index || c.Gateway != before.Gateway:
		f := Fault{fmt.Sprintf("this node sends packets from %s to %s %s now, and sent them %s while they arrived", here,
			there, c.way(), before.way()),
			hop{src: here, table: c.Table}.show(netip.AddrPortFrom(there, 0))}
		switch {
		case c.Redirect:
			f.Why += ": a router has sent an ICMP redirect"
			f.Do = fmt.Sprintf("ip route get %s; ip route flush cache\nsysctl -w net.ipv4.conf.all.accept_redirects=0 "+
				"net.ipv4.conf.%s.accept_redirects=0", there, c.Interface)
		case pointToPoint(c.Interface):
			f.Do += fmt.Sprintf("\n%s is a tunnel (a VPN): end it, or take %s out of what it carries (AllowedIPs)", c.Interface,
				there)
		default:
			f.Do += fmt.Sprintf("\nrestore the route or the rule: %s", before.way())
		}
		return f
	case c.Hardware != before.Hardware && before.Hardware != "":
		return Fault{fmt.Sprintf("the interface of this node that has %s, %s, has another hardware address now, %s, and had "+
			"%s while packets arrived: a machine that still has the old one for it sends in vain", here, carrier(here),
			c.Hardware, before.Hardware),
			fmt.Sprintf("ip link show dev %s\nrestart what writes the neighbour entries (flannel, calico-node), or on %s: ip "+
				"neigh | grep %s; ip neigh replace %s lladdr %s dev IFACE", carrier(here), there, before.Hardware, here,
				c.Hardware)}
	}
	return Fault{}
}

// way says where packets go.
func (c Course) way() string {
	text := "by " + c.Interface
	if c.Gateway.IsValid() {
		text = fmt.Sprintf("by %s to the router %s", c.Interface, c.Gateway)
	}
	if c.Table != unix.RT_TABLE_MAIN {
		text += fmt.Sprintf(" (routing table %s)", tableName(c.Table))
	}
	return text
}

// pointToPoint reports whether an interface is the end of a tunnel without neighbours, as of WireGuard.
func pointToPoint(name string) bool {
	i, err := net.InterfaceByName(name)
	return err == nil && i.Flags&net.FlagPointToPoint != 0
}
