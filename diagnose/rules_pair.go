package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// pair is a path between two nodes that is lost, as the first one sees it.
type pair struct {
	near, far *node // far: nil, or without a scene, where it was not heard
	where     string
	local     netip.Addr // of the near end
	remote    netip.Addr
	third     string // a node that reaches both; "": no such node is known
}

// wrong returns what one end of a path shows itself that is wrong with it; nil: nothing.
func wrong(n *node, to netip.Addr) *scene.Way {
	if n == nil || n.scene == nil {
		return nil
	}
	if i := slices.IndexFunc(n.scene.Ways, func(w scene.Way) bool { return w.To == to && w.Wrong != "" }); i >= 0 {
		return &n.scene.Ways[i]
	}
	return nil
}

// wayTo returns what a node shows of the way to an address.
func wayTo(n *node, to netip.Addr) (w scene.Way) {
	if i := slices.IndexFunc(n.scene.Ways, func(w scene.Way) bool { return w.To == to }); i >= 0 {
		w = n.scene.Ways[i]
	}
	return w
}

// showsItself returns the claim about the end of a path that shows itself what is wrong with it.
func (p pair) showsItself() (claim, bool) {
	for _, end := range []struct {
		n  *node
		to netip.Addr
	}{{p.near, p.remote}, {p.far, p.local}} {
		if w := wrong(end.n, end.to); w != nil {
			fix := w.Fix
			if fix == "" {
				fix = fmt.Sprintf("ip route get %s; ip neigh; ip -s link", end.to)
			}
			first, rest, more := strings.Cut(fix, "\n")
			if first += "   # on " + p.name(end.n); more {
				first += "\n" + rest
			}
			return claimed("path.here", verdict.Certain, strings.ReplaceAll(w.Wrong, "this node", p.name(end.n))).
				of(nil, end.n).do(first), true
		}
	}
	return p.strayEntry()
}

// strayEntry returns the claim about an end of a path whose entry for the other end has a hardware address that the
// other end does not have. A machine between may have it, and pass packets on.
func (p pair) strayEntry() (claim, bool) {
	if p.near == nil || p.far == nil || p.near.scene == nil || p.far.scene == nil {
		return claim{}, false
	}
	deaf, _ := p.deaf()
	for _, end := range []struct {
		at, of *node
		to     netip.Addr
	}{{p.near, p.far, p.remote}, {p.far, p.near, p.local}} {
		fixed, has := wayTo(end.at, end.to).Fixed, end.of.scene.Hardware
		if fixed == "" || len(has) == 0 || slices.Contains(has, fixed) || !end.of.isAt(end.to) || deaf == end.at {
			continue
		}
		sure := verdict.Likely
		if deaf == end.of {
			sure = verdict.Certain
		}
		return claimed("path.here", sure, fmt.Sprintf("%s has a permanent neighbour entry for %s with the hardware address "+
			"%s, and %s has no interface with that (it has %s)", p.name(end.at), end.to, fixed, p.name(end.of),
			finding.Some(has))).of(nil, end.at).do(fmt.Sprintf("ip neigh show %s   # on %s: what has set that entry? "+
			"ip neigh del %[1]s dev IFACE", end.to, p.name(end.at))), true
	}
	return claim{}, false
}

// thirdOf returns a node that has just exchanged messages with both ends of a path, at the addresses of that path: a
// node may have several networks. It returns "" where no such node is known.
func (v *view) thirdOf(p pair) string {
	if p.near == nil || p.far == nil || p.near.scene == nil || p.far.scene == nil {
		return ""
	}
	near, far := p.near.scene, p.far.scene
	switch {
	case far.Via != nil && far.Via.At == p.remote && far.Via.From == p.local:
		return far.Via.Name
	case near.Via != nil && near.Via.At == p.local && near.Via.From == p.remote:
		return near.Via.Name
	case near.At != p.local || far.At != p.remote:
		return ""
	}
	third := ""
	for _, n := range v.hosts {
		switch s := n.scene; {
		case s.At.IsValid() || s.Via != nil || s.Node == nil && len(s.Procs) == 0:
		case third != "":
			return "" // scenes of several nodes that have asked
		default:
			third = n.name
		}
	}
	return third
}

