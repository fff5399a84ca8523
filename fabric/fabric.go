// Package fabric reads facts about this node: its network, GPUs, limits and cloud, through fs.FS roots,
// so that a recorded machine can be replayed. Package preflight judges the facts.
package fabric

import (
	"io/fs"
	"net/netip"
	"strconv"

	"launch/fabric/gpu"
	"launch/fabric/software"
	"launch/fabric/verbs"
)

// Roots are the places that facts are read from. A nil root was not recorded: no file exists.
type Roots struct {
	Sys, Proc, Etc, Dev fs.FS

	// Root is this process' root directory; containers leave their marks there.
	Root fs.FS

	// Links returns the kernel's list of interfaces, with addresses. nil: sysfs alone, without.
	Links func() ([]Interface, error)
	// Shm returns the bytes free in /dev/shm and its size; -1 and 0: not mounted. nil: not recorded.
	Shm func() (free, size int64)
	// Denied reports whether this user may not write into a folder. nil: not recorded.
	Denied func(folder string) bool
	// Usable reports whether this process may read and write a device in /dev. nil: not recorded.
	Usable func(node string) bool
	// System returns the system's settings, and the lines of /etc/hosts for names. nil: not recorded.
	System func(names []string) System
	// Route returns the default route; an error means that there is none. nil: not recorded.
	Route func() (Route, error)
	// RDMA returns the mode of RDMA's namespaces, "shared" or "exclusive". nil: not recorded.
	RDMA func() (string, error)
	// Env returns a variable of this process' environment, "" where it is not set. nil: not recorded.
	Env func(name string) string
	// Hostname returns this node's name where Proc lacks it; nil: unknown.
	Hostname func() string
}

// Node is the facts of one node: no device is an empty slice, no permission an Unknown entry.
type Node struct {
	Hostname   string         `json:"hostname"`             // kernel host name
	HostAddrs  []string       `json:"host_addrs,omitempty"` // addresses of the host name on this node, as Gloo resolves it
	HostErr    string         `json:"host_err,omitempty"`   // why it does not resolve
	BootID     string         `json:"boot_id,omitempty"`    // differs between machines with the same host name
	Interfaces []Interface    `json:"interfaces"`           // in kernel order (ifindex)
	HCAs       []HCA          `json:"hcas,omitempty"`       // /sys/class/infiniband, by name
	PCI        []PCI          `json:"pci,omitempty"`        // network, RDMA, GPU, GPU switch; by address
	Cards      []Card         `json:"cards,omitempty"`      // the GPUs in /proc and /sys, without NVML; by PCI address
	Route      Route          `json:"route,omitzero"`       // the default route; zero where there is none
	Kernel     string         `json:"kernel,omitempty"`     // release, "5.15.0-91-generic"
	GPUs       gpu.Facts      `json:"gpus"`                 // from NVML, in a child process
	KFD        int            `json:"kfd,omitempty"`        // GPUs or parts of them that ROCm has; 0: none, or unknown
	Verbs      verbs.Facts    `json:"verbs,omitzero"`       // from libibverbs, in a child process
	Software   software.Facts `json:"software,omitzero"`    // software that the job's command would load
	Limits     Limits         `json:"limits"`
	System     System         `json:"system,omitzero"`
	Product    string         `json:"product,omitempty"` // DMI sys_vendor and product_name
	Cloud      Cloud          `json:"cloud,omitzero"`
	Container  Container      `json:"container,omitzero"`
	GPUDirect  GPUDirect      `json:"gpudirect,omitzero"`
	Ephemeral  [2]int         `json:"ephemeral"`         // net.ipv4.ip_local_port_range, both ends inclusive
	Tracked    [2]int         `json:"tracked,omitzero"`  // entries of the connection table, and the most; 0: it has none
	Forgets    int            `json:"forgets,omitzero"`  // seconds an idle TCP connection stays in it; 0: not known
	Retries    int            `json:"retries,omitzero"`  // of TCP before it gives up (tcp_retries2); 0: not known
	Unknown    []Unknown      `json:"unknown,omitempty"` // what could not be read, and why
}

// Unknown is a fact that could not be read.
type Unknown struct {
	What string `json:"what"` // the path or call
	Why  string `json:"why"`
}

