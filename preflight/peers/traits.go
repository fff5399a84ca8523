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
	"launch/internal/finding"
	"launch/preflight"
)

// Traits is the hardware that all nodes should share. An empty field is unknown or missing, and never a difference.
type Traits struct {
	GPU    string `json:"gpu,omitempty"`    // the models of the GPUs that the job sees
	GPUs   int    `json:"gpus,omitempty"`   // their number, where the number of processes follows from it
	NoGPU  bool   `json:"no_gpu,omitempty"` // that is known
	Memory int    `json:"memory,omitempty"` // of the smallest, in GiB, rounded to 8: error correction takes some
	MIG    bool   `json:"mig,omitempty"`    // one of them is in MIG mode
	// Machine, Image and UUIDs distinguish machines, and find a GPU that two nodes use: the beginning of the kernel's
	// boot id, a mark of /etc/machine-id (empty in a container, where it is the image's), the ends of the UUIDs.
	Machine string   `json:"machine,omitempty"`
	Image   string   `json:"image,omitempty"` // equal on clones of one disk image
	UUIDs   []string `json:"uuids,omitempty"`
	Certain bool     `json:"certain,omitempty"` // some process uses each of these GPUs

	HostID string `json:"host_id,omitempty"` // NCCL_HOSTID, by which NCCL takes ranks for those of one machine

	// Direct is how the HCAs reach the memory of the GPUs: "nvidia_peermem", "DMA-BUF", "no way".
	Direct string    `json:"direct,omitempty"`
	Fabric rail.Kind `json:"fabric,omitempty"`
	Rails  string    `json:"rails,omitempty"` // "8 x 400 Gb/s"
	// NCCLPorts and UCXPorts are the ports that settings choose, if they are not the rails: "4 x 400 Gb/s InfiniBand".
	NCCLPorts string `json:"nccl_ports,omitempty"`
	UCXPorts  string `json:"ucx_ports,omitempty"`
	MTU       string `json:"mtu,omitempty"`      // payload of the rails' packets, in bytes
	GID       string `json:"gid,omitempty"`      // "RoCE v2, IPv4"
	Firmware  string `json:"firmware,omitempty"` // of the rails: "MT4129 28.39.1002"
	Subnets   string `json:"subnets,omitempty"`  // prefixes of the InfiniBand rails
	QoS       string `json:"qos,omitempty"`      // of the RoCE rails: "trust dscp, DCQCN 3"
	// GUIDs are those of InfiniBand virtual functions and their ports that have a link.
	GUIDs   []string `json:"guids,omitempty"`
	PeerMTU int      `json:"peer_mtu,omitempty"` // of the interface that the peers use, in bytes
	PeerIf  string   `json:"peer_if,omitempty"`  // its name
	PeerMAC string   `json:"peer_mac,omitempty"` // its hardware address
	// Prefix is the node's address for its peers, with the length of its netmask.
	Prefix netip.Prefix `json:"prefix,omitzero"`
	Child  string       `json:"child,omitempty"`  // its kind, where that is macvlan or ipvlan
	Net    string       `json:"net,omitempty"`    // its network namespace on that machine; "": unknown
	Family string       `json:"family,omitempty"` // of the node's address for its peers: "IPv4"; empty for loopback
}

// sameNetwork reports whether two nodes share the addresses of one machine, as far as is known.
func (t Traits) sameNetwork(o Traits) bool {
	return t.Machine == o.Machine && (t.Net == o.Net || t.Net == "" || o.Net == "")
}

// machineMark and uuidMark are the posted lengths of an identity: enough to distinguish the nodes of one job.
const (
	machineMark = 12
	uuidMark    = 8
)

// TraitsOf returns the traits of a node with fabric f. It reads Job, Node, Addr, Selected and Env of in.
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
	t.HostID, _ = in.Getenv("NCCL_HOSTID")
	t.GUIDs = guidsOf(in.Node)
	t.Direct = direct(in, f)
	t.gpus(in)
	t.rails(in.Node, f)
	t.NCCLPorts, t.UCXPorts = counted(in.Selected["NCCL_IB_HCA"], true), counted(in.Selected["UCX_NET_DEVICES"], true)
	for _, nic := range f.NICs {
		if i, ok := in.Node.Interface(nic.Name); ok && nic.Role == rail.Peer {
			if at := slices.IndexFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr() == in.Addr.Unmap() }); at >= 0 {
				t.Prefix = i.Addrs[at]
			}
			if t.PeerMTU = i.MTU; i.MTU > 0 {
				t.PeerIf, t.PeerMAC = i.Name, i.MAC
				if i.Kind == "macvlan" || i.Kind == "ipvlan" {
					t.Child = i.Kind
				}
			}
		}
	}
	return t
}

