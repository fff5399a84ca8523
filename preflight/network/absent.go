package network

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"launch/preflight"
)

// noMachine says what may be wrong where no machine answers for the store's address by ARP or neighbour discovery. fix
// and host are what is usually done, on this node and on the store's host.
func noMachine(ctx context.Context, in preflight.Input, e endpoint, fix, host string) (why, here, there string) {
	addrs := addrsOf(ctx, in, e).addrs
	for _, a := range addrs {
		if in.Unheard == nil {
			break
		}
		if f := in.Unheard(a); f.Why != "" {
			return f.Why, f.Here(), ""
		}
	}
	const down = "no machine answers for that address (ip neigh): it is down, is not in this network (VLAN, VXLAN), or "
	if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap().Is4() }) {
		return down + "a strict rp_filter there drops what this node sends", fix, host
	}
	return down + "a firewall, here or there, drops ICMPv6, by which IPv6 finds neighbours",
		fix + "nft list ruleset; ip6tables -S   # on this node: is ICMPv6 admitted?\n",
		strings.Replace(host, "; sysctl net.ipv4.conf.all.rp_filter", "", 1)
}
