package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Fault is why packets of this node do not get to an address, as far as this node shows it. The zero Fault: nothing is
// known.
type Fault struct {
	Why string `json:"why,omitempty"` // about "this node"
	Do  string `json:"do,omitempty"`  // commands for this node, without its name
}

// Here returns Do with the place, for a person at any node.
func (f Fault) Here() string { return f.On("this node") }

// On returns Do with the name of this node.
func (f Fault) On(node string) string {
	first, rest, more := strings.Cut(f.Do, "\n")
	if !strings.Contains(first, "   # ") {
		first += "   # on " + node
	}
	if more {
		return first + "\n" + rest
	}
	return first
}

// hop is where the kernel sends a packet.
type hop struct {
	src      netip.Addr
	gateway  netip.Addr // zero: the neighbour itself
	iface    string
	index    int // of the interface
	table    int // of the route
	local    bool
	redirect bool // by an ICMP redirect
}

// nextHop returns where the kernel sends the packets of a TCP connection of this user. As connect(2) does, it chooses
// the source first, if from is zero, and then the route for that source and the port.
func nextHop(from netip.Addr, to netip.AddrPort) (h hop, err error) {
	if !from.IsValid() {
		if h, err = askRoute(netip.AddrPort{}, to); err != nil || !h.src.IsValid() {
			return h, err
		}
		from = h.src
	}
	h, err = askRoute(netip.AddrPortFrom(from, 0), to)
	h.src = from
	return h, err
}

// askRoute asks for one route, with all that a rule and the choice among several next hops may look at (ip-rule(8),
// fib_multipath_hash_policy). Kernels before 4.18 ignore the ports.
func askRoute(from, to netip.AddrPort) (h hop, err error) {
	dst := to.Addr().Unmap()
	msg := &nl.RtMsg{}
	msg.Family, msg.Dst_len = unix.AF_INET, uint8(dst.BitLen())
	if dst.Is6() {
		msg.Family = unix.AF_INET6
	}
	msg.Flags = unix.RTM_F_LOOKUP_TABLE
	req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_REQUEST)
	attributes := []*nl.RtAttr{nl.NewRtAttr(unix.RTA_DST, dst.AsSlice())}
	if from.Addr().IsValid() {
		msg.Src_len = msg.Dst_len
		attributes = append(attributes, nl.NewRtAttr(unix.RTA_SRC, from.Addr().Unmap().AsSlice()))
	}
	if from.Port() > 0 {
		attributes = append(attributes, nl.NewRtAttr(unix.RTA_SPORT, binary.BigEndian.AppendUint16(nil, from.Port())))
	}
	if zone := dst.Zone(); zone != "" {
		i, err := net.InterfaceByName(zoneName(zone))
		if err != nil {
			return h, err
		}
		attributes = append(attributes, nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(i.Index))))
	}
	if to.Port() > 0 {
		attributes = append(attributes, nl.NewRtAttr(unix.RTA_IP_PROTO, []byte{unix.IPPROTO_TCP}),
			nl.NewRtAttr(unix.RTA_DPORT, binary.BigEndian.AppendUint16(nil, to.Port())))
	}
	req.AddData(msg)
	for _, a := range attributes {
		req.AddData(a)
	}
	answers, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
	if err != nil {
		return h, err
	}
	if len(answers) == 0 {
		return h, syscall.ENETUNREACH
	}
	return readHop(answers[0])
}

// readHop reads a route of the kernel's answer (rtnetlink(7)).
func readHop(b []byte) (h hop, err error) {
	if len(b) < unix.SizeofRtMsg {
		return h, errors.New("the kernel's answer about a route is too short")
	}
	msg := nl.DeserializeRtMsg(b)
	h.table, h.local, h.redirect = int(msg.Table), msg.Type == unix.RTN_LOCAL, msg.Flags&redirectedRoute != 0
	attributes, err := nl.ParseRouteAttr(b[unix.SizeofRtMsg:])
	if err != nil {
		return h, err
	}
	for _, a := range attributes {
		switch a.Attr.Type {
		case unix.RTA_GATEWAY:
			h.gateway, _ = netip.AddrFromSlice(a.Value)
		case unix.RTA_VIA: // a family, and a gateway of that
			if len(a.Value) > 2 {
				h.gateway, _ = netip.AddrFromSlice(a.Value[2:])
			}
		case unix.RTA_PREFSRC:
			h.src, _ = netip.AddrFromSlice(a.Value)
		case unix.RTA_TABLE:
			if len(a.Value) == 4 {
				h.table = int(binary.NativeEndian.Uint32(a.Value))
			}
		case unix.RTA_OIF:
			if len(a.Value) == 4 {
				h.index = int(binary.NativeEndian.Uint32(a.Value))
				if i, err := net.InterfaceByIndex(h.index); err == nil {
					h.iface = i.Name
				}
			}
		}
	}
	return h, nil
}

