package envgen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/fabric/software"
	"launch/internal/finding"
	"launch/internal/setting"
)

// fabricRules keep NCCL on the training fabric.
func fabricRules() []rule {
	nccl := func(v *view) bool { return v.gpus() && v.head() }
	return []rule{{
		name: "NCCL_NET", scope: setting.Job, source: "NCCL src/plugin/net.cc, src/transport/net_ib/init.cc",
		alone: "takes the first of plugin, InfiniBand/RoCE and TCP that has a device, and says so only at INFO",
		when:  "the only RDMA devices are no fabric (Soft-RoCE, iWARP, usNIC), which its InfiniBand module would take",
		value: "Socket",
		used:  nccl, want: (*view).wantNet,
		agrees: func(_ *view, value string) bool { return strings.EqualFold(value, "Socket") },
	}, {
		name: "NCCL_IB_HCA", scope: setting.Node, source: "NCCL src/transport/net_ib/init.cc",
		alone: "takes every ACTIVE port of any vendor, speed and transport, InfiniBand and Ethernet",
		when:  "some of these are not of the training fabric: another link layer, slower, for storage or management",
		value: "=HCA:PORT,… of the training fabric",
		used:  nccl, want: wantHCA(setting.NCCL, "="), agrees: (*view).sameHCAs,
	}, {
		name: "NCCL_IB_PKEY", scope: setting.Node, source: "NCCL src/transport/net_ib/connect.cc",
		alone: "uses entry 0 of the partition table",
		when:  "entry 0 is a limited membership and another is a full one: limited members cannot reach each other",
		value: "the index of the first full membership, where it is the same on all HCAs",
		used:  nccl, want: (*view).wantPKey,
	}, {
		name: "NCCL_IB_TIMEOUT", scope: setting.Job, span: span{before: "2.23"}, source: "NCCL src/transport/net_ib/connect.cc",
		alone: "gives up after 18 (20 from 2.23 on)",
		when:  "more than 64 nodes share the fabric",
		value: "22",
		used:  nccl, want: (*view).wantTimeout,
		agrees: func(_ *view, value string) bool { return leadingInt(value, 0) >= 20 },
	}, {
		name: "NCCL_IB_QPS_PER_CONNECTION", scope: setting.Node, span: span{since: "2.10"}, source: "NVIDIA/nccl#1015, src/transport/net_ib/connect.cc",
		alone: "opens one queue pair for a connection",
		when:  "a RoCE rail is a bond: a queue pair uses one cable of it",
		value: "2",
		used:  nccl, want: (*view).wantQPs,
		agrees: func(_ *view, value string) bool { return leadingInt(value, 0) >= 2 },
	}, {
		name: "NCCL_IB_SPLIT_DATA_ON_QPS", scope: setting.Node, span: span{since: "2.18", before: "2.20"}, source: "NVIDIA/nccl#1015",
		alone: "splits each message over the queue pairs (in 2.18 and 2.19)",
		when:  "NCCL_IB_QPS_PER_CONNECTION is set for a bond",
		value: "0",
		used:  nccl, want: (*view).wantSplit,
	}, {
		name: "NCCL_NET_GDR_C2C", scope: setting.Job, span: span{since: "2.26", before: "2.27"}, source: "NCCL src/graph/paths.cc",
		alone: "does not use GPUDirect through the link between CPU and GPU (in 2.26)",
		when:  "the GPUs are a GH200's, GB200's or GB300's",
		value: "1",
		used:  nccl, want: (*view).wantC2C,
	}, {
		name: "FI_PROVIDER", scope: setting.Job, source: "aws/aws-ofi-nccl src/platform-aws.cpp",
		alone: "offers every provider; aws-ofi-nccl chooses efa by itself from 1.5.1 on",
		when:  "the fabric is EFA and the plugin is older",
		value: "efa",
		used:  func(v *view) bool { return nccl(v) && v.plugin() != "" }, want: (*view).wantProvider,
	}}
}

// strays tells that the only devices that NCCL's IB module would take are no
// fabric.
func (v *view) strays() bool {
	return v.fab.Kind == rail.TCP && len(v.rails()) == 0 && len(v.ncclPorts()) > 0 && v.plugin() == ""
}

