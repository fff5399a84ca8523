// Package rail interprets the facts of a node: which network device has which role in a training
// job, how certain that is, and why. It reads nothing, judges no health and sets no variable.
package rail

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"launch/fabric"
)

// Role is the purpose of a device, according to the facts.
type Role string

const (
	Peer       Role = "peer"       // interface with the address that the peers use
	Compute    Role = "compute"    // the training fabric: HCAs, and their interfaces
	Storage    Role = "storage"    // fast, but outside the training fabric: usually storage
	Management Role = "management" // could carry traffic, but another interface leads to the peers or is faster
	Member     Role = "member"     // part of a bond or bridge, which counts in its place
	Virtual    Role = "virtual"    // inside this machine or a VPN: container and VM bridges, veths, tunnels, Soft-RoCE
	Loopback   Role = "loopback"
	Unusable   Role = "unusable" // down, without a cable, without an address
)

// NIC is one network device and its role.
type NIC struct {
	Name string `json:"name"`          // for an HCA without a driver: its PCI address
	HCA  bool   `json:"hca,omitempty"` // an RDMA device; else a network interface
	Role Role   `json:"role"`
	Why  string `json:"why"`
	Sure bool   `json:"sure"` // false: decided by a rule of thumb

	// Missing is true for an unusable HCA of the rails' kind: the node has a rail fewer than its
	// hardware allows. Only the other nodes show whether that is a fault.
	Missing bool `json:"missing,omitempty"`

	// NoAddress is true for an HCA with a link that would be a rail if its interface had an address.
	NoAddress bool `json:"no_address,omitempty"`
}

// roles returns the role of each interface (in kernel order), then of each HCA (by name).
func (v *view) roles(d decision) []NIC {
	owners := map[string]NIC{} // HCAs by interface
	for _, r := range d.others {
		if r.role == Storage {
			owners[r.port.Netdev] = NIC{Name: r.hca.Name, Role: Storage}
		}
	}
	for _, c := range d.rails {
		owners[c.port.Netdev] = NIC{Name: c.hca.Name, Role: Compute}
	}
	var out []NIC
	for _, f := range v.node.Interfaces {
		nic := interfaceRole(v.node, f)
		if f.Name == v.peer {
			nic.Role, nic.Sure = Peer, v.peerSure
			nic.Why = fmt.Sprintf("carries %v, the address that the peers use", v.addr)
			if !v.peerSure {
				nic.Why = fmt.Sprintf("%v is in a network of this interface", v.addr)
			}
		} else if o, ok := owners[f.Name]; ok && nic.Role == Management {
			nic.Role, nic.Why, nic.Sure = o.Role, "belongs to "+o.Name, d.sure && o.Role == Compute
			if o.Name == "" {
				nic.Why = d.why
			}
		}
		out = append(out, nic)
	}
	return append(out, v.hcaRoles(d)...)
}

// Kind is the kind of a node's training fabric.
type Kind string

// Kinds of fabric.
const (
	InfiniBand Kind = "infiniband"
	RoCE       Kind = "roce"
	EFA        Kind = "efa"
	Slingshot  Kind = "slingshot"
	OmniPath   Kind = "omnipath"
	TCP        Kind = "tcp"
	Mixed      Kind = "mixed"   // equally good rails of several kinds
	Unknown    Kind = "unknown" // devices of an unknown protocol, or no network is visible at all
)

// Fabric is the training fabric of a node.
type Fabric struct {
	Kind  Kind   `json:"kind"`
	Why   string `json:"why"`
	Sure  bool   `json:"sure"`            // false: decided by a rule of thumb
	Doubt string `json:"doubt,omitempty"` // why it is not sure
	Rails []Rail `json:"rails,omitempty"` // by HCA and port, numbers by their value
	GPUs  []GPU  `json:"gpus,omitempty"`  // in NVML's order, else by PCI address
	NICs  []NIC  `json:"nics,omitempty"`  // every device and its role: interfaces in kernel order, then HCAs by name
}

