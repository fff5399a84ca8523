package envgen

import (
	"fmt"
	"slices"

	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/internal/setting"
)

// unset is a variable that people expect and that launch never sets.
type unset struct {
	name   string
	alone  string // what the library does on its own
	why    string // why launch leaves it alone
	source string
	here   func(*view) bool // people expect it on this node; nil: wherever the library is used
}

func roceOnly(v *view) bool  { return len(v.roceRails()) > 0 }
func verbsOnly(v *view) bool { return len(v.rails()) > 0 }
func efaOnly(v *view) bool   { return v.fab.Kind == rail.EFA }

func unsets() []unset { return slices.Concat(wireUnsets(), ncclUnsets(), libraryUnsets()) }

// The sources of most rows.
const wire, doc = "NCCL src/transport/net_ib/connect.cc", "NCCL docs/userguide/source/env.rst"

// wireUnsets returns NCCL's variables for RDMA.
func wireUnsets() []unset {
	return []unset{
		{name: "NCCL_IB_DISABLE", here: verbsOnly, source: doc,
			alone: "uses InfiniBand and RoCE where there are any", why: "1 means TCP on a machine with a fabric"},
		{name: "NCCL_IB_TC", here: roceOnly, source: wire, alone: "uses traffic class 0",
			why: "only the operator of the fabric knows the class with its guarantees"},
		{name: "NCCL_IB_SL", here: verbsOnly, source: wire, alone: "uses service level 0", why: "as for NCCL_IB_TC"},
		{name: "NCCL_IB_RETRY_CNT", here: verbsOnly, source: wire,
			alone: "tries 7 times, the maximum of the field", why: "there is no larger value"},
		{name: "NCCL_IB_ADAPTIVE_ROUTING", here: roceOnly, source: wire,
			alone: "turns it on for InfiniBand and off for RoCE",
			why:   "only the operator of a RoCE fabric knows whether it routes adaptively"},
		{name: "NCCL_IB_PCI_RELAXED_ORDERING", here: verbsOnly, source: wire,
			alone: "turns it on if the driver has it", why: "the library detects it"},
		{name: "NCCL_NET_GDR_LEVEL", here: verbsOnly, source: "NCCL src/graph/paths.cc",
			alone: "uses GPUDirect within one PCI switch",
			why:   "a longer path can be slower or broken, which only a measurement shows"},
		{name: "NCCL_IB_SUBNET_AWARE_ROUTING", here: roceOnly, source: wire,
			alone: "assumes that every rail reaches every peer",
			why:   "one node cannot distinguish a cable without a switch from a routed port"},
	}
}

// ncclUnsets returns NCCL's other variables.
func ncclUnsets() []unset {
	return []unset{
		{name: "NCCL_P2P_DISABLE", source: doc,
			alone: "uses NVLink and PCIe between GPUs where they support it", why: "it is for diagnosis"},
		{name: "NCCL_SHM_DISABLE", source: doc, alone: "uses shared memory where there is no P2P",
			why: "it is for diagnosis; enlarge a small /dev/shm instead"},
		{name: "NCCL_P2P_LEVEL", source: "NCCL src/graph/paths.cc",
			alone: "uses P2P where it is safe on this CPU", why: "only a measurement shows what is best"},
		{name: "NCCL_SHM_USE_CUDA_MEMCPY", here: pcieOnly, source: doc,
			alone: "copies with a kernel (removed after 2.30.4)",
			why:   "it can help on PCIe-only machines, which only a measurement shows"},
		{name: "NCCL_NVLS_ENABLE", source: doc, alone: "uses NVLink SHARP where it works",
			why: "the library detects it"},
		{name: "NCCL_MNNVL_ENABLE", here: func(v *view) bool { return v.nvlinkDomain() != "" },
			source: "NCCL src/init.cc, src/mnnvl.cc", alone: "uses NVLink between nodes of one domain",
			why: "0 hides that IMEX is down: fix IMEX, or set 0 on all nodes"},
		{name: "NCCL_CUMEM_ENABLE", source: doc, alone: "uses cuMem if the driver has it",
			why: "0 turns NVLink between nodes and registered buffers off"},
		{name: "NCCL_ALGO", source: doc,
			alone: "chooses for each size and topology", why: "a fixed choice is wrong for other sizes"},
		{name: "NCCL_PROTO", source: doc, alone: "chooses for each size and topology", why: "as for NCCL_ALGO"},
		{name: "NCCL_BUFFSIZE", source: doc,
			alone: "uses 4 MiB; plugins set their own", why: "only a measurement shows what is best"},
		{name: "NCCL_MIN_NCHANNELS", source: doc,
			alone: "chooses by topology", why: "more channels take GPU cores from the program"},
		{name: "NCCL_COLLNET_ENABLE", here: verbsOnly, source: doc,
			alone: "does not reduce in the switches", why: "the operator of the fabric has to offer SHARP"},
		{name: "NCCL_IGNORE_CPU_AFFINITY", source: "NCCL src/graph/topo.cc",
			alone: "uses only the cores that it was given", why: "the starter of the ranks assigns the cores"},
		{name: "NCCL_HOSTID", source: "NCCL src/misc/utils.cc", alone: "identifies a machine by host name and boot id",
			why: "it is for several containers of one job on one machine"},
		{name: "NCCL_RAS_ADDR", source: "NCCL src/ras/client_support.cc",
			alone: "answers ncclras at localhost:28028", why: "only a second job on the node needs another port"},
		{name: "NCCL_DEBUG", source: doc,
			alone: "prints only errors", why: "it is for diagnosis: INFO shows what NCCL chose"},
		{name: "NCCL_COMM_ID", source: doc,
			alone: "gets the address from the framework", why: "torch has its own store"},
		{name: "NCCL_CONF_FILE", source: "NCCL src/misc/param.cc",
			alone: "reads ~/.nccl.conf, then /etc/nccl.conf", why: "it would hide the user's own file"},
	}
}

