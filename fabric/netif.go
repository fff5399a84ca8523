package fabric

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Flags of /sys/class/net/*/flags (linux/if.h) and types of /sys/class/net/*/type (linux/if_arp.h).
const (
	flagUp       = 0x1
	flagLoopback = 0x8

	nodeRNIC = 4 // iWARP, whose GIDs are MAC addresses

	typeInfiniBand = 32
	typeLoopback   = 772
)

// forbidden is the fact that is unknown where a sandbox or a seccomp filter forbids rtnetlink.
const forbidden = "rtnetlink, which is forbidden here"

// AddressesForbidden returns the error of a process that may not ask the kernel for the addresses of this node; "": it
// may. Libraries that call getifaddrs (glibc sysdeps/unix/sysv/linux/ifaddrs.c) then find no interface.
func (n Node) AddressesForbidden() string {
	for _, u := range n.Unknown {
		if u.What == forbidden {
			return u.Why
		}
	}
	return ""
}

// readInterfaces lists the interfaces of this network namespace: the kernel's list (links), since a
// /sys mounted in another namespace shows that one's. sysfs adds driver, speed and NUMA node.
func (n *Node) readInterfaces(r Roots) {
	n.Interfaces = n.sysInterfaces(r.Sys)
	if r.Links == nil {
		return
	}
	links, err := r.Links()
	if err != nil {
		what := "rtnetlink"
		if refused(err) {
			what = forbidden
		}
		n.note(&Unknown{What: what, Why: err.Error()})
		return
	}
	fromSys := n.Interfaces
	var strangers []string
	for i := range links {
		l := &links[i]
		j := slices.IndexFunc(fromSys, func(s Interface) bool { return s.Name == l.Name && s.Index == l.Index })
		if j < 0 {
			l.NUMA = -1
			if l.Kind == "" {
				l.Kind = "physical" // rtnetlink gives a kind to everything except hardware
			}
			strangers = append(strangers, l.Name)
			continue
		}
		s := fromSys[j]
		l.Speed, l.Driver, l.NUMA, l.Type, l.DevPort, l.PCI = s.Speed, s.Driver, s.NUMA, s.Type, s.DevPort, s.PCI
		l.Mode = s.Mode
		if l.Kind == "" || s.Kind == "ipoib" { // IPoIB children are VLAN-like links to the kernel
			l.Kind = s.Kind
		}
	}
	if len(strangers) > 0 {
		n.note(&Unknown{
			What: "class/net",
			Why: fmt.Sprintf("it does not show %s: /sys is not of this network namespace, driver, speed and NUMA node stay "+
				"unknown", strings.Join(strangers, ", ")),
		})
	}
	sortByIndex(links)
	n.Interfaces = links
}

// sysInterfaces reads class/net.
func (n *Node) sysInterfaces(sys fs.FS) (out []Interface) {
	class := dir{fsys: sys, name: "class/net"}
	for _, name := range class.names("") {
		d := dir{fsys: sys, name: path.Join("class/net", name)}
		if info, err := fs.Stat(sys, d.name); err == nil && !info.IsDir() { // bonding_masters is a file
			continue
		}
		out = append(out, sysInterface(&d, name))
		n.note(d.bad)
	}
	n.note(class.bad)
	sortByIndex(out)
	return out
}

func sysInterface(d *dir, name string) Interface {
	oper := d.line("operstate")
	flags := d.number("flags", 0)
	up := flags&flagUp != 0
	typ := d.number("type", 0)
	kind := sysKind(d, flags, typ)
	return Interface{
		Index: d.number("ifindex", 0), Name: name, Kind: kind, Type: typ, Up: up,
		// sysfs omits IFF_RUNNING from flags; the kernel computes it so (dev_get_flags, netif_oper_up).
		Running: up && (oper == "up" || oper == "unknown" || oper == ""), MTU: d.number("mtu", 0),
		Speed: speed(d), Driver: driver(d, "device"), Master: d.link("master"),
		NUMA: d.number("device/numa_node", unknownNUMA), DevPort: devPort(d, kind), PCI: netFunction(d), MAC: mac(d, typ),
		Mode: bondMode(d, kind),
	}
}