// arrives reports whether what one node sends arrives at another one: that has received more than it could acknowledge.
func arrives(from, to *node, a, b netip.Addr) bool {
	for _, k := range from.scene.Sockets {
		if !k.Stuck() || k.Local.Addr().Unmap() != a || k.Remote.Addr().Unmap() != b {
			continue
		}
		if slices.ContainsFunc(to.scene.Sockets, func(o scene.Socket) bool {
			return o.Local == k.Remote && o.Remote == k.Local && o.Info != nil && o.Info.Received > k.Info.Acked
		}) {
			return true
		}
	}
	return false
}

// deaf returns the end of a path at which the other one's packets do not arrive, though its own arrive there; nil: not
// known.
func (p pair) deaf() (deaf, heard *node) {
	if p.near == nil || p.far == nil || p.near.scene == nil || p.far.scene == nil {
		return nil, nil
	}
	there, back := arrives(p.near, p.far, p.local, p.remote), arrives(p.far, p.near, p.remote, p.local)
	switch {
	case there && !back:
		return p.near, p.far
	case back && !there:
		return p.far, p.near
	}
	return nil, nil
}

// addrOf returns the address of one of the two ends.
func (p pair) addrOf(n *node) netip.Addr {
	if n == p.near {
		return p.local
	}
	return p.remote
}

// name returns how one of the two ends is called: hosts may have the same name.
func (p pair) name(n *node) string {
	if p.far != nil && p.near.name == p.far.name {
		return fmt.Sprintf("%s (%s)", n.name, p.addrOf(n))
	}
	return n.name
}

// soundEnds is what follows for the ends of a path if a third node exchanges messages with both.
const soundEnds = " reaches both, so their cables and hosts are sound"

// orItself adds to the possible reasons of a lost path those that only the other end shows, where it was not heard.
func (p pair) orItself() string {
	if p.far != nil && p.far.scene != nil {
		return ""
	}
	return " (its addresses, routes)"
}

// askThere is where launch names the reason if that is on the other end, which was not heard; "": it was heard.
func (p pair) askThere() string {
	if p.orItself() == "" {
		return ""
	}
	return ownLog(p.where)
}

// ownLog is the first step for a node whose own view does not arrive.
func ownLog(node string) string {
	return fmt.Sprintf("read the output of launch on %s first: if the reason is on that node, launch names it there\n",
		node)
}

// lostFix is what to do about a path that is lost where nothing shows why.
const lostFix = "look at the cable, the port of the switch, a filter that was just loaded (nft list ruleset) and the " +
	"host; or end the job and start without that node"

// tcpAlone is what may be wrong where a machine answers ping, and no call.
const tcpAlone = "something drops TCP alone, on one of the two or between: a filter, IPsec, or a tunnel whose " +
	"packets of TCP have wrong checksums"

// sumsFix shows packets of a tunnel that have wrong checksums, and is what helps then.
const sumsFix = "nstat -az TcpInCsumErrors UdpInCsumErrors   # on both nodes: does one rise? then\n" +
	"ethtool -K IFACE tx off   # of the interface below the tunnel"