// libraryUnsets returns the variables of other libraries.
func libraryUnsets() []unset {
	return []unset{
		{name: "FI_EFA_USE_DEVICE_RDMA", here: efaOnly, source: "libfabric man/fi_efa.7.md",
			alone: "uses RDMA if the card has it", why: "1 ends the program on a card without RDMA"},
		{name: "FI_EFA_FORK_SAFE", here: efaOnly, source: "libfabric man/fi_efa.7.md",
			alone: "gets it from aws-ofi-nccl", why: "kernels from 5.13 do not need it"},
		{name: "FI_EFA_USE_HUGE_PAGE", here: efaOnly,
			source: "aws-samples/awsome-distributed-training efa-cheatsheet.md",
			alone:  "uses huge pages", why: "0 is for data loaders that fork and fail with ENOMEM"},
		{name: "FI_CXI_RX_MATCH_MODE", here: func(v *view) bool { return v.fab.Kind == rail.Slingshot },
			source: "libfabric man/fi_cxi.7.md",
			alone:  "matches in hardware", why: "each site with Slingshot has its own profile"},
		{name: "UCX_TLS", source: "UCX src/ucp/core/ucp_context.c", alone: "chooses among all transports",
			why: "a list often lacks a transport that is needed: self, sm, cuda"},
		{name: "UCX_IB_GID_INDEX", here: roceOnly, source: "UCX src/uct/ib/base/ib_device.c",
			alone: "prefers RoCE v2 with IPv4", why: "its own choice is right, also with link-local addresses"},
		{name: "UCX_IB_TRAFFIC_CLASS", here: roceOnly, source: "UCX src/uct/ib/base/ib_device.c",
			alone: "uses the driver's default class, else 106", why: "as for NCCL_IB_TC"},
		{name: "OMPI_MCA_btl_tcp_if_exclude", source: "Open MPI opal/mca/btl/tcp/btl_tcp_component.c",
			alone: "excludes 127.0.0.1/8", why: "an inclusion is more precise, and needs no name of an interface"},
		{name: "OMPI_MCA_pml", source: "Open MPI opal/mca/common/ucx/common_ucx.c",
			alone: "uses UCX for the drivers mlx*", why: "the lint finds a distribution's file that turns UCX off"},
		{name: "I_MPI_FABRICS", source: "Intel MPI Library Developer Reference",
			alone: "uses shared memory and libfabric", why: "the others were removed in 2019"},
		{name: "OMP_NUM_THREADS", source: "torch/distributed/run.py",
			alone: "gets 1 from torchrun if it starts several processes",
			why:   "only the program knows how many cores its data loader needs"},
		{name: "TORCH_NCCL_ASYNC_ERROR_HANDLING",
			source: "torch/distributed/elastic/agent/server/local_elastic_agent.py",
			alone:  "gets 1 from torchrun", why: "1 is right: it ends a job after a peer has died"},
		{name: "HOROVOD_GLOO_IFACE", source: "horovod/runner/gloo_run.py",
			alone: "takes an interface that all hosts have (horovodrun asks them)",
			why:   "the driver sets it itself"},
	}
}

