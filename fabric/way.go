package fabric

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Near asks the network which other machines have an address, by ARP from this node's address in the same network, and
// returns their hardware addresses. That takes half a second. asked is false where the address is in no network of
// this node's, where this user may not ask, and where silence says nothing: in a tunnel, of a neighbour whose entry is
// fixed, and where a question waits in this node's own queue.
func Near(from, to netip.Addr) (who []string, asked bool) {
	from, to = from.Unmap(), to.Unmap()
	i, ok := interfaceIn(from, to)
	if !ok || isTunnel(i.Name) || isFixed(i.Index, to) {
		return nil, false
	}
	err := askARP(to, i.Name, func(one net.HardwareAddr) bool {
		if !slices.Contains(who, one.String()) {
			who = append(who, one.String())
		}
		return true
	})
	return who, err == nil && (len(who) > 0 || waiting(queuesOf(i.Index)) == 0)
}

// isTunnel reports whether an interface carries packets inside of others, where machines need not answer ARP.
func isTunnel(name string) bool {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return false
	}
	return wrapsPackets(l.Type()) || l.Attrs().RawFlags&(unix.IFF_NOARP|unix.IFF_POINTOPOINT) != 0
}

// wrapsPackets reports whether interfaces of a kind carry packets inside of others.
func wrapsPackets(kind string) bool {
	return slices.Contains([]string{"vxlan", "geneve", "gre", "gretap", "ip6gre", "ip6gretap", "erspan", "ip6erspan",
		"ipip", "sit", "ip6tnl", "wireguard", "tun", "tuntap", "vti", "vti6", "xfrm", "bareudp", "macsec"}, kind)
}

// isFixed reports whether a program has entered the hardware address of a neighbour: the kernel does not ask for it.
func isFixed(iface int, to netip.Addr) bool {
	all, _ := netlink.NeighList(iface, familyOf(to))
	return slices.ContainsFunc(all, func(n netlink.Neigh) bool {
		a, ok := netip.AddrFromSlice(n.IP)
		return ok && a.Unmap() == to && n.State&(unix.NUD_PERMANENT|unix.NUD_NOARP) != 0
	})
}

// Gone is which packets of a call do not get through.
type Gone int

// The kinds of packets. Of Nothing no call has failed: then only tables are read, and nothing is sent.
const (
	Nothing Gone = iota
	Long         // long packets, while short ones arrive
	All
	Astray // no packets: a machine answers, and it is not the other node
)

// Call is a call of this node to another one.
type Call struct {
	From  netip.Addr     // zero: the kernel's choice
	To    netip.AddrPort // port 0: not known
	Gone  Gone
	Risen Drops // how far counters have risen meanwhile
	Ends  *Ends // nil, or where Wrong notes what the interfaces show of such a call
}

// Ends is what the interfaces of this node show of a call without an answer, where all that passes them was seen: its
// own packets have left, and nothing has arrived for it.
type Ends struct{ Left, Empty bool }

// Wrong returns why packets of a call do not get to the other node, or why this node does not take those from there, as
// far as this node shows it itself: as Stuck, but for the hop limit; a policy of IPsec, no answers by ARP, or
// rp_filter. It is the zero Fault where nothing is wrong here.
func Wrong(c Call) Fault {
	c.From, c.To = c.From.Unmap(), netip.AddrPortFrom(c.To.Addr().Unmap(), c.To.Port())
	if f := blocked(c); f != (Fault{}) || c.Gone == Long || c.Gone == Astray { // a low hop limit does not appear later
		return f
	}
	from := c.From
	if !from.IsValid() {
		h, err := nextHop(from, c.To)
		if err != nil {
			return Fault{}
		}
		from = h.src
	}
	if f := c.sealed(from); f != (Fault{}) {
		return f
	}
	if f := c.refusedAnswers(from); f != (Fault{}) {
		return f
	}
	return lost(c)
}

