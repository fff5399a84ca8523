package diagnose

import (
	"fmt"
	"slices"

	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// PartedFix is what to look at where several nodes do not reach several others.
func PartedFix(gone string) string {
	return fmt.Sprintf("look at what connects the two groups: the link between their switches, a router, a firewall; "+
		"or their power, where %s have one in common", gone)
}

// parted joins the claims of several lost paths where all lead from nodes that were heard to several that were not. One
// of those that were heard has asked the others over the network.
func (v *view) parted(all []claim) []claim {
	heard := func(name string) bool {
		return slices.ContainsFunc(v.hosts, func(n *node) bool { return n.name == name })
	}
	lost := func(c claim) bool { return c.Cause == "path.lost" }
	var near, far []string
	var seen []finding.Seen
	first := slices.IndexFunc(all, lost)
	for _, c := range all {
		if !lost(c) {
			continue
		}
		here := slices.DeleteFunc(slices.Clone(c.Nodes), func(name string) bool { return !heard(name) })
		if len(here) != 1 || len(c.Nodes) != 2 || c.Sure != verdict.Certain {
			return all
		}
		far = append(far, slices.DeleteFunc(slices.Clone(c.Nodes), heard)...)
		seen = append(seen, c.Seen...)
	}
	var asks []string
	for _, n := range v.hosts {
		switch s := n.scene; {
		case s == nil, s.Node == nil && len(s.Procs) == 0:
		case s.At.IsValid() || s.Via != nil:
			near = append(near, n.name)
		default:
			asks = append(asks, n.name)
		}
	}
	near, far = slices.Compact(slices.Sorted(slices.Values(near))), slices.Compact(slices.Sorted(slices.Values(far)))
	if len(near) == 0 || len(far) < 2 || len(asks) != 1 {
		return all
	}
	c := all[first]
	c.Nodes, c.Seen = slices.Concat(asks, near, far), seen[:min(len(seen), maxSeen)]
	c.Says = fmt.Sprintf("%s reaches %s, and they get no answer from %s any more: the network between these two groups "+
		"was lost, or all those hosts at the same time", asks[0], finding.Some(near), finding.Some(far))
	c.Do = PartedFix(finding.Some(far))
	return append(slices.DeleteFunc(all, lost), c)
}
