package rail

import (
	"slices"

	"launch/fabric"
)

// hcaRoles returns the role of each HCA, by name, followed by hardware without an RDMA
// device. An HCA has the role of its best port.
func (v *view) hcaRoles(d decision) []NIC {
	missing := v.missing(d)
	var out []NIC
	for _, h := range v.node.HCAs {
		nic, bad := d.unable[h.Name]
		if !bad {
			nic = portRole(h, d)
		}
		nic.Missing = slices.Contains(missing, h.Name)
		out = append(out, nic)
	}
	return append(out, d.bare...)
}

func portRole(h fabric.HCA, d decision) NIC {
	nic := NIC{Name: h.Name, HCA: true}
	if i := slices.IndexFunc(d.rails, func(c candidate) bool { return c.hca.Name == h.Name }); i >= 0 {
		nic.Role, nic.Sure, nic.Why = Compute, d.sure, d.reason(d.rails[i])
		return nic
	}
	for _, r := range d.others {
		if r.hca.Name == h.Name {
			nic.Role, nic.Sure, nic.Why = r.role, r.sure, r.why
			return nic
		}
	}
	nic.Role, nic.Why = Unusable, "shows no port that a job could use"
	return nic
}

// missing returns the HCAs that would be rails if they had a link. They are cards of the rails'
// type and board that are down, while the rails' cards have as many ports up as this card could
// have. The second port of a card does not count if no other card uses its second port either.
func (v *view) missing(d decision) (out []string) {
	if len(d.rails) == 0 {
		return nil
	}
	up := map[string]int{} // rails of each card
	for _, c := range d.rails {
		up[cardOf(c.hca)]++
	}
	usual := 0 // as most cards have
	count := map[int]int{}
	for _, n := range up {
		count[n]++
		if count[n] > count[usual] || count[n] == count[usual] && n < usual {
			usual = n
		}
	}
	for _, h := range v.node.HCAs {
		nic, bad := d.unable[h.Name]
		if !bad || nic.Role != Unusable || len(h.Ports) == 0 || h.Ports[0].Elsewhere != "" || v.closed(h) != "" {
			continue
		}
		like := slices.ContainsFunc(d.rails, func(c candidate) bool {
			return c.hca.Driver == h.Driver && c.hca.Type == h.Type && c.hca.Board == h.Board && c.hca.VF == h.VF &&
				c.kind == v.linkKind(h, h.Ports[0])
		})
		if like && up[cardOf(h)] < usual {
			out = append(out, h.Name)
		}
	}
	return out
}

// dead counts the HCAs without a link, if they look more like the fabric than the rails
// do. Either there are more of them and the rails are only the machine's way out, or
// only they are behind the GPUs' switches.
func (v *view) dead(d decision) int {
	var down []candidate
	for _, h := range v.node.HCAs {
		nic, bad := d.unable[h.Name]
		linkless := bad && nic.Role == Unusable && len(h.Ports) > 0 && h.NodeType == nodeCA &&
			!slices.ContainsFunc(h.Ports, fabric.Port.Active)
		like := slices.ContainsFunc(d.rails, func(c candidate) bool { return c.hca.Type == h.Type && c.hca.Board == h.Board })
		if linkless && !like && v.closed(h) == "" {
			down = append(down, candidate{hca: h, port: h.Ports[0]})
		}
	}
	out := !slices.ContainsFunc(d.rails, func(c candidate) bool { return !v.isWayOut(c) })
	if len(down) > len(d.rails) && out || v.served(down) > 0 && v.served(d.rails) == 0 {
		return len(down)
	}
	return 0
}

// cardOf identifies the card of an HCA: the GUID that all its ports share, else its PCI
// device without the function.
func cardOf(h fabric.HCA) string {
	if h.System != "" {
		return h.System
	}
	if n := len(h.PCI); n > 2 && h.PCI[n-2] == '.' {
		return h.PCI[:n-2]
	}
	return h.Name
}
