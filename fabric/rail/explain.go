package rail

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"launch/fabric"
)

// explain describes the rails in one line, and withdraws certainty if the facts are too few.
func (d *decision) explain(v *view) {
	subnets, networks := map[string]bool{}, map[netip.Prefix]bool{}
	var parts []string
	homeless, unread := 0, 0
	for _, c := range d.rails {
		if part := d.counted(classOf(c)); !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
		if s := subnet(c); s != "" {
			subnets[s] = true
		}
		if p := v.home(c); p.IsValid() {
			networks[p] = true
		}
		if c.kind == RoCE && c.hca.NodeType != nodeRNIC && len(c.port.GIDs) > 0 && v.gid(c) < 0 {
			homeless++
		}
		if unlisted(c) && c.hca.NodeType != nodeRNIC {
			unread++
		}
		if c.kind == Unknown || c.hca.NodeType == nodeRNIC || c.kind != EFA && (!c.port.Active() || c.port.Rate == 0) {
			d.guess("link, state or rate of a port is unknown, or it is iWARP")
		}
	}
	d.why = strings.Join(parts, " and ")
	if len(subnets) > 1 { // a port reaches its own subnet only
		d.why += fmt.Sprintf(", in %d subnets", len(subnets))
		d.guess("in several subnets, which do not reach each other")
	}
	if len(networks) > 1 && !v.oneForEach(*d) {
		d.why += fmt.Sprintf(", in %d networks (whether they are routed to each other is unknown)", len(networks))
		d.guess("in several networks, and whether they are routed to each other is unknown")
	}
	if n := len(v.gpus); n > 1 && len(d.rails) > n && d.kind != EFA && !v.oneForEach(*d) {
		d.why += fmt.Sprintf(" for %d GPUs, so some may have another purpose", n)
		d.guess(fmt.Sprintf("%d ports for %d GPUs, so some may have another purpose", len(d.rails), n))
	}
	if homeless > 0 {
		d.why += fmt.Sprintf("; %d without an address for RoCE v2", homeless)
	}
	if homeless > 0 && !slices.ContainsFunc(d.rails, v.known) {
		d.guess("no rail has an address")
	}
	if unread > 0 {
		d.why += fmt.Sprintf("; %d whose GID table could not be read", unread)
		d.guess("a GID table could not be read, so whether the port has an address for RoCE v2 is unknown")
	}
	if n := len(v.lone(d.rails)); n > 0 {
		d.why += fmt.Sprintf("; no GPU at the switch of %d of them", n)
	}
	d.lost(v)
	if d.kind == Unknown {
		d.why += "; their link layer could not be read"
	}
}

// lost describes the cards that are not rails, and look as if they should be.
func (d *decision) lost(v *view) {
	have := map[bool]string{true: "has", false: "have"}
	if n := len(v.missing(*d)); n > 0 {
		d.why += fmt.Sprintf("; %d more of the same kind %s no link", n, have[n == 1])
	}
	if n := v.closedRails(*d); n > 0 {
		d.why += fmt.Sprintf("; %d more of the same kind %s not open", n, map[bool]string{true: "does", false: "do"}[n == 1])
	}
	if n := v.dropped(d.rails); n > 0 {
		d.why += fmt.Sprintf("; %d more %s of their cards %s no link", n,
			map[bool]string{true: "port", false: "ports"}[n == 1], have[n == 1])
	}
	if n, mode := v.inOtherMode(*d); n > 0 {
		d.why += fmt.Sprintf("; %d more of the same kind in %s mode", n, mode)
	}
	if n := v.beyond(*d); n > 0 {
		d.why += fmt.Sprintf("; %d more of the same kind in another network than the peers", n)
	}
	bare, half := v.refusals(*d)
	if bare > 0 {
		d.why += fmt.Sprintf("; %d more of the same kind %s no driver", bare, have[bare == 1])
	}
	if half > 0 {
		d.why += fmt.Sprintf("; %d more of the same kind %s no RDMA device", half, have[half == 1])
	}
	if n := len(v.dead(*d, d.rails)); n > 0 {
		d.guess("cards without a link look more like the fabric")
		d.why += fmt.Sprintf("; %d other %s no link", n,
			map[bool]string{true: "HCA has", false: "HCAs have"}[n == 1])
	}
}