// bondMode returns the mode of a bond, without its number ("802.3ad 4").
func bondMode(d *dir, kind string) string {
	if kind != "bond" {
		return ""
	}
	mode, _, _ := strings.Cut(d.line("bonding/mode"), " ")
	return mode
}

// mac returns the hardware address of an Ethernet interface.
func mac(d *dir, typ int) string {
	if typ != unix.ARPHRD_ETHER {
		return ""
	}
	return d.line("address")
}

// devPort returns the port, from 0, of the interface's function. Drivers before Linux 3.15 use dev_id.
func devPort(d *dir, kind string) int {
	if kind != "physical" && kind != "ipoib" {
		return 0
	}
	return cmp.Or(d.number("dev_port", 0), d.number("dev_id", 0))
}

// netFunction returns the PCI function of an interface, from its path or its link.
func netFunction(d *dir) string {
	if target, err := fs.ReadLink(d.fsys, d.name); err == nil {
		return functionOf(target)
	}
	return functionOf(cmp.Or(d.link("device"), ueventValue(d.line("device/uevent"), "PCI_SLOT_NAME")))
}

// sysKind returns the kind of an interface as far as sysfs shows it. A veth has no mark.
func sysKind(d *dir, flags, typ int) string {
	uevent := d.line("uevent")
	if flags&flagLoopback != 0 || typ == typeLoopback {
		return "loopback"
	}
	switch devtype := ueventValue(uevent, "DEVTYPE"); devtype {
	case "vlan", "vxlan", "bridge", "bond", "macvlan":
		return devtype
	case "macvtap":
		return "macvlan"
	case "ipvtap":
		return "ipvlan"
	case "wireguard":
		return "tun"
	}
	switch {
	case d.has("bonding"):
		return "bond"
	case d.has("bridge"):
		return "bridge"
	case d.has("tun_flags"):
		return "tun"
	case typ == typeInfiniBand:
		return "ipoib"
	case d.has("device"):
		return "physical"
	}
	index := d.number("ifindex", 0)
	lower := func(n string) bool { return strings.HasPrefix(n, "lower_") }
	if d.number("iflink", index) != index && !slices.ContainsFunc(d.names(""), lower) {
		return "veth"
	}
	return "virtual"
}

// speed returns Mb/s; the kernel writes -1, or formerly 2^32-1, for "unknown".
func speed(d *dir) int {
	if s := d.number("speed", 0); s > 0 && s < 1<<32-1 {
		return s
	}
	return 0
}

// driver returns a device's driver: its link's target, which may dangle, or the line in its uevent.
func driver(d *dir, device string) string {
	if name := d.link(path.Join(device, "driver")); name != "" {
		return name
	}
	return ueventValue(d.line(path.Join(device, "uevent")), "DRIVER")
}

func sortByIndex(list []Interface) {
	slices.SortFunc(list, func(a, b Interface) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), strings.Compare(a.Name, b.Name))
	})
}

// Interface returns the interface with that name.
func (n Node) Interface(name string) (Interface, bool) {
	i := indexOf(n.Interfaces, name)
	if i < 0 {
		return Interface{}, false
	}
	return n.Interfaces[i], true
}

// InterfaceOf returns the interface that is up and has the address. Interfaces that are down do not
// count: kube-proxy puts every service's address on one (kube-ipvs0), the same on every node.
func (n Node) InterfaceOf(addr netip.Addr) (Interface, bool) {
	addr = addr.Unmap().WithZone("")
	for _, f := range n.Interfaces {
		for _, p := range f.Addrs {
			if f.Up && p.Addr() == addr {
				return f, true
			}
		}
	}
	return Interface{}, false
}

// RuntimeBridge reports whether an interface is a bridge of a container runtime or a hypervisor, by its name, and leads
// to no cable. The bridge of Open vSwitch with the default route, as OpenShift's br-ex, leads to a cable if a network
// card is in Open vSwitch: all its cards have one master, whichever bridge they are in.
func (n Node) RuntimeBridge(i Interface) bool {
	holds := func(master string) bool {
		return slices.ContainsFunc(n.Interfaces, func(port Interface) bool {
			return port.Master == master && slices.Contains([]string{"physical", "bond", "vlan"}, port.Kind)
		})
	}
	const ovs = "ovs-system"
	return slices.ContainsFunc([]string{"docker", "br-", "virbr", "podman", "cni", "lxcbr", "lxdbr", "incusbr"},
		func(prefix string) bool { return strings.HasPrefix(i.Name, prefix) }) && !holds(i.Name) &&
		(i.Kind == "bridge" || n.Route.Interface != i.Name || !holds(ovs))
}

