package rail

import (
	"fmt"

	"launch/fabric"
)

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
