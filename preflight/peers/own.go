package peers

import (
	"cmp"
	"fmt"
	"slices"

	"launch/internal/finding"
)

// ownAddresses judges the nodes that also have another node's address, for example one copied to loopback for a load
// balancer: their calls to that node never leave the machine. It returns the other calls.
func ownAddresses(all []edge) (rest []edge, out []judged) {
	apart := map[[2]int]bool{}
	for _, e := range all {
		if e.call.Own == "" || e.from.Traits.sameNetwork(e.to.Traits) {
			continue
		}
		apart[[2]int{e.from.Rank, e.to.Rank}], apart[[2]int{e.to.Rank, e.from.Rank}] = true, true
		at := hostOf(e.call.Addr)
		f := finding.Failf("%s has the address %s of %s, too, on %s", e.from.Name, at, e.to.Name, e.call.Own).
			Named("peer.identity").About([]string{e.from.Name}).
			Breaking("what it sends to %s stays on it: its ranks would wait for each other without end", e.to.Name).
			See(fmt.Sprintf("%s calls %s at %s", e.from.Name, e.to.Name, e.call.Addr), "%s",
				cmp.Or(e.call.Err, string(e.call.Cause), e.call.Other)).
			Do("ip addr del %s dev %s   # on %s, with the prefix that ip addr shows", at, e.call.Own, e.from.Name)
		out = append(out, judged{f, []int{e.from.Rank}})
	}
	return slices.DeleteFunc(slices.Clone(all), func(e edge) bool { return apart[[2]int{e.from.Rank, e.to.Rank}] }), out
}