// Detour is an unusual way of this node's packets to an address.
type Detour struct {
	Fault
	Way string // the interface and the router, to compare it with the way of packets that arrive
}

// DetourTo returns in which way the kernel sends the packets of a connection elsewhere than the networks of its
// interfaces suggest: to a router although the other machine is a neighbour, or by an interface whose network is a part
// of another one's. The last is that answers reach another interface, which drops them. Such ways may be meant: ask
// only after a call has failed, and compare with calls that did not. A zero from is the kernel's choice. The zero
// Detour: the way is usual, or not known.
func DetourTo(from netip.Addr, to netip.AddrPort) Detour {
	h, err := nextHop(from, to)
	if err != nil || h.local || h.iface == "" {
		return Detour{}
	}
	routes, _ := netlink.RouteListFiltered(familyOf(to.Addr()), &netlink.Route{Table: unix.RT_TABLE_MAIN},
		netlink.RT_FILTER_TABLE)
	all, _ := net.Interfaces()
	d := Detour{Way: h.iface + " " + h.gateway.String()}
	if d.Fault = h.unlike(to, neighbours(routes, all, to.Addr()), isBridge); d.Why == "" {
		d.Fault = h.unheard(to, strictSource(h.src))
	}
	if d.Why == "" {
		return Detour{}
	}
	return d
}

func familyOf(a netip.Addr) int {
	if a.Unmap().Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}

// direct is a network of an interface, of which the machines are its neighbours.
type direct struct {
	network netip.Prefix
	iface   string
}

// neighbours returns the networks of interfaces that have an address, by the routes of the table main.
func neighbours(routes []netlink.Route, all []net.Interface, to netip.Addr) (out []direct) {
	for _, r := range routes {
		p, ok := prefix(r.Dst)
		if !ok || p.Bits() == 0 || !p.Contains(to.Unmap().WithZone("")) || r.Type != unix.RTN_UNICAST || r.Gw != nil ||
			r.Via != nil || len(r.MultiPath) > 0 {
			continue
		}
		for _, i := range all {
			if i.Index == r.LinkIndex && i.Flags&net.FlagUp != 0 && i.Flags&net.FlagPointToPoint == 0 {
				out = append(out, direct{p, i.Name})
			}
		}
	}
	return out
}

// unlike returns how a packet goes another way than to the neighbour that its destination is. bridge reports whether an
// interface is a bridge, as of containers: elsewhere a smaller network inside of a larger one is usual.
func (h hop) unlike(to netip.AddrPort, near []direct, bridge func(iface string) bool) Fault {
	slices.SortStableFunc(near, func(a, b direct) int { return b.network.Bits() - a.network.Bits() })
	own := slices.IndexFunc(near, func(d direct) bool { return d.iface == h.iface })
	i := slices.IndexFunc(near, func(d direct) bool {
		return h.gateway.IsValid() || own < 0 ||
			d.iface != h.iface && d.network.Bits() < near[own].network.Bits() && bridge(h.iface)
	})
	if i < 0 {
		return Fault{}
	}
	way := "by " + h.iface
	if h.gateway.IsValid() {
		way = fmt.Sprintf("to the router %s", h.gateway)
	}
	return Fault{
		Why: fmt.Sprintf("this node sends packets from %s to %s %s (routing table %s), although %s is a neighbour on %s (%s)",
			h.src, to.Addr(), way, tableName(h.table), to.Addr(), near[i].iface, near[i].network),
		Do: h.show(to),
	}
}

// isBridge reports whether an interface is a bridge.
func isBridge(name string) bool {
	l, err := netlink.LinkByName(name)
	return err == nil && l.Type() == "bridge"
}

// unheard returns why the answers to packets are dropped: they arrive at the interface that has the source, and are
// taken only from the one by which the packets leave.
func (h hop) unheard(to netip.AddrPort, strict string) Fault {
	if strict == "" || strict == h.iface {
		return Fault{}
	}
	return Fault{
		Why: fmt.Sprintf("this node sends packets from %s to %s by %s, and %s, which has that address, drops the answers "+
			"(strict rp_filter)", h.src, to.Addr(), h.iface, strict),
		Do: h.show(to) + "\n" + loosen(strict),
	}
}

// show returns the command that shows the route.
func (h hop) show(to netip.AddrPort) string {
	text := fmt.Sprintf("ip route get %s from %s", to.Addr().WithZone(""), h.src)
	if to.Port() > 0 {
		text += fmt.Sprintf(" ipproto tcp dport %d", to.Port())
	}
	return text + "; ip rule; ip route show table " + tableName(h.table)
}

func tableName(n int) string {
	if name := map[int]string{unix.RT_TABLE_MAIN: "main", unix.RT_TABLE_DEFAULT: "default"}[n]; name != "" {
		return name
	}
	return fmt.Sprint(n)
}

// loosen returns the command that has interfaces take packets whatever the way back.
func loosen(ifaces ...string) string { return setConf("rp_filter", 2, ifaces...) }
