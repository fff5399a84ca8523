package peers

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/rail"
	"launch/preflight"
)

// Traits is what a node is made of, as far as the others should have it too. An
// empty field is one that is not known or that the node has none of; it is never
// a difference.
type Traits struct {
	GPU    string `json:"gpu,omitempty"`    // the models of the GPUs that the job sees
	GPUs   int    `json:"gpus,omitempty"`   // how many; only where the number of processes follows from it
	Memory int    `json:"memory,omitempty"` // of the smallest, in GiB, to the next 8: error correction takes a share of some
	MIG    bool   `json:"mig,omitempty"`    // one of them is in MIG mode
	// What tells one machine from two, and that two nodes use one GPU: the beginning
	// of the kernel's boot id, a mark of /etc/machine-id, the ends of the UUIDs.
	Machine string   `json:"machine,omitempty"`
	Image   string   `json:"image,omitempty"` // alike on clones of one disk image; none in a container, whose file is its image's
	UUIDs   []string `json:"uuids,omitempty"`
	Certain bool     `json:"certain,omitempty"` // each of these GPUs is some process' own

	Fabric rail.Kind `json:"fabric,omitempty"`
	Rails  string    `json:"rails,omitempty"` // "8 x 400 Gb/s"
	// What settings choose among the ports, where it is not the rails: "4 x 400
	// Gb/s InfiniBand".
	NCCLPorts string `json:"nccl_ports,omitempty"`
	UCXPorts  string `json:"ucx_ports,omitempty"`
	MTU       string `json:"mtu,omitempty"`      // data in a packet of the rails, in bytes
	GID       string `json:"gid,omitempty"`      // "RoCE v2, IPv4"
	Firmware  string `json:"firmware,omitempty"` // of the rails: "MT4129 28.39.1002"
	Subnets   string `json:"subnets,omitempty"`  // prefixes of the InfiniBand rails
	PeerMTU   int    `json:"peer_mtu,omitempty"` // of the interface that the peers use, in bytes
	PeerIf    string `json:"peer_if,omitempty"`  // its name
	Family    string `json:"family,omitempty"`   // of the node's address for its peers: "IPv4"; none of loopback
}

// machineMark and uuidMark are how much of an identity is posted: enough to tell
// the nodes of one job apart, and no more.
const (
	machineMark = 12
	uuidMark    = 8
)

// TraitsOf is a node's traits. f is its fabric as its peers' address shows it. It
// reads Job, Node, Addr, Selected and Env of its Input.
func TraitsOf(in preflight.Input, f rail.Fabric) Traits {
	t := Traits{Fabric: f.Kind, Family: family(in.Addr)}
	if len(in.Node.BootID) >= machineMark {
		t.Machine = in.Node.BootID[:machineMark]
	}
	if in.Node.Container.Kind == "" {
		t.Image = in.Node.System.Image
	}
	if f.Kind == rail.Unknown {
		t.Fabric = ""
	}
	t.gpus(in)
	t.rails(in.Node, f)
	t.NCCLPorts, t.UCXPorts = counted(in.Selected["NCCL_IB_HCA"], true), counted(in.Selected["UCX_NET_DEVICES"], true)
	for _, nic := range f.NICs {
		if i, ok := in.Node.Interface(nic.Name); ok && nic.Role == rail.Peer {
			if t.PeerMTU = i.MTU; i.MTU > 0 {
				t.PeerIf = i.Name
			}
		}
	}
	return t
}

// family is what an address is; "" of none, and of loopback, where both are one
// machine's.
func family(a netip.Addr) string {
	switch a = a.Unmap(); {
	case !a.IsValid() || a.IsLoopback():
		return ""
	case a.Is4():
		return "IPv4"
	}
	return "IPv6"
}

func (t *Traits) gpus(in preflight.Input) {
	u, _ := preflight.GPUsOf(in)
	if len(u.Devices) == 0 {
		return
	}
	var models []string
	var least uint64
	for _, d := range u.Devices {
		models = append(models, d.Name)
		if least == 0 || d.Memory > 0 && d.Memory < least {
			least = d.Memory
		}
		t.MIG = t.MIG || d.MIG == "on"
	}
	t.GPU = counted(models, false)
	t.Memory = int(least+4<<30) >> 30 / 8 * 8
	if v := in.Job.NProc.V; v == "gpu" || v == "auto" {
		t.GPUs = len(u.Devices)
	}
	if t.Machine != "" && !slices.ContainsFunc(u.Devices, func(d gpu.GPU) bool { return len(d.UUID) < uuidMark }) && !t.MIG {
		t.Certain = u.Certain
		for _, d := range u.Devices {
			t.UUIDs = append(t.UUIDs, d.UUID[len(d.UUID)-uuidMark:])
		}
	}
}

func (t *Traits) rails(n fabric.Node, f rail.Fabric) {
	var rates, mtus, gids, firmware, subnets []string
	for _, r := range f.Rails {
		if f.Kind != rail.TCP {
			rates = append(rates, rateOf(r))
		}
	}
	for _, p := range rail.PortsOf(n, f) {
		if has := p.Packets(n); has.Now > 0 {
			mtus = append(mtus, strconv.Itoa(has.Now))
		}
		if p.Card.Firmware != "" && p.Card.Type != "" {
			firmware = append(firmware, p.Card.Type+" "+p.Card.Firmware)
		}
		gids = append(gids, kindOfGID(p))
		subnets = append(subnets, subnetOf(p))
	}
	t.Rails, t.MTU, t.GID = counted(rates, true), counted(mtus, false), counted(gids, false)
	t.Firmware, t.Subnets = counted(firmware, false), counted(subnets, false)
}

func rateOf(r rail.Rail) string {
	if r.Rate == 0 {
		return "unknown rate"
	}
	return fmt.Sprintf("%g Gb/s", r.Rate)
}

// kindOfGID is the kind of address that a RoCE rail is reached at; "" of another
// rail, or one without an address: that is a matter of its own.
func kindOfGID(p rail.Port) string {
	i := slices.IndexFunc(p.Facts.GIDs, func(g fabric.GID) bool { return g.Index == p.GID })
	if p.GID < 0 || i < 0 || p.Facts.LinkLayer != "Ethernet" {
		return ""
	}
	if p.Facts.GIDs[i].Addr.Unmap().Is4() {
		return "RoCE v2, IPv4"
	}
	return "RoCE v2, IPv6"
}

// subnetOf is the upper half of an InfiniBand port's first GID, which the subnet
// manager gives.
func subnetOf(p rail.Port) string {
	if p.Facts.LinkLayer != "InfiniBand" || p.Card.Driver == "efa" || len(p.Facts.GIDs) == 0 {
		return ""
	}
	b := p.Facts.GIDs[0].Addr.As16()
	return fmt.Sprintf("%x:%x:%x:%x", b[0:2], b[2:4], b[4:6], b[6:8])
}

// counted is the different words of a list, sorted, with their number if asked.
func counted(words []string, number bool) string {
	count := map[string]int{}
	for _, w := range words {
		if w != "" {
			count[w]++
		}
	}
	var out []string
	for _, w := range slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) }) {
		if number {
			w = fmt.Sprintf("%d x %s", count[w], w)
		}
		out = append(out, w)
	}
	if !number {
		slices.Sort(out)
	}
	return strings.Join(out, " + ")
}
