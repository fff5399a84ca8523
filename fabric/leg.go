package fabric

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// legWait is how long a call is watched: the kernel sends its first packet again after a second.
const legWait = 1300 * time.Millisecond

// leg is what the interfaces show of a call.
type leg struct {
	opened bool       // it has an answer
	sent   bool       // its packet has left as it is
	left   bool       // its packet has left, perhaps to another address (NAT) or in another one, or that is not known
	back   int        // the index of the interface at which packets for it have arrived; 0: no packet has
	on     netip.Addr // to which address such a packet has left again; zero: none has
}

// filtered returns that this node itself drops the packets of a call, or the answers to it, as its interfaces show:
// what its filters drop does not leave, and what arrives gets to no socket. It begins a call of TCP, and is the zero
// Fault where that has an answer.
func (h hop) filtered(c Call) Fault {
	dst := c.To.Addr()
	next := dst
	if h.gateway.IsValid() {
		next = h.gateway
	}
	if !dst.Is4() || c.To.Port() == 0 {
		return Fault{}
	}
	sums := ReadDrops(os.DirFS("/proc")).Sums
	t, err := newTap()
	if err != nil {
		return Fault{}
	}
	defer t.close()
	fd, own, err := begin(c.From, c.To)
	if err != nil {
		return Fault{}
	}
	defer unix.Close(fd)
	var l leg
	over := false
	for end := time.Now().Add(legWait); !l.opened && time.Now().Before(end); {
		t.watch(100*time.Millisecond, func(p packet) bool {
			l.see(p, own, c.To)
			return true
		})
		if !over {
			l.opened, over = outcome(fd, 0)
		}
	}
	whole := t.whole()
	if c.Ends != nil && whole && !l.opened {
		*c.Ends = Ends{Left: l.sent, Empty: l.back == 0}
	}
	l.left = l.left || !whole
	if l.back > 0 && DetourTo(c.From, c.To).Why != "" {
		return Fault{} // rp_filter, and another rule names it
	}
	there, _ := presence(h.iface, next)
	return l.fault(h.iface, dst, there == Here, ReadDrops(os.DirFS("/proc")).Sums > sums)
}

// see takes one packet. NAT changes where a packet goes, or its source port, and another packet may carry it.
func (l *leg) see(p packet, own, to netip.AddrPort) {
	switch {
	case p.wraps:
		l.left = l.left || p.out
	case p.proto != unix.IPPROTO_TCP, p.astray:
	case p.out && p.from == to.Addr() && p.sport == to.Port(): // it forwards an answer, perhaps that to another call
		if p.dport == own.Port() {
			l.on = p.to
		}
	case p.out:
		l.sent = l.sent || p.sport == own.Port() && p.to == to.Addr() && p.dport == to.Port()
		l.left = l.left || p.sport == own.Port() || p.to == to.Addr() && p.dport == to.Port()
	case p.from == to.Addr() && p.sport == to.Port() && p.dport == own.Port():
		l.back = p.iface
	}
}

// fault judges what was seen. Without a neighbour's hardware address no packet leaves. A wrong checksum is another
// reason.
func (l leg) fault(iface string, dst netip.Addr, neighbour, sums bool) Fault {
	const show = "nft list ruleset; iptables -S; tc -s filter show dev %s %s"
	switch {
	case l.opened || sums:
	case l.back > 0 && l.on.IsValid():
		return Fault{fmt.Sprintf("the answers of %s arrive at this node, and it sends them on to %s: a rule of its own "+
			"(nft, iptables, tc) rewrites their address", dst, l.on),
			fmt.Sprintf(show+"\nlook for the rule that has %s", cmp.Or(ifaceName(l.back), iface), "ingress", l.on)}
	case l.back > 0:
		iface = cmp.Or(ifaceName(l.back), iface)
		return Fault{fmt.Sprintf("the answers of %s arrive at %s of this node, and this node drops them, or rewrites "+
			"their addresses: its own rules (nft, iptables, tc), or rp_filter", dst, iface),
			fmt.Sprintf(show+"\nsysctl net.ipv4.conf.all.rp_filter net.ipv4.conf.%[1]s.rp_filter", iface, "ingress")}
	case !l.left && neighbour:
		return Fault{fmt.Sprintf("what this node sends to %s does not leave by %s: its own rules (nft, iptables, tc) drop "+
			"or rewrite it", dst, iface), fmt.Sprintf(show, iface, "egress")}
	}
	return Fault{}
}
