package peers

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/preflight"
	"launch/preflight/blame"
)

// Call is what one node found out when it called another one's side channel.
type Call struct {
	To    int               `json:"to"` // rank
	Addr  string            `json:"addr"`
	Also  bool              `json:"also,omitempty"`  // one of the called node's Listens, not its address
	Cause sidechannel.Cause `json:"cause,omitempty"` // "": a launch answered
	Err   string            `json:"err,omitempty"`
	Other string            `json:"other,omitempty"` // the Post.ID of who answered in its place

	RTT    time.Duration `json:"rtt,omitempty"`
	Offset time.Duration `json:"offset,omitempty"` // its wall clock less the caller's
	Doubt  time.Duration `json:"doubt,omitempty"`  // how far Offset may be wrong

	// Stall tells which way a long message did not arrive: "there", "back".
	Stall string `json:"stall,omitempty"`
	MTU   int    `json:"mtu,omitempty"`   // the largest packet that arrived unfragmented, in bytes with its IP header; 0: not known
	IfMTU int    `json:"ifmtu,omitempty"` // of the caller's interface
	Iface string `json:"iface,omitempty"` // its name, where something is wrong with the way from it
	// Hole: larger packets vanish, and no router says why.
	Hole bool `json:"hole,omitempty"`
}

// Listen is an address on which a library will wait for the other nodes, beside
// the node's own.
type Listen struct {
	Library string     `json:"library"` // "NCCL", "Gloo"
	Addr    netip.Addr `json:"addr"`
	Typed   bool       `json:"typed,omitempty"` // a setting says so, not the library's own choice
}

// failed tells whether the call did not get to the node that was meant.
func (c Call) failed() bool { return c.Cause != "" || c.Other != "" }

// CallBudget bounds a call to a peer: three SYN retransmissions (1, 3 and 7 s,
// RFC 6298) on a network that loses packets, and no more.
const CallBudget = 8 * time.Second

// edge is a call with its two ends.
type edge struct {
	from, to Post
	call     Call
}

// edges are all calls between nodes that posted.
func edges(posts []Post) []edge {
	byRank := map[int]Post{}
	for _, p := range posts {
		byRank[p.Rank] = p
	}
	var out []edge
	for _, p := range posts {
		for _, c := range p.Calls {
			if to, ok := byRank[c.To]; ok && c.To != p.Rank {
				out = append(out, edge{p, to, c})
			}
		}
	}
	for i, e := range out {
		out[i].call.Hole = e.call.Hole && !narrow(out, e)
	}
	return out
}

// narrow tells whether the called node's own interface takes no more than what
// arrived: TCP is told so by the other side, and nothing on the way is at fault.
func narrow(all []edge, e edge) bool {
	return slices.ContainsFunc(all, func(back edge) bool {
		return back.from.Rank == e.to.Rank && back.to.Rank == e.from.Rank && back.call.IfMTU > 0 && back.call.IfMTU <= e.call.MTU
	})
}

// compareCalls judges who reaches whom. Each node calls a few others, and every
// node rank 0, so a node is judged by several: where most of those that call it
// fail it is this node, where one does it is the way between two.
func compareCalls(posts []Post) (out []judged) {
	var all, also []edge
	for _, e := range edges(posts) {
		if e.call.Also {
			also = append(also, e)
		} else {
			all = append(all, e)
		}
	}
	failed := func(e edge) bool { return e.call.failed() }
	shared := map[string]int{} // findings about an address of several machines, by its words
	eachCause(all, len(posts), failed, func(b blamed) {
		w, several := twins(b.common(), posts)
		if i, told := shared[w.why]; several && told {
			out[i].unfit = append(out[i].unfit, b.unfit()...)
			return
		}
		if several {
			shared[w.why] = len(out)
		}
		out = append(out, judged{b.reach(posts), b.unfit()})
	})
	if len(out) == 0 { // else it is told already that the way is shut
		eachCause(also, len(posts), failed, func(b blamed) { out = append(out, b.beside(posts)) })
	}
	arrived := slices.DeleteFunc(all, failed)
	eachCause(arrived, len(posts), func(e edge) bool { return e.call.Stall != "" }, func(b blamed) {
		out = append(out, judged{b.large(), b.unfit()})
	})
	eachCause(arrived, len(posts), func(e edge) bool { return e.call.Stall == "" && e.call.Hole }, func(b blamed) {
		out = append(out, judged{b.hole(), nil})
	})
	return out
}