// needsPlugin tells whether the fabric is libfabric's alone, so that NCCL can use
// it by a plugin only.
func (v *view) needsPlugin() bool { return v.fab.Kind == rail.EFA || v.fab.Kind == rail.Slingshot }

func (v *view) wantNet() want {
	switch {
	case v.strays():
		return want{value: "Socket", seen: v.strangerSeen(), because: "there is no other RDMA device",
			wrong: "NCCL would use " + portList(v.ncclPorts()) + " as if it were a fabric"}
	case v.plugin() != "":
		return right("NCCL's plugin " + v.plugin() + " goes first by itself")
	case len(v.rails()) > 0:
		return right("NCCL finds the training fabric by itself; a pin would only turn its silent fallback to TCP into an error")
	case v.needsPlugin() && v.Node.Software.Plugin.Version == software.None:
		return right("NCCL finds no plugin here and uses TCP: " + string(v.fab.Kind) + " needs aws-ofi-nccl (libnccl-net.so)")
	case v.needsPlugin():
		return right("whether NCCL finds the plugin that " + string(v.fab.Kind) + " needs is not known; NCCL takes it by itself")
	}
	return right("NCCL uses TCP here by itself")
}

// railWords is what the training fabric is.
func (v *view) railWords() string {
	rails := v.rails()
	if len(rails) == 0 {
		return ""
	}
	p := rails[0]
	words := fmt.Sprintf("the training fabric is %d x %s", len(rails), p.LinkLayer)
	if p.Rate > 0 {
		words += fmt.Sprintf(" at %g Gb/s", p.Rate)
	}
	if !v.fab.Sure {
		words += " (a rule of thumb)"
	}
	return words
}

func (v *view) strangerSeen() []finding.Seen {
	var seen []finding.Seen
	for _, p := range v.strangers() {
		seen = append(seen, finding.Seen{Where: "/sys/class/infiniband/" + p.hca.Name, What: v.hcaWhy(p)})
	}
	return seen
}

// wantHCA is for NCCL's list of ports and NVSHMEM's, which lacks the mark.
func wantHCA(library, mark string) func(*view) want {
	return func(v *view) want {
		rails, others := v.rails(), v.strangers()
		switch {
		case len(rails) == 0 && len(others) == 0:
			return right("no RDMA port is ACTIVE here that " + library + " would take")
		case len(rails) == 0:
			return right("no port that " + library + " would take is of the training fabric")
		case v.vendorPlugin():
			return right("the network plugin " + v.plugin() + " chooses the devices")
		}
		w := want{value: mark + portList(rails), because: v.railWords()}
		if len(others) > 0 {
			w.wrong, w.seen = library+" would also use "+portList(others), v.strangerSeen()
		} else {
			w.not = "every ACTIVE port is of the training fabric"
		}
		return w
	}
}

// vendorPlugin tells that a plugin other than one for verbs carries the data.
func (v *view) vendorPlugin() bool {
	return strings.HasPrefix(strings.ToLower(v.plugin()), "aws-ofi-nccl") || v.netIs(vendorModules())
}

// netIs tells whether NCCL_NET begins with one of these names.
func (v *view) netIs(modules []string) bool {
	net := strings.ToLower(v.value("NCCL_NET"))
	return slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(net, m) })
}

// vendorModules are the network modules of clouds, whose own scripts set what
// they need.
func vendorModules() []string {
	return []string{"gib", "fastrak", "gpudirecttcpx", "aws libfabric", "libfabric", "ofi"}
}

// sameHCAs tells whether a value of NCCL_IB_HCA takes the rails and nothing
// else.
func (v *view) sameHCAs(value string) bool {
	f := parseFilter(value, maxIBs)
	rails := v.rails()
	for _, p := range v.ncclPorts() {
		if f.match(p.hca.Name, p.Num) != contains(rails, p) {
			return false
		}
	}
	return true
}

