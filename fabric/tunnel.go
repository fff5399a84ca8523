package fabric

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// carriage is how a tunnel's packets get to its other end.
type carriage struct {
	kind  string     // "VXLAN"
	proto byte       // of IP
	port  uint16     // of UDP, to which both ends send; 0: another protocol
	vni   uint32     // of VXLAN and Geneve
	host  netip.Addr // the other end
}

func (c carriage) String() string {
	if c.port > 0 {
		return fmt.Sprintf("UDP %d", c.port)
	}
	return fmt.Sprintf("IP protocol %d", c.proto)
}

// is reports whether a packet is one of the tunnel's that arrives. Those of several tunnels of GRE look the same.
func (c carriage) is(p packet) bool {
	return !p.out && p.proto == c.proto && p.dport == c.port && p.vni == c.vni && p.from == c.host &&
		p.proto != unix.IPPROTO_GRE
}

// tunnelled returns why the packets of a call get lost where their way is a tunnel: an entry of a VXLAN is old, or this
// node itself drops the tunnel's packets. Where no answer returns, the machine that the tunnel leads to may be down.
func (h hop) tunnelled(c Call) Fault {
	link, err := netlink.LinkByName(h.iface)
	if err != nil {
		return Fault{}
	}
	to := c.To.Addr()
	next := to
	if h.gateway.IsValid() {
		next = h.gateway.Unmap()
	}
	ends, mac := carriages(link, next)
	if len(ends) == 0 {
		return Fault{}
	}
	if mac != "" && !slices.ContainsFunc(ends, func(c carriage) bool {
		return Neighbour(c.host) != Silent
	}) {
		return oldEntry(h.iface, to, mac, ends[0].host)
	}
	if len(ends) != 1 {
		return Fault{}
	}
	return h.carried(c, ends[0], next)
}

// carriages returns to which hosts a tunnel sends packets for a neighbour, and in what, with the neighbour's hardware
// address where that decides; nil: it is no tunnel, or another program or the route decides.
func carriages(link netlink.Link, next netip.Addr) (out []carriage, mac string) {
	one := func(kind string, proto byte, port uint16, vni uint32, ip []byte) []carriage {
		host, ok := netip.AddrFromSlice(ip)
		if host = host.Unmap(); !ok || host.IsUnspecified() || host.IsMulticast() {
			return nil
		}
		return []carriage{{kind, proto, port, vni, host}}
	}
	switch l := link.(type) {
	case *netlink.Vxlan:
		if l.FlowBased {
			return nil, ""
		}
		mac, hosts := l2Hosts(l.Attrs().Index, next)
		for _, host := range hosts {
			out = append(out, one("VXLAN", unix.IPPROTO_UDP, uint16(l.Port), uint32(l.VxlanId), host.AsSlice())...)
		}
		if len(out) == 0 {
			out = one("VXLAN", unix.IPPROTO_UDP, uint16(l.Port), uint32(l.VxlanId), l.Group)
		}
		return out, mac
	case *netlink.Geneve:
		return one("Geneve", unix.IPPROTO_UDP, l.Dport, l.ID, l.Remote), ""
	case *netlink.Gretun:
		return one("GRE", unix.IPPROTO_GRE, 0, 0, l.Remote), ""
	case *netlink.Gretap:
		return one("GRE", unix.IPPROTO_GRE, 0, 0, l.Remote), ""
	case *netlink.Iptun:
		return one("IPIP", unix.IPPROTO_IPIP, 0, 0, l.Remote), ""
	case *netlink.Sittun:
		return one("SIT", unix.IPPROTO_IPV6, 0, 0, l.Remote), ""
	}
	return nil, ""
}

// carried returns that this node itself drops the packets of a tunnel whose other end answers it. It sends some packets
// through the tunnel, and some to the other host.
func (h hop) carried(c Call, by carriage, next netip.Addr) Fault {
	before := statisticsOf(h.iface)
	t, err := newTap()
	if err == nil {
		defer t.close()
	}
	through, _ := answerers(context.Background(), slices.Compact([]netip.Addr{next, c.To.Addr()}), c.To.Port(), legWait)
	if slices.Contains([]bool{through[next], through[c.To.Addr()]}, true) {
		return Fault{}
	}
	arrived := 0
	if err == nil {
		t.watch(tapPause, func(p packet) bool {
			if by.is(p) && !p.astray {
				arrived = p.iface
			}
			return true
		})
	}
	if direct, _ := answerers(context.Background(), []netip.Addr{by.host}, c.To.Port(), directWait); !direct[by.host] {
		return Fault{}
	}
	return by.fault(h.iface, c.To.Addr(), ifaceName(arrived), before, statisticsOf(h.iface))
}

// directWait bounds the wait for an answer of the host at the other end of a tunnel.
const directWait = 500 * time.Millisecond

// fault says what the packets of a tunnel show: at which interface they arrive, if any, and what the tunnel has counted
// before some were sent, and after. The kernel counts a packet that does not leave as dropped (iptunnel_xmit_stats).
func (c carriage) fault(iface string, to netip.Addr, arrived string, before, now netlink.LinkStatistics) Fault {
	way := fmt.Sprintf("the way of this node to %s is the tunnel %s (%s), and the host at its other end, %s, answers "+
		"without it: ", to, iface, c.kind, c.host)
	const show = "nft list ruleset; iptables -S"
	unread := before.RxDropped == now.RxDropped && before.RxErrors == now.RxErrors
	switch {
	case arrived != "" && now.RxPackets == before.RxPackets && unread:
		return Fault{way + fmt.Sprintf("the tunnel's packets (%s) arrive at %s, and this node's own firewall drops them", c,
			arrived), show + fmt.Sprintf("\naccept %s from %s", c, c.host)}
	case now.TxPackets == before.TxPackets && now.TxDropped > before.TxDropped:
		return Fault{way + fmt.Sprintf("the tunnel's packets (%s) do not leave this node: its own firewall drops them", c),
			show + fmt.Sprintf("; tc -s qdisc\naccept %s to %s", c, c.host)}
	}
	return Fault{}
}

// ifaceName returns the name of an interface; "": no interface has that index.
func ifaceName(index int) string {
	i, err := net.InterfaceByIndex(index)
	if err != nil {
		return ""
	}
	return i.Name
}

func statisticsOf(iface string) (s netlink.LinkStatistics) {
	if l, err := netlink.LinkByName(iface); err == nil && l.Attrs().Statistics != nil {
		s = *l.Attrs().Statistics
	}
	return s
}
