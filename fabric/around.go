package fabric

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// maxAround is how many machines of a network are asked.
	maxAround = 6
	// enoughMute is how many that answer ARP alone are looked for; each takes half a second.
	enoughMute = 2
	// aroundWait is how long they have to answer.
	aroundWait = time.Second
)

// Around is what the other machines answer in the network by which this node sends to an address: whether the fault is
// at this node's own port of the network, or at the other machine.
type Around struct {
	Interface string
	Own       netip.Addr
	Answer    []netip.Addr // they answer by IP
	// Mute are machines that answer by ARP, and of which nothing of IP arrives; without routers, as those of clouds answer
	// nothing, and only where Answer is empty.
	Mute []netip.Addr
}

// AroundOf asks machines in the network of the interface that leads to an address: those of its neighbour table, the
// routers, and what /etc/hosts and the list of name servers have there, with calls to a port, too. It returns the zero
// Around where this user may send no echo: other packets are dropped by usual filters.
func AroundOf(ctx context.Context, to netip.AddrPort) (out Around) {
	h, err := nextHop(netip.Addr{}, netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
	if err != nil || h.local || h.iface == "" || !h.src.Is4() {
		return out
	}
	routers, others := h.neighbourhood(to.Addr().Unmap())
	heard, echoes := answerers(ctx, append(slices.Clone(others), routers...), to.Port(), aroundWait)
	if !echoes || ctx.Err() != nil {
		return out
	}
	out.Interface, out.Own = h.iface, h.src
	for a := range heard {
		out.Answer = append(out.Answer, a)
	}
	slices.SortFunc(out.Answer, netip.Addr.Compare)
	for _, a := range others {
		if len(out.Answer) > 0 || len(out.Mute) == enoughMute || ctx.Err() != nil {
			break
		}
		if who, asked := Near(h.src, a); asked && len(who) > 0 {
			out.Mute = append(out.Mute, a)
		}
	}
	return out
}

// neighbourhood returns routers and other machines in the networks of the interface, without one address. Those that
// the kernel has heard of last are first.
func (h hop) neighbourhood(but netip.Addr) (routers, others []netip.Addr) {
	i, err := net.InterfaceByName(h.iface)
	if err != nil {
		return nil, nil
	}
	routes, _ := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{LinkIndex: i.Index}, netlink.RT_FILTER_OIF)
	for _, r := range routes {
		if a, ok := netip.AddrFromSlice(r.Gw); ok && !slices.Contains(routers, a.Unmap()) && len(routers) < maxAround {
			routers = append(routers, a.Unmap())
		}
	}
	add := func(a netip.Addr) {
		a = a.Unmap()
		_, near := interfaceIn(h.src, a)
		if near && a != but && a != h.src && !slices.Contains(others, a) && !slices.Contains(routers, a) &&
			len(others) < maxAround {
			others = append(others, a)
		}
	}
	all, _ := netlink.NeighList(i.Index, netlink.FAMILY_V4)
	for _, good := range []int{unix.NUD_REACHABLE, unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE} {
		for _, n := range all {
			if a, ok := netip.AddrFromSlice(n.IP); ok && n.State&good != 0 {
				add(a)
			}
		}
	}
	etc := os.DirFS("/etc")
	for _, a := range parseResolver(readText(etc, "resolv.conf"), "").Servers {
		add(a)
	}
	for line := range strings.Lines(readText(etc, "hosts")) {
		if f := strings.Fields(line); len(f) > 1 {
			if a, err := netip.ParseAddr(f[0]); err == nil {
				add(a)
			}
		}
	}
	return routers, others
}

// Fault returns that this node is cut off from its network for all but ARP; the zero Fault: another machine answers, or
// none is known.
func (a Around) Fault() Fault {
	if len(a.Answer) > 0 || len(a.Mute) == 0 {
		return Fault{}
	}
	list := make([]string, len(a.Mute))
	for i, m := range a.Mute {
		list[i] = m.String()
	}
	machines, verb := "machines", "answer"
	if len(list) == 1 {
		machines, verb = "machine", "answers"
	}
	return Fault{fmt.Sprintf("no packet of IP gets from other machines of the network of %s to this node, or none from "+
		"it to them, while ARP does: also the %s %s %s ARP and nothing else. A filter at this node's own port of "+
		"the network drops IP to or from %s (port security, anti-spoofing, a security group, a source check)", a.Interface,
		machines, strings.Join(list, ", "), verb, a.Own),
		fmt.Sprintf("ip -br addr show dev %s; ip link show dev %[1]s\ncompare the address and the hardware address with "+
			"those that the switch, hypervisor or cloud has for this port, and its security groups", a.Interface)}
}
