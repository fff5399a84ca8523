package peers

import (
	"net/netip"
	"slices"

	"launch/preflight/calls"
)

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