// Rail is one port of the training fabric.
type Rail struct {
	HCA    string  `json:"hca"`           // "" for a fabric without verbs devices (Slingshot, TCP): see Netdev
	PCI    string  `json:"pci,omitempty"` // its PCI function
	Port   int     `json:"port,omitempty"`
	Ports  int     `json:"ports,omitempty"` // of the HCA, if it has several
	Netdev string  `json:"netdev,omitempty"`
	Link   string  `json:"link,omitempty"` // InfiniBand, Ethernet
	Rate   float64 `json:"rate,omitempty"` // Gb/s; 0 unknown
	// GID is the index of the GID for a RoCE connection: RoCE v2, IPv4 first; -1: it has or needs none.
	GID int `json:"gid"`
	// GIDUnread is true if GID is -1 because the port's GID table could not be read.
	GIDUnread bool     `json:"gid_unread,omitempty"`
	GPUs      []string `json:"gpus,omitempty"` // PCI addresses of the GPUs that have no nearer rail
}

// Name returns a rail's HCA, with the port if the HCA has several ("mlx4_0:2"), or else its interface.
func (f Fabric) Name(r Rail) string {
	switch {
	case r.HCA == "":
		return cmp.Or(r.Netdev, r.PCI)
	case r.Ports > 1:
		return portName(r.HCA, r.Port)
	}
	return r.HCA
}

// Guess returns what a line that depends on the fabric adds if it is not certain: " (a guess: REASON)".
func (f Fabric) Guess() string {
	if f.Sure || f.Doubt == "" {
		return ""
	}
	return " (a guess: " + f.Doubt + ")"
}

// Of returns the training fabric of a node. addr is the address that its peers use (fabric.RouteTo), or
// a peer's in a directly connected network. The zero Addr means that it is unknown.
func Of(n fabric.Node, addr netip.Addr) Fabric {
	v := look(n, addr)
	d := v.decide()
	f := Fabric{Kind: d.kind, Why: d.why, Sure: d.sure, Doubt: d.doubt, NICs: v.roles(d)}
	rails := d.rails
	if len(rails) == 0 && d.kind != Unknown {
		rails = v.plain(f.NICs)
	}
	for _, c := range rails {
		r := Rail{HCA: c.hca.Name, PCI: c.hca.PCI, Port: c.port.Num, Netdev: c.port.Netdev, Link: c.port.LinkLayer,
			Rate: c.port.Rate, GID: v.gid(c), GIDUnread: unlisted(c)}
		if n := len(c.hca.Ports); n > 1 {
			r.Ports = n
		}
		f.Rails = append(f.Rails, r)
	}
	v.pair(&f)
	return f
}

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

// plain returns the rail of a job without RDMA: the interface to the peers or out, or the fastest.
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

// slingshot makes a node's Cassini NICs its rails: they show an Ethernet interface, not RDMA.
func (d *decision) slingshot(v *view, able []candidate) {
	for _, p := range v.node.PCI {
		if p.Vendor == fabric.VendorCray && p.Device == deviceCassini && !p.VF {
			port := fabric.Port{LinkLayer: "Ethernet"}
			own := func(i fabric.Interface) bool { return i.PCI == p.Addr }
			if i := slices.IndexFunc(v.node.Interfaces, own); i >= 0 {
				port.Netdev, port.Rate = v.node.Interfaces[i].Name, float64(v.node.Interfaces[i].Speed)/1000
			}
			d.rails = append(d.rails, candidate{fabric.HCA{PCI: p.Addr, NUMA: p.NUMA}, port, Slingshot})
		}
	}
	if len(d.rails) == 0 {
		return
	}
	d.kind, d.sure = Slingshot, true
	d.why = fmt.Sprintf("%d x Slingshot (Cassini)", len(d.rails))
	for _, c := range able {
		role, sure := v.otherRole(c)
		d.others = append(d.others, ruled{c, role, "the fabric of this machine is Slingshot", sure})
	}
}
