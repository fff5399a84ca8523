package rail

import (
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
)

// device compares one RDMA device, as far as the tree has files: the author of an
// expectation may know a driver from elsewhere.
func (b *board) device(want expectedDevice, n fabric.Node, f Fabric) {
	name := *want.Name
	h, found := find(n.HCAs, func(h fabric.HCA) bool { return h.Name == name })
	if !found { // a link that dangles counts too
		found = slices.ContainsFunc(n.Unknown, func(u fabric.Unknown) bool { return strings.HasSuffix(u.What, "/"+name) })
	}
	b.mark("devices", name, true, found)
	at := "infiniband/" + name
	check := func(field, file string, want *string, got string) {
		if want != nil {
			b.markSeen(field, name+" "+file, at+"/"+file, *want, got)
		}
	}
	check("facts", "hca_type", want.Type, h.Type)
	check("facts", "fw_ver", want.Firmware, h.Firmware)
	check("facts", "board_id", want.Board, h.Board)
	if want.Driver != nil && h.PCI != "" {
		b.mark("facts", name+" driver", *want.Driver, h.Driver)
	}
	if want.PCI != nil {
		b.markSeen("facts", name+" pci", "sys/bus/pci/devices/"+*want.PCI+`"`, *want.PCI, h.PCI)
	}
	if want.NUMA != nil && h.PCI != "" {
		b.mark("facts", name+" numa", *want.NUMA, h.NUMA)
	}
	if want.VF != nil && (h.Type != "" || h.PCI != "") {
		b.mark("facts", name+" is a VF", *want.VF, h.VF)
	}
	for _, p := range want.Ports {
		b.port(name, p, h)
	}
	b.role(want, f)
}

func (b *board) role(want expectedDevice, f Fabric) {
	if want.Role == nil {
		return
	}
	nic, _ := find(f.NICs, func(nic NIC) bool { return nic.Name == *want.Name })
	if _, rail := find(f.Rails, func(r Rail) bool { return r.HCA == "" && r.Netdev == nic.Name }); rail {
		nic.Role = Compute // for a job over TCP
	}
	got := "right"
	if !sameRole(*want.Role, want.Usable, nic) {
		got = fmt.Sprintf("%s: %s", nic.Role, nic.Why)
	}
	b.mark("roles", *want.Name+" "+*want.Role, "right", got)
}

func (b *board) port(name string, want expectedPort, h fabric.HCA) {
	p, _ := find(h.Ports, func(p fabric.Port) bool { return p.Num == want.Num })
	at := "infiniband/" + name + "/ports/" + string(rune('0'+want.Num)) + "/"
	if want.State != nil {
		b.markSeen("ports", name+" state", at+"state", map[string]int{"DOWN": 1, "INIT": 2, "ARMED": 3,
			"ACTIVE": 4}[*want.State], p.State)
	}
	if n, ok := map[string]int{"Sleep": 1, "Polling": 2, "Disabled": 3, "LinkUp": 5}[deref(want.PhysState)]; ok {
		b.markSeen("ports", name+" phys_state", at+"phys_state", n, p.PhysState)
	}
	if want.Rate != nil {
		b.markSeen("ports", name+" rate", at+"rate", *want.Rate, p.Rate)
	}
	if want.LinkLayer != nil {
		b.markSeen("ports", name+" link_layer", at+"link_layer", *want.LinkLayer, p.LinkLayer)
	}
	if want.Netdev != nil {
		file := "/net/" + *want.Netdev + `/device"`
		if !strings.Contains(b.tree, file) {
			file = `"` + *want.Netdev + `\n"` // in gid_attrs/ndevs
		}
		b.markSeen("ports", name+" netdev", file, *want.Netdev, p.Netdev)
	}
	if want.LID != nil {
		b.markSeen("ports", name+" lid", at+"lid", *want.LID, p.LID)
	}
	if want.SMLID != nil {
		b.markSeen("ports", name+" sm_lid", at+"sm_lid", *want.SMLID, p.SMLID)
	}
}

// sameRole compares a role with the expectation's. There, a failed rail is "compute"
// and not usable; here it is unusable and missing.
func sameRole(want string, usable *bool, nic NIC) bool {
	switch want {
	case "compute":
		if usable != nil && !*usable {
			return nic.Role == Unusable && nic.Missing || nic.Role == Compute
		}
		return nic.Role == Compute
	case "management":
		return nic.Role == Management
	case "storage":
		return nic.Role == Storage
	case "management/storage", "storage/management", "north-south":
		return nic.Role == Management || nic.Role == Storage
	case "virtual", "software":
		return nic.Role == Virtual
	}
	return nic.Role == Unusable // unused, unsupported, auxiliary
}