// direct returns how the HCAs reach the memory of the job's GPUs; "" where one of both is missing, or not known.
func direct(in preflight.Input, f rail.Fabric) string {
	u, _ := preflight.GPUsOf(in)
	d := in.Node.GPUDirect
	switch {
	case len(u.Devices) == 0 || len(rail.PortsOf(in.Node, f)) == 0 || f.Kind == rail.EFA:
		return ""
	case d.Peermem:
		return "nvidia_peermem"
	case d.DMABuf == "yes":
		return "DMA-BUF"
	case d.DMABuf == "" || !d.Module:
		return ""
	}
	return "no way"
}

// family returns the family of an address; "" for none and for loopback, which never leaves a machine.
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
		t.NoGPU = in.Node.GPUs.Present || in.Node.GPUs.Absent != ""
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
	short := func(d gpu.GPU) bool { return len(d.UUID) < uuidMark }
	if t.Machine != "" && !slices.ContainsFunc(u.Devices, short) && !t.MIG {
		t.Certain = u.Certain
		for _, d := range u.Devices {
			t.UUIDs = append(t.UUIDs, d.UUID[len(d.UUID)-uuidMark:])
		}
	}
}

func (t *Traits) rails(n fabric.Node, f rail.Fabric) {
	var rates, mtus, gids, firmware, subnets, qos []string
	if f.Kind != rail.TCP {
		rates = finding.Map(f.Rails, rateOf)
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
		qos = append(qos, qosOf(p.Facts.QoS))
	}
	t.Rails, t.MTU, t.GID = counted(rates, true), counted(mtus, false), counted(gids, false)
	t.Firmware, t.Subnets, t.QoS = counted(firmware, false), counted(subnets, false), counted(qos, false)
}

// qosOf describes a port's flow and congestion control; "" where a part is not known.
func qosOf(q fabric.QoS) string {
	if q.Trust == "" || q.Notify == "" || q.React == "" {
		return ""
	}
	dcqcn := q.Notify
	if q.React != q.Notify {
		dcqcn += " to report, " + q.React + " to react"
	}
	return "trust " + q.Trust + ", DCQCN " + dcqcn
}

// coversQoS reports whether ports described by one QoS treat all priorities that another one treats.
func coversQoS(own, most string) bool {
	part := func(q string) (trust, notify, react string) {
		trust, notify, _ = strings.Cut(q, ", DCQCN ")
		react = notify
		if a, b, two := strings.Cut(notify, " to report, "); two {
			notify, react = a, strings.TrimSuffix(b, " to react")
		}
		return trust, notify, react
	}
	all := func(list, want string) bool {
		return want == "none" || !slices.ContainsFunc(strings.Split(want, ","),
			func(p string) bool { return !slices.Contains(strings.Split(list, ","), p) })
	}
	if strings.Contains(own+most, " + ") { // ports that differ
		return false
	}
	trust, notify, react := part(own)
	same, reports, reacts := part(most)
	return trust == same && all(notify, reports) && all(react, reacts)
}

func rateOf(r rail.Rail) string {
	if r.Rate == 0 {
		return "unknown rate"
	}
	return fmt.Sprintf("%g Gb/s", r.Rate)
}

// kindOfGID returns the kind of a RoCE rail's address; "" for other rails, and without an address (rdma.gid).
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

// subnetOf returns the upper half of an InfiniBand port's first GID, which the subnet manager assigns.
func subnetOf(p rail.Port) string {
	if p.Facts.LinkLayer != "InfiniBand" || p.Card.Driver == "efa" || len(p.Facts.GIDs) == 0 {
		return ""
	}
	b := p.Facts.GIDs[0].Addr.As16()
	return fmt.Sprintf("%x:%x:%x:%x", b[0:2], b[2:4], b[4:6], b[6:8])
}

