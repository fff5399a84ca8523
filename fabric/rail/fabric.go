package rail

import (
	"net/netip"

	"launch/fabric"
)

// Kind is what the training fabric of a node is.
type Kind string

// Kinds of fabric.
const (
	InfiniBand Kind = "infiniband"
	RoCE       Kind = "roce"
	EFA        Kind = "efa"
	Slingshot  Kind = "slingshot"
	OmniPath   Kind = "omnipath"
	TCP        Kind = "tcp"
	Mixed      Kind = "mixed" // rails of several kinds that are equally good
)

// Fabric is the training fabric of a node.
type Fabric struct {
	Kind  Kind   `json:"kind"`
	Why   string `json:"why"`
	Sure  bool   `json:"sure"`            // false: a rule of thumb decided
	Rails []Rail `json:"rails,omitempty"` // by HCA and port
	NICs  []NIC  `json:"nics"`            // every device and its role, as Roles gives them
}

// Rail is one port of the training fabric.
type Rail struct {
	HCA    string  `json:"hca"` // "" of a fabric without verbs devices (Slingshot, TCP): see Netdev
	Port   int     `json:"port,omitempty"`
	Netdev string  `json:"netdev,omitempty"`
	Link   string  `json:"link,omitempty"` // InfiniBand, Ethernet
	Rate   float64 `json:"rate,omitempty"` // Gb/s; 0 unknown
	// GID is the entry that a RoCE connection should use: RoCE v2, of an
	// address of this namespace, IPv4 before IPv6; -1: none fits, or none is
	// needed.
	GID  int      `json:"gid"`
	GPUs []string `json:"gpus,omitempty"` // PCI addresses of the GPUs that have no nearer rail
}

// Of is the training fabric of a node; see Roles for addr.
func Of(n fabric.Node, addr netip.Addr) Fabric {
	f := Fabric{Kind: TCP, NICs: Roles(n, addr)}
	for _, nic := range f.NICs {
		if !nic.HCA || nic.Role != Compute {
			continue
		}
		for _, h := range n.HCAs {
			if p, ok := activePort(h); ok && h.Name == nic.Name {
				f.Rails = append(f.Rails, Rail{HCA: h.Name, Port: p.Num, Netdev: p.Netdev, Link: p.LinkLayer, Rate: p.Rate, GID: -1})
			}
		}
	}
	return f
}
