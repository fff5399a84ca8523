package peers

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/preflight/blame"
	"launch/preflight/calls"
)

// edge is a call with its two ends.
type edge struct {
	from, to Post
	call     calls.Call
}

// edges returns all calls between nodes that posted.
func edges(posts []Post) []edge {
	nodes := byRank(posts)
	var out []edge
	for _, p := range posts {
		for _, c := range p.Calls {
			if to, ok := nodes[c.To]; ok && c.To != p.Rank {
				out = append(out, edge{p, to, c})
			}
		}
	}
	for i, e := range out {
		out[i].call.Hole = e.call.Hole && !narrow(out, e)
		if e.call.Wrong.Why != "" && slices.ContainsFunc(out, e.refusedBack) {
			out[i].call.Here, out[i].call.Wrong = false, fabric.Fault{}
		}
	}
	return out
}

func byRank(posts []Post) map[int]Post {
	out := map[int]Post{}
	for _, p := range posts {
		out[p.Rank] = p
	}
	return out
}

// narrow reports whether the called node's own interface takes no more than arrived: the other side limits TCP to
// that, so the path is not at fault.
func narrow(all []edge, e edge) bool {
	return slices.ContainsFunc(all, func(back edge) bool {
		return back.from.Rank == e.to.Rank && back.to.Rank == e.from.Rank && back.call.Also == e.call.Also &&
			back.call.IfMTU > 0 && back.call.IfMTU <= e.call.MTU
	})
}

// compareCalls judges which nodes reach each other. Each node calls a few others, and all
// call node rank 0, so several judge each node. Where most calls to a node fail, the node
// is the cause; where one fails, the path between the two is.
func compareCalls(posts []Post) (out []judged) {
	var all, also, port []edge
	for _, e := range edges(posts) {
		switch {
		case e.call.Port:
			port = append(port, e)
		case e.call.Also && toFast(e): // compareFast judges it
		case e.call.Also:
			also = append(also, e)
		default:
			all = append(all, e)
		}
	}
	failed := func(e edge) bool { return e.call.Failed() }
	all, out = ownAddresses(all, posts)
	all, idle := unused(all, also, posts)
	out = append(out, idle...)
	shared := map[string]int{} // findings about an address of several machines, by their text
	for _, b := range causes(all, posts, failed) {
		w := wordsOf(b.common(), posts)
		if i, known := shared[w.why]; w.several && known {
			out[i].unfit = append(out[i].unfit, b.unfit()...)
			continue
		}
		if w.several {
			shared[w.why] = len(out)
		}
		out = append(out, judged{b.reach(w), b.unfit()})
	}
	if len(out) == len(idle) { // otherwise the closed path is reported already
		for _, b := range causes(also, posts, failed) {
			w := wordsOf(b.common(), posts)
			if _, known := shared[w.why]; w.several && known {
				continue
			}
			shared[w.why] = len(out)
			out = append(out, b.otherAddress(w))
		}
		out = append(out, closedPort(soundPorts(port, all), posts)...)
	}
	arrived := slices.DeleteFunc(all, failed)
	for _, b := range causes(arrived, posts, func(e edge) bool { return e.call.Cut > 0 }) {
		out = append(out, judged{b.cut(), b.unfit()})
	}
	for _, b := range causes(arrived, posts, stalls(arrived)) {
		out = append(out, judged{b.large(), b.unfit()})
	}
	for _, b := range causes(arrived, posts, func(e edge) bool { return e.call.Stall == "" && e.call.Hole }) {
		out = append(out, judged{b.hole(), nil})
	}
	if len(out) > 0 {
		return out
	}
	beside := slices.DeleteFunc(also, failed)
	for _, b := range causes(beside, posts, func(e edge) bool { return e.call.Stall != "" }) {
		out = append(out, b.largeBeside())
	}
	return out
}

// stalls returns whether long messages from the caller of a call to the called node do not arrive. Each call measures
// both directions: what did not get back to a caller is the way of the other node's call, where it made one.
func stalls(all []edge) func(edge) bool {
	back := map[[2]int]bool{} // by the ranks of a call
	for _, e := range all {
		back[[2]int{e.from.Rank, e.to.Rank}] = e.call.Stall == "back"
	}
	return func(e edge) bool {
		lost, called := back[[2]int{e.to.Rank, e.from.Rank}]
		return e.call.Stall == "there" || lost || e.call.Stall == "back" && !called
	}
}