// Interface is one network interface.
type Interface struct {
	Index   int            `json:"index"` // ifindex: NCCL's order of preference
	Name    string         `json:"name"`
	Kind    string         `json:"kind"`            // loopback, physical, bond, bridge, vlan, veth, tun, ipoib, …
	Up      bool           `json:"up"`              // IFF_UP
	Running bool           `json:"running"`         // IFF_RUNNING: carrier
	MTU     int            `json:"mtu"`             // bytes
	Speed   int            `json:"speed,omitempty"` // Mb/s; 0 unknown
	Driver  string         `json:"driver,omitempty"`
	Master  string         `json:"master,omitempty"` // its bond or bridge
	NUMA    int            `json:"numa"`             // -1 unknown
	Addrs   []netip.Prefix `json:"addrs,omitempty"`
	Taken   []netip.Addr   `json:"taken,omitempty"`    // those of IPv6 that another machine has, too (dadfailed)
	Type    int            `json:"type,omitempty"`     // ARPHRD: 1 Ethernet, 32 InfiniBand; 0 unknown
	PCI     string         `json:"pci,omitempty"`      // its function; "" for a virtual one
	DevPort int            `json:"dev_port,omitempty"` // port of the function, from 0
	MAC     string         `json:"mac,omitempty"`      // hardware address of Ethernet, "02:42:0a:4d:00:01"
	Mode    string         `json:"mode,omitempty"`     // of a bond: 802.3ad, active-backup, balance-xor, …; "" unknown
	Strict  bool           `json:"strict,omitempty"`   // it takes IPv4 only from where its own way leads (rp_filter 1)
	Ruled   []netip.Addr   `json:"ruled,omitzero"`     // those of IPv4 with a rule by source (ip rule); nil: not known
}

// HCA is one RDMA device.
type HCA struct {
	Name     string `json:"name"`
	PCI      string `json:"pci,omitempty"`    // its function, "0000:1b:00.0"; "" for a software device
	Driver   string `json:"driver,omitempty"` // mlx5_core, bnxt_en, efa, rdma_rxe, …
	NodeType int    `json:"node_type"`        // 1 CA, 4 RNIC (iWARP), 5 and 6 usNIC, 7 unspecified (EFA)
	Firmware string `json:"firmware,omitempty"`
	Type     string `json:"type,omitempty"`        // hca_type, "MT4129"
	Board    string `json:"board,omitempty"`       // board_id
	VF       bool   `json:"vf,omitempty"`          // a virtual function
	GUID     string `json:"guid,omitempty"`        // node_guid; "" where it is zero
	System   string `json:"system_guid,omitempty"` // sys_image_guid, the same for all ports of a card; "" where it is zero
	NUMA     int    `json:"numa"`                  // -1 unknown
	Uverbs   string `json:"uverbs,omitempty"`      // device node, "/dev/infiniband/uverbs0"
	Closed   string `json:"closed,omitempty"`      // why this process cannot open it; "" if it can, or unknown
	Ports    []Port `json:"ports"`
}

// Port is one port of an HCA.
type Port struct {
	Num       int     `json:"num"`                 // 1-based
	State     int     `json:"state"`               // 4 ACTIVE, 1 DOWN (number before the colon); 0 unknown
	PhysState int     `json:"phys_state"`          // 5 LinkUp, 3 Disabled, 2 Polling; 0 unknown
	LinkLayer string  `json:"link_layer"`          // InfiniBand, Ethernet
	Rate      float64 `json:"rate"`                // Gb/s of all lanes together; meaningless unless the port is ACTIVE
	Lanes     int     `json:"lanes,omitempty"`     // the 4 of "4X NDR"; 0 unknown
	LID       int     `json:"lid,omitempty"`       // 0 and 0xffff mean no LID
	SMLID     int     `json:"sm_lid,omitempty"`    // LID of the subnet manager: it differs between subnets
	PKeys     []PKey  `json:"pkeys,omitempty"`     // the entries that are set, by index
	GIDs      []GID   `json:"gids,omitempty"`      // the entries that are set, by index
	GIDSlots  int     `json:"gid_slots,omitempty"` // length of the GID table; 0: it could not be read
	Netdev    string  `json:"netdev,omitempty"`    // in this network namespace; the bond or VLAN with the address

	QoS QoS `json:"qos,omitzero"` // Ethernet only

	// Elsewhere is the netdev in another network namespace, which a container may see.
	Elsewhere string `json:"elsewhere,omitempty"`
}

// PKey is one entry of a port's partition table.
type PKey struct {
	Index int    `json:"index"` // the index that NCCL_IB_PKEY uses
	Key   string `json:"key"`   // "0xffff"; the highest bit is full membership
}

// Full reports whether the entry is a full membership (IBTA 10.9.3); false also where the key is no number.
func (k PKey) Full() bool {
	key, err := strconv.ParseUint(k.Key, 0, 16)
	return err == nil && key&0x8000 != 0
}

// GID is one entry of a port's GID table.
type GID struct {
	Index  int        `json:"index"`
	Addr   netip.Addr `json:"addr"`             // an IPv4 address is unmapped
	Type   string     `json:"type,omitempty"`   // "IB/RoCE v1" or "RoCE v2", as the kernel writes it
	Netdev string     `json:"netdev,omitempty"` // its interface, perhaps in another network namespace
}