// wantPKey: a key's highest bit is full membership (IBTA 10.9.3). A table whose
// first entry is not set has none there either.
func (v *view) wantPKey() want {
	index, seen := -1, []finding.Seen(nil)
	for _, p := range v.rails() {
		if p.LinkLayer != infiniBand || len(p.PKeys) == 0 || p.PKeys[0].Index == 0 && fullMember(p.PKeys[0]) {
			return right("entry 0 of the partition table is a full membership, or not known")
		}
		i := slices.IndexFunc(p.PKeys, fullMember)
		if i < 0 || index >= 0 && p.PKeys[i].Index != index {
			return right("no one entry of the partition table is a full membership on all HCAs")
		}
		index = p.PKeys[i].Index
		seen = append(seen, p.pkeysSeen())
	}
	if index < 0 {
		return right("there is no InfiniBand here")
	}
	return want{value: strconv.Itoa(index), wrong: "NCCL would use entry 0, which is no full membership", because: "entry " + strconv.Itoa(index) + " is a full one", seen: seen}
}

func (p hcaPort) pkeysSeen() finding.Seen {
	var words []string
	for _, k := range p.PKeys {
		words = append(words, fmt.Sprintf("%d: %s", k.Index, k.Key))
	}
	return finding.Seen{Where: fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/pkeys", p.hca.Name, p.Num), What: strings.Join(words, ", ")}
}

func fullMember(k fabric.PKey) bool { return leadingInt(k.Key, 0)&0x8000 != 0 }

// many is the number of nodes above which the timeout of NCCL before 2.23 is
// too short.
const many = 64

func (v *view) wantTimeout() want {
	switch {
	case len(v.rails()) == 0:
		return right("there is no InfiniBand or RoCE here")
	case v.World.Nodes <= many:
		return right(fmt.Sprintf("the job has %d nodes", v.World.Nodes))
	}
	return want{value: "22", wrong: "NCCL before 2.23 would give up after 18, which a large fabric can exceed",
		because: fmt.Sprintf("the job has %d nodes", v.World.Nodes), seen: []finding.Seen{v.ncclSeen()}}
}

func (v *view) ncclSeen() finding.Seen {
	n := v.Node.Software.NCCL
	return finding.Seen{Where: n.Path, What: "NCCL " + n.Version}
}

func (v *view) wantQPs() want {
	var bonds []finding.Seen
	for _, p := range v.roceRails() {
		if i, ok := v.Node.Interface(p.Netdev); ok && i.Kind == "bond" && v.cables(i.Name) > 1 {
			bonds = append(bonds, finding.Seen{Where: p.String(), What: i.Name + " is a bond"})
		}
	}
	if bonds == nil {
		return right("no RoCE rail is a bond of several cables")
	}
	return want{value: "2", wrong: "NCCL would use one cable of each bond", because: "one queue pair uses one cable", seen: bonds}
}

// cables are the members of a bond that are up.
func (v *view) cables(bond string) int {
	n := 0
	for _, i := range v.Node.Interfaces {
		if i.Master == bond && i.Running {
			n++
		}
	}
	return n
}

func (v *view) wantSplit() want {
	w := v.wantQPs()
	if w.wrong != "" {
		w.value, w.wrong, w.because = "0", "NCCL would split each message over both queue pairs", "whole messages keep the cables apart"
	}
	return w
}

func (v *view) wantC2C() want {
	for _, model := range v.gpuNames() {
		for _, name := range []string{"GH200", "GB200", "GB300"} {
			if strings.Contains(model, name) {
				return want{value: "1", wrong: "NCCL 2.26 would copy through the CPU's memory", because: "from 2.27 on it is the default",
					seen: []finding.Seen{{Where: "GPU", What: model}, v.ncclSeen()}}
			}
		}
	}
	return right("no GPU here has a link of its own to the CPU")
}

func (v *view) wantProvider() want {
	_, number, ok := strings.Cut(v.plugin(), "aws-ofi-nccl ")
	if !ok || v.fab.Kind != rail.EFA || !(span{before: "1.5.1"}).holds(parseVersion(number)) {
		return right("the plugin chooses the provider by itself")
	}
	p := v.Node.Software.Plugin
	return want{value: "efa", wrong: "aws-ofi-nccl " + number + " would take whichever provider libfabric lists first",
		because: "the fabric is EFA", seen: []finding.Seen{{Where: p.Path, What: p.Version}}}
}
