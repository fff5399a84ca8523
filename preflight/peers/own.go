package peers

import (
	"maps"
	"net/netip"
	"slices"

	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/sidechannel"
)

// mostHeld bounds the addresses in Post.Held.
const mostHeld = 16

// HeldBy returns Post.Held of a node that the others call at an address of its own. taken are the addresses that only
// its table local has (fabric.AllTaken), and sources those from which it may call the store.
func HeldBy(n fabric.Node, own netip.Addr, taken, sources []netip.Addr) map[netip.Addr]string {
	held := map[netip.Addr]string{}
	hold := func(a netip.Addr, on string) {
		if len(held) < mostHeld && a != own {
			held[a] = on
		}
	}
	for _, a := range taken {
		hold(a, "")
	}
	for _, a := range sources {
		if i, ok := n.InterfaceOf(a); ok {
			hold(a, i.Name)
		}
	}
	home, _ := n.InterfaceOf(own)
	for _, i := range n.Interfaces {
		for _, p := range i.Addrs {
			near := func(o netip.Prefix) bool { return o.Contains(own) && o.Contains(p.Addr()) }
			if i.Up && slices.ContainsFunc(home.Addrs, near) {
				hold(p.Addr(), i.Name)
			}
		}
	}
	return held
}

// claim is a node that takes packets to another node's address itself.
type claim struct {
	by, of Post
	on     string // the interface that has the address; "": its table local alone
}

// claims returns all, in the order of the nodes.
func claims(posts []Post) (out []claim) {
	at, nodes := map[netip.Addr][]Post{}, byRank(posts)
	for _, p := range posts {
		if p.Addr.IsValid() {
			at[p.Addr] = append(at[p.Addr], p)
		}
	}
	for _, by := range posts {
		on := map[int]string{} // by the rank of the node whose address it is
		for addr, name := range by.Held {
			for _, of := range at[addr] {
				on[of.Rank] = name
			}
		}
		for _, c := range by.Calls {
			if c.Own != "" && !c.Also {
				on[c.To] = c.Own
			}
		}
		for _, rank := range slices.Sorted(maps.Keys(on)) {
			if of, known := nodes[rank]; known && rank != by.Rank && !by.Traits.sameNetwork(of.Traits) {
				out = append(out, claim{by, of, on[rank]})
			}
		}
	}
	return out
}

// between reports whether a call is one between the two nodes.
func (c claim) between(e edge) bool {
	return e.from.Rank == c.by.Rank && e.to.Rank == c.of.Rank || e.from.Rank == c.of.Rank && e.to.Rank == c.by.Rank
}

// explains reports whether a call failed since one node has the other one's address, too: it is between the two, or a
// third node made it and a machine answered. In one network both answer by ARP.
func (c claim) explains(e edge) bool {
	answered := e.call.Other != "" || slices.Contains([]sidechannel.Cause{sidechannel.Refused, sidechannel.Reset,
		sidechannel.Silent, sidechannel.Stranger, sidechannel.Token}, e.call.Cause)
	return e.call.Failed() && (c.between(e) || e.to.Rank == c.of.Rank && answered && !e.call.Here)
}

// ownAddresses judges the nodes that also have another node's address: on an interface, for example copied to loopback
// for a load balancer, or in the table local alone, as an agent of a cloud leaves it there. Their calls to that node
// never leave the machine, and in one network calls of others reach them in its place. It returns the other calls.
func ownAddresses(all []edge, posts []Post) (rest []edge, out []judged) {
	rest = all
	for _, c := range claims(posts) {
		b := blamed{nodes: []Post{c.by}}
		for _, e := range all {
			if c.explains(e) {
				b.edges = append(b.edges, e)
			}
		}
		if len(b.edges) == 0 {
			continue
		}
		rest = slices.DeleteFunc(slices.Clone(rest), func(e edge) bool { return c.between(e) || c.explains(e) })
		out = append(out, judged{b.see(c.finding(b.edges)), []int{c.by.Rank}})
	}
	return rest, out
}

// undisputed returns the calls to and from other nodes than those of which calls failed since two have one address.
func undisputed(all, failed []edge, posts []Post) []edge {
	for _, c := range claims(posts) {
		if slices.ContainsFunc(failed, c.explains) {
			all = slices.DeleteFunc(all, func(e edge) bool { return c.between(e) || e.to.Rank == c.of.Rank })
		}
	}
	return all
}

// finding returns the finding about a claim, by which some calls failed.
func (c claim) finding(failed []edge) finding.Finding {
	addr := c.of.Addr.String()
	if i := slices.IndexFunc(failed, func(e edge) bool { return e.to.Rank == c.of.Rank }); i >= 0 {
		addr = hostOf(failed[i].call.Addr)
	}
	f := finding.Failf("%s has the address %s of %s, too, on %s", c.by.Name, addr, c.of.Name, c.on).
		Do("ip addr del %s dev %s   # on %s, with the prefix that ip addr shows", addr, c.on, c.by.Name)
	if c.on == "" {
		f = finding.Failf("%s takes the address %s of %s for its own: its table local has it, and no interface does",
			c.by.Name, addr, c.of.Name).Do("%s", fabric.TakenFault(c.of.Addr).On(c.by.Name))
	}
	return f.Named("peer.identity").Breaking("what it sends to %s stays on it, and what others send to that address may "+
		"reach it: ranks would wait for each other without end", c.of.Name)
}
