package diagnose

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// pastCuts is how often a segment was sent again, each time after twice as long, that no short cut explains: 12 s.
const pastCuts = 6

// path judges one connection that is stuck.
func (v *view) path(n *node, k scene.Socket, remote netip.Addr) claim {
	other := cmp.Or(v.atAddr(remote), v.otherEnd(k))
	where := cmp.Or(v.peerAt(remote), remote.String())
	if other != nil {
		where = other.name
	}
	since := n.scene.Taken.Add(-max(k.Info.LastRecv, 0))
	seen := fmt.Sprintf("%s to %s: backoff %d, %d unacknowledged, send queue %d", k.Local, k.Remote, k.Info.Backoff,
		k.Info.Unacked, k.SendQ)
	claims := func(cause string, sure verdict.Sure, says string) claim {
		return claimed(cause, sure, says).of(nil, n, other).see("tcp_info", seen).since(since)
	}
	long := fmt.Sprintf("long packets from %s to %s vanish, and short ones arrive: an MTU on the path is smaller than "+
		"the interface's", n.name, where)
	forgotten := fmt.Sprintf("a connection from %s to %s that is open gets no answer any more, ", n.name, where)
	t, tried := v.tried(n, other, k.Local.Addr().Unmap(), remote)
	if says, do, sure := v.staysHere(n, k, t, where); says != "" {
		return claimed("path.here", sure, says).do(do).of(nil, n).see("tcp_info", seen).since(since)
	}
	if c, shows := (pair{near: n, where: where, remote: remote}).showsItself(); shows && tried &&
		t.Outcome == scene.Answered && !t.Long {
		return c.see("tcp_info", seen).since(since)
	}
	if says := v.someFlows(n, other, k, where); says != "" {
		return claims("path.stale", verdict.Certain, says).do(membersFix)
	}
	if t.Loses {
		return claims("path.loss", verdict.Certain, fmt.Sprintf("packets from %s to %s are lost, again and again: %d of %d "+
			"new connections had no answer to their first one", n.name, where, t.Late, cmp.Or(t.Knocks, scene.Knocks)))
	}
	if c, forgot := v.forgot(n, other, k, where); forgot && t.Outcome == scene.Answered && t.Long {
		return c.see("tcp_info", seen).since(since)
	}
	elsewhere := tried && t.From.IsValid() && t.From != k.Local.Addr().Unmap()
	switch answers := !tried && v.answers(n, k.Local.Addr().Unmap(), remote); {
	case answers && k.SendQ > 0 && k.SendQ <= everywhere:
		return claims("path.stale", verdict.Likely, forgotten+fmt.Sprintf("not even to %d bytes, and new ones are "+
			"answered: a firewall or a NAT between has forgotten it", k.SendQ))
	case answers:
		return claims("path.mtu", verdict.Certain, long)
	case t.Outcome != scene.Answered: // that is lost, below
	case t.Full && !t.Long, t.Long && (lossy(k) || t.Again > few):
		return claims("path.loss", verdict.Certain, fmt.Sprintf("packets from %s to %s are lost, again and again", n.name,
			where))
	case t.Long:
		sure := verdict.Certain
		if k.Info.Backoff < pastCuts || elsewhere || !triedSince(k, t) {
			// A path that was cut looks the same until the next try, and other addresses may have another way.
			sure = verdict.Likely
		}
		return claims("path.stale", sure, forgotten+"and a new one takes long messages: a firewall, a NAT or an "+
			"inspecting box between drops this one")
	case lossy(k) || t.Late > 0:
		return claims("path.mtu", verdict.Likely, long+", or most of that length are lost")
	default:
		return claims("path.mtu", verdict.Certain, long)
	}
	return v.lost(n, other, where, k, tried).see("tcp_info", seen).since(since)
}

// triedSince reports whether a connection has sent again since new ones have passed, and not just now.
func triedSince(k scene.Socket, t scene.Path) bool {
	return answerTime < k.Info.LastSent && k.Info.LastSent < t.Sound
}

// answerTime is how long an answer may be on its way.
const answerTime = time.Second

// membersFix shows the members of a link.
const membersFix = "cat /proc/net/bonding/*; ip -s link   # on both nodes, and the same LAG at the switches\n" +
	"take the member out that is dead"

// someFlows says that of several new connections from one of two nodes to the other, each from another port, some open
// at once, and the others never: their ports decide. "": it is not so.
func (v *view) someFlows(n, other *node, k scene.Socket, where string) string {
	paths := slices.Clone(n.scene.Paths)
	if other != nil && other.scene != nil {
		paths = append(paths, other.scene.Paths...)
	}
	ends := []netip.Addr{k.Local.Addr().Unmap(), k.Remote.Addr().Unmap()}
	i := slices.IndexFunc(paths, func(p scene.Path) bool {
		return slices.Contains(ends, p.To) && p.Never > 1 && p.Never == p.Late && p.Never < p.Knocks-1
	})
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("some of the connections between %s and %s are lost, and others live: %d of %d new ones got no "+
		"answer, however often they asked, and the rest opened at once: a dead member of a LAG (bond) or of several equal "+
		"routes (ECMP) on the way, or a limit on connections", n.name, where, paths[i].Never, paths[i].Knocks)
}

// lately is how old the last data of a path may be that is not lost: the retransmissions of one that is take as long.
const lately = 2 * time.Second