// reach says of calls that failed what is known.
func (b blamed) reach(posts []Post) finding.Finding {
	e := b.common()
	w := wordsOf(e, posts)
	fix := w.fix
	if w.fix == "" {
		fix = openTCP
		if b.side == blame.ToNode || b.side == blame.FromNode {
			fix = fmt.Sprintf("look at the firewall of %s: iptables -S; nft list ruleset\n%s", b.names(), fix)
		}
	}
	return b.see(finding.Failf("%s: %s", b.what("calls"), w.why).Named(cmp.Or(w.id, "peer.reach"))).
		Breaking("ranks connect to each other in both directions; they would time out minutes later without a reason").Do("%s", fix)
}

// beside judges calls to the other addresses on which a library will wait. It is
// a Fail where the user's own setting names one: what a library chooses by
// itself it may yet not use.
func (b blamed) beside(posts []Post) judged {
	e := b.common()
	w := wordsOf(e, posts)
	library, typed := "a library", false
	for _, l := range e.to.Listens {
		if l.Addr.String() == hostOf(e.call.Addr) {
			library, typed = l.Library, l.Typed
		}
	}
	f := finding.Warnf("%s: %s", b.what(fmt.Sprintf("calls to where %s will wait (%s)", library, hostOf(e.call.Addr))), w.why).Named("peer.beside").
		Breaking("the nodes reach each other at their addresses, but %s would wait there, and hang when it connects", library).
		Do("%s_SOCKET_IFNAME with the interface of %s on that node, or open that network between the nodes", strings.ToUpper(library), e.to.Name)
	if !typed {
		return judged{Finding: b.see(f)}
	}
	f.Status = finding.Fail
	return judged{b.see(f), b.unfit()}
}

const openTCP = "open TCP between the nodes (all ports, both directions), or name a network that is: --addr 10.0.0.0/16"

// words are what a cause is for a tired reader.
type words struct{ id, why, fix string }

func wordsOf(e edge, posts []Post) words {
	c := e.call
	if w, ok := twins(e, posts); ok {
		return w
	}
	if c.Other != "" {
		who := "another launch"
		if i := slices.IndexFunc(posts, func(p Post) bool { return p.ID == c.Other }); i >= 0 {
			who = posts[i].Name
		}
		return words{"peer.identity", fmt.Sprintf("%s answers at %s in its place", who, c.Addr),
			fmt.Sprintf("two machines have that address, or something forwards it: ip addr on both; give %s one of its own: launch --addr ADDRESS …", e.to.Name)}
	}
	switch c.Cause {
	case sidechannel.Refused:
		return words{why: "connection refused", fix: fmt.Sprintf("a firewall on the way rejects, or %s is another machine's too: on %s, ip addr; iptables -S; nft list ruleset\n%s", hostOf(c.Addr), e.to.Name, openTCP)}
	case sidechannel.Dropped:
		return words{why: "no answer within " + CallBudget.String() + " (dropped, as by a firewall)"}
	case sidechannel.NoRoute, sidechannel.NoHost, sidechannel.Denied:
		why := string(c.Cause)
		if a, b := e.from.Traits.Family, e.to.Traits.Family; a != "" && b != "" && a != b {
			why += fmt.Sprintf(", and %s has an %s address where %s has %s", e.to.Name, b, e.from.Name, a)
		}
		return words{why: why, fix: fmt.Sprintf("on %s: ip route get %s\nor name a network that all nodes share: --addr 10.0.0.0/16", e.from.Name, hostOf(c.Addr))}
	case sidechannel.Reset, sidechannel.Silent:
		why := map[sidechannel.Cause]string{sidechannel.Reset: "the connection is made and then cut off", sidechannel.Silent: "the connection is made, and no word comes"}[c.Cause]
		return words{why: why, fix: "a proxy, a service mesh or a firewall that looks into connections is in the way: keep it from the job (Istio: sidecar.istio.io/inject: \"false\" on the pods)\n" + openTCP}
	case sidechannel.Token:
		return words{"peer.token", "another LAUNCH_TOKEN, or none", "give all nodes the same LAUNCH_TOKEN"}
	case sidechannel.Stranger:
		return words{"peer.identity", "what answers at " + c.Addr + " is no launch, or one of another version",
			fmt.Sprintf("ip addr on %s: is the address its own, and no proxy before it? else launch --addr ADDRESS …", e.to.Name)}
	}
	return words{why: c.Err}
}

