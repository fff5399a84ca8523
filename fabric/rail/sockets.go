package rail

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"launch/fabric"
)

// sockets finds the interfaces of a machine whose jobs use TCP over several of them, as GCP's A3 do:
// they have one driver, can be dealt to the GPUs evenly, and exclude the way out.
func (d *decision) sockets(v *view) {
	by := map[string][]fabric.Interface{}
	for _, i := range v.node.Interfaces {
		if i.Kind == "physical" && i.Driver != "" && i.Up && i.Running && reachable(i) && i.Master == "" && !v.leadsOut(i) {
			by[i.Driver] = append(by[i.Driver], i)
		}
	}
	var best []fabric.Interface
	for _, list := range by {
		even := len(list) > 1 && len(v.gpus) > 1 && (len(list)%len(v.gpus) == 0 || len(v.gpus)%len(list) == 0)
		if even && (len(list) > len(best) || len(list) == len(best) && list[0].Driver < best[0].Driver) {
			best = list
		}
	}
	if best == nil {
		return
	}
	d.guess("only their number says so")
	d.why += fmt.Sprintf("; %d interfaces of driver %s besides the way out, for %d GPUs", len(best), best[0].Driver,
		len(v.gpus))
	for _, i := range best {
		d.rails = append(d.rails, overTCP(i))
	}
	slices.SortStableFunc(d.rails, func(a, b candidate) int { return natural(a.port.Netdev, b.port.Netdev) })
}

func overTCP(i fabric.Interface) candidate {
	port := fabric.Port{Netdev: i.Name, LinkLayer: "Ethernet", Rate: float64(i.Speed) / 1000}
	return candidate{fabric.HCA{PCI: i.PCI, NUMA: i.NUMA}, port, TCP}
}

// plain returns the rail of a job without RDMA: the interface to the peers or out, or the fastest. A faster
// one in the same network precedes it, as a guess, since Linux sends to a network by one of them only. One in another
// network makes it a guess, too, and has the role of a possible rail.
func (v *view) plain(nics []NIC) (rails []candidate, doubt string) {
	var best fabric.Interface
	rank := func(i fabric.Interface, role Role) int {
		switch {
		case role == Peer:
			return 3
		case role != Management:
			return 0
		case v.leadsOut(i):
			return 2
		}
		return 1
	}
	top := 0
	for _, nic := range nics {
		i, ok := v.node.Interface(nic.Name)
		if nic.HCA || !ok {
			continue
		}
		if r := rank(i, nic.Role); r > top || r == top && r > 0 && i.Speed > best.Speed {
			best, top = i, r
		}
	}
	if top == 0 {
		return nil, ""
	}
	for _, f := range v.node.Interfaces {
		if f.Speed > best.Speed && best.Speed > 0 && slices.Contains(v.node.Neighbors(best), f.Name) {
			best, doubt = f, fmt.Sprintf("%s and the faster %s are in one network", best.Name, f.Name)
		}
	}
	faster := func(nic NIC) (f fabric.Interface, ok bool) {
		f, ok = v.node.Interface(nic.Name)
		return f, ok && !nic.HCA && nic.Role == Management && Faster(best, f) && !v.leadsOut(f)
	}
	top = 0
	for _, nic := range nics {
		if f, ok := faster(nic); ok {
			top = max(top, f.Speed)
		}
	}
	for i, nic := range nics { // the nodes may take the fastest network if all of them reach each other there
		f, ok := faster(nic)
		if !ok || f.Speed < top {
			continue
		}
		nics[i].Role, nics[i].Sure = Compute, false
		nics[i].Why = fmt.Sprintf("%g Gb/s, and %s has %g: the job's data may take it if all nodes reach each other there",
			float64(f.Speed)/1000, best.Name, float64(best.Speed)/1000)
		doubt = cmp.Or(doubt, fmt.Sprintf("%s is faster than %s, and whether all nodes reach each other there shows only "+
			"at the start", f.Name, best.Name))
	}
	return []candidate{overTCP(best)}, doubt
}

// Faster reports whether an interface is a cable at least twice as fast as another one, with an address of the same
// family that other machines may reach.
func Faster(slow, f fabric.Interface) bool {
	four := func(i fabric.Interface) bool {
		return slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr().Is4() && p.Addr().IsGlobalUnicast() })
	}
	return Cabled(f) && f.Up && f.Running && f.Master == "" && reachable(f) && four(f) == four(slow) && slow.Speed > 0 &&
		Cabled(slow) && f.Speed >= 2*slow.Speed
}

// Cabled reports whether the speed of an interface is a cable's: the kernel has one for veths, too.
func Cabled(i fabric.Interface) bool {
	return slices.Contains([]string{"physical", "bond", "vlan", "ipoib"}, i.Kind)
}

// slingshot makes a node's Cassini NICs its rails: they show an Ethernet interface, not RDMA. One without
// carrier is no rail. Where the interface is in another network namespace, the carrier is unknown.
func (d *decision) slingshot(v *view, able []candidate) {
	for _, p := range v.node.PCI {
		if p.Vendor == fabric.VendorCray && p.Device == Cassini && !p.VF {
			port := fabric.Port{LinkLayer: "Ethernet"}
			own := func(i fabric.Interface) bool { return i.PCI == p.Addr }
			if i := slices.IndexFunc(v.node.Interfaces, own); i >= 0 {
				f := v.node.Interfaces[i]
				if !f.Up || !f.Running {
					d.dark = append(d.dark, f.Name)
					continue
				}
				port.Netdev, port.Rate = f.Name, float64(f.Speed)/1000
			}
			d.rails = append(d.rails, candidate{fabric.HCA{PCI: p.Addr, NUMA: p.NUMA}, port, Slingshot})
		}
	}
	if len(d.rails) == 0 {
		return
	}
	d.kind, d.sure = Slingshot, true
	d.why = fmt.Sprintf("%d x Slingshot (Cassini)", len(d.rails))
	if n := len(d.dark); n > 0 {
		d.why += fmt.Sprintf("; %d more %s no link", n, map[bool]string{true: "has", false: "have"}[n == 1])
	}
	for _, c := range able {
		role, sure := v.otherRole(c)
		d.others = append(d.others, ruled{c, role, "the fabric of this machine is Slingshot", sure})
	}
}
