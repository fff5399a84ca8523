package rdma

import (
	"net/netip"
	"slices"

	"launch/fabric"
	"launch/internal/finding"
	"launch/preflight"
)

// strictNetwork finds rails in one IPv4 network, whose kernel takes packets only from where its own way leads (strict
// rp_filter). Its way into the network leads over the first of their interfaces. The others then answer no ARP
// request, and the first answers for their addresses, or with arp_ignore nothing does: RDMA does not reach the right
// card. A rule by source gives an interface a way of its own.
func strictNetwork(n fabric.Node, homes []home) (out []finding.Finding) {
	by := map[netip.Prefix][]home{}
	var networks []netip.Prefix
	for _, h := range homes {
		i, ok := n.Interface(h.Netdev)
		if !ok || !i.Strict || i.Master != "" || !h.addr.Addr().Is4() || h.addr.IsSingleIP() ||
			i.Ruled == nil || slices.Contains(i.Ruled, h.addr.Addr()) {
			continue
		}
		at := h.addr.Masked()
		if by[at] == nil {
			networks = append(networks, at)
		}
		if !slices.ContainsFunc(by[at], func(o home) bool { return o.Netdev == h.Netdev }) {
			by[at] = append(by[at], h)
		}
	}
	for _, at := range networks {
		list := by[at]
		if len(list) < 2 {
			continue
		}
		names := finding.Map(list, func(h home) string { return h.Netdev })
		f := finding.Warnf("%s are in one network (%v), and take packets from their own way only (strict rp_filter): %s",
			finding.Count(len(list), "rail"), at, finding.Some(names))
		for _, h := range list[:min(len(list), finding.MaxSeen)] {
			f = f.See("address of "+h.Netdev, "%v, rp_filter 1, no rule for this source (ip rule)", h.addr)
		}
		out = append(out, f.Breaking("the way into that network leads over one of them, which answers ARP requests for "+
			"all, or nothing answers for the others: what the peers send to the others does not reach them (\"error 12\")").
			Do("sysctl -w net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2   "+
				"# and in /etc/sysctl.d\nor give each rail a network of its own, or a routing table: ip rule add from %v table 101",
				list[0].addr.Addr()))
	}
	return out
}

// oddKind finds the one rail whose address is on a VLAN while all others are on plain ports, or the reverse.
func oddKind(in preflight.Input, homes []home) (out []finding.Finding) {
	const many = 4
	kind := func(h home) string {
		i, _ := in.Node.Interface(h.Netdev)
		return i.Kind
	}
	by := map[string][]home{}
	for _, h := range homes {
		by[kind(h)] = append(by[kind(h)], h)
	}
	if len(homes) < many || len(by) != 2 {
		return nil
	}
	words := map[string]string{"physical": "a plain port", "vlan": "a VLAN"}
	for k, list := range by {
		other := homes[0]
		if kind(other) == k {
			other = homes[1]
		}
		if len(list) != 1 || words[k] == "" || words[kind(other)] == "" {
			continue
		}
		h := list[0]
		out = append(out, finding.Warnf("the address of %s is on %s (%s), and those of the other %d rails on %s each",
			h.Name, words[k], h.Netdev, len(homes)-1, words[kind(other)]).
			See("address of "+h.Netdev, "%v, %s", h.addr, k).
			See("address of "+other.Netdev, "%v, %s", other.addr, kind(other)).
			Breaking("where the other nodes have this rail on %s, too, its packets do not reach them, and connections over it "+
				"time out", words[kind(other)]).
			Do("ip -d link show %s   # compare with the other rails and nodes\nif it is so on all nodes: --skip "+
				"rdma.addresses", h.Netdev))
	}
	return out
}