// twins is what is known where another machine has the called node's address as
// its own: both are called and one is meant. Nodes that share a machine have one
// address rightly.
func twins(e edge, posts []Post) (words, bool) {
	at := hostOf(e.call.Addr)
	if e.call.Also || e.call.Cause == sidechannel.Token || e.to.Traits.Machine == "" {
		return words{}, false
	}
	of := map[int]string{}
	for _, o := range edges(posts) {
		if !o.call.Also {
			of[o.to.Rank] = hostOf(o.call.Addr)
		}
	}
	var who []string // in rank order, so that it reads the same of each of them
	image, other := false, false
	for _, p := range posts {
		if of[p.Rank] != at || p.Traits.Machine == "" || p.Traits.Machine == e.to.Traits.Machine && p.Rank != e.to.Rank {
			continue
		}
		who = append(who, p.Name)
		if p.Rank != e.to.Rank {
			other, image = true, image || p.Traits.Image != "" && p.Traits.Image == e.to.Traits.Image
		}
	}
	if !other {
		return words{}, false
	}
	w := words{id: "peer.identity", why: fmt.Sprintf("%d machines have the address %s: %s", len(who), at, preflight.Some(who)),
		fix: "in containers, each in a network of its own? docker run --network host …; in Kubernetes the pods' network, or hostNetwork: true\n" +
			"else give each machine an address of its own (ip addr), or name another network: --addr 10.0.0.0/16"}
	if image {
		w.why += "; and one /etc/machine-id, as clones of one disk have, to which DHCP gives one address"
		w.fix = "on one of them: rm /etc/machine-id /var/lib/dbus/machine-id; systemd-machine-id-setup; reboot"
	}
	return w, true
}

// large judges long messages that did not arrive where short ones did.
func (b blamed) large() finding.Finding {
	e := b.common()
	f := finding.Failf("%s, short ones do", b.what("long messages")).Named("peer.large").
		Breaking("the ranks connect, and the first large collective hangs for ever")
	switch c := e.call; {
	case c.Hole && c.MTU > 0:
		f.What += fmt.Sprintf(" (packets over %d bytes vanish, the interface sends up to %d)", c.MTU, c.IfMTU)
		f = f.Do("%s\nor let the switches and tunnels between carry %d, and ICMP \"fragmentation needed\" through the firewall", b.shrink(c.MTU), c.IfMTU)
	default:
		f = f.Do("ping -M do -s 1472 %s and larger, from %s, to find what gets through; a tunnel or a firewall that drops long packets is in the way", hostOf(e.call.Addr), e.from.Name)
	}
	return b.see(f)
}

// hole: TCP copes with it, by smaller segments; what sends large datagrams or
// RoCE frames does not.
func (b blamed) hole() finding.Finding {
	c := b.common().call
	return b.see(finding.Warnf("%s: over %d bytes they vanish without a word, and the interface sends up to %d", b.what("full packets"), c.MTU, c.IfMTU).Named("peer.mtu").
		Breaking("TCP made its segments smaller and got through; RDMA over this network, or a route that changes, may hang").
		Do("%s\nor carry %d bytes everywhere between them", b.shrink(c.MTU), c.IfMTU))
}

// shrink is the line that has the nodes send packets of no more than mtu bytes.
func (b blamed) shrink(mtu int) string {
	var names []string
	for _, e := range b.edges {
		if e.call.Iface != "" && !slices.Contains(names, e.call.Iface) {
			names = append(names, e.call.Iface)
		}
	}
	switch len(names) {
	case 0:
		return fmt.Sprintf("ip link set dev IFACE mtu %d   # on all nodes, IFACE being that of each node's address", mtu)
	case 1:
		return fmt.Sprintf("ip link set dev %s mtu %d   # on all nodes", names[0], mtu)
	}
	return fmt.Sprintf("ip link set dev %s mtu %d   # on all nodes; on some of them it is %s", names[0], mtu, preflight.Some(names[1:]))
}

func (b blamed) see(f finding.Finding) finding.Finding {
	const enough = 4
	for i, e := range b.edges {
		if i == enough {
			f = f.See("and", "%d more calls", len(b.edges)-enough)
			break
		}
		said := cmp.Or(e.call.Err, string(e.call.Cause), e.call.Other)
		if !e.call.failed() {
			said = fmt.Sprintf("largest packet %d of %d bytes; stalled: %s", e.call.MTU, e.call.IfMTU, cmp.Or(e.call.Stall, "no"))
		}
		f = f.See(fmt.Sprintf("%s calls %s at %s", e.from.Name, e.to.Name, e.call.Addr), "%s", said)
	}
	return f
}
