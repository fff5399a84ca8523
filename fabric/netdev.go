package fabric

import (
	"cmp"
	"net/netip"
	"path"
	"slices"
	"strconv"
)

// netdev returns the interface of a port in this network namespace, or else its name in another
// one. The GID table comes first: it names the device with the address (a bond, a VLAN), also one
// of another namespace. The fallback is a netdev of the same function.
func netdev(d *dir, h HCA, p Port, ifaces []Interface) (name, elsewhere string) {
	if p.LinkLayer != "InfiniBand" { // InfiniBand GIDs have no netdev
		name, elsewhere = byGID(d, p, ifaces)
	}
	if name = above(ifaces, cmp.Or(name, ofFunction(d, h, p, ifaces))); name != "" {
		return name, ""
	}
	return "", elsewhere
}

// byGID prefers the netdev of an address that others can reach. The card's own
// link-local GIDs name the slave or the parent instead.
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
	for _, entry := range byNumber(d.names(ndevs)) { // some drivers have only these
		switch dev := d.line(path.Join(ndevs, entry)); {
		case here(ifaces, dev):
			return dev, ""
		default:
			elsewhere = cmp.Or(elsewhere, dev)
		}
	}
	return "", elsewhere
}

// ofFunction returns the netdev of the HCA's own function. If there are several, it is
// the one of this link layer and port, and an IPoIB parent before its children.
// ConnectX-3 has several: for its two ports, and for IPoIB and Ethernet.
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

// above returns the interface that holds the address of another one: its outermost bond or bridge,
// or Hyper-V's paravirtual one. The masters of Open vSwitch and of VRFs hold no address.
func above(ifaces []Interface, name string) string {
	for range 4 { // a port in a bond in a bridge needs 2
		i := indexOf(ifaces, name)
		if i < 0 || slices.ContainsFunc(ifaces[i].Addrs,
			func(p netip.Prefix) bool { return !p.Addr().IsLinkLocalUnicast() }) {
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

func here(ifaces []Interface, name string) bool { return name != "" && indexOf(ifaces, name) >= 0 }

// indexOf returns the index of the interface with that name, -1 if there is none.
func indexOf(ifaces []Interface, name string) int {
	return slices.IndexFunc(ifaces, func(f Interface) bool { return f.Name == name })
}