// reach returns the finding about failed calls.
func (b blamed) reach(w words) finding.Finding {
	fix := cmp.Or(w.fix, openTCP)
	if w.fix == "" && (b.Side == blame.ToNode || b.Side == blame.FromNode) {
		fix = fmt.Sprintf("iptables -S; nft list ruleset   # the firewall of %s\n%s", b.names(), fix)
	}
	e := b.common()
	if b.Back && !e.call.Here && (e.call.Cause == sidechannel.NoHost || e.call.Cause == sidechannel.NoRoute) {
		fix = fmt.Sprintf("iptables -S; nft list ruleset   # on %s: the calls back arrive, so a rule there rejects these\n%s",
			e.to.Name, fix)
	}
	switch {
	case b.Side != blame.ToNode:
	case b.nodes[0].nat.IsValid():
		fix = fmt.Sprintf("%s is behind a NAT: its own connections arrive from %s. In a container: docker run --network "+
			"host …; or give it a routed address: --addr\n%s", b.names(), b.nodes[0].nat, fix)
	case b.translated():
		fix = fmt.Sprintf("is %s in a container or virtual machine with a network of its own? docker run --network host …, "+
			"or a routed address: --addr\n%s", b.names(), fix)
	}
	if _, known := b.culprit(); b.Side == blame.Between && w.id == "" && !known {
		fix += fmt.Sprintf("\nwhich of the two is at fault is not known: %s leaves, since the job cannot have both",
			b.nodes[1].Name)
	}
	if b.callsAlone() && (b.nodes[0].nat.IsValid() || b.translated()) {
		fix += fmt.Sprintf("\nGloo alone may run so, since only %s has to call: its address is the highest. To start "+
			"anyway: --warn-only on every node", b.names())
	}
	fix = strings.ReplaceAll(securityGroup(b.common())+fix, exampleNet, b.otherNet())
	return b.see(finding.Failf("%s: %s", b.what("calls"), w.why).Named(cmp.Or(w.id, "peer.reach"))).
		Breaking("ranks connect to each other in both directions; they would time out minutes later, without saying why").
		Do("%s", fix)
}

const openTCP = "open TCP between the nodes (all ports, both directions), or choose an open network: --addr " +
	exampleNet

// exampleNet is the network in examples.
const exampleNet = "10.0.0.0/16"

// words are the check, the reason and the fix of a cause.
type words struct {
	id, why, fix string
	several      bool // several machines have the address
}

func wordsOf(e edge, posts []Post) words {
	c := e.call
	if w, ok := twins(e, posts); ok {
		return w
	}
	if c.Other != "" && c.Wrong.Why == "" {
		return inPlaceOf(e, posts)
	}
	for _, known := range []func(edge) (words, bool){clones, children} {
		if w, ok := known(e); ok {
			return w
		}
	}
	if p, deaf := e.deaf(); deaf {
		return words{why: p.Name + ": " + p.Deaf.Why, fix: p.Deaf.On(p.Name)}
	}
	a, b := e.from.Traits.Family, e.to.Traits.Family
	if c.Here && (a == "" || b == "" || a == b) {
		return refusedHere(e, posts)
	}
	if w, ok := noFurther(e); ok {
		return w
	}
	switch c.Cause {
	case sidechannel.Refused:
		return words{why: "connection refused", fix: fmt.Sprintf("ip addr; iptables -S; nft list ruleset   "+
			"# on %s: a firewall rejects, or another machine has %s, too\n%s", e.to.Name, hostOf(c.Addr), openTCP)}
	case sidechannel.Dropped:
		return words{why: "no answer within " + calls.Budget.String() + " (dropped, as by a firewall)"}
	case sidechannel.NoRoute, sidechannel.Broadcast, sidechannel.Blackhole, sidechannel.NoHost, sidechannel.Denied:
		why := string(c.Cause)
		if a != "" && b != "" && a != b {
			why += fmt.Sprintf("; %s has an %s address and %s has %s", e.to.Name, b, e.from.Name, a)
		}
		return words{why: why, fix: fmt.Sprintf("ip route get %s   # on %s\n"+
			"or choose a network that all nodes share: --addr 10.0.0.0/16", hostOf(c.Addr), e.from.Name)}
	case sidechannel.Reset, sidechannel.Silent:
		why := map[sidechannel.Cause]string{sidechannel.Reset: "the connection opens and is then cut off",
			sidechannel.Silent: "the connection opens, but nothing answers"}[c.Cause]
		return words{
			why: why,
			fix: "exclude the job from the proxy, service mesh or firewall that inspects connections " +
				"(Istio: sidecar.istio.io/inject: \"false\" on the pods)\n" + openTCP,
		}
	case sidechannel.Token:
		return words{id: "peer.token", why: "its LAUNCH_TOKEN differs or is missing",
			fix: "give all nodes the same LAUNCH_TOKEN"}
	case sidechannel.Version:
		return words{id: "same.launch", why: "it runs another version of launch", fix: oneVersion}
	case sidechannel.Stranger:
		return words{id: "peer.identity", why: "the program at " + c.Addr + " is not launch",
			fix: fmt.Sprintf("ip addr   # on %s: check that the address is its own, without a proxy\n"+
				"else launch --addr ADDRESS …", e.to.Name)}
	}
	return words{why: c.Err}
}

