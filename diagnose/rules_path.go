package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
	"launch/internal/tcpstore"
)

// reachedAt returns the address by which a node is known to the store: the local end of its connections there.
func (v *view) reachedAt(n *node) (netip.Addr, bool) {
	if n == nil || n.scene == nil {
		return netip.Addr{}, false
	}
	for _, k := range n.scene.Sockets {
		if k.State == "established" && v.isStore(n, k) && !k.Local.Addr().IsLoopback() && k.Local.Addr() != k.Remote.Addr() {
			return k.Local.Addr().Unmap(), true
		}
	}
	if len(n.scene.Addrs) == 1 {
		return n.scene.Addrs[0], true
	}
	return netip.Addr{}, false
}

// meshing reports whether some rank still connects to the others, or dialed and gave up.
func (v *view) meshing() bool {
	return slices.ContainsFunc(v.seats, func(s *seat) bool { return s.phase == mesh })
}

// addresses judges the addresses that ranks have published.
func (v *view) addresses() []claim {
	if v.board == nil || !v.meshing() {
		return nil
	}
	hosts := map[string]bool{}
	for _, b := range v.board.Blobs {
		hosts[b.Host] = true
	}
	var loop []int
	var nodes []*node
	text := ""
	for _, b := range v.board.Blobs {
		if b.Group == 0 && b.Addr.Addr().IsLoopback() && len(hosts) > 1 {
			loop = append(loop, b.Index)
			nodes = append(nodes, v.nodeOf(b.Index))
			text = b.Addr.Addr().String()
		}
	}
	if len(loop) == 0 {
		return nil
	}
	return []claim{claimed("address.loopback", verdict.Certain, fmt.Sprintf(
		"%s %s published the address %s, which other hosts cannot reach", rankWords(loop), verb(loop, "has", "have"), text)).
		of(loop, nodes...).see("store", "/default_pg/0//cpu//0/"+verdict.Spans(loop))}
}

// dials finds connections between ranks that get no answer.
func (v *view) dials() (out []claim) {
	done := map[string]bool{}
	for _, s := range v.seats {
		for _, k := range s.node.scene.Sockets {
			if k.PID != s.proc.PID || !k.Unanswered() || v.isStore(s.node, k) {
				continue
			}
			key := s.node.name + " " + k.Remote.Addr().String()
			if done[key] {
				continue
			}
			done[key] = true
			out = append(out, v.dial(s, k))
		}
	}
	return out
}

// dial judges one SYN that gets no answer.
func (v *view) dial(s *seat, k scene.Socket) claim {
	addr := k.Remote.Addr().Unmap()
	r := v.rankAt(addr.String(), k.Remote.Port())
	sent := ""
	if k.Info != nil {
		sent = fmt.Sprintf("syn-sent, %d retransmissions", k.Info.Retrans)
	}
	ends := pair{near: s.node, far: v.atAddr(addr), local: k.Local.Addr().Unmap(), remote: addr}
	if c, ok := ends.showsItself(); ok {
		return c.see("tcp_info", sent)
	}
	if r < 0 {
		return v.dialElsewhere(s, k, addr).see("tcp_info", sent)
	}
	target := v.nodeOf(r)
	if b := v.blob(r); b != nil && v.strange(target, b, addr) {
		ranks := v.sharing(addr)
		return claimed("address.unreachable", verdict.Certain, fmt.Sprintf(
			"%s of %s published the address %s, and %s gets no answer from it", rankWords(ranks), nodeName(target), addr,
			s.node.name)).of(ranks, target).see("tcp_info", sent).
			see("store", "/default_pg/0//cpu//0/"+verdict.Spans(ranks))
	}
	return claimed("mesh.dropped", verdict.Certain, fmt.Sprintf(
		"connections from %s to the ports of ranks on %s (%s) get no answer, and the store is reached: a firewall drops them",
		s.node.name, nodeName(target), k.Remote)).of(nil, s.node, target).see("tcp_info", sent)
}

