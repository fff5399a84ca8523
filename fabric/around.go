package fabric

import (
	"context"
	"fmt"
	"iter"
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
	// enoughMute is how many machines must answer ARP and nothing else: one may have a firewall that drops the rest.
	enoughMute = 2
	// aroundWait is how long they have to answer.
	aroundWait = time.Second
	// lateARP is for how long answers by ARP are still taken after that.
	lateARP = 20 * time.Millisecond
)

// Around is what the other machines answer in the network by which this node sends to an address: whether the fault is
// at this node's own port of the network, or at the other machine.
type Around struct {
	Interface string
	Own       netip.Addr
	Answer    []netip.Addr // they answer by IP
	// Mute are machines that answer by ARP, of which no packet of IP arrives, and to which no connection is open; without
	// routers, as those of clouds answer nothing, and only where Answer is empty.
	Mute []netip.Addr
}

// AroundOf asks machines in the network of the interface that leads to an address: those of its neighbour table, the
// routers, and those that /etc/hosts has there, with calls to a port, too. It takes a second, and returns the zero
// Around where ctx is over before, and where this user may send no echo: other packets are dropped by usual filters.
func AroundOf(ctx context.Context, to netip.AddrPort) (out Around) {
	h, err := nextHop(netip.Addr{}, netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
	if err != nil || h.local || h.iface == "" || !h.src.Is4() {
		return out
	}
	routers, others := h.neighbourhood(ctx, to.Addr().Unmap())
	said := h.listen(others)
	defer said.close()
	heard, echoes := answerers(ctx, append(slices.Clone(others), routers...), to.Port(), aroundWait)
	if !echoes || ctx.Err() != nil {
		return out
	}
	out.Interface, out.Own = h.iface, h.src
	for a := range heard {
		out.Answer = append(out.Answer, a)
	}
	slices.SortFunc(out.Answer, netip.Addr.Compare)
	if len(out.Answer) == 0 {
		out.Mute = said.mute()
	}
	return out
}

// listener sees what some machines answer by ARP, and what of IP arrives.
type listener struct {
	arp     *arpQuestion
	tap     *tap
	stop    context.CancelFunc
	arrived chan map[netip.Addr]bool // from there; nil: that is not known
}

// listen begins to listen; the listener knows of no machine where this user may not, and where ARP says nothing.
func (h hop) listen(others []netip.Addr) (l listener) {
	i, err := net.InterfaceByName(h.iface)
	if err != nil || isTunnel(h.iface) {
		return l
	}
	others = slices.DeleteFunc(slices.Clone(others), func(a netip.Addr) bool { return isFixed(i.Index, a) })
	if len(others) < enoughMute {
		return l
	}
	if l.tap, err = newTap(); err != nil {
		return listener{}
	}
	if l.arp, err = newARP(h.iface, others); err != nil {
		l.tap.close()
		return listener{}
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop, l.arrived = stop, make(chan map[netip.Addr]bool, 1)
	go func() {
		seen := map[netip.Addr]bool{}
		for ctx.Err() == nil {
			l.tap.watch(tapPause, func(p packet) bool {
				if !p.out {
					seen[p.from] = true
				}
				return ctx.Err() == nil
			})
		}
		if !l.tap.whole() {
			seen = nil
		}
		l.tap.close()
		l.arrived <- seen
	}()
	return l
}

func (l listener) close() {
	if l.arp != nil {
		l.stop()
		l.arp.close()
	}
}

// mute ends the listening, and returns the machines that have answered by ARP, of which no packet of IP has arrived,
// and to which no connection is open. Several addresses of one machine count once.
func (l listener) mute() (out []netip.Addr) {
	if l.arp == nil {
		return nil
	}
	by := map[string]netip.Addr{}
	_ = l.arp.answers(lateARP, func(a netip.Addr, who net.HardwareAddr) bool {
		by[who.String()] = a
		return true
	})
	l.stop()
	arrived := <-l.arrived
	connected, err := connectedTo()
	if err != nil || arrived == nil {
		return nil
	}
	for a := range arrived {
		connected[a] = true
	}
	for _, a := range by {
		if !connected[a] && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// connectedTo returns the other ends of the open connections of this network namespace.
func connectedTo() (map[netip.Addr]bool, error) { return connectedAt(0) }

// Callers returns the addresses from which open connections to a port of this network namespace arrive; nil: that is
// not known. An address of this node is not among them.
func Callers(port int) (out []netip.Addr) {
	all, err := connectedAt(port)
	own, errs := net.InterfaceAddrs()
	if err != nil || errs != nil {
		return nil
	}
	for a := range all {
		if !a.IsLoopback() && !has(own, a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// connectedAt is connectedTo for the connections of one port here; 0: of all.
func connectedAt(port int) (map[netip.Addr]bool, error) {
	out := map[netip.Addr]bool{}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		all, err := netlink.SocketDiagTCP(family)
		if err != nil {
			return nil, err
		}
		for _, k := range all {
			if a, ok := netip.AddrFromSlice(k.ID.Destination); ok && k.State == netlink.TCP_ESTABLISHED &&
				(port == 0 || int(k.ID.SourcePort) == port) {
				out[a.Unmap()] = true
			}
		}
	}
	return out, nil
}

// neighbourhood returns routers and other machines in the networks of the interface, without one address: neighbours,
// and hosts of /etc/hosts, but no name servers. Those that the kernel has heard of last are first.
func (h hop) neighbourhood(ctx context.Context, but netip.Addr) (routers, others []netip.Addr) {
	i, err := net.InterfaceByName(h.iface)
	if err != nil {
		return nil, nil
	}
	routes, _ := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{LinkIndex: i.Index}, netlink.RT_FILTER_OIF)
	for _, r := range routes {
		a, ok := netip.AddrFromSlice(r.Gw)
		if a = a.Unmap(); ok && a != but && !slices.Contains(routers, a) && len(routers) < maxAround {
			routers = append(routers, a)
		}
	}
	etc := os.DirFS("/etc")
	without := append([]netip.Addr{but, h.src}, routers...)
	without = append(without, parseResolver(readText(etc, "resolv.conf"), "").Servers...)
	networks, _ := i.Addrs()
	for a := range known(i.Index, readText(etc, "hosts")) {
		if len(others) == maxAround || ctx.Err() != nil {
			break
		}
		if inAny(networks, a) && !slices.Contains(without, a) && !slices.Contains(others, a) {
			others = append(others, a)
		}
	}
	return routers, others
}

// known yields the neighbours of an interface, and the addresses of a text such as /etc/hosts.
func known(iface int, hosts string) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		all, _ := netlink.NeighList(iface, netlink.FAMILY_V4)
		const older = unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT
		for _, good := range []int{unix.NUD_REACHABLE, older} {
			for _, n := range all {
				if a, ok := netip.AddrFromSlice(n.IP); ok && n.State&good != 0 && !yield(a.Unmap()) {
					return
				}
			}
		}
		for line := range strings.Lines(hosts) {
			if f := strings.Fields(line); len(f) > 1 {
				if a, err := netip.ParseAddr(f[0]); err == nil && !yield(a.Unmap()) {
					return
				}
			}
		}
	}
}

// Fault returns what drops IP between this node and the machines around it, while ARP passes; the zero Fault: another
// machine answers, or too few are known.
func (a Around) Fault() Fault {
	if len(a.Answer) > 0 || len(a.Mute) < enoughMute {
		return Fault{}
	}
	list := make([]string, len(a.Mute))
	for i, m := range a.Mute {
		list[i] = m.String()
	}
	return Fault{fmt.Sprintf("no machine that this node knows in the network of %s answers it by IP: also %s answer ARP "+
		"and nothing else. A filter at this node's own port of the network drops IP to or from %s (port security, "+
		"anti-spoofing, a security group, a source check), or the same firewall on those machines drops it", a.Interface,
		strings.Join(list, ", "), a.Own),
		fmt.Sprintf("ip -br addr show dev %s; ip link show dev %[1]s\ncompare the address and the hardware address with "+
			"those that the switch, hypervisor or cloud has for this port, and its security groups", a.Interface)}
}
