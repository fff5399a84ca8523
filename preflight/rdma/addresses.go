package rdma

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

// rdmaAddresses finds addresses of one node that contradict each other: one that two ports have, and one that does
// not fit the plan of all others.
func rdmaAddresses(_ context.Context, in preflight.Input) []finding.Finding {
	ports := ports(in)
	homes := homesOf(in.Node, ports)
	planned := slices.DeleteFunc(slices.Clone(homes), func(h home) bool { // the way out has an address of another plan
		return h.Netdev == in.Node.Route.Interface
	})
	out := slices.Concat(sameAddress(in.Node, homes), sameLID(ports), sameGUID(in.Node), alone(planned),
		strictNetwork(in.Node, homes))
	if dealt(in, ports) {
		out = append(out, slices.Concat(intruder(planned), oddKind(in, planned))...)
	}
	if f, bad := otherSubnet(in, ports); bad {
		out = append(out, f)
	}
	return preflight.OrPass(out, "%s without a contradiction", finding.Count(len(ports), "rail"))
}

// home is a rail with the address of its GID, as its interface has it.
type home struct {
	rail.Port
	addr netip.Prefix
}

func homesOf(n fabric.Node, ports []rail.Port) (out []home) {
	for _, p := range ports {
		i, _ := n.Interface(p.Netdev)
		for _, g := range p.Facts.GIDs {
			for _, a := range i.Addrs {
				if g.Index == p.GID && p.GID >= 0 && a.Addr() == g.Addr.Unmap() && a.Addr().IsGlobalUnicast() {
					out = append(out, home{p, a})
				}
			}
		}
	}
	return out
}

// sameAddress finds a rail whose address another card of this node has, too. An address of one host may be borrowed
// by several interfaces, as where routes lead to each host.
func sameAddress(n fabric.Node, homes []home) (out []finding.Finding) {
	var seen []netip.Addr
	for _, h := range homes {
		var on []string
		f := finding.Warnf("")
		for _, i := range n.Interfaces {
			card := slices.Contains([]string{"physical", "bond", "vlan", "macvlan"}, i.Kind) && i.Up && i.Master == ""
			if card && slices.ContainsFunc(i.Addrs, func(a netip.Prefix) bool {
				return a.Addr() == h.addr.Addr() && !a.IsSingleIP()
			}) {
				on = append(on, i.Name)
				f = f.See("address of "+i.Name, "%v", h.addr)
			}
		}
		if len(on) < 2 || h.addr.IsSingleIP() || slices.Contains(seen, h.addr.Addr()) {
			continue
		}
		seen = append(seen, h.addr.Addr())
		f.Seen = f.Seen[:min(len(f.Seen), finding.MaxSeen)]
		f.What = fmt.Sprintf("%v is the address of %d interfaces of this node: %s", h.addr.Addr(), len(on),
			finding.Some(on))
		out = append(out, f.Breaking("packets for it arrive at one of them only; connections over the others fail "+
			"(\"error 12\")").Do("ip addr del %v dev %s   # and give it an address of its own", h.addr, on[len(on)-1]))
	}
	return out
}

// sameLID finds two cards with one local identifier in one subnet. Separate fabrics may have managers with the same LID
// and the same prefix, and then several LIDs are equal: only one that is equal among many is a fault.
func sameLID(ports []rail.Port) []finding.Finding {
	const many, unset = 6, 0xffff
	type local struct {
		subnet string
		lid    int
	}
	by := map[local][]rail.Port{}
	for _, p := range ports {
		if s := subnetOf(p); s != "" && p.Facts.LID > 0 && p.Facts.LID < unset && !p.Card.VF {
			k := local{s, p.Facts.LID}
			by[k] = append(by[k], p)
		}
	}
	var out []finding.Finding
	for _, list := range by {
		if len(list) == 1 {
			continue
		}
		a, b := list[0], list[1]
		if len(list) > 2 || len(out) > 0 || len(ports) < many || a.PCI == b.PCI || a.Card.System == b.Card.System {
			return nil
		}
		out = append(out, finding.Warnf("%s and %s have one LID (%#x) in one subnet", a.Name, b.Name, a.Facts.LID).
			See("/sys/class/infiniband/"+a.File("lid"), "%#x, subnet manager %#x", a.Facts.LID, a.Facts.SMLID).
			See("/sys/class/infiniband/"+b.File("lid"), "%#x, subnet manager %#x", b.Facts.LID, b.Facts.SMLID).
			Breaking("packets for one of them arrive at the other: its connections time out").
			Do("sminfo; ibstat   # is there a second subnet manager?\n"+
				"restart opensm without its guid2lid file, or let UFM assign the LIDs anew"))
	}
	return out
}

// sameGUID finds two InfiniBand cards with one GUID, by which a subnet manager distinguishes them. Devices of one card
// may have one, and where several GUIDs are equal, they were perhaps not set or not recorded.
func sameGUID(n fabric.Node) []finding.Finding {
	by := map[string][]fabric.HCA{}
	for _, h := range n.HCAs {
		if h.GUID != "" && !h.VF && slices.ContainsFunc(h.Ports, func(p fabric.Port) bool {
			return p.Active() && p.LinkLayer == "InfiniBand"
		}) {
			by[h.GUID] = append(by[h.GUID], h)
		}
	}
	var out []finding.Finding
	for guid, list := range by {
		if len(list) == 1 {
			continue
		}
		a, b := list[0], list[1]
		slot := func(h fabric.HCA) string { return strings.TrimRight(h.PCI, "01234567") }
		if len(list) > 2 || len(out) > 0 || a.PCI == "" || slot(a) == slot(b) {
			return nil
		}
		out = append(out, finding.Warnf("%s and %s are two cards with one GUID (%s)", a.Name, b.Name, guid).
			See("/sys/class/infiniband/"+a.Name+"/node_guid", "%s, %s", guid, a.PCI).
			See("/sys/class/infiniband/"+b.Name+"/node_guid", "%s, %s", guid, b.PCI).
			Breaking("the subnet manager takes them for one: it changes the paths of one when the other starts, and "+
				"connections time out").
			Do("flint -d %s query; flint -d %s query   # and compare with the labels of the cards\n"+
				"burn the firmware of the wrong one again, with its own GUID, then restart the subnet manager", a.PCI, b.PCI))
	}
	return out
}