// Neighbors returns the other network cards that are up and have an address in a network of an interface.
func (n Node) Neighbors(i Interface) (names []string) {
	card := func(f Interface) bool {
		return slices.Contains([]string{"physical", "bond", "vlan", "ipoib"}, f.Kind) && f.Up && f.Running && f.Master == ""
	}
	wide := func(p netip.Prefix) bool { return p.Addr().IsGlobalUnicast() && !p.IsSingleIP() }
	for _, f := range n.Interfaces {
		shared := slices.ContainsFunc(f.Addrs, func(p netip.Prefix) bool {
			return wide(p) && slices.ContainsFunc(i.Addrs, func(q netip.Prefix) bool { return wide(q) && p.Overlaps(q) })
		})
		if f.Name != i.Name && card(i) && card(f) && shared {
			names = append(names, f.Name)
		}
	}
	return names
}

// IsLocal reports whether an address is loopback's, or that of an interface that is up.
func (n Node) IsLocal(addr netip.Addr) bool {
	if addr.Unmap().IsLoopback() {
		return true
	}
	_, ok := n.InterfaceOf(addr)
	return ok
}

// netdev returns the interface of a port in this network namespace, or else its name in another one: by
// the GID table, which has the device with the address, else a netdev of the same function.
func netdev(d *dir, h HCA, p Port, ifaces []Interface) (name, elsewhere string) {
	if p.LinkLayer != "InfiniBand" { // InfiniBand GIDs have no netdev
		name, elsewhere = byGID(d, h, p, ifaces)
	}
	if name = above(ifaces, cmp.Or(name, ofFunction(d, h, p, ifaces))); name != "" {
		return name, ""
	}
	return "", elsewhere
}

// byGID prefers the netdev of an address that others can reach: link-local GIDs name its parent. Where the
// RDMA namespaces are shared, a pod sees the GIDs of all pods, whose interfaces may have one name: an
// entry is of this namespace if an interface here has its address.
func byGID(d *dir, h HCA, p Port, ifaces []Interface) (name, elsewhere string) {
	local := ""
	for _, g := range p.GIDs {
		switch {
		case g.Netdev == "":
		case !here(ifaces, g.Netdev), h.NodeType != nodeRNIC && !Holds(ifaces, g.Addr):
			elsewhere = cmp.Or(elsewhere, g.Netdev)
		case g.Addr.IsLinkLocalUnicast():
			local = cmp.Or(local, g.Netdev)
		default:
			return g.Netdev, elsewhere
		}
	}
	if local != "" && local == elsewhere {
		local = "" // another namespace's interface of the same name
	}
	if local != "" || len(p.GIDs) > 0 {
		return local, elsewhere
	}
	ndevs := path.Join("ports", strconv.Itoa(p.Num), "gid_attrs/ndevs")
	for _, dev := range d.entries(ndevs) { // some drivers have only these
		if here(ifaces, dev) {
			return dev, ""
		}
		elsewhere = cmp.Or(elsewhere, dev)
	}
	return "", elsewhere
}

// Holds reports whether one of the interfaces has an address, or may have it: sysfs alone shows no addresses,
// and a GID may have a link-local one that no interface has (the default GID, made from the MAC address).
func Holds(ifaces []Interface, addr netip.Addr) bool {
	addr = addr.Unmap()
	known := false
	for _, f := range ifaces {
		for _, p := range f.Addrs {
			if p.Addr() == addr {
				return true
			}
			known = known || f.Kind != "loopback"
		}
	}
	return !known || addr.IsLinkLocalUnicast()
}

// ofFunction returns the netdev of the HCA's own function. ConnectX-3 has several, for two ports, for
// IPoIB and Ethernet: the one of this link layer and port, an IPoIB parent before its children.
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