// lost says why a path is lost, as far as the nodes show it, and what to look at. What is not excluded remains.
func (p pair) lost() (says, do string) {
	way := wayTo(p.near, p.remote)
	filters := "nft list ruleset; iptables -S; ip xfrm policy; ip rule"
	switch deaf, heard := p.deaf(); {
	case p.third == "" && len(way.ARP) > 1:
		return fmt.Sprintf(": %d hardware addresses answer for %s by ARP (%s); if one is not %s's, another machine has "+
				"taken that address", len(way.ARP), p.remote, finding.Some(way.ARP), p.where),
			fmt.Sprintf("ip link   # on %s: are these its own? else find the machine that has the other one", p.where)
	case way.Refused, p.third == "" && way.Trail != "":
		text := ""
		if way.Heard {
			text = fmt.Sprintf("; packets from %s still arrive, so it is only that way", p.where)
		}
		return ": " + way.Trail + text, way.TrailFix
	case way.Pings && deaf == nil:
		return fmt.Sprintf(", and %s answers ping: %s", p.where, tcpAlone),
			fmt.Sprintf("%s   # on %s: what concerns %s; on %s: what concerns %s\n%s", filters, p.name(p.near), p.remote,
				p.where, p.local, sumsFix)
	case p.third == "" && way.Heard && deaf == nil:
		return fmt.Sprintf("; packets from %s still arrive at %s, so no cable: a route, a table of addresses, a filter "+
				"or a dead member of a LAG on the way to %s, or there", p.where, p.near.name, p.where),
			fmt.Sprintf("ip -s link; ip link; ip neigh; nft list ruleset   # on %s: do packets from %s arrive, and for which "+
				"hardware address?\nip neigh show %s; bridge fdb   # on %s", p.where, p.local, p.remote, p.near.name)
	case p.third == "" && way.Tunnel != "" && deaf == nil:
		return fmt.Sprintf(": the tunnel %s at one of the two ends (a VPN, an overlay), the network below it, or the host",
				way.Tunnel), fmt.Sprintf("ip -s -d link show %s   # on %s and %s: is the program of that tunnel up, and does it "+
				"send and receive?", way.Tunnel, p.name(p.near), p.where)
	case p.third == "" && way.Asked && len(way.ARP) == 0:
		return fmt.Sprintf(", and no machine answers for %s by ARP: a cable, a port of the switch, or the host", p.remote) +
				p.orItself(), p.askThere() +
				"look at the cable, the port of the switch and the host; or end the job and start without that node"
	case p.third == "" && deaf == nil:
		router := ""
		if way.Router.IsValid() {
			router = fmt.Sprintf("the router %s or one after it, ", way.Router)
		}
		return ": a cable, a port of the switch, " + router + "a filter, or the host" + p.orItself(), p.askThere() + lostFix
	case way.Asked && len(way.ARP) == 0:
		return fmt.Sprintf(", and %s%s: no answer by ARP for %s arrives at %s", p.third, soundEnds, p.remote, p.near.name),
			fmt.Sprintf("sysctl -a | grep arp_ignore; nft list ruleset   # on %s: a filter of ARP\n"+
				"or the switch isolates the two ports from each other (private VLAN)", p.where)
	case deaf != nil:
		text := ""
		if p.third != "" {
			text = ", and " + p.third + soundEnds
		}
		if way.Pings {
			text += "; ping gets through"
		}
		from, at := p.name(heard), p.name(deaf)
		if says, do := p.between(heard, deaf, filters); says != "" {
			return text + says, do
		}
		return fmt.Sprintf("%s: packets from %s do not arrive at %s, those from %s do: a filter on %s, or between the two",
				text, from, at, at, at),
			fmt.Sprintf("%s   # on %s: what concerns %s", filters, p.name(deaf), p.addrOf(heard))
	}
	return p.unheard(filters)
}

// unheard does what lost does where a third node reaches both ends, and no direction is known to carry packets.
func (p pair) unheard(filters string) (says, do string) {
	if near, far := p.wayAt(p.near), p.wayAt(p.far); near.Left && near.Empty && far.Left && far.Empty {
		return fmt.Sprintf(", and %s%s: what each of the two sends leaves it, and does not arrive at the other one: a "+
			"filter, a switch or a router between the two", p.third, soundEnds), betweenFix
	}
	return fmt.Sprintf(", and %s%s: a filter on one of the two, or between them", p.third, soundEnds),
		fmt.Sprintf("%s   # on %s: what concerns %s; on %s: what concerns %s", filters, p.name(p.near), p.remote, p.where,
			p.local)
}

// betweenFix is what to do about a path that neither end filters.
const betweenFix = "look at what is between the two: an access list of the switch, a firewall, isolated ports; " +
	"tcpdump -ni any tcp   # on both shows the same"

// wayAt returns what one of the two ends shows of the way to the other one.
func (p pair) wayAt(n *node) scene.Way {
	switch {
	case n == nil || n.scene == nil:
		return scene.Way{}
	case n == p.near:
		return wayTo(n, p.remote)
	}
	return wayTo(n, p.local)
}

// between says where the packets of one end are lost that do not arrive at the other one, as far as the interfaces of
// both show it; "": they do not.
func (p pair) between(heard, deaf *node, filters string) (says, do string) {
	from, at := p.name(heard), p.name(deaf)
	switch {
	case !p.wayAt(deaf).Empty:
		return "", ""
	case p.wayAt(heard).Left:
		return fmt.Sprintf(": packets from %s leave it, and do not arrive at an interface of %s; those from %s do at %s: a "+
			"filter, a switch or a router between the two", from, at, at, from), betweenFix
	}
	return fmt.Sprintf(": packets from %s do not arrive at an interface of %s, those from %s do: a filter on %s, or "+
		"between the two", from, at, at, from), fmt.Sprintf("%s   # on %s: what concerns %s", filters, from, p.addrOf(deaf))
}
