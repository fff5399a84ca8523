package fabric

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
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
	Local     bool       // this node has the other end's address itself: its packets do not leave it
	Carrier   string     // the interface that has this node's end, with its kind: "eth0, a macvlan"; "": none
	Carried   int        // its index
	Neighbour string     // the hardware address to which packets for a neighbour go; "": a gateway, or not known
}

// CourseOf returns how this node sends the packets of a connection now, from its end here to the other one. It
// sends nothing. The error is the kernel's where there is no route.
func CourseOf(from, to netip.AddrPort) (Course, error) { return Courses()(from, to) }

// Courses returns what CourseOf is, for many connections at about the same time: it lists the interfaces once for each
// address of this node.
func Courses() func(from, to netip.AddrPort) (Course, error) {
	carriers := map[netip.Addr]Course{}
	near := map[int]map[netip.Addr]string{}
	return func(from, to netip.AddrPort) (c Course, err error) {
		h, err := askRoute(from, to)
		if err != nil {
			return c, err
		}
		own := from.Addr().Unmap()
		if _, known := carriers[own]; !known {
			i, _ := interfaceWith(own)
			carriers[own] = Course{Hardware: i.HardwareAddr.String(), Carrier: kindOf(i), Carried: i.Index}
		}
		if near[h.index] == nil {
			near[h.index] = neighboursOf(h.index)
		}
		c = carriers[own]
		c.Interface, c.Index, c.Gateway, c.Table, c.Redirect, c.Local = h.iface, h.index, h.gateway, h.table, h.redirect,
			h.local
		if !h.gateway.IsValid() {
			c.Neighbour = near[h.index][to.Addr().Unmap()]
		}
		return c, nil
	}
}

// kindOf returns an interface's name, and its kind if it is one of software: "eth0, a macvlan".
func kindOf(i net.Interface) string {
	link, err := netlink.LinkByIndex(i.Index)
	if err != nil || link.Type() == "device" {
		return i.Name
	}
	return i.Name + ", a " + link.Type()
}

// Deleted returns that the interface which had this node's end of connections does not exist any more.
func (c Course) Deleted(own netip.Addr) Fault {
	if _, err := net.InterfaceByIndex(c.Carried); c.Carried == 0 || err == nil || carrier(own) != "" {
		return Fault{}
	}
	return Fault{fmt.Sprintf("the interface of this node that had its address %s (%s) does not exist any more", own,
		c.Carrier), "ip -br link; dmesg -T | tail\nan interface of software is deleted with its parent on the host, as at " +
		"a restart of the network there, and a card's with its driver: start that container or node again"}
}

// neighboursOf returns the hardware addresses that the kernel has of an interface's neighbours.
func neighboursOf(iface int) map[netip.Addr]string {
	out := map[netip.Addr]string{}
	all, _ := netlink.NeighList(iface, netlink.FAMILY_ALL)
	for _, n := range all {
		a, ok := netip.AddrFromSlice(n.IP)
		if ok && len(n.HardwareAddr) == 6 && n.State&(unix.NUD_FAILED|unix.NUD_INCOMPLETE|unix.NUD_NOARP) == 0 {
			out[a.Unmap()] = n.HardwareAddr.String()
		}
	}
	return out
}

// Same reports whether packets go the same way, from the same hardware address.
func (c Course) Same(d Course) bool {
	return c.Index == d.Index && c.Gateway == d.Gateway && c.Hardware == d.Hardware && c.Neighbour == d.Neighbour
}

// Moved returns why the machine that answers for an address now is not the one to which packets went while they
// arrived; the zero Fault: nothing shows that. sharer is another node that has the neighbour's hardware address; "":
// not known.
func (c Course) Moved(before Course, from, to netip.AddrPort, sharer string) Fault {
	there := to.Addr().Unmap()
	if c.Local || c.Index != before.Index || c.Gateway != before.Gateway {
		return c.Turned(before, from, to)
	}
	if c.Neighbour == before.Neighbour || c.Neighbour == "" || before.Neighbour == "" {
		return Fault{}
	}
	is := "another machine has that address, or its node has another interface for it"
	if sharer != "" {
		is = "as " + sharer + " has"
	}
	return Fault{fmt.Sprintf("%s is at another hardware address now, %s: %s; while packets arrived it was at %s", there,
		c.Neighbour, is, before.Neighbour), fmt.Sprintf("ip neigh show %s; ip -br addr\nwhich node has that address, and "+
		"what gave it to that one (keepalived, kube-vip, docker)?", there)}
}

// Turned returns what has changed since packets of a connection went another way, and arrived; the zero Fault: nothing.
func (c Course) Turned(before Course, from, to netip.AddrPort) Fault {
	here, there := from.Addr().Unmap(), to.Addr().Unmap()
	switch {
	case c.Local && !before.Local:
		return Fault{fmt.Sprintf("this node has %s itself now, on %s: its packets for that address do not leave it, and "+
			"reached another machine before", there, cmp.Or(carrier(there), c.Interface)),
			fmt.Sprintf("ip -br addr | grep -wF %s; ip route get %[1]s\nwhat has given that address to this node (a bridge of "+
				"docker, keepalived, kube-vip)?", there)}
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