// counted returns the distinct entries of a list, sorted, with their number if asked.
func counted(words []string, number bool) string {
	count := map[string]int{}
	for _, w := range words {
		if w != "" {
			count[w]++
		}
	}
	var out []string
	for _, w := range slices.SortedFunc(maps.Keys(count),
		func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) }) {
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

// compareScripts reports the nodes on which the content of the script differs. Commands that differ otherwise than in
// their nodes' places are reported already, and a script of another name is another script.
func compareScripts(posts []Post) []judged {
	if len(groups(posts, func(p Post) string { return p.Command })) > 1 && !placed(posts) {
		return nil
	}
	script := func(p Post) string { return p.Script }
	gs := groups(having(posts, script), script)
	if len(gs) < 2 {
		return nil
	}
	f := finding.Warnf("the script's content differs: %s", differs(gs)).Named("same.script").About(odd(gs))
	return []judged{{Finding: f.
		Breaking("ranks that run different versions of a program wait in different collectives, and the job hangs or " +
			"computes wrong results").
		Do("sha256sum SCRIPT   # shows each node's version\ncopy it to all nodes again, or run it from a shared file " +
			"system")}}
}

// meant reports whether a setting that differs is meant to be the same: most nodes have it, or some have other values.
func meant(posts []Post, name string) bool {
	var values []string
	for _, p := range posts {
		if v := p.Constants[name]; v != "" {
			values = append(values, v)
		}
	}
	n := len(values)
	slices.Sort(values)
	return 2*n > len(posts) || len(slices.Compact(values)) > 1
}

// compareConstants compares the settings that must be the same on all nodes
// (Post.Constants). With different settings of NCCL the ranks of a job on GPUs disagree
// about messages or choose different networks: then the minority is unfit.
func compareConstants(posts []Post) (out []judged) {
	names := map[string]bool{}
	for _, p := range posts {
		for name := range p.Constants {
			names[name] = true
		}
	}
	loads := loadsOf(posts)
	gpus, rdma := onGPU(loads), slices.ContainsFunc(loads, func(l Loads) bool { return l.RDMA })
	for _, name := range slices.Sorted(maps.Keys(names)) {
		gs := groupsBySetting(posts, name)
		if len(gs) < 2 || gpus && explained(posts, name) || name == "PYTHONHASHSEED" && !meant(posts, name) {
			continue
		}
		f := finding.Warnf("%s differs: %s", name, differs(gs)).Named("same.env").About(odd(gs)).
			Breaking("ranks that disagree about their messages hang or fail").
			Do("launch env --explain   # shows its source: the environment or the library's own files\n" +
				"set it to the same value on all nodes, or on no node")
		var unfit []int
		idle := slices.Contains(settled(), name) || name == "NCCL_NET_PLUGIN" || // same.plugin compares what it finds
			strings.HasPrefix(name, "NCCL_IB_") && !rdma
		if name == "TORCH_GLOO_LAZY_INIT" || name == "GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER" {
			f = f.Breaking("ranks that use Gloo connect to each other in two different ways: one of a node where it is " +
				"not set ends with a segmentation fault")
		}
		if name == "PYTHONHASHSEED" {
			f = f.Breaking("sets of strings have another order there: a job whose ranks call collectives in that order hangs").
				Do("export PYTHONHASHSEED=0   # the same on all nodes; or sort what the script goes through")
		}
		waits := waitsOf(name, loads)
		if waits != "" {
			f = f.Breaking("%s", waits)
		}
		if waits != "" || gpus && strings.HasPrefix(name, "NCCL_") && !idle {
			f.Status = finding.Fail
			unfit = ranksIn(gs[1:])
		}
		out = append(out, judged{f, unfit})
	}
	return out
}

// waitsOf returns for what the ranks with a setting of torch wait until all others have it too; "": they do not.
func waitsOf(name string, loads []Loads) string {
	since := func(major, minor int) bool {
		return slices.ContainsFunc(loads, func(l Loads) bool { return atLeast(l.Torch.Version, major, minor) })
	}
	switch {
	case name == "TORCH_DISTRIBUTED_DEBUG" && since(0, 0):
		return "with DETAIL a rank compares each collective with all others first (ProcessGroupWrapper of torch), and " +
			"those without it do not answer"
	case name == "TORCH_DIST_INIT_BARRIER" && since(2, 1): // before, all ranks wait (distributed_c10d.py)
		return "with it a rank waits at the end of init_process_group until all others do, and those without it never do"
	}
	return ""
}

// settled are settings of NCCL with which ranks agree all the same, by the least that all can: a start of two nodes
// with one GPU each ran where only one of them had it (NCCL 2.28.9, make accept-gpu). Where channels, buffers, the
// algorithm or the protocol differed it died or hung. NCCL_P2P_DISABLE is a level (src/graph/paths.cc).
func settled() []string {
	return []string{"NCCL_CROSS_NIC", "NCCL_CUMEM_ENABLE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE",
		"NCCL_SOCKET_FAMILY"}
}

func groupsBySetting(posts []Post, name string) []group {
	return groups(posts, func(p Post) string {
		if v, set := p.Constants[name]; set {
			return name + "=" + v
		}
		return name + " not set"
	})
}

// follows reports whether the setting differs between the same nodes as the trait.
func (r traitRule) follows(posts []Post) bool {
	a, b := r.groups(posts), groupsBySetting(posts, r.sets)
	return len(a) > 1 && len(b) > 1 && sameOdd(a, b)
}

// explained reports whether the cause of a difference in a setting is reported already.
func explained(posts []Post, setting string) bool {
	return slices.ContainsFunc(traitRules(), func(r traitRule) bool { return r.sets == setting && r.follows(posts) })
}