// alone finds the one rail whose network has another size than all others: an address of one host, or a wrong mask.
func alone(homes []home) []finding.Finding {
	const many = 4
	by := map[int][]home{}
	for _, h := range homes {
		by[h.addr.Bits()] = append(by[h.addr.Bits()], h)
	}
	other := func(h home) bool { return h.addr.Addr().Is4() != homes[0].addr.Addr().Is4() }
	if len(by) != 2 || len(homes) < many || slices.ContainsFunc(homes, other) {
		return nil
	}
	for bits, list := range by {
		if len(list) != 1 {
			continue
		}
		h, o := list[0], homes[0]
		if o.Name == h.Name {
			o = homes[1]
		}
		f := finding.Warnf("%s has %v, while the networks of the other %d rails are /%d", h.Name, h.addr, len(homes)-1,
			o.addr.Bits()).
			See("address of "+h.Netdev, "%v", h.addr).See("address of "+o.Netdev, "%v", o.addr).
			Breaking("the kernel looks for some of the peers at the wrong place, and connections over it time out").
			Do("ip addr del %v dev %s; ip addr add %v/%d dev %[2]s   # and in the network's configuration", h.addr, h.Netdev,
				h.addr.Addr(), o.addr.Bits())
		if bits == h.addr.Addr().BitLen() {
			f = f.Breaking("the kernel has no route to the peers over it: connections fail (\"Network is unreachable\")")
		}
		return []finding.Finding{f}
	}
	return nil
}

// dealt reports whether the rails are as many for each GPU: a port more may have a network for another purpose.
func dealt(in preflight.Input, ports []rail.Port) bool {
	gpus := len(rail.Of(in.Node, in.Addr).GPUs)
	return gpus > 0 && len(ports)%gpus == 0
}

// intruder finds the one rail in the network of another one, while each other rail has a network of its own.
func intruder(homes []home) []finding.Finding {
	const many = 4
	by := map[netip.Prefix][]home{}
	for _, h := range homes {
		by[h.addr.Masked()] = append(by[h.addr.Masked()], h)
	}
	if len(homes) < many || len(by) != len(homes)-1 {
		return nil
	}
	for _, list := range by {
		if len(list) != 2 || list[0].addr.IsSingleIP() || list[0].addr.Addr() == list[1].addr.Addr() ||
			rail.SharesCable(list[0].Card, list[1].Card) {
			continue
		}
		a, b := list[0], list[1]
		return []finding.Finding{finding.Warnf("%s and %s are in one network, while each other rail has its own", a.Name,
			b.Name).
			See("address of "+a.Netdev, "%v", a.addr).See("address of "+b.Netdev, "%v", b.addr).
			Breaking("one of them perhaps has an address of the wrong network: then its switch does not lead to the peers " +
				"in it").
			Do("ip -br addr   # compare with the other nodes, and correct the address of the wrong one\n" +
				"if the rails have no networks of their own: --skip rdma.addresses")}
	}
	return nil
}

// otherSubnet finds the one InfiniBand rail in another subnet than all others, in the place of a GPU's rail.
func otherSubnet(in preflight.Input, ports []rail.Port) (finding.Finding, bool) {
	const many = 4
	by := map[string][]rail.Port{}
	for _, p := range ports {
		by[subnetOf(p)] = append(by[subnetOf(p)], p)
	}
	if len(by) != 2 || len(by[""]) > 0 || len(ports) < many || !dealt(in, ports) {
		return finding.Finding{}, false
	}
	var odd, rest []rail.Port
	for _, list := range by {
		if len(list) == 1 {
			odd = list
		} else {
			rest = list
		}
	}
	if len(odd) == 0 {
		return finding.Finding{}, false
	}
	return finding.Warnf("%s is in another InfiniBand subnet than the other %d rails", odd[0].Name, len(rest)).
		See("/sys/class/infiniband/"+odd[0].File("sm_lid"), "%s", subnetOf(odd[0])).
		See("/sys/class/infiniband/"+rest[0].File("sm_lid"), "%s", subnetOf(rest[0])).
		Breaking("subnets do not reach each other: its peers are perhaps not there, and connections time out").
		Do("iblinkinfo -C %s   # shows the switch that its cable leads to\nuntil then leave it out: NCCL_IB_HCA=^=%[1]s",
			odd[0].HCA), true
}

// subnetOf describes the subnet of an InfiniBand port: its manager and its prefix; "" where one is unknown.
func subnetOf(p rail.Port) string {
	i := slices.IndexFunc(p.Facts.GIDs, func(g fabric.GID) bool { return g.Index == 0 })
	if p.Facts.LinkLayer != "InfiniBand" || p.Facts.SMLID == 0 || i < 0 {
		return ""
	}
	prefix, _ := p.Facts.GIDs[i].Addr.Prefix(64)
	return fmt.Sprintf("subnet manager %#x, prefix %v", p.Facts.SMLID, prefix.Addr())
}