func (b blamed) see(f finding.Finding) finding.Finding {
	f = f.About(namesOf(b.nodes))
	const enough = 4
	for i, e := range b.edges {
		if i == enough {
			f = f.See("and", "%d more calls", len(b.edges)-enough)
			break
		}
		said := cmp.Or(e.call.Err, string(e.call.Cause), e.call.Other)
		switch {
		case e.call.Failed():
		case e.call.Cut > 0:
			said = fmt.Sprintf("closed after %d kB of a long message, and again", (e.call.Cut+999)/1000)
		default:
			said = fmt.Sprintf("largest packet %d of %d bytes; stalled: %s", e.call.MTU, e.call.IfMTU,
				cmp.Or(e.call.Stall, "no"))
		}
		f = f.See(fmt.Sprintf("%s calls %s at %s", e.from.Name, e.to.Name, e.call.Addr), "%s", said)
	}
	return f
}

// blamed is one cause of failed calls, with the nodes and calls that it concerns.
type blamed struct {
	blame.Culprit
	nodes []Post // Nodes
	edges []edge // Bad
	all   []Post
}

// causes returns the causes of the bad calls between some nodes; see blame.Find.
func causes(all []edge, posts []Post, bad func(edge) bool) (out []blamed) {
	arcs, nodes := make([]blame.Arc, len(all)), map[int]Post{}
	for i, e := range all {
		arcs[i] = blame.Arc{From: e.from.Rank, To: e.to.Rank, Bad: bad(e), Known: e.call.Here && e.call.Wrong.Why != ""}
		nodes[e.from.Rank], nodes[e.to.Rank] = e.from, e.to
	}
	for _, c := range blame.Find(arcs, len(posts)) {
		out = append(out, blamed{Culprit: c, all: posts,
			nodes: finding.Map(c.Nodes, func(rank int) Post { return nodes[rank] }),
			edges: finding.Map(c.Bad, func(i int) edge { return all[i] })})
	}
	return out
}

// unfit returns the ranks that must leave: for a link the node whose own kernel refuses, else the one that is not rank
// 0, and all nodes where nothing works.
func (b blamed) unfit() (out []int) {
	if p, known := b.culprit(); known {
		return []int{p.Rank}
	}
	switch b.Side {
	case blame.Between:
		return b.Nodes[1:]
	case blame.Everywhere:
		for r := range b.Rest {
			out = append(out, r)
		}
		return out
	}
	return b.Nodes
}

func (b blamed) names() string { return finding.Some(namesOf(b.nodes)) }

// what describes the calls, or long messages, that fail, and the nodes between which they fail.
func (b blamed) what(noun string) string {
	who, tried := b.names(), fmt.Sprintf("%d of %d tried", len(b.edges), b.Tried)
	switch b.Side {
	case blame.Everywhere:
		return fmt.Sprintf("%s do not get through between any of the %d nodes (%s)", noun, b.Rest, tried)
	case blame.Apart:
		return fmt.Sprintf("%s do not get through between two groups of nodes: %s, and the other %d (%s)",
			noun, who, b.Rest, tried)
	case blame.ToAndFrom:
		return fmt.Sprintf("%s to and from %s do not get through (%s)", noun, who, tried)
	case blame.ToNode:
		return fmt.Sprintf("%s to %s do not get through (%s)%s", noun, who, tried, b.back("those from it do"))
	case blame.FromNode:
		return fmt.Sprintf("%s from %s do not get through (%s)%s", noun, who, tried, b.back("those to it do"))
	}
	from, to := b.edges[0].from.Name, b.edges[0].to.Name
	if len(b.edges) > 1 {
		return fmt.Sprintf("%s between %s and %s do not get through in either direction", noun, from, to)
	}
	return fmt.Sprintf("%s from %s to %s do not get through%s", noun, from, to, b.back("those back do"))
}

// back says what is good in the other direction, if anything is.
func (b blamed) back(do string) string {
	if !b.Back {
		return ""
	}
	return ", while " + do
}

// common returns a failed call with the most frequent cause.
func (b blamed) common() edge {
	for _, e := range b.edges {
		if e.call.Here && (b.Side == blame.Between || // the caller's kernel says why
			e.call.Wrong.Why != "" && len(b.nodes) == 1 && e.from.Rank == b.nodes[0].Rank) {
			return e
		}
	}
	n, best := map[sidechannel.Cause]int{}, b.edges[0]
	for _, e := range b.edges {
		n[e.call.Cause]++
	}
	for _, e := range b.edges {
		if n[e.call.Cause] > n[best.call.Cause] {
			best = e
		}
	}
	if best.call.Cause == sidechannel.Dropped { // an error that a kernel or a router gave says more than no answer
		for _, e := range b.edges {
			switch e.call.Cause {
			case sidechannel.NoRoute, sidechannel.Broadcast, sidechannel.NoHost, sidechannel.Denied:
				return e
			}
		}
	}
	return best
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
