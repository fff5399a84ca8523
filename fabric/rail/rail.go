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

	// Missing is true for an unusable HCA of the rails' kind, or interface of Slingshot: the node has a rail
	// fewer than its hardware allows. Only the other nodes show whether that is a fault.
	Missing bool `json:"missing,omitempty"`

	// Ports are the numbers of the ports without a link of an HCA whose other ports are rails, where the port of that
	// number has one on most cards of its kind.
	Ports []int `json:"missing_ports,omitempty"`

	// NoAddress is true for an HCA with a link that would be a rail if its interface had an address.
	NoAddress bool `json:"no_address,omitempty"`

	// Limited is true for an InfiniBand port that would be a rail if it were a full member of a partition, or of the
	// rails' one.
	Limited bool `json:"limited,omitempty"`

	// Shut is true for an HCA of the rails' make that this process cannot open, and that it should have.
	Shut bool `json:"shut,omitempty"`
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
		nic.Missing = slices.Contains(d.dark, f.Name)
		switch o, owned := owners[f.Name]; {
		case f.Name == v.peer && f.Kind == "loopback":
			nic.Why = fmt.Sprintf("carries %v, the address that the peers use, and libraries leave it out", v.addr)
		case f.Name == v.peer:
			nic.Role, nic.Sure = Peer, v.peerSure
			nic.Why = fmt.Sprintf("carries %v, the address that the peers use", v.addr)
			if !v.peerSure {
				nic.Why = fmt.Sprintf("%v is in a network of this interface", v.addr)
			}
		case owned && nic.Role == Management:
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
	Kind  Kind     `json:"kind"`
	Why   string   `json:"why"`
	Sure  bool     `json:"sure"`            // false: decided by a rule of thumb
	Doubt string   `json:"doubt,omitempty"` // why it is not sure
	Rails []Rail   `json:"rails,omitempty"` // by HCA and port, numbers by their value
	GPUs  []GPU    `json:"gpus,omitempty"`  // in NVML's order, else by PCI address
	Down  []string `json:"down,omitempty"`  // HCAs without a link that look more like the fabric than the rails
	Lone  []string `json:"lone,omitempty"`  // rails at a switch without a GPU, where each other one has a GPU at its own
	NICs  []NIC    `json:"nics,omitempty"`  // every device and its role: interfaces in kernel order, then HCAs by name
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
		doubt := ""
		if rails, doubt = v.plain(f.NICs); doubt != "" {
			f.Why += "; " + doubt
		} else if v.byRoute() {
			doubt = "this node's address is on a loopback interface"
		}
		if doubt != "" {
			f.Sure, f.Doubt = false, cmp.Or(f.Doubt, doubt)
		}
	}
	f.Down = v.dark(d, rails)
	for _, c := range v.lone(d.rails) {
		f.Lone = append(f.Lone, c.hca.Name)
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
