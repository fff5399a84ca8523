package fabric

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// strictInterfaces returns the interfaces that take an IPv4 packet only where the way back to its sender leaves by
// them: the larger value of rp_filter, of all and of the interface, is 1 (Documentation/networking/ip-sysctl.rst).
func strictInterfaces(proc fs.FS) (out []string) {
	entries, _ := fs.ReadDir(proc, confDir)
	for _, e := range entries {
		if n := e.Name(); n != "all" && n != "default" && n != "lo" && isStrict(proc, n) {
			out = append(out, n)
		}
	}
	return out
}

func isStrict(proc fs.FS, iface string) bool { return confOf(proc, "rp_filter", iface) == 1 }

// strictSource returns the interface that has an address, if it takes packets only from its own way; "": it takes all.
func strictSource(a netip.Addr) string {
	if i := carrier(a); a.Unmap().Is4() && i != "" && i != "lo" && isStrict(os.DirFS("/proc"), i) {
		return i
	}
	return ""
}

// Deaf is why this node does not take packets that arrive: the way back to their sender leaves by another interface,
// and the one at which they arrive takes packets only from its own way (strict rp_filter); or their checksums are
// wrong.
type Deaf struct {
	Fault
	From netip.Prefix `json:"from,omitzero"`  // the senders; zero: not known
	Sums bool         `json:"sums,omitempty"` // what arrives has wrong checksums: the sender or the path is the reason
}

// Hears reports whether this node takes packets of a sender, as far as d shows it.
func (d Deaf) Hears(a netip.Addr) bool {
	return d.Why == "" || d.From.IsValid() && !d.From.Contains(a.Unmap())
}

// fewDrops is the number of dropped packets from which a call is among them: it sends its first packet four times.
const fewDrops = 3

// DeafTo returns which packets this node does not take: those of neighbours to which its routing table main has a way
// by another interface, or those that were dropped since an earlier look, also for
// their checksums.
func DeafTo(proc fs.FS, before Drops) Deaf {
	strict := strictInterfaces(proc)
	if len(strict) > 0 {
		routes, _ := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_MAIN},
			netlink.RT_FILTER_TABLE)
		all, _ := net.Interfaces()
		if d := deafTo(routes, all, strict, answersBy); d.Why != "" {
			return d
		}
	}
	risen := ReadDrops(proc).Since(before)
	n := risen.ReversePath
	if n < fewDrops {
		return damaged(risen.Sums)
	}
	show := "nstat -az TcpExtIPReversePathFilter; sysctl net.ipv4.conf.all.log_martians=1; dmesg   # shows their senders"
	return Deaf{Fault: Fault{
		Why: fmt.Sprintf("this node has dropped %d packets, since the way back to their sender leaves by another interface "+
			"(rp_filter)", n),
		Do: show + "\n" + loosen(strict...),
	}}
}

// damaged is DeafTo for packets of TCP that arrived with a wrong checksum. A sender's card has to compute it, and fails
// for some packets only; a damaged cable spoils few of many.
func damaged(n int64) Deaf {
	if n < fewDrops {
		return Deaf{}
	}
	return Deaf{Sums: true, Fault: Fault{
		Why: fmt.Sprintf("this node has dropped %d packets of TCP that arrived with a wrong checksum (InCsumErrors in "+
			"/proc/net/snmp): the card of their sender computes it wrongly, or a device between changes packets", n),
		Do: "ethtool -K IFACE tx off tso off   # to try, on the node that sends them, IFACE: the interface of its address\n" +
			"nstat -az TcpInCsumErrors   # here: does it rise still?",
	}}
}

// deafTo finds a network that is a part of an interface's, and to which the way leaves by a router on another one.
// answers returns by which interface answers from an interface's own address to another one leave: a rule may have
// another table for that source.
func deafTo(routes []netlink.Route, all []net.Interface, strict []string,
	answers func(i net.Interface, to netip.Addr) string) Deaf {
	name, called := map[int]net.Interface{}, map[string]net.Interface{}
	for _, i := range all {
		name[i.Index], called[i.Name] = i, i
	}
	for _, r := range routes {
		p, ok := prefix(r.Dst)
		out := name[r.LinkIndex]
		if !ok || r.Gw == nil || r.Type != unix.RTN_UNICAST || out.Flags&net.FlagUp == 0 {
			continue // without a router it is the way to a container or guest here
		}
		for _, d := range neighbours(routes, all, p.Addr()) {
			if d.network.Bits() < p.Bits() && d.iface != out.Name && slices.Contains(strict, d.iface) &&
				answers(called[d.iface], within(p)) == out.Name {
				return Deaf{From: p, Fault: Fault{
					Why: fmt.Sprintf("%s of this node drops what arrives from %s, a part of its network %s: the way back leaves by "+
						"%s, and rp_filter is strict", d.iface, short(p), d.network, out.Name),
					Do: fmt.Sprintf("%s\nor, if that way is not meant: ip route del %s via %s", loosen(d.iface), p, r.Gw),
				}}
			}
		}
	}
	return Deaf{}
}

// within returns an address of a network.
func within(p netip.Prefix) netip.Addr {
	if p.IsSingleIP() {
		return p.Addr()
	}
	return p.Addr().Next()
}

// answersBy is the answers of deafTo, as the kernel chooses; "": not known.
func answersBy(i net.Interface, to netip.Addr) string {
	addrs, _ := i.Addrs()
	for _, at := range addrs {
		own, ok := at.(*net.IPNet)
		if !ok || own.IP.To4() == nil {
			continue
		}
		from, _ := netip.AddrFromSlice(own.IP.To4())
		if h, err := nextHop(from, netip.AddrPortFrom(to, 0)); err == nil {
			return h.iface
		}
	}
	return ""
}

// short returns a network, or its only address.
func short(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
