package peers

import (
	"net/netip"
	"slices"

	"launch/preflight/blame"
	"launch/preflight/calls"
)

// MostClients is for how many nodes Post.Clients is posted.
const MostClients = 64

// behindNAT returns the posts with what the store's host shows of a NAT: from one address, which is no node's, arrive
// the connections of the one node from whose own addresses no connection does. A launch of another version may not post
// all of its addresses.
func behindNAT(posts []Post) []Post {
	own := map[netip.Addr]bool{}
	for _, p := range posts {
		own[p.Addr] = true
		for a := range p.Held {
			own[a] = true
		}
		for _, l := range p.Listens {
			own[l.Addr] = true
		}
	}
	for _, host := range posts {
		strange := slices.DeleteFunc(slices.Clone(host.Clients), func(a netip.Addr) bool { return own[a] })
		var missing []int
		for i, p := range posts {
			if p.Rank != host.Rank && !p.Traits.sameNetwork(host.Traits) && !p.callsFrom(host.Clients) {
				missing = append(missing, i)
			}
		}
		if len(strange) != 1 || len(missing) != 1 {
			continue
		}
		if p := posts[missing[0]]; p.Addr.IsValid() && p.Version == host.Version {
			posts = slices.Clone(posts)
			posts[missing[0]].nat = strange[0]
		}
	}
	return posts
}

// callsFrom reports whether one of some addresses is the node's.
func (p Post) callsFrom(all []netip.Addr) bool {
	return slices.ContainsFunc(all, func(a netip.Addr) bool {
		_, held := p.Held[a]
		return held || a == p.Addr || slices.ContainsFunc(p.Listens, func(l Listen) bool { return l.Addr == a })
	})
}

// translatedCaller returns the first calling node that is known to be behind a NAT; false: none is.
func (b blamed) translatedCaller() (Post, bool) {
	if i := slices.IndexFunc(b.edges, func(e edge) bool { return e.from.nat.IsValid() }); i >= 0 {
		return b.edges[i].from, true
	}
	return Post{}, false
}

// translated reports whether the node's address may be one that a gateway translates: its calls arrive, those to it do
// not, and its address is in another network than those of all that call it.
func (b blamed) translated() bool {
	network := func(addr string) netip.Prefix {
		a, _ := netip.ParseAddr(hostOf(addr))
		p, _ := a.Unmap().Prefix(16) // as large as a private network usually is
		return p
	}
	return !slices.ContainsFunc(b.edges, func(e edge) bool {
		back := slices.IndexFunc(e.to.Calls, func(c calls.Call) bool { return c.To == e.from.Rank && !c.Also && !c.Port })
		return back < 0 || network(e.to.Calls[back].Addr) == network(e.call.Addr)
	})
}

// callsAlone reports whether Gloo may do without the calls to a node, of which no call gets through while its own do:
// of two ranks the one with the higher address calls (Pair::connect of gloo/transport/tcp/pair.cc), and all call the
// store of rank 0.
func (b blamed) callsAlone() bool {
	if b.Side != blame.ToNode || !b.Back || len(b.nodes) != 1 || b.nodes[0].Rank == 0 || onGPU(loadsOf(b.all)) {
		return false
	}
	n := b.nodes[0]
	return !slices.ContainsFunc(b.all, func(p Post) bool {
		return p.Rank != n.Rank && (!p.Addr.IsValid() || p.Addr.Unmap().Compare(n.Addr.Unmap()) >= 0)
	})
}

// otherNet returns a network for an example without an address of the blamed nodes.
func (b blamed) otherNet() string {
	for _, text := range []string{exampleNet, "192.168.0.0/16", "172.16.0.0/16"} {
		if !slices.ContainsFunc(b.nodes, func(p Post) bool {
			return netip.MustParsePrefix(text).Contains(p.Addr.Unmap())
		}) {
			return text
		}
	}
	return exampleNet
}
