package envgen

import (
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/fabric/software"
	"launch/internal/finding"
	"launch/internal/setting"
)

// fabricRules returns the rules that restrict NCCL to the training fabric.
func fabricRules() []rule {
	nccl := func(v *view) bool { return v.gpus() && v.head() }
	return []rule{{
		name: "NCCL_NET", scope: setting.Job, source: "NCCL src/plugin/net.cc, src/transport/net_ib/init.cc",
		alone: "takes the first of plugin, InfiniBand/RoCE and TCP that has a device, and reports it only at INFO",
		when: "the only RDMA devices are not a fabric (Soft-RoCE, iWARP, usNIC), or RoCE without a usable GID: its " +
			"interfaces have no address, are in another network namespace, or only accelerate Hyper-V's",
		value: "Socket", used: nccl,
		want: (*view).wantNet, agrees: func(_ *view, value string) bool { return strings.EqualFold(value, "Socket") },
	}, {
		name: "NCCL_IB_HCA", scope: setting.Node, source: "NCCL src/transport/net_ib/init.cc",
		alone: "takes every ACTIVE port of any vendor, speed and transport, InfiniBand and Ethernet",
		when:  "some are not part of the training fabric: another link layer, slower, for storage or management",
		value: "=HCA:PORT,… of the training fabric",
		used:  nccl, want: wantHCA(setting.NCCL, "="), agrees: (*view).sameHCAs,
	}, {
		name: "NCCL_IB_PKEY", scope: setting.Node, source: "NCCL src/transport/net_ib/connect.cc",
		alone: "uses entry 0 of the partition table",
		when:  "entry 0 is a limited membership and another entry a full one: limited members cannot reach each other",
		value: "the index of a full membership, if it is the same on all HCAs; of several, the one whose IPoIB interface " +
			"has an address",
		used: nccl, want: (*view).wantPKey, rails: true,
	}, {
		name: "NCCL_CROSS_NIC", scope: setting.Job, source: "NCCL src/graph/search.cc, docs/userguide/source/env.rst",
		alone: "prefers the same rail on both nodes, and takes another one where that promises more speed",
		when:  "the nodes have called each other: each rail reaches the same rail of the others, and no other one",
		value: "0", used: nccl, want: (*view).wantCrossNIC,
	}, {
		name: "NCCL_IB_TIMEOUT", scope: setting.Job, span: span{before: "2.23"},
		source: "NCCL src/transport/net_ib/connect.cc", alone: "has the timeout 18 (20 from 2.23)",
		when: "more than 64 nodes share the fabric", value: "22", used: nccl, want: (*view).wantTimeout, agrees: atLeast(20),
	}, {
		name: "NCCL_IB_QPS_PER_CONNECTION", scope: setting.Node, span: span{since: "2.10"},
		source: "NVIDIA/nccl#1015, src/transport/net_ib/connect.cc", alone: "opens one queue pair per connection",
		when:  "a RoCE rail is a bond over several cables of one card, in a mode that uses them: one queue pair uses one",
		value: "2", used: nccl,
		want: (*view).wantQPs, agrees: atLeast(2), rails: true,
	}, {
		name: "NCCL_IB_SPLIT_DATA_ON_QPS", scope: setting.Node, span: span{since: "2.18", before: "2.20"},
		source: "NVIDIA/nccl#1015", alone: "splits each message over the queue pairs (in 2.18 and 2.19)",
		when: "NCCL_IB_QPS_PER_CONNECTION is set for a bond", value: "0", used: nccl, want: (*view).wantSplit,
		rails: true,
	}, {
		name: "NCCL_NET_GDR_C2C", scope: setting.Job, span: span{since: "2.26", before: "2.27"},
		source: "NCCL src/graph/paths.cc", alone: "does not use GPUDirect over the link between CPU and GPU (in 2.26)",
		when: "the GPUs are GH200, GB200 or GB300", value: "1", used: nccl, want: (*view).wantC2C,
	}, {
		name: "FI_PROVIDER", scope: setting.Job, source: "aws/aws-ofi-nccl src/platform-aws.cpp",
		alone: "offers every provider; aws-ofi-nccl chooses efa on its own from 1.5.1",
		when:  "the fabric is EFA and the plugin is older", value: "efa",
		used: func(v *view) bool { return nccl(v) && v.plugin() != "" }, want: (*view).wantProvider,
	}}
}