// dialElsewhere judges one to a port of which no rank is known: of a plain program, or outside of the job.
func (v *view) dialElsewhere(s *seat, k scene.Socket, addr netip.Addr) claim {
	port := k.Remote.Port()
	c := claimed("mesh.dropped", verdict.Likely, fmt.Sprintf("%s gets no answer from %s", s.who(), k.Remote)).
		of(nil, s.node)
	elsewhere := func(o scene.Socket) bool { // the job knows the address from another connection
		return o.Remote.Addr().Unmap() == addr && o.Remote.Port() != port
	}
	name := v.peerAt(addr)
	switch other := v.atAddr(addr); {
	case other != nil:
		c, name = c.of(nil, s.node, other), other.name
	case name != "":
		c.Nodes = append(c.Nodes, name)
	case !slices.ContainsFunc(s.node.scene.Sockets, elsewhere):
		c.Says += ", which is no node of this job: a server of models, data or licences"
		c.Do = fmt.Sprintf("nc -zv %s %d   # on %s: is that server up, and allowed from there? does it need a proxy "+
			"(HTTPS_PROXY)?", addr, port, s.node.name)
		return c
	default:
		return c
	}
	c.Says = fmt.Sprintf("%s calls %s at port %d and gets no answer", s.who(), name, port)
	t, tried := v.tried(s.node, v.atAddr(addr), k.Local.Addr().Unmap(), addr)
	switch user := s.proc.User; {
	case tried && t.Outcome == scene.Unreachable && t.Here == "" && t.Never == t.Knocks && k.Unopened():
		return claimed("path.new", verdict.Certain, c.Says+", nor does launch at another port: no new connection gets "+
			"there").of(nil, s.node, &node{name: name}).
			do(fmt.Sprintf("nft list ruleset; iptables -S   # on %s and %s: a filter, a network policy, or a limit on "+
				"connections", s.node.name, name))
	case tried && t.Outcome == scene.Unreachable:
		c.Says += ", nor does launch at another port: no new connection gets there"
		c.Do = fmt.Sprintf("nft list ruleset; iptables -S   # on %s and %s: a filter, or a limit on connections", s.node.name,
			name)
	case tried && user != s.node.scene.User:
		c.Says += fmt.Sprintf(", and launch gets one at another port: a filter of that port, or of what user %d sends", user)
		c.Do = fmt.Sprintf("nft list ruleset; iptables -S   # on %s: a rule by user (skuid, owner), and on %s: port %d",
			s.node.name, name, port)
	case tried:
		c.Says += ", and launch gets one at another port: a filter of that port"
		c.Do = fmt.Sprintf("nft list ruleset; iptables -S   # on %s and %s: port %d", s.node.name, name, port)
	default:
		c.Do = fmt.Sprintf("open port %d of %s for %s", port, name, s.node.name)
	}
	return c
}

// peerAt returns the name of a node of the job by one of its addresses, as the other nodes know it; "": no node's.
func (v *view) peerAt(a netip.Addr) string {
	for _, n := range v.nodes {
		if n.scene == nil {
			continue
		}
		for _, p := range n.scene.Peers {
			if slices.Contains(p.Addrs, a) {
				return p.Name
			}
		}
	}
	return ""
}

func nodeName(n *node) string {
	if n == nil {
		return "an unknown node"
	}
	return n.name
}

// strange reports whether a rank's address is another one than that by which its node is reached.
func (v *view) strange(n *node, b *tcpstore.Blob, addr netip.Addr) bool {
	if at, ok := v.reachedAt(n); ok {
		return at != addr
	}
	if strings.HasPrefix(addr.String(), "172.17.") || strings.HasPrefix(addr.String(), "169.254.") {
		return true // docker0's default network, or a link-local address
	}
	// The store's host sees from which address the connections of that host come.
	for _, st := range v.stores {
		if !st.from.isHere(st.Store) {
			continue
		}
		seen, other := false, false
		for _, k := range st.from.scene.Sockets {
			if k.State == "established" && k.Local.Port() == st.At.Port() {
				seen = seen || k.Remote.Addr().Unmap() == addr
				other = true
			}
		}
		return other && !seen
	}
	return false
}

// sharing returns the ranks that have published the same address.
func (v *view) sharing(addr netip.Addr) (out []int) {
	for _, b := range v.board.Blobs {
		if b.Group == 0 && b.Addr.Addr().Unmap() == addr {
			out = append(out, b.Index)
		}
	}
	return out
}

// paths finds connections whose data is sent again and again without an answer.
func (v *view) paths() (out []claim) {
	done := map[string]bool{}
	for _, n := range v.nodes {
		if n.scene == nil {
			continue
		}
		for _, k := range n.scene.Sockets {
			remote := k.Remote.Addr().Unmap()
			if !k.Stuck() || done[n.name+remote.String()] || v.crawlsTo(n, k) {
				continue
			}
			done[n.name+remote.String()] = true
			out = append(out, v.path(n, k, remote))
		}
	}
	return v.bothEnds(out)
}

// everywhere is internal/process.Everywhere, bytes: a judge takes no package that asks the kernel.
const everywhere = 536

// few is how many of the segments of a short new connection a sound path may lose.
const few = 3