// known reports whether a rail needs no address or has one, also for RoCE v1.
func (v *view) known(c candidate) bool {
	return c.kind != RoCE || c.hca.NodeType == nodeRNIC || unlisted(c) ||
		slices.ContainsFunc(c.port.GIDs, func(g fabric.GID) bool { return beyond(g) && v.ours(g) }) || v.gid(c) >= 0
}

// oneForEach reports whether each GPU has the same number of rails, or would if none had failed.
func (v *view) oneForEach(d decision) bool {
	other, _ := v.inOtherMode(d)
	bare, half := v.refusals(d)
	failed := len(v.missing(d)) + v.dropped(d.rails) + v.closedRails(d) + bare + half + other
	for _, h := range v.node.HCAs {
		if v.forgotten(h, d) {
			failed++
		}
	}
	return v.even(d.rails) || len(v.gpus) > 1 && (len(d.rails)+failed)%v.places() == 0
}

// home returns the network of a RoCE rail's own address; invalid where it is unknown.
func (v *view) home(c candidate) netip.Prefix {
	if g, ok := v.entry(c, v.gid(c)); ok {
		return v.housed(g).Masked()
	}
	return netip.Prefix{}
}

// housed returns the address of an entry with the prefix that an interface here has; invalid if none has it.
func (v *view) housed(g fabric.GID) netip.Prefix {
	for _, f := range v.node.Interfaces {
		for _, p := range f.Addrs {
			if p.Addr() == g.Addr.Unmap() {
				return p
			}
		}
	}
	return netip.Prefix{}
}

// without returns the fabric of a node that has no port for a rail.
func (v *view) without(d decision) (Kind, string, bool) {
	var virtual, unusable int
	for _, nic := range d.unable {
		if nic.Role == Virtual {
			virtual++
		} else {
			unusable++
		}
	}
	switch {
	case len(d.dark) > 0:
		return TCP, fmt.Sprintf("%d x Slingshot (Cassini), all without a link", len(d.dark)), true
	case unusable > 0:
		first := slices.MinFunc(slices.Collect(maps.Values(d.unable)), func(a, b NIC) int {
			return cmp.Or(cmp.Compare(a.Role, b.Role), natural(a.Name, b.Name)) // unusable is before virtual
		})
		devices := map[bool]string{true: "device", false: "devices"}[unusable == 1]
		return TCP, fmt.Sprintf("%d RDMA %s, none usable by a job; %s: %s", unusable, devices, first.Name, first.Why), true
	case len(d.bare) > 0:
		return TCP, d.bare[0].Name + ": " + d.bare[0].Why, true
	case virtual > 0:
		return TCP, "only RDMA devices that the CPU emulates", true
	case slices.ContainsFunc(v.node.Interfaces, func(i fabric.Interface) bool { return i.Kind != "loopback" }),
		slices.ContainsFunc(v.node.PCI, func(p fabric.PCI) bool { return strings.HasPrefix(p.Class, "0x02") }):
		return TCP, "no RDMA device", true
	}
	return Unknown, "no network device is visible", false
}

// reason returns what all rails of a class have in common.
func (d *decision) reason(c candidate) string {
	if c.kind == EFA {
		return "EFA"
	}
	return d.counted(classOf(c))
}

// counted returns the number of rails of a class, and the class.
func (d *decision) counted(k class) string {
	n := 0
	for _, r := range d.rails {
		if classOf(r) == k {
			n++
		}
	}
	return fmt.Sprintf("%d x %v", n, k)
}