// atLeast accepts numbers from n on.
func atLeast(n int) func(*view, string) bool {
	return func(_ *view, value string) bool { return leadingInt(value, 0) >= n }
}

// strays reports whether the only devices that NCCL's IB module would take are not a fabric, only manage or accelerate
// another network, have no address, or their interfaces are in another network namespace: there a queue pair gets
// ENODEV (NVIDIA/nccl#925). A card that libibverbs does not list here does not count: the job's own libraries may list
// it.
func (v *view) strays() bool {
	bare := func(p hcaPort) bool {
		return slices.ContainsFunc(v.fab.NICs, func(n rail.NIC) bool {
			return n.HCA && n.Name == p.hca.Name && (n.NoAddress || n.Role == rail.Management)
		})
	}
	real := func(p hcaPort) bool {
		return !rail.NoFabric(p.hca) && (p.Elsewhere == "" || p.LinkLayer != ethernet) && !bare(p)
	}
	ports := v.ncclPorts()
	return v.fab.Kind == rail.TCP && len(v.rails()) == 0 && len(ports) > 0 && v.plugin() == "" &&
		!slices.ContainsFunc(ports, real)
}

// needsPlugin reports whether only libfabric supports the fabric, so NCCL needs a plugin.
func (v *view) needsPlugin() bool { return v.fab.Kind == rail.EFA || v.fab.Kind == rail.Slingshot }

func (v *view) wantNet() want {
	switch {
	case v.strays():
		return want{value: "Socket", seen: v.strangerSeen(), because: "there is no other RDMA device",
			wrong: "NCCL would use " + portList(v.ncclPorts()) + " as if it were a fabric"}
	case v.plugin() != "":
		return right("NCCL's plugin " + v.plugin() + " takes precedence on its own")
	case v.fab.Kind == rail.TCP && len(v.ncclPorts()) > 0:
		return right("NCCL may open RDMA devices that launch cannot use here: " + portList(v.ncclPorts()))
	case len(v.rails()) > 0:
		return right("NCCL finds the fabric on its own; setting it would only turn a silent fallback to TCP into an " +
			"error")
	case v.needsPlugin() && v.Node.Software.Plugin.Version == software.None:
		return right("NCCL finds no plugin here and uses TCP: " + string(v.fab.Kind) +
			" needs aws-ofi-nccl (libnccl-net.so)")
	case v.needsPlugin():
		return right("it is unknown whether NCCL finds the plugin for " + string(v.fab.Kind) +
			", which it loads on its own")
	}
	return right("NCCL uses TCP here on its own")
}

// railWords describes the training fabric.
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
	return words + v.fab.Guess()
}

func (v *view) strangerSeen() []finding.Seen {
	return finding.Map(v.strangers(), func(p hcaPort) finding.Seen {
		return finding.Seen{Where: "/sys/class/infiniband/" + p.hca.Name, What: v.hcaWhy(p)}
	})
}

// wantHCA is for the lists of ports of NCCL and NVSHMEM, which has no mark.
func wantHCA(library, mark string) func(*view) want {
	return func(v *view) want {
		rails, others := v.rails(), v.strangers()
		switch {
		case len(rails) == 0 && len(others) == 0:
			return right("no RDMA port is ACTIVE here that " + library + " would take")
		case len(rails) == 0:
			return right("no port that " + library + " would take is part of the training fabric" + v.fab.Guess())
		case v.vendorPlugin():
			return right("the network plugin " + v.plugin() + " chooses the devices")
		}
		w := want{value: mark + portList(rails), because: v.railWords()}
		if len(others) > 0 {
			w.wrong, w.seen = library+" would also use "+portList(others), v.strangerSeen()
		} else {
			w.not = "every ACTIVE port is part of the training fabric" + v.fab.Guess()
		}
		return w
	}
}

// vendorPlugin reports whether a plugin that is not for verbs carries the data.
func (v *view) vendorPlugin() bool {
	return strings.HasPrefix(strings.ToLower(v.plugin()), "aws-ofi-nccl") || v.netIs(vendorModules())
}

// netIs reports whether NCCL_NET begins with one of the names.
func (v *view) netIs(modules []string) bool {
	net := strings.ToLower(v.value("NCCL_NET"))
	return slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(net, m) })
}

