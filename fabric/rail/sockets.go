package rail

import (
	"fmt"
	"slices"

	"launch/fabric"
)

// sockets finds the interfaces of a machine whose jobs use TCP over several of them.
// They have one driver, can be dealt to the GPUs evenly, and exclude the way out. A
// cloud without RDMA gives each GPU a network in this way (GCP's A3).
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
	d.sure = false
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

// plain returns the rail of a job with only one network: the interface that the peers
// use or that leads out, else the fastest that could carry traffic.
func (v *view) plain(nics []NIC) []candidate {
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
		return nil
	}
	return []candidate{overTCP(best)}
}

// slingshot makes the Cassini NICs of a node its rails, if it has any: they speak
// libfabric's cxi and show no RDMA device, only an Ethernet interface.
func (d *decision) slingshot(v *view, able []candidate) {
	for _, p := range v.node.PCI {
		if p.Vendor == vendorCray && p.Device == deviceCassini && !p.VF {
			d.rails = append(d.rails, candidate{fabric.HCA{PCI: p.Addr, NUMA: p.NUMA}, fabric.Port{LinkLayer: "Ethernet"},
				Slingshot})
		}
	}
	if len(d.rails) == 0 {
		return
	}
	d.kind, d.sure = Slingshot, true
	d.why = fmt.Sprintf("%d x Slingshot (Cassini)", len(d.rails))
	for i := range d.rails {
		d.rails[i].port.Netdev, d.rails[i].port.Rate = v.hsn(d.rails[i])
	}
	for _, c := range able {
		role, sure := v.besides(c)
		d.others = append(d.others, ruled{c, role, "the fabric of this machine is Slingshot", sure})
	}
}

// hsn returns the interface of a Cassini NIC, and its speed in Gb/s.
func (v *view) hsn(c candidate) (name string, rate float64) {
	for _, i := range v.node.Interfaces {
		if i.PCI == c.hca.PCI {
			return i.Name, float64(i.Speed) / 1000
		}
	}
	return "", 0
}