// refusedAnswers returns why this node does not take what the other one sends to it: by ARP, or by rp_filter.
func (c Call) refusedAnswers(from netip.Addr) Fault {
	to := c.To.Addr()
	i, ok := interfaceWith(from)
	if !ok || !from.Is4() {
		return Fault{}
	}
	if _, near := interfaceIn(from, to); near && confOf(os.DirFS("/proc"), "arp_ignore", i.Name) == ignoresARP {
		return Fault{fmt.Sprintf("this node answers no ARP request on %s (arp_ignore is %d), so %s does not learn its "+
			"hardware address", i.Name, ignoresARP, to), setConf("arp_ignore", 0, i.Name)}
	}
	strict, at := strictSource(from), netip.AddrPortFrom(to, 0)
	if c.Risen.ReversePath == 0 || strict == "" {
		return Fault{}
	}
	h, err := nextHop(from, at)
	if err != nil || h.iface == "" || h.iface == strict {
		return Fault{}
	}
	return Fault{fmt.Sprintf("this node drops what %s sends to %s: its own route to %s leaves by %s, and rp_filter of %s "+
		"is strict", to, from, to, h.iface, strict), h.show(at) + "\n" + loosen(strict)}
}

// ignoresARP is the value of arp_ignore for no answer about any local address (Documentation/networking/ip-sysctl.rst).
const ignoresARP = 8

// interfaceWith returns the interface that has an address.
func interfaceWith(own netip.Addr) (net.Interface, bool) {
	name := carrier(own)
	i, err := net.InterfaceByName(name)
	if name == "" || err != nil {
		return net.Interface{}, false
	}
	return *i, true
}

// interfaceIn returns the interface that has an address, where another one is in a network of this interface.
func interfaceIn(own, other netip.Addr) (net.Interface, bool) {
	i, ok := interfaceWith(own)
	if !ok || i.Flags&net.FlagLoopback != 0 {
		return i, false
	}
	addrs, _ := i.Addrs()
	return i, inAny(addrs, other)
}

// inAny reports whether an address is in the network of one of an interface's addresses.
func inAny(addrs []net.Addr, other netip.Addr) bool {
	return slices.ContainsFunc(addrs, func(at net.Addr) bool {
		n, ok := at.(*net.IPNet)
		return ok && n.Contains(other.AsSlice())
	})
}

// Drops are counters of packets that this network namespace has dropped. Those of IPsec are in
// Documentation/networking/xfrm_proc.rst.
type Drops struct {
	ReversePath int64 // IPReversePathFilter: by rp_filter, without ARP
	Sums        int64 // InCsumErrors of TCP: they arrived with a wrong checksum
	NoState     int64 // XfrmOutNoStates: IPsec has a policy for them, and no security association
	OutBlocked  int64 // XfrmOutPolBlock: a policy of IPsec blocks what leaves
	InBlocked   int64 // XfrmInPolBlock: one blocks what arrives
	Unsealed    int64 // XfrmInTmplMismatch: one takes what arrives only as it is not
	Unknown     int64 // XfrmInNoStates: they arrived sealed, and there is no security association
}

// ReadDrops reads the counters, from /proc.
func ReadDrops(proc fs.FS) Drops {
	ipsec := readText(proc, "net/xfrm_stat")
	return Drops{ReversePath: columnOf(readText(proc, "net/netstat"), "TcpExt:", "IPReversePathFilter"),
		Sums:    columnOf(readText(proc, "net/snmp"), "Tcp:", "InCsumErrors"),
		NoState: lineOf(ipsec, "XfrmOutNoStates"), OutBlocked: lineOf(ipsec, "XfrmOutPolBlock"),
		InBlocked: lineOf(ipsec, "XfrmInPolBlock"), Unsealed: lineOf(ipsec, "XfrmInTmplMismatch"),
		Unknown: lineOf(ipsec, "XfrmInNoStates")}
}

// Since returns how far the counters have risen since an earlier look.
func (d Drops) Since(before Drops) Drops {
	return Drops{d.ReversePath - before.ReversePath, d.Sums - before.Sums, d.NoState - before.NoState,
		d.OutBlocked - before.OutBlocked, d.InBlocked - before.InBlocked, d.Unsealed - before.Unsealed,
		d.Unknown - before.Unknown}
}

// columnOf returns a counter of a group in /proc/net/netstat or snmp: a line of names, then one of values.
func columnOf(text, group, name string) (n int64) {
	var names []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if i := slices.Index(names, name); i >= 0 && i < len(f) && f[0] == group && names[0] == group {
			n, _ = strconv.ParseInt(f[i], 10, 64)
			return n
		}
		names = f
	}
	return 0
}

// lineOf returns a counter of a file with a name and a value in each line.
func lineOf(text, name string) (n int64) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ = strconv.ParseInt(f[1], 10, 64)
		}
	}
	return n
}