// vendorModules returns the network modules of clouds, whose own scripts set their variables.
func vendorModules() []string {
	return []string{"gib", "fastrak", "gpudirecttcpx", "aws libfabric", "libfabric", "ofi"}
}

// sameHCAs reports whether a value of NCCL_IB_HCA selects exactly the rails.
func (v *view) sameHCAs(value string) bool {
	return portList(v.chosen(value)) == portList(v.rails())
}

// many is the number of nodes above which the timeout of NCCL before 2.23 is too short.
const many = 64

func (v *view) wantCrossNIC() want {
	switch {
	case len(v.rails()) < 2:
		return right("there are no two rails")
	case !v.World.Apart:
		return right("no call has shown that different rails do not reach each other")
	}
	return want{value: "0", wrong: "NCCL could connect a rail to another rail of a node, where there is no path",
		because: "each rail reached only the same rail of the other nodes",
		seen:    saw("calls between the nodes", "the same rails answered, different ones did not")}
}

func (v *view) wantTimeout() want {
	switch {
	case len(v.rails()) == 0:
		return right("there is no InfiniBand or RoCE here")
	case v.World.Nodes <= many:
		return right(fmt.Sprintf("the job has %d nodes", v.World.Nodes))
	}
	return want{value: "22", wrong: "NCCL before 2.23 would use the timeout 18, which a large fabric can exceed",
		because: fmt.Sprintf("the job has %d nodes", v.World.Nodes), seen: []finding.Seen{v.ncclSeen()}}
}

func (v *view) ncclSeen() finding.Seen {
	n := v.Node.Software.NCCL
	return finding.Seen{Where: n.Path, What: "NCCL " + n.Version}
}

func (v *view) wantQPs() want {
	var bonds []finding.Seen
	for _, p := range v.roceRails() {
		if i, ok := v.Node.Interface(p.Netdev); ok && i.Kind == "bond" && v.cables(i, p.hca) > 1 {
			bonds = append(bonds, finding.Seen{Where: p.String(), What: i.Name + " is a bond"})
		}
	}
	if bonds == nil {
		return right("no RoCE rail is a bond that uses several cables of its card")
	}
	return want{value: "2", wrong: "NCCL would use one cable of each bond", because: "one queue pair uses one cable",
		seen: bonds}
}

// cables returns over how many cables of its card an HCA sends through a bond: one where the others are only a reserve.
// A cable of another card has an HCA of its own.
func (v *view) cables(bond fabric.Interface, h fabric.HCA) int {
	n := 0
	for _, i := range v.Node.Interfaces {
		if i.Master == bond.Name && i.Running && (i.PCI == "" || rail.SameCard(i.PCI, h.PCI)) {
			n++
		}
	}
	if bond.Mode == "active-backup" {
		return min(n, 1)
	}
	return n
}

func (v *view) wantSplit() want {
	w := v.wantQPs()
	if w.wrong != "" {
		w.value, w.wrong, w.because = "0", "NCCL would split each message over both queue pairs",
			"each message then uses one cable"
	}
	return w
}

func (v *view) wantC2C() want {
	var models []string
	for _, g := range v.Node.GPUs.Devices {
		models = append(models, g.Name)
	}
	for _, c := range v.Node.Cards {
		models = append(models, c.Model)
	}
	for _, model := range models {
		for _, name := range []string{"GH200", "GB200", "GB300"} {
			if strings.Contains(model, name) {
				return want{value: "1", wrong: "NCCL 2.26 would copy through the CPU's memory",
					because: "it is the default from 2.27",
					seen:    []finding.Seen{{Where: "GPU", What: model}, v.ncclSeen()}}
			}
		}
	}
	return right("no GPU here has its own link to the CPU")
}

func (v *view) wantProvider() want {
	_, number, ok := strings.Cut(v.plugin(), "aws-ofi-nccl ")
	if !ok || v.fab.Kind != rail.EFA || !(span{before: "1.5.1"}).holds(parseVersion(number)) {
		return right("the plugin chooses the provider on its own")
	}
	p := v.Node.Software.Plugin
	return want{value: "efa", wrong: "aws-ofi-nccl " + number + " would take the first provider that libfabric lists",
		because: "the fabric is EFA", seen: saw(p.Path, p.Version)}
}