// lost judges a connection that is stuck to a node of which nothing answers.
func (v *view) lost(n, other *node, where string, k scene.Socket, tried bool) claim {
	remote := k.Remote.Addr().Unmap()
	if other != nil && other.name == n.name {
		where = fmt.Sprintf("%s (%s)", where, remote)
	}
	p := pair{near: n, far: other, where: where, local: k.Local.Addr().Unmap(), remote: remote}
	if c, ok := p.showsItself(); ok {
		return c
	}
	if way := wayTo(n, remote); k.Info.Received > 0 && k.Info.LastRecv < lately || way.Heard && way.Moved {
		return claimed("path.loss", verdict.Likely, fmt.Sprintf("data from %s still arrives at %s, and what %s sends gets "+
			"no answer in time: the path is slow or full, or loses packets", where, n.name, n.name)).of(nil, n, other)
	}
	p.third = v.thirdOf(p)
	why, do := p.lost()
	c := claimed("path.lost", verdict.Certain, fmt.Sprintf("%s gets no answer from %s any more, since %s%s", n.name, where,
		ago(k.Info.LastRecv), why))
	c.Do = cmp.Or(do, c.Do)
	c.shared, c.tunnel, c.pings = p.third != "", wayTo(n, remote).Tunnel, wayTo(n, remote).Pings
	if k.SendQ > 4096 && !tried {
		c.Sure = verdict.Likely
		c.Says += "; or an MTU on the path is too small"
	}
	if other == nil {
		other = &node{name: where}
	}
	return c.of(nil, n, other)
}

// lossy reports whether many of a connection's packets were lost, and it went on: at least one in twenty, and more
// than the same one again and again.
func lossy(k scene.Socket) bool {
	const segment = 1448 // bytes of data in a packet of Ethernet
	again := uint64(k.Info.Retrans)
	return k.Info.Acked > 0 && again >= 3*uint64(k.Info.Backoff)+10 && again*20 > k.Info.Acked/segment
}

// tried returns what a new connection between two nodes gave, as the one that sends saw it, else the other one.
func (v *view) tried(n, other *node, local, remote netip.Addr) (scene.Path, bool) {
	for _, p := range n.scene.Paths {
		if p.To == remote && p.Outcome != scene.Refused {
			return p, true
		}
	}
	if other != nil && other.scene != nil {
		for _, p := range other.scene.Paths {
			if p.To == local && p.Outcome == scene.Answered {
				return scene.Path{From: local, To: remote, Outcome: p.Outcome, Long: p.Back, Late: p.Late, Sound: p.Sound,
					Loses: p.Loses}, true
			}
		}
	}
	return scene.Path{}, false
}

// bothEnds joins claims about one path that its two ends make, and those about all paths of one node.
func (v *view) bothEnds(all []claim) (out []claim) {
	for _, c := range all {
		same := slices.IndexFunc(out, func(d claim) bool { return d.Cause == c.Cause && slices.Equal(d.Nodes, c.Nodes) })
		if same < 0 {
			out = append(out, c)
			continue
		}
		out[same].Seen = append(out[same].Seen, c.Seen...)
	}
	out = slices.DeleteFunc(out, func(c claim) bool { // the other end of such a path has no answer
		return c.Cause == "path.lost" && slices.ContainsFunc(out, func(d claim) bool {
			return d.Cause == "path.here" && slices.Contains(c.Nodes, d.Nodes[0])
		})
	})
	if slices.ContainsFunc(out, func(c claim) bool { return c.Cause == "path.mtu" || c.Cause == "path.loss" }) {
		out = slices.DeleteFunc(out, func(c claim) bool { return c.Cause == "path.lost" && c.Sure == verdict.Likely })
	}
	return v.cutOff(v.parted(out))
}

// cutOff joins the claims of several lost paths where all of them have one node in common, and no other.
func (v *view) cutOff(all []claim) []claim {
	lost := func(c claim) bool { return c.Cause == "path.lost" }
	first := slices.IndexFunc(all, lost)
	if first < 0 {
		return all
	}
	common := slices.Clone(all[first].Nodes)
	var others []string
	var paths []finding.Seen
	pings := true
	for _, c := range all {
		if lost(c) {
			pings = pings && c.pings
			if c.shared {
				return all // a node is not cut off that another one reaches
			}
			common = slices.DeleteFunc(common, func(name string) bool { return !slices.Contains(c.Nodes, name) })
			others, paths = append(others, c.Nodes...), append(paths, c.Seen...)
		}
	}
	if len(common) != 1 {
		return all
	}
	slices.Sort(others)
	others = slices.DeleteFunc(slices.Compact(others), func(name string) bool { return name == common[0] })
	c := all[first]
	c.Nodes, c.Seen = common, paths
	at := "its cable, its port of the switch"
	if c.tunnel != "" {
		at = fmt.Sprintf("its end of the tunnel %s, the network below that", c.tunnel)
	}
	if pings {
		c.Says = fmt.Sprintf("new and old connections between %s and %s get no answer any more, and ping does: %s",
			common[0], finding.Some(others), tcpAlone)
		return append(slices.DeleteFunc(all, lost), c)
	}
	c.Says = fmt.Sprintf("%s get no answer from %s any more: %s, or the host", finding.Some(others), common[0], at)
	if !slices.ContainsFunc(v.hosts, func(n *node) bool { return n.name == common[0] }) {
		c.Says += " (its addresses, routes, filters)"
		if there := ownLog(common[0]); !strings.HasPrefix(c.Do, there) {
			c.Do = there + c.Do
		}
	}
	if !slices.ContainsFunc(v.hosts, func(n *node) bool { return slices.Contains(others, n.name) }) { // only it was heard
		c.Says = fmt.Sprintf("%s gets no answer from %s any more: it is cut off (%s), or all of them are", common[0],
			finding.Some(others), at)
	}
	return append(slices.DeleteFunc(all, lost), c)
}
