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
	Mixed      Kind = "mixed"   // rails of several kinds that are equally good
	Unknown    Kind = "unknown" // there are devices, but not what they speak; or no network is visible at all
)

// Fabric is the training fabric of a node.
type Fabric struct {
	Kind  Kind   `json:"kind"`
	Why   string `json:"why"`
	Sure  bool   `json:"sure"`            // false: a rule of thumb decided
	Rails []Rail `json:"rails,omitempty"` // by HCA and port, numbers by their value
	GPUs  []GPU  `json:"gpus,omitempty"`  // in NVML's order, else by PCI address
	NICs  []NIC  `json:"nics,omitempty"`  // every device and its role: interfaces in kernel order, then HCAs by name
}

// Rail is one port of the training fabric.
type Rail struct {
	HCA    string  `json:"hca"`           // "" of a fabric without verbs devices (Slingshot, TCP): see Netdev
	PCI    string  `json:"pci,omitempty"` // its function
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

// Name is what a person calls the rail: its HCA (NCCL's way to name a port
// where the HCA has several that are rails, "mlx4_0:2"), else its interface.
func (f Fabric) Name(r Rail) string {
	if r.HCA == "" {
		if r.Netdev == "" {
			return r.PCI
		}
		return r.Netdev
	}
	ports := 0
	for _, other := range f.Rails {
		if other.HCA == r.HCA {
			ports++
		}
	}
	if ports > 1 {
		return portName(r.HCA, r.Port)
	}
	return r.HCA
}

// Of is the training fabric of a node. addr is this node's address as its peers
// use it (see fabric.RouteTo); a peer's address will do where it lies in a
// directly connected network; the zero Addr is "not known yet".
func Of(n fabric.Node, addr netip.Addr) Fabric {
	v := look(n, addr)
	d := v.decide()
	f := Fabric{Kind: d.kind, Why: d.why, Sure: d.sure, NICs: v.roles(d)}
	rails := d.rails
	if len(rails) == 0 && d.kind != Unknown {
		rails = v.plain(f.NICs)
	}
	for _, c := range rails {
		f.Rails = append(f.Rails, Rail{
			HCA: c.hca.Name, PCI: c.hca.PCI, Port: c.port.Num, Netdev: c.port.Netdev,
			Link: c.port.LinkLayer, Rate: c.port.Rate, GID: v.gid(c),
		})
	}
	v.pair(&f)
	return f
}
