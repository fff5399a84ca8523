package peers

import (
	"fmt"
	"net/netip"
	"slices"

	"launch/internal/finding"
)

// The least sizes of packets, in bytes, that IPv4 (RFC 791) and IPv6 (RFC 8200) ask of a network. With less, Linux
// takes IPv6 off an interface.
const leastMTU, leastMTU6 = 576, 1280

// cut judges connections that end once they carry data, although both nodes want them.
func (b blamed) cut() finding.Finding {
	return b.see(finding.Failf("%s: connections between them open, and are reset or closed once they carry data, which "+
		"neither node does: a firewall that inspects connections (IPS, application filter) or a proxy, between or on one "+
		"of them", b.what("long messages")).Named("peer.large")).
		Breaking("the ranks connect, and the first large collective fails: connection closed by peer").
		Do("nft list ruleset; iptables -S   # on both: a rule that rejects with a TCP reset\n" +
			"else, in the firewall between: allow all TCP between the nodes, without inspection")
}

// large judges long messages that did not arrive although short ones did.
func (b blamed) large() finding.Finding {
	e := b.common()
	f := finding.Failf("%s, short ones do", b.what("long messages")).Named("peer.large").
		Breaking("the ranks connect, and the first large collective hangs forever")
	if w, known := b.explained(); known {
		f.What += ": " + w.why
		return b.see(f).Do("%s", w.fix)
	}
	if c := e.call; c.Hole && c.MTU > 0 {
		f.What += fmt.Sprintf(" (packets over %d bytes vanish, the interface sends up to %d)", c.MTU, c.IfMTU)
		return b.see(f).
			Do("%s\nor allow %d bytes on the switches and tunnels between, and ICMP \"fragmentation needed\" in "+
				"the firewall", b.shrink(c.MTU), c.IfMTU)
	}
	return b.see(f).Do("ping -M do -s 1472 %s   # from %s, with larger sizes, too: shows what arrives\n"+
		"then fix the tunnel or firewall that drops long packets", hostOf(e.call.Addr), e.from.Name)
}

// hole returns a warning: TCP adapts with smaller segments, but large datagrams and RoCE frames do not.
func (b blamed) hole() finding.Finding {
	c := b.common().call
	if w, known := b.explained(); known {
		return b.see(finding.Warnf("%s: %s", b.what("full packets"), w.why).Named("peer.mtu")).
			Breaking("TCP made its segments smaller and arrived; RDMA over this network may hang").Do("%s", w.fix)
	}
	return b.see(finding.Warnf("%s: over %d bytes they vanish silently, and the interface sends up to %d",
		b.what("full packets"), c.MTU, c.IfMTU).Named("peer.mtu").
		Breaking("TCP made its segments smaller and arrived; RDMA over this network, or a route that changes, may hang").
		Do("%s\nor allow %d bytes everywhere between them", b.shrink(c.MTU), c.IfMTU))
}

// shrink returns the command that limits the packets of the nodes to mtu bytes.
func (b blamed) shrink(mtu int) string {
	var names []string
	for _, e := range b.edges {
		if e.call.Iface != "" && !slices.Contains(names, e.call.Iface) {
			names = append(names, e.call.Iface)
		}
	}
	small := leastMTU
	if a, err := netip.ParseAddr(hostOf(b.common().call.Addr)); err == nil && a.Unmap().Is6() {
		small = leastMTU6
	}
	switch {
	case mtu < small: // no network is made for such packets
		return fmt.Sprintf("ping -M do -s 1372 %s   # from %s, with other sizes, too: shows what arrives\n"+
			"nft list ruleset; iptables -S   # on both: a rule that drops by length or rate",
			hostOf(b.common().call.Addr), b.common().from.Name)
	case len(names) == 0:
		return fmt.Sprintf(
			"ip link set dev IFACE mtu %d   # on all nodes, IFACE: the interface of each node's address",
			mtu,
		)
	case len(names) == 1:
		return fmt.Sprintf("ip link set dev %s mtu %d   # on all nodes", names[0], mtu)
	}
	return fmt.Sprintf("ip link set dev %s mtu %d   # on all nodes; on some of them it is %s",
		names[0], mtu, finding.Some(names[1:]))
}
