package rail

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"launch/fabric"
)

// view is a node as this package sees it.
type view struct {
	node     fabric.Node
	addr     netip.Addr
	peer     string // interface that leads to the peers; "" not known
	peerSure bool
	gpus     []GPU
	pci      map[string]fabric.PCI
	settled  map[string]int // by port: the index of its GID, where the first one is an alias
	gone     int            // GPUs that are no longer on the bus, as the ports show
}

func look(n fabric.Node, addr netip.Addr) *view {
	v := &view{node: n, addr: addr, pci: map[string]fabric.PCI{}}
	for _, p := range n.PCI {
		v.pci[p.Addr] = p
	}
	v.peer, v.peerSure = towards(n, addr)
	v.gpus = v.findGPUs()
	return v
}

// candidate is a port that could be a rail.
type candidate struct {
	hca  fabric.HCA
	port fabric.Port
	kind Kind
}

// inOrder is the order of rails: by HCA and port.
func inOrder(a, b candidate) int {
	return cmp.Or(natural(a.hca.Name, b.hca.Name), cmp.Compare(a.port.Num, b.port.Num))
}

// candidates returns the possible rails in their order, and by name why each other HCA is none.
func (v *view) candidates() (able []candidate, unable map[string]NIC) {
	unable = map[string]NIC{}
	for _, h := range v.node.HCAs {
		if nic, bad := v.unable(h); bad {
			unable[h.Name] = nic
			continue
		}
		k := v.kindOf(h)
		ports := 0
		for _, p := range h.Ports {
			if p.Active() || v.unread(h, p) {
				able = append(able, candidate{h, p, cmp.Or(k, v.linkKind(h, p))})
				ports++
			}
		}
		if ports == 0 { // its ports could not be read
			able = append(able, candidate{h, fabric.Port{Num: 1}, cmp.Or(k, v.linkKind(h, fabric.Port{}))})
		}
	}
	slices.SortStableFunc(able, inOrder)
	return able, unable
}

// kindOf returns the kind of an HCA by its driver, "" if its link layer decides.
func (v *view) kindOf(h fabric.HCA) Kind {
	switch {
	case isEFA(h):
		return EFA
	case isOmniPath(h):
		return OmniPath
	}
	return ""
}

// linkKind returns the protocol of a port, by other signs if its link layer was not read.
func (v *view) linkKind(h fabric.HCA, p fabric.Port) Kind {
	switch p.LinkLayer {
	case "InfiniBand":
		return InfiniBand
	case "Ethernet":
		return RoCE
	}
	if i, ok := v.node.Interface(p.Netdev); ok && i.Kind == "ipoib" {
		return InfiniBand
	}
	switch class := v.pci[h.PCI].Class; {
	case strings.HasPrefix(class, classInfiniBand), strings.HasPrefix(class, classOldInfiniBand):
		return InfiniBand
	case strings.HasPrefix(class, classEthernet):
		return RoCE
	}
	return Unknown
}

// PCI classes (the kernel's include/linux/pci_ids.h): a base class and a subclass. Only InfiniBand's
// proves anything about an HCA: RoCE and EFA have Ethernet's, and ConnectX-3 may have "other network".
const (
	classEthernet      = "0x0200"
	classInfiniBand    = "0x0207"
	classFabric        = "0x0208"
	classOldInfiniBand = "0x0c06" // ConnectX-2, QLogic
	classAccelerator   = "0x1200"
)

// Cassini is the PCI device of Cray's NIC for Slingshot.
const Cassini = "0x0501"

// isEFA recognizes an Elastic Fabric Adapter, without a driver by its node type or name.
func isEFA(h fabric.HCA) bool {
	return h.Driver == "efa" || h.Driver == "" && (h.NodeType == nodeUnspecified || strings.HasPrefix(h.Name, "efa_"))
}

// isOmniPath recognizes an Omni-Path HFI, whose ports call themselves InfiniBand.
func isOmniPath(h fabric.HCA) bool {
	return strings.HasPrefix(h.Driver, "hfi") || h.Driver == "" &&
		(strings.Contains(h.Board, "Omni-Path") || strings.HasPrefix(h.Name, "hfi1_"))
}

// isBlueField recognizes a DPU by its hca_type, "MT" and the decimal PCI device id. Most carry storage
// and management ("north-south") next to rails of plain ConnectX cards.
func (v *view) isBlueField(c candidate) bool {
	var id int
	if n, _ := fmt.Sscanf(c.hca.Type, "MT%d", &id); n != 1 {
		if p, ok := v.pci[c.hca.PCI]; !ok || p.Vendor != fabric.VendorMellanox {
			return false
		} else if n, _ := fmt.Sscanf(p.Device, "0x%x", &id); n != 1 {
			return false
		}
	}
	return id >= 0xa2d2 && id <= 0xa2df
}

// isBond recognizes a link aggregation: mlx5_bond_N (drivers/infiniband/hw/mlx5/main.c) or its netdev.
func (v *view) isBond(c candidate) bool {
	i, ok := v.node.Interface(c.port.Netdev)
	return ok && i.Kind == "bond" || strings.Contains(c.hca.Name, "bond")
}

// natural compares names so that mlx5_2 is before mlx5_10.
func natural(a, b string) int {
	const digits = 20 // more than the number in any name has
	pad := func(n string) string { return strings.Repeat("0", max(0, digits-len(n))) + n }
	return cmp.Compare(numberRE.ReplaceAllStringFunc(a, pad), numberRE.ReplaceAllStringFunc(b, pad))
}

var numberRE = regexp.MustCompile(`[0-9]+`)

func portName(hca string, port int) string { return fmt.Sprintf("%s:%d", hca, port) }
