package peers

import (
	"net/netip"
	"slices"

	"launch/preflight/calls"
)

// MostClients is for how many nodes Post.Clients is posted.
const MostClients = 64

// behindNAT returns the posts with what the store's host shows of a NAT: from one address, which is no node's, arrive
// the connections of those nodes from whose own addresses no connection does.
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
		if len(strange) != 1 {
			continue
		}
		posts = slices.Clone(posts)
		for i, p := range posts {
			if p.Rank != host.Rank && p.Addr.IsValid() && !slices.Contains(host.Clients, p.Addr) &&
				!p.Traits.sameNetwork(host.Traits) {
				posts[i].nat = strange[0]
			}
		}
	}
	return posts
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