// PCI is one function on the PCI bus.
type PCI struct {
	Addr   string   `json:"addr"`  // "0000:1b:00.0"
	Class  string   `json:"class"` // "0x020700"
	Vendor string   `json:"vendor"`
	Device string   `json:"device"`
	Driver string   `json:"driver,omitempty"` // "" if no driver is bound
	NUMA   int      `json:"numa"`             // -1 unknown
	Path   []string `json:"path,omitempty"`   // above it: the root ("pci0000:15"), then each bridge, the nearest last
	VF     bool     `json:"vf,omitempty"`
	Physfn string   `json:"physfn,omitempty"` // of a virtual function its physical one; "" in a guest, which sees none

	// The link now and at its best: PCIe generation and lanes; 0 unknown. An idle GPU's falls to 1.
	Gen      int `json:"gen,omitempty"`
	MaxGen   int `json:"max_gen,omitempty"`
	Lanes    int `json:"lanes,omitempty"`
	MaxLanes int `json:"max_lanes,omitempty"`
	// Slot is how many lanes the bridge above it has at most, 0 unknown; read only of a link that lacks lanes.
	Slot int `json:"slot,omitempty"`

	IOMMU string `json:"iommu,omitempty"` // type of its group: DMA, DMA-FQ, identity; "" if no group is visible
	ACS   string `json:"acs,omitempty"`   // redirection above it: "on", "off"; "" if not readable (needs root)
}

// Card is one GPU or other accelerator, from the PCI bus and the driver's files in /proc.
type Card struct {
	PCI    string `json:"pci"`
	Vendor string `json:"vendor"`          // nvidia, amd, intel, habana, huawei, amazon, metax, …; "other"
	Model  string `json:"model,omitempty"` // "NVIDIA H100 80GB HBM3"; "" unknown
	UUID   string `json:"uuid,omitempty"`
	Minor  int    `json:"minor"`            // of /dev/nvidiaN; -1 unknown
	Parted string `json:"parted,omitempty"` // how AMD's driver divides the GPU: SPX is whole; "" unknown
	// Excluded is true for one that NVIDIA's driver leaves out on purpose (NVreg_ExcludedGpus).
	Excluded bool `json:"excluded,omitempty"`
}

// Distance is how far two functions are from each other, in the terms of nvidia-smi topo -m.
type Distance string

// Distances, the nearest first.
const (
	PIX  Distance = "PIX"  // at most one bridge
	PXB  Distance = "PXB"  // several bridges, but not the root
	PHB  Distance = "PHB"  // the same root
	NODE Distance = "NODE" // the same NUMA node
	SYS  Distance = "SYS"  // another NUMA node
)

// Cloud is the provider of this machine, from DMI.
type Cloud struct {
	Provider string `json:"provider,omitempty"` // aws, azure, gcp, oci, ibm, …; "" unknown
	SKU      string `json:"sku,omitempty"`      // "p5.48xlarge"; "" unknown
	Virtual  bool   `json:"virtual,omitempty"`  // the machine is a VM
}

// Container is the container that this process is in.
type Container struct {
	Kind string `json:"kind,omitempty"` // kubernetes, docker, podman, …; "" if there is none
	RDMA string `json:"rdma,omitempty"` // the RDMA subsystem's namespaces: "shared" or "exclusive"; "" unknown
}

// GPUDirect is whether an HCA can reach a GPU's memory, according to files.
type GPUDirect struct {
	Peermem bool   `json:"peermem,omitempty"` // nvidia_peermem (or nv_peer_mem) is loaded
	Module  bool   `json:"module,omitempty"`  // NVIDIA's module is visible, so peermem's would be
	DMABuf  string `json:"dmabuf,omitempty"`  // "yes", or the reason against it; "" unknown
}

// Active reports whether the port can carry traffic (IBTA state 4).
func (p Port) Active() bool { return p.State == 4 }

// Limits are what the kernel and the container grant to this process.
type Limits struct {
	Memlock     uint64 `json:"memlock"`              // bytes, soft; math.MaxUint64 is unlimited, or unknown (see Unknown)
	Nofile      uint64 `json:"nofile"`               // soft
	NofileHard  uint64 `json:"nofile_hard"`          // up to which it may be raised; math.MaxUint64 unlimited, 0 unknown
	NofileKnown bool   `json:"nofile_known"`         // false in a build without cgo
	CPUTime     uint64 `json:"cpu_time,omitempty"`   // seconds of processor time for a process, soft; 0: no limit
	FileSize    uint64 `json:"file_size,omitempty"`  // bytes of a file, soft; 0: no limit
	Data        uint64 `json:"data,omitempty"`       // bytes of private memory of a process, soft; 0: no limit
	Addresses   uint64 `json:"addresses,omitempty"`  // bytes of addresses of a process, soft; 0: no limit
	Shm         int64  `json:"shm"`                  // bytes free in /dev/shm, 0 without a free inode; -1: not mounted
	ShmSize     int64  `json:"shm_size"`             // size in bytes
	ShmDenied   bool   `json:"shm_denied,omitempty"` // this user may not write there
}