// pcieOnly reports whether the node has several GPUs and no RDMA port.
func pcieOnly(v *view) bool { return v.gpuCount() > 1 && len(v.rails()) == 0 }

// used reports whether the job uses a library, for the table of unset variables.
func (v *view) used(library string) bool {
	switch library {
	case setting.NCCL:
		return v.gpus()
	case setting.Torch:
		return v.Torch
	case setting.UCX:
		return v.ucx()
	case setting.Libfabric:
		return v.needsPlugin() || v.Node.Software.Libfabric.Version != ""
	case setting.OpenMPI:
		return v.openMPI()
	case setting.IntelMPI:
		return v.MPI == "intel"
	case setting.Horovod:
		return v.uses("horovod", "HOROVOD_")
	}
	return false
}

// Explanation is what launch does about one variable, and why.
type Explanation struct {
	Name     string         `json:"name"`
	Library  string         `json:"library"`
	Set      bool           `json:"set"`               // the plan sets it
	Value    string         `json:"value,omitempty"`   // the value, or what it would be without the user's
	User     string         `json:"user,omitempty"`    // the user's own value
	From     string         `json:"from,omitempty"`    // where the user's value is set
	Scope    setting.Scope  `json:"scope,omitempty"`   // of a variable that a plan may have
	PerNode  bool           `json:"per_node,omitzero"` // this node needs it, but mpirun would carry it to the others
	Alone    string         `json:"alone"`             // what the library does on its own
	Why      string         `json:"why"`               // why it is set, or why not
	Versions string         `json:"versions,omitempty"`
	Seen     []finding.Seen `json:"seen,omitempty"`
	Source   string         `json:"source"`
}

// Explain returns why each variable of the libraries in use is set or not: first those
// that the plan sets, then the others, in the order of the tables.
func Explain(in Input) []Explanation {
	v := look(in)
	var out []Explanation
	for _, d := range v.judge() {
		e := Explanation{Name: d.name, Library: d.library, Set: d.sets(), Scope: d.scope, Alone: d.alone,
			Versions: d.span.String(), Source: d.source}
		switch {
		case v.perNode(d.rule) && d.wrong != "" && !d.given:
			e.Set, e.PerNode = false, true
			e.Why = "not set: mpirun would carry this node's value to the other nodes. mpirun … launch PROGRAM " +
				"sets it on each node"
		case d.given:
			e.User, e.From = d.user.Value, d.user.From
			e.Why = "your value is used"
			if d.kept() {
				e.Value, e.Seen = d.want.value, d.seen
				e.Why += ", but " + d.because
			}
		case e.Set:
			e.Value, e.Seen, e.Why = d.want.value, d.seen, d.reason()
		case d.not != "":
			e.Why = d.not
		default:
			e.Why = fmt.Sprintf("%s makes the right choice here on its own", d.library)
		}
		out = append(out, e)
	}
	for _, u := range unsets() {
		d, given := v.decided(u.name)
		if !v.used(setting.Library(u.name)) || !given && u.here != nil && !u.here(v) {
			continue
		}
		e := Explanation{Name: u.name, Library: setting.Library(u.name), Alone: u.alone, Why: u.why, Source: u.source}
		if given {
			e.User, e.From, e.Why = d.Value, d.From, "your value is used; launch never sets it: "+u.why
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b Explanation) int {
		return slices.Index(groups(), a.Group()) - slices.Index(groups(), b.Group())
	})
	return out
}

// groups returns the groups of explanations in order.
func groups() []string { return []string{"set", "needed on each node", "your own", "not set"} }

// Group returns the heading for explanations that belong together.
func (e Explanation) Group() string {
	g := groups()
	switch {
	case e.Set:
		return g[0]
	case e.PerNode:
		return g[1]
	case e.From != "":
		return g[2]
	}
	return g[3]
}
