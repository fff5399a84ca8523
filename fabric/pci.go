package fabric

import (
	"context"
	"encoding/binary"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// PCI vendors.
const (
	vendorNVIDIA   = "0x10de"
	vendorAMD      = "0x1002"
	vendorHygon    = "0x1d94" // its DCUs run AMD's software
	VendorMellanox = "0x15b3"
	VendorCray     = "0x17db"
	VendorAmazon   = "0x1d0f"
	vendorGoogle   = "0x1ae0"
	vendorIntel    = "0x8086"
	vendorXilinx   = "0x10ee"
)

// Base classes of the PCI code list (the kernel's include/linux/pci_ids.h).
const (
	classNetwork      = "0x02"
	classDisplay      = "0x03"
	classVGA          = "0x0300"
	classAccelerator  = "0x12"
	classPeripheral   = "0x0880" // Amazon's Neuron devices
	classCoprocessor  = "0x0b40" // Hygon's DCUs; others of them are displays
	classOldIB        = "0x0c06" // ConnectX-2 and QLogic use "serial bus"
	classOldBridge    = "0x0680" // NVSwitch uses "bridge", of another kind
	pciDevices        = "bus/pci/devices"
	unknownNUMA       = -1
	firstMellanoxVFID = 0x1012
	lastMellanoxVFID  = 0x101e
)

// readPCI lists the functions of the PCI bus that matter here, by address.
func (n *Node) readPCI(ctx context.Context, sys fs.FS) {
	bus := dir{fsys: sys, name: pciDevices}
	acs := redirects{sys: sys}
	found := each(ctx, sys, pciDevices, bus.names(""), func(d *dir, addr string) *PCI {
		p := PCI{Addr: addr, Class: d.line("class"), Vendor: d.line("vendor")}
		if !p.matters() {
			return nil
		}
		p.read(d, &acs)
		return &p
	})
	for _, f := range found {
		if f.value != nil {
			n.PCI = append(n.PCI, *f.value)
		}
		n.note(f.bad)
	}
	n.note(bus.bad)
	slices.SortFunc(n.PCI, func(a, b PCI) int { return strings.Compare(a.Addr, b.Addr) })
}

// matters reports whether a function is a network card, HCA or GPU, or connects these.
func (p PCI) matters() bool {
	switch {
	case strings.HasPrefix(p.Class, classNetwork), strings.HasPrefix(p.Class, classAccelerator),
		strings.HasPrefix(p.Class, classOldIB):
		return true
	case p.Vendor == vendorNVIDIA:
		return strings.HasPrefix(p.Class, classDisplay) || strings.HasPrefix(p.Class, classOldBridge)
	case p.Vendor == VendorAmazon:
		return strings.HasPrefix(p.Class, classPeripheral)
	}
	return p.Vendor == VendorCray || gpuVendor(p) != ""
}

func (p *PCI) read(d *dir, acs *redirects) {
	p.Device = d.line("device")
	p.Driver = driver(d, "")
	p.NUMA = d.number("numa_node", unknownNUMA)
	p.Gen, p.MaxGen = generation(d.line("current_link_speed")), generation(d.line("max_link_speed"))
	p.Lanes, p.MaxLanes = lanes(d, "current_link_width"), lanes(d, "max_link_width")
	if target, err := fs.ReadLink(d.fsys, d.name); err == nil {
		p.Path = pathAbove(target)
	}
	if n := len(p.Path); n > 1 && p.Lanes < p.MaxLanes {
		p.Slot = lanes(&dir{fsys: d.fsys, name: path.Join(pciDevices, p.Path[n-1])}, "max_link_width")
	}
	p.Physfn = d.link("physfn")
	p.VF = isVF(p.Vendor, p.Device) || p.Physfn != ""
	if group := d.link("iommu_group"); group != "" {
		p.IOMMU = d.line("iommu_group/type")
	}
	p.ACS = acs.on(p.Path)
}

// IsNVSwitch reports whether a function is one of NVIDIA's NVSwitches.
func (p PCI) IsNVSwitch() bool {
	return p.Vendor == vendorNVIDIA && strings.HasPrefix(p.Class, classOldBridge)
}

// hasNVSwitch reports whether the bus has an NVSwitch.
func hasNVSwitch(sys fs.FS) bool {
	bus := dir{fsys: sys, name: pciDevices}
	return slices.ContainsFunc(bus.names(""), func(addr string) bool {
		d := dir{fsys: sys, name: path.Join(pciDevices, addr)}
		return PCI{Class: d.line("class"), Vendor: d.line("vendor")}.IsNVSwitch()
	})
}

// lanes reads a width. The kernel writes 0 without a link and 63 for an unreadable width.
func lanes(d *dir, file string) int {
	if n := d.number(file, 0); n > 0 && n <= 32 {
		return n
	}
	return 0
}

// generation returns the PCIe generation of "16.0 GT/s PCIe"; 0 for "Unknown" (pci_speed_string).
func generation(speed string) int {
	word, _, _ := strings.Cut(speed, " ")
	known := map[string]int{"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}
	return known[strings.TrimSuffix(word, ".0")]
}

// PCIeRate returns what a PCIe link carries in Gb/s; 0 where its generation or its number of lanes
// is unknown. The rates are PCI-SIG's. Up to the second generation, 8 of 10 bits are data.
func PCIeRate(gen, lanes int) float64 {
	switch {
	case gen < 1 || gen > 7 || lanes < 1 || lanes > 32:
		return 0
	case gen <= 2:
		return 2.5 * float64(gen*lanes) * 0.8
	}
	return float64(8 << (gen - 3) * lanes)
}

var (
	functionRE = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	rootRE     = regexp.MustCompile(`^pci[0-9a-f]{4,8}:[0-9a-f]{2}$`)
)

// pathAbove returns the root and the bridges above a device, from its link in bus/pci/devices.
func pathAbove(target string) []string {
	parts := strings.Split(target, "/")
	for i, part := range slices.Backward(parts) {
		if rootRE.MatchString(part) {
			return parts[i : len(parts)-1]
		}
	}
	return nil
}

// functionOf returns the nearest PCI function in a path of /sys/devices; "" if there is none.
func functionOf(target string) string {
	for _, part := range slices.Backward(strings.Split(target, "/")) {
		if functionRE.MatchString(part) {
			return part
		}
	}
	return ""
}

// isVF recognizes Mellanox's virtual functions by number, since a VM sees no physical function: even
// ones from Connect-IB to ConnectX-6 Dx, whose 0x101e serves all later cards (the tables in
// drivers/net/ethernet/mellanox/mlx5/core/main.c and mlx4/main.c).
func isVF(vendor, device string) bool {
	id, err := leadingInt(device)
	if vendor != VendorMellanox || err != nil {
		return false
	}
	switch id {
	case 0x1002, 0x1004, 0xa2d3: // ConnectX-2, ConnectX-3, BlueField
		return true
	}
	return id >= firstMellanoxVFID && id <= lastMellanoxVFID && id%2 == 0
}

// Function returns the PCI function with that address.
func (n Node) Function(addr string) (PCI, bool) {
	i := slices.IndexFunc(n.PCI, func(p PCI) bool { return p.Addr == addr })
	if i < 0 {
		return PCI{}, false
	}
	return n.PCI[i], true
}

// WithoutRDMA returns the functions that are HCAs by their class or driver, have a driver, and show no
// RDMA device: the RDMA half of the driver is not loaded, or the device is in another network
// namespace. In a link aggregation, the first port of a card has the device for both.
func (n Node) WithoutRDMA() []PCI {
	cards := map[string]bool{} // functions with an RDMA device
	for _, h := range n.HCAs {
		cards[slot(h.PCI)] = true
	}
	var out []PCI
	for _, p := range n.PCI {
		if p.isHCA() && !cards[slot(p.Addr)] {
			out = append(out, p)
		}
	}
	return out
}

// RDMAModule returns the kernel module that makes the RDMA devices of a function's driver; "" if the driver makes them
// itself, or none.
func (p PCI) RDMAModule() string {
	return map[string]string{"mlx5_core": "mlx5_ib", "mlx4_core": "mlx4_ib", "bnxt_en": "bnxt_re", "ice": "irdma",
		"qede": "qedr", "ionic": "ionic_rdma", "hns3": "hns_roce_hw_v2"}[p.Driver]
}

// RunsRoCE reports whether a card that runs iWARP could run RoCE instead: Intel's E810 and later, and FastLinQ. Others,
// such as X722 and Chelsio's, cannot.
func (p PCI) RunsRoCE() bool { return p.Driver == "ice" || p.Driver == "qede" }

// isHCA reports whether the driver of a function makes an RDMA device for every card.
func (p PCI) isHCA() bool {
	switch p.Driver {
	case "mlx5_core", "mlx4_core", "efa", "hfi1", "ib_qib", "ib_mthca":
		return true
	case "", "vfio-pci", "pci-stub": // unbound, or bound for a virtual machine
		return false
	}
	return strings.HasPrefix(p.Class, "0x0207")
}

// Extended capabilities of a PCIe function, and Access Control Services (PCI Express
// Base Specification, 7.6.3 and 7.7.11).
const (
	extendedStart = 0x100
	acsCapability = 0x000d
	acsControl    = 6    // offset of its control register
	acsRedirects  = 0x0c // P2P request redirect, P2P completion redirect
	extendedMax   = 48   // more capabilities than any sane list has
)

// redirects caches which bridges send traffic between two of their devices up to the root.
type redirects struct {
	sys    fs.FS
	mu     sync.Mutex
	states map[string]string
}

// on returns "on" if a bridge of a path redirects, "off" if none does, "" if one could not be read: an
// unprivileged user reads only 64 bytes of each function, and a VM sees no bridges of its host.
func (r *redirects) on(above []string) string {
	state := ""
	for i, bridge := range above {
		if i == 0 { // the root is not a function
			continue
		}
		switch r.bridge(bridge) {
		case "on":
			return "on"
		case "":
			return ""
		}
		state = "off"
	}
	return state
}

func (r *redirects) bridge(addr string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	state, asked := r.states[addr]
	if !asked {
		if r.states == nil {
			r.states = map[string]string{}
		}
		state = ReadACS(r.sys, path.Join(pciDevices, addr, "config"))
		r.states[addr] = state
	}
	return state
}

// ReadACS reads from its config file whether a bridge redirects: "on", "off", or "" (unreadable). It
// walks the list of extended capabilities only, since each read of four bytes goes to the device.
func ReadACS(sys fs.FS, name string) string {
	f, err := sys.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	config, ok := f.(io.ReaderAt)
	if !ok {
		return ""
	}
	at := int64(extendedStart)
	for range extendedMax {
		var b [4]byte
		if n, _ := config.ReadAt(b[:], at); n < len(b) {
			return ""
		}
		header := binary.LittleEndian.Uint32(b[:])
		if header&0xffff == acsCapability {
			if n, _ := config.ReadAt(b[:2], at+acsControl); n < 2 {
				return ""
			}
			if binary.LittleEndian.Uint16(b[:])&acsRedirects != 0 {
				return "on"
			}
			return "off"
		}
		if at = int64(header >> 20 &^ 3); at < extendedStart || header == ^uint32(0) {
			return "off"
		}
	}
	return "off"
}

// Distance returns how far two PCI functions are from each other, by the bridges above each; "":
// unknown. Below one switch, one more bridge is above each device: the switch's port.
func (n Node) Distance(a, b string) Distance {
	pa, okA := n.Function(a)
	pb, okB := n.Function(b)
	if !okA || !okB {
		return ""
	}
	if slot(a) == slot(b) {
		return PIX
	}
	common := 0
	for common < min(len(pa.Path), len(pb.Path)) && pa.Path[common] == pb.Path[common] {
		common++
	}
	switch between := max(len(pa.Path), len(pb.Path)) - common; {
	case common >= 2 && between <= 1:
		return PIX
	case common >= 2:
		return PXB
	case common == 1:
		return PHB
	case pa.NUMA < 0 || pb.NUMA < 0:
		return ""
	case pa.NUMA == pb.NUMA:
		return NODE
	}
	return SYS
}

// slot returns an address without its function: "0000:1b:00".
func slot(addr string) string {
	s, _, _ := strings.Cut(addr, ".")
	return s
}

// Rank orders distances, the nearest first at 0; an unknown one is the farthest.
func (d Distance) Rank() int {
	order := []Distance{PIX, PXB, PHB, NODE, SYS}
	if i := slices.Index(order, d); i >= 0 {
		return i
	}
	return len(order)
}
