package fabric

import (
	"cmp"
	"net/netip"
	"path"
	"slices"
	"strconv"
)

// netdev is the interface of a port in this network namespace, or else the one
// it has elsewhere. The GID table names the device that holds the address (a
// bond, a VLAN), so it comes first, and it may also name devices of other
// namespaces. Else it is a netdev of the same function.
func netdev(d *dir, h HCA, p Port, ifaces []Interface) (name, elsewhere string) {
	if p.LinkLayer != "InfiniBand" { // InfiniBand GIDs have no netdev
		name, elsewhere = byGID(d, p, ifaces)
	}
	if name = above(ifaces, cmp.Or(name, ofFunction(d, h, p, ifaces))); name != "" {
		return name, ""
	}
	return "", elsewhere
}

// byGID prefers the netdev of an address that others can reach: beside it, the
// link-local GIDs of the card itself name the slave or the parent.
func byGID(d *dir, p Port, ifaces []Interface) (name, elsewhere string) {
	local := ""
	for _, g := range p.GIDs {
		switch {
		case g.Netdev == "":
		case !here(ifaces, g.Netdev):
			elsewhere = cmp.Or(elsewhere, g.Netdev)
		case g.Addr.IsLinkLocalUnicast():
			local = cmp.Or(local, g.Netdev)
		default:
			return g.Netdev, elsewhere
		}
	}
	if local != "" || len(p.GIDs) > 0 {
		return local, elsewhere
	}
	ndevs := path.Join("ports", strconv.Itoa(p.Num), "gid_attrs/ndevs")
	for _, entry := range byNumber(d.names(ndevs)) { // there are drivers that give these alone
		switch dev := d.line(path.Join(ndevs, entry)); {
		case here(ifaces, dev):
			return dev, ""
		default:
			elsewhere = cmp.Or(elsewhere, dev)
		}
	}
	return "", elsewhere
}

// ofFunction is the netdev of the HCA's own function. Where it has several, as
// ConnectX-3 has for its two ports and for IPoIB beside Ethernet, the one of
// this link layer and port; a child of IPoIB comes after its parent.
func ofFunction(d *dir, h HCA, p Port, ifaces []Interface) string {
	var own []Interface
	for _, f := range ifaces {
		if f.PCI != "" && f.PCI == h.PCI {
			own = append(own, f)
		}
	}
	if h.PCI == "" {
		for _, name := range d.names("device/net") {
			if i := indexOf(ifaces, name); i >= 0 {
				own = append(own, ifaces[i])
			}
		}
	}
	fits := func(f Interface) bool {
		same := (f.Type == typeInfiniBand) == (p.LinkLayer == "InfiniBand")
		return f.DevPort == p.Num-1 && (same || f.Type == 0 || p.LinkLayer == "" || p.LinkLayer == "Unknown")
	}
	if i := slices.IndexFunc(own, fits); i >= 0 {
		return own[i].Name
	}
	if len(own) == 1 && len(h.Ports) == 1 {
		return own[0].Name
	}
	return ""
}

// above is the interface that holds the address of another: the bond or bridge
// that it belongs to in the end, or the paravirtual one of Hyper-V. The masters
// of Open vSwitch and of VRFs hold none.
func above(ifaces []Interface, name string) string {
	for range 4 { // a port in a bond in a bridge is 2
		i := indexOf(ifaces, name)
		if i < 0 || slices.ContainsFunc(ifaces[i].Addrs, func(p netip.Prefix) bool { return !p.Addr().IsLinkLocalUnicast() }) {
			break
		}
		m := indexOf(ifaces, ifaces[i].Master)
		if m < 0 || !slices.Contains([]string{"bond", "bridge", "physical"}, ifaces[m].Kind) {
			break
		}
		name = ifaces[m].Name
	}
	return name
}

func here(ifaces []Interface, name string) bool {
	return name != "" && indexOf(ifaces, name) >= 0
}

// indexOf is where the interface of that name stands, -1 where it does not.
func indexOf(ifaces []Interface, name string) int {
	return slices.IndexFunc(ifaces, func(f Interface) bool { return f.Name == name })
}