// unheard names nodes that take connections and whose answer does not arrive where it was asked for. If no node is
// heard, the reason is on the way to the one that asks.
func (v *view) unheard() (out []claim) {
	paths := v.paths() // what is known of a path says more
	for _, h := range v.hosts {
		silent := slices.DeleteFunc(slices.Clone(h.scene.Unheard), func(e scene.Ended) bool {
			return !v.hasPort(e.Port) || slices.ContainsFunc(paths, func(c claim) bool { return blames(c, e.Name) })
		})
		if len(silent) == 0 {
			continue
		}
		names := finding.Map(silent, func(e scene.Ended) string { return e.Name })
		c := claimed("path.mtu", verdict.Possible, fmt.Sprintf("%s %s connections, and the answer does not arrive at %s: "+
			"stopped, or long packets on that way vanish", finding.Some(names),
			map[bool]string{true: "takes", false: "take"}[len(names) == 1], h.name))
		c.Nodes = names
		heard := slices.ContainsFunc(v.hosts, func(o *node) bool { return o.name != h.name && o.scene.Node != nil })
		if mute := func(e scene.Ended) bool { return e.Mute }; !slices.ContainsFunc(silent, not(mute)) &&
			(heard || len(names) == 1) {
			c = claimed("node.frozen", verdict.Possible, fmt.Sprintf("the kernel of %s takes connections, and launch there "+
				"does not even greet: stopped, frozen or without processor time", finding.Some(names)))
			c.Nodes = names
		}
		if !heard && len(names) > 1 {
			c.Says = fmt.Sprintf("no other node's answer arrives at %s, and all take its connections: long packets to it "+
				"vanish", h.name)
			c.Nodes = []string{h.name}
		}
		out = append(out, c.see("launch", "asked "+finding.Some(names)+" what they see"))
	}
	return out
}

// blames reports whether a claim that is certain of a path names a node, whose name may have its address after it.
func blames(c claim, name string) bool {
	return c.Sure == verdict.Certain && c.cause.ID != "path.lost" && slices.ContainsFunc(c.Nodes, func(n string) bool {
		return n == name || strings.HasPrefix(name, n+" ")
	})
}

// not returns the opposite of a condition.
func not[T any](is func(T) bool) func(T) bool { return func(x T) bool { return !is(x) } }

// atAddr returns the node that has an address.
func (v *view) atAddr(a netip.Addr) *node {
	for _, n := range v.nodes {
		if n.scene != nil && slices.Contains(n.scene.Addrs, a) {
			return n
		}
	}
	if v.board == nil {
		return nil
	}
	for _, b := range v.board.Blobs {
		if b.Addr.Addr().Unmap() == a {
			return v.nodeOf(b.Index)
		}
	}
	return nil
}

// answers reports whether a host still answers a node: a store there, or another connection.
func (v *view) answers(n *node, local, remote netip.Addr) bool {
	for _, st := range v.stores {
		if st.from == n && st.At.Addr().Unmap() == remote && (st.Outcome == scene.Answered || st.Outcome == scene.Refused) {
			return true
		}
	}
	refused := func(p scene.Path) bool { return p.To == remote && p.Outcome == scene.Refused }
	if slices.ContainsFunc(n.scene.Paths, refused) {
		return true
	}
	other := v.atAddr(remote)
	if other != nil && other.scene != nil && n.scene.Via == nil && other.scene.Via == nil {
		near, far := n.scene.At, other.scene.At // one of the two has just shown what it sees to the other
		if !near.IsValid() && far == remote || !far.IsValid() && near.IsValid() && near == local {
			return true
		}
	}
	for _, st := range v.stores { // the other node reaches a store on this one
		if other != nil && st.from == other && n.isAt(st.At.Addr().Unmap()) && st.Outcome == scene.Answered {
			return true
		}
	}
	return false
}

func (n *node) isAt(a netip.Addr) bool { return n.scene != nil && slices.Contains(n.scene.Addrs, a) }

// quiet returns for how long no byte has moved between the ranks, as the sockets of one node say; false: not known.
func (v *view) quiet(n *node) (out time.Duration, known bool) {
	if n.scene == nil {
		return 0, false
	}
	for _, s := range v.seats {
		if s.node != n {
			continue
		}
		for _, k := range n.scene.Sockets {
			if k.PID != s.proc.PID || k.State != "established" || k.Info == nil || v.isStore(n, k) ||
				k.Info.Sent+k.Info.Received <= 16 {
				continue
			}
			if last := min(k.Info.LastSent, k.Info.LastRecv); (!known || last < out) && !v.outward(n, k) {
				out, known = last, true
			}
		}
	}
	return out, known
}

// talks reports whether a rank has exchanged bytes during the look with what is neither a store nor a rank: it
// downloads, say.
func (v *view) talks(s *seat) bool {
	own := v.blob(s.rank)
	return slices.ContainsFunc(s.node.scene.Sockets, func(k scene.Socket) bool {
		return k.PID == s.proc.PID && k.State == "established" && k.Info != nil && k.Info.Received > 0 &&
			min(k.Info.LastSent, k.Info.LastRecv) < s.node.scene.Span && !v.isStore(s.node, k) &&
			(own == nil || !hasPort(*own, k.Local.Port())) &&
			v.rankAt(k.Remote.Addr().Unmap().String(), k.Remote.Port()) < 0
	})
}
