package peers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/preflight/blame"
	"launch/preflight/calls"
)

// railEdges returns the calls between the same rails of two nodes, by the number of the rail. The calls that got
// through are counted only: those to the rails that are not among the lost ones.
func railEdges(posts []Post) map[int][]edge {
	nodes, out := byRank(posts), map[int][]edge{}
	for _, p := range posts {
		for _, path := range p.Rails {
			to, ok := nodes[path.To]
			if !ok || path.To == p.Rank {
				continue
			}
			for _, l := range path.Lost {
				if filtered(posts, to, l.Rail) {
					continue
				}
				out[l.Rail] = append(out[l.Rail], edge{p, to, calls.Call{To: path.To, Addr: l.Addr, Cause: l.Cause,
					Err: fmt.Sprintf("%s (from %s)", l.Cause, l.From), Iface: l.Via}})
			}
		}
	}
	for rail := range out {
		for _, p := range posts {
			for _, path := range p.Rails {
				if to, ok := nodes[path.To]; ok && path.To != p.Rank && through(p, path.To, rail) {
					out[rail] = append(out[rail], edge{from: p, to: to, call: calls.Call{To: path.To}})
				}
			}
		}
	}
	return out
}

// filtered reports whether a node takes no new connection of TCP over a rail, while its own calls get through, whose
// answers come in over it: a filter does that, which RDMA does not pass.
func filtered(posts []Post, node Post, rail int) bool {
	calling := slices.ContainsFunc(node.Rails, func(path calls.RailPath) bool { return through(node, path.To, rail) })
	return calling && !slices.ContainsFunc(posts, func(p Post) bool {
		return through(p, node.Rank, rail) || slices.ContainsFunc(p.Rails, func(path calls.RailPath) bool {
			return path.To == node.Rank && slices.ContainsFunc(path.Lost, func(l calls.RailCall) bool {
				return l.Rail == rail && l.Cause != sidechannel.Dropped && l.Cause != sidechannel.Refused
			})
		})
	})
}

// through reports whether a node's call to another one over a rail got through.
func through(p Post, to, rail int) bool {
	return slices.ContainsFunc(p.Rails, func(path calls.RailPath) bool {
		lost := slices.ContainsFunc(path.Lost, func(l calls.RailCall) bool { return l.Rail == rail })
		return path.To == to && !lost && path.Tried > len(path.Lost)
	})
}

// compareRails reports rails that do not reach the same rail of other nodes, although the nodes reach each other.
// What holds for several rails is one finding.
func compareRails(posts []Post) (out []judged) {
	type cause struct {
		blamed
		rails []int
	}
	var found []cause
	byRail := railEdges(posts)
	for _, rail := range slices.Sorted(maps.Keys(byRail)) {
		for _, b := range causes(byRail[rail], posts, func(e edge) bool { return e.call.Failed() }) {
			same := func(c cause) bool { return c.Side == b.Side && slices.Equal(c.Nodes, b.Nodes) }
			if i := slices.IndexFunc(found, same); i >= 0 {
				found[i].rails = append(found[i].rails, rail)
			} else {
				found = append(found, cause{b, []int{rail}})
			}
		}
	}
	for _, c := range found {
		numbers := finding.Map(c.rails, func(rail int) string { return strconv.Itoa(rail) })
		e := c.common()
		f := finding.Warnf("%s: %s", c.what("calls over rail "+finding.Some(numbers)+" ("+railName(posts, c.rails[0])+
			") to the same rail of another node"), e.call.Cause).Named("peer.rails").
			Breaking("NCCL connects each rail to the same rail of the other nodes: it hangs, or its first transfer fails. "+
				"A guess: these calls use TCP, and a filter for TCP alone does not stop RDMA").
			Do("%s", railFix(c.blamed, e))
		out = append(out, judged{Finding: c.see(f)})
	}
	return out
}

// railName returns the name of a rail on a node that could not use it.
func railName(posts []Post, rail int) string {
	for _, p := range posts {
		for _, path := range p.Rails {
			for _, l := range path.Lost {
				if l.Rail == rail {
					return l.Name
				}
			}
		}
	}
	return "unknown"
}

// railFix returns how to see the route of a rail.
func railFix(b blamed, e edge) string {
	fix := fmt.Sprintf("ip route get %s oif %s   # on %s\n", hostOf(e.call.Addr), cmp.Or(e.call.Iface, "INTERFACE"),
		e.from.Name)
	if e.call.Cause == sidechannel.Dropped {
		return fix + "then the routes and filters of the switches between these ports, in both directions"
	}
	if b.Side == blame.Everywhere {
		return fix + "each rail needs a route to the same rail of the other nodes:\n" +
			"ip route add NETWORK via GATEWAY dev INTERFACE"
	}
	return fix + "compare its routes with those of a node that reaches the others: ip route; ip rule"
}

// railsApart reports whether each node reaches the same rail of the others, and no node another rail.
func railsApart(posts []Post) bool {
	tried := 0
	for _, p := range posts {
		for _, path := range p.Rails {
			if len(path.Lost) > 0 || path.Cross == "ok" {
				return false
			}
			if path.Tried > 0 && path.Cross != "" {
				tried++
			}
		}
	}
	return tried > 0 && tried >= len(posts)-1
}

// securityGroup returns what to look at first where calls between nodes with EFAs vanish; "" elsewhere.
func securityGroup(e edge) string {
	if e.call.Cause != sidechannel.Dropped || e.from.Traits.Fabric != rail.EFA || e.to.Traits.Fabric != rail.EFA {
		return ""
	}
	return "the security group of these instances must allow all traffic from and to itself, in both directions: " +
		"EFA needs that, too\n"
}
