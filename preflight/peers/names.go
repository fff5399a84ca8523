package peers

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/internal/finding"
	"launch/preflight/blame"
	"launch/preflight/calls"
)

// compareNames judges the names of the nodes. launch gives the job addresses, so each finding is at
// most a warning, and a cluster in which few or no nodes have names is fine.
func compareNames(posts []Post) []judged {
	out, twice := sharedNames(posts)
	out = append(out, strayNames(posts, twice)...)
	known, unknown := 0, 0
	for _, p := range posts {
		known, unknown = known+len(p.Names.Known), unknown+len(p.Names.Unknown)
	}
	if known+unknown == 0 {
		return out
	}
	out = append(out, muteServers(posts)...)
	switch {
	case unknown == 0:
	case known <= unknown:
		out = append(out, judged{Finding: finding.Skipf("the name servers know %d of %d names of other nodes: "+
			"this cluster does not use node names", known, known+unknown).Named("peer.name")})
	default:
		out = append(out, unknownNames(posts))
	}
	return out
}

const byName = "the job gets addresses and starts, but programs that use names (ssh, Ray, a host list, the " +
	"command's own arguments) "

// sharedNames reports host names that several machines have, and returns them. A name that all nodes have is that of
// their image.
func sharedNames(posts []Post) (out []judged, twice map[string]bool) {
	twice = map[string]bool{}
	all := repeated(posts, func(p Post) string { return p.Names.Host })
	for _, g := range all {
		if len(g.nodes) == len(posts) || !apart(g.nodes) {
			continue
		}
		twice[g.value] = true
		f := finding.Warnf("%d nodes have the host name %s: %s", len(g.nodes), g.value, finding.Some(namesOf(g.nodes))).
			Named("peer.name").About(namesOf(g.nodes)).
			Breaking("%sreach one of them only, and logs and metrics mix them", byName).
			Do("hostnamectl set-hostname NAME   # a name of its own on each of them")
		out = append(out, judged{Finding: f})
	}
	return out, twice
}

// apart reports whether nodes of one host name are different machines, or containers with networks of their own.
func apart(alike []Post) bool {
	for i, p := range alike {
		for _, o := range alike[i+1:] {
			if p.Traits.Machine != "" && o.Traits.Machine != "" && !p.Traits.sameNetwork(o.Traits) ||
				slices.Contains(p.Names.Alike, o.Rank) || slices.Contains(o.Names.Alike, p.Rank) {
				return true
			}
		}
	}
	return false
}

// strayNames reports names that lead to another machine. An address that no node has may
// still be right, behind a NAT: it counts only in the network of the node.
func strayNames(posts []Post, twice map[string]bool) (out []judged) {
	at := map[netip.Addr]Post{}
	for _, e := range edges(posts) {
		if a, err := netip.ParseAddr(hostOf(e.call.Addr)); err == nil {
			at[a] = e.to
		}
	}
	type wrong struct {
		to    Post
		stray calls.Stray
		who   []Post
	}
	nodes := byRank(posts)
	var all []*wrong
	for _, p := range posts {
		for _, s := range p.Names.Strays {
			to, posted := nodes[s.To]
			owner, owned := at[s.Addr]
			if !posted || twice[to.Names.Host] || owned && owner.Rank == s.To || !owned && !s.Near && !s.Addr.IsLoopback() {
				continue
			}
			i := slices.IndexFunc(all, func(w *wrong) bool {
				return w.stray.To == s.To && w.stray.Addr == s.Addr && w.stray.Hosts == s.Hosts
			})
			if i < 0 {
				i, all = len(all), append(all, &wrong{to: to, stray: s})
			}
			all[i].who = append(all[i].who, p)
		}
	}
	for _, w := range all[:min(len(all), most)] {
		is, reached := "which no node of the job has", "another machine"
		switch owner, owned := at[w.stray.Addr]; {
		case w.stray.Addr.IsLoopback():
			is, reached = "which is loopback", "their own machine"
		case owned:
			is = "which is " + owner.Name
		}
		who := finding.Some(namesOf(w.who))
		f := finding.Warnf("the name of %s leads to %s on %s, %s", w.to.Name, w.stray.Addr, who, is).Named("peer.name").
			Breaking("%swould reach %s", byName, reached).See("getent ahosts "+w.to.Names.Host, "%s", w.stray.Addr)
		if w.stray.Hosts {
			f = f.Do("correct the line in /etc/hosts on %s", who)
		} else {
			f = f.Do("correct the DNS record of %s", cmp.Or(w.to.Names.Host, w.to.Name))
		}
		out = append(out, judged{Finding: f})
	}
	return out
}

// muteServers reports the nodes on which no name server answers while those of others do.
func muteServers(posts []Post) []judged {
	who := having(posts, func(p Post) string { return p.Names.Mute })
	if len(who) == 0 {
		return nil
	}
	f := finding.Warnf("no name server answers on %s, while those of other nodes do", finding.Some(namesOf(who))).
		Named("peer.name").
		Breaking("each lookup of the job there times out, and torch's store on node rank 0 looks up a name for each process")
	for _, p := range who[:min(len(who), most)] {
		f = f.See("look up another node's name on "+p.Name, "%s", p.Names.Mute)
	}
	return []judged{{Finding: f.Do("cat /etc/resolv.conf   # on %s; compare it with another node's",
		finding.Some(namesOf(who)))}}
}

// unknownNames reports the names that name servers do not know, and the nodes whose name servers do not know them.
func unknownNames(posts []Post) judged {
	nodes := byRank(posts)
	var asked []edge
	for _, p := range posts {
		for denied, ranks := range map[bool][]int{false: p.Names.Known, true: p.Names.Unknown} {
			for _, r := range ranks {
				if to, ok := nodes[r]; ok {
					asked = append(asked, edge{p, to, calls.Call{To: r, Hole: denied}})
				}
			}
		}
	}
	slices.SortFunc(asked, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.from.Rank, b.from.Rank), cmp.Compare(a.to.Rank, b.to.Rank))
	})
	var parts, names []string
	for _, b := range causes(asked, posts, func(e edge) bool { return e.call.Hole }) {
		var askers []string
		for _, e := range b.edges {
			askers = append(askers, e.from.Name)
			names = append(names, cmp.Or(e.to.Names.Host, e.to.Name))
		}
		slices.Sort(askers)
		on := finding.Some(slices.Compact(askers))
		part := fmt.Sprintf("the name of %s is unknown on %s", b.edges[0].to.Name, on)
		switch b.Side {
		case blame.FromNode:
			part = fmt.Sprintf("the servers of %s do not know the other nodes", b.names())
		case blame.ToAndFrom:
			part = fmt.Sprintf("the servers of %s do not know the other nodes, nor their servers its name", b.names())
		case blame.Apart:
			part = fmt.Sprintf("the servers of %s do not know the other %d nodes, nor their servers these", b.names(), b.Rest)
		case blame.ToNode:
			part = fmt.Sprintf("the name of %s is unknown (asked on %s)", b.names(), on)
		}
		parts = append(parts, part)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	few := parts[:min(len(parts), most)]
	if more := len(parts) - len(few); more > 0 {
		few = append(slices.Clone(few), fmt.Sprintf("and %d more", more))
	}
	return judged{Finding: finding.Warnf("the name servers do not know all nodes: %s", strings.Join(few, "; ")).
		Named("peer.name").Breaking("%swould not find them", byName).
		Do("getent hosts %s   # repeats it\nadd %s to the DNS, or to /etc/hosts on each node", names[0],
			finding.Some(names))}
}
