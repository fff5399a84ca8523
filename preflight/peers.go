package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"launch/internal/finding"
)

// Cause is why a call to a peer failed. The words are those of the side channel.
type Cause string

const (
	Refused     Cause = "refused"     // the machine is there, and nothing listens
	Dropped     Cause = "dropped"     // no answer at all, as where a firewall drops
	Reset       Cause = "reset"       // connected, and ended before a word
	Unreachable Cause = "unreachable" // no route, or a router says so
	Token       Cause = "token"       // another LAUNCH_TOKEN, or none
	Stranger    Cause = "stranger"    // something answers that is not this launch
	OtherNode   Cause = "other node"  // a launch answers, but of another node
	Unclear     Cause = "unclear"
)

// Call is what one node found out when it called another one's side channel.
type Call struct {
	To    int    `json:"to"` // rank
	Addr  string `json:"addr"`
	Cause Cause  `json:"cause,omitempty"` // "": it answered, and as itself
	Err   string `json:"err,omitempty"`

	RTT    time.Duration `json:"rtt,omitempty"`
	Offset time.Duration `json:"offset,omitempty"` // its wall clock less the caller's
	Doubt  time.Duration `json:"doubt,omitempty"`  // how far Offset may be wrong

	// Stall tells which way a long message did not arrive: "there", "back".
	Stall string `json:"stall,omitempty"`
	MTU   int    `json:"mtu,omitempty"`   // the largest packet that arrived unfragmented, in bytes with its IP header; 0: not known
	IfMTU int    `json:"ifmtu,omitempty"` // of the caller's interface
	// Hole: larger packets vanish, and no router says why.
	Hole bool `json:"hole,omitempty"`
}

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
	return out
}

// compareCalls judges who reaches whom. Each node calls a few others, and every
// node rank 0, so a node is judged by several: where most of those that call it
// fail it is this node, where one does it is the way between two.
func compareCalls(posts []Post) (out []judged) {
	all := edges(posts)
	blame(all, len(posts), func(e edge) bool { return e.call.Cause != "" }, func(b blamed) {
		out = append(out, judged{b.reach(), b.unfit()})
	})
	arrived := slices.DeleteFunc(slices.Clone(all), func(e edge) bool { return e.call.Cause != "" })
	blame(arrived, len(posts), func(e edge) bool { return e.call.Stall != "" }, func(b blamed) {
		out = append(out, judged{b.large(), b.unfit()})
	})
	blame(arrived, len(posts), func(e edge) bool { return e.call.Stall == "" && e.call.Hole }, func(b blamed) {
		out = append(out, judged{b.hole(), nil})
	})
	return out
}

// reach says of calls that failed what is known.
func (b blamed) reach() finding.Finding {
	e := b.common()
	id, why, fix := "peer.reach", plain(e.call), ""
	switch e.call.Cause {
	case Refused:
		fix = fmt.Sprintf("on %s: is a firewall set to REJECT, or the address another machine's? open TCP between the nodes (all ports, both directions), or name a network that is: --addr 10.0.0.0/16", e.to.Name)
	case Token:
		id, fix = "peer.token", "give all nodes the same LAUNCH_TOKEN"
	case Stranger, OtherNode:
		id = "peer.identity"
		fix = fmt.Sprintf("ip addr on both; give %s an address of its own: launch --addr ADDRESS …", e.to.Name)
	case Reset:
		fix = "a proxy or service mesh is in the way: keep it from the job (Istio: the annotation sidecar.istio.io/inject: \"false\"), or open TCP between the nodes"
	case Unreachable:
		fix = fmt.Sprintf("ip route get %s on %s; or name a network that all nodes share: --addr 10.0.0.0/16", hostOf(e.call.Addr), e.from.Name)
	default:
		fix = "open TCP between the nodes (all ports, both directions), or name a network that is: --addr 10.0.0.0/16"
		if b.side == toNode || b.side == fromNode {
			fix = fmt.Sprintf("iptables -S; nft list ruleset on %s: ", b.names()) + fix
		}
	}
	return b.see(finding.Failf("%s: %s", b.what("calls"), why).Named(id)).
		Breaking("ranks connect to each other in both directions; they would time out minutes later without a reason").Do("%s", fix)
}

// plain is the cause for a tired reader.
func plain(c Call) string {
	switch c.Cause {
	case Refused:
		return "connection refused"
	case Dropped:
		return "no answer within " + CallBudget.String() + " (dropped, as by a firewall)"
	case Reset:
		return "the connection is made and then reset"
	case Token:
		return "another LAUNCH_TOKEN, or none"
	case Stranger:
		return "something else than launch answers at " + c.Addr
	case OtherNode:
		return c.Addr + " is answered by another node (" + c.Err + ")"
	}
	return c.Err
}

// large judges long messages that did not arrive where short ones did.
func (b blamed) large() finding.Finding {
	e := b.common()
	f := finding.Failf("%s, short ones do", b.what("long messages")).Named("peer.large").
		Breaking("the ranks connect, and the first large collective hangs for ever")
	switch c := e.call; {
	case c.Hole && c.MTU > 0:
		f.What += fmt.Sprintf(" (packets over %d bytes vanish, the interface sends up to %d)", c.MTU, c.IfMTU)
		f = f.Do("ip link set dev IFACE mtu %d on all nodes; or let the switches and tunnels between carry %d, and ICMP \"fragmentation needed\" through the firewall", c.MTU, c.IfMTU)
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
		Do("ip link set dev IFACE mtu %d on all nodes; or carry %d bytes everywhere between them", c.MTU, c.IfMTU))
}

func (b blamed) see(f finding.Finding) finding.Finding {
	const enough = 4
	for i, e := range b.edges {
		if i == enough {
			f = f.See("and", "%d more calls", len(b.edges)-enough)
			break
		}
		said := cmp.Or(e.call.Err, string(e.call.Cause))
		if e.call.Cause == "" {
			said = fmt.Sprintf("largest packet %d of %d bytes; stalled: %s", e.call.MTU, e.call.IfMTU, cmp.Or(e.call.Stall, "no"))
		}
		f = f.See(fmt.Sprintf("%s calls %s at %s", e.from.Name, e.to.Name, e.call.Addr), "%s", said)
	}
	return f
}
