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
	alone  string // what the library does with nothing set
	why    string // why launch leaves it alone
	source string
	here   func(*view) bool // people expect it on this node; nil: wherever the library is used
}

func roceOnly(v *view) bool  { return len(v.roceRails()) > 0 }
func verbsOnly(v *view) bool { return len(v.rails()) > 0 }
func efaOnly(v *view) bool   { return v.fab.Kind == rail.EFA }

// unsets is the table of them.
func unsets() []unset {
	const wire, doc = "NCCL src/transport/net_ib/connect.cc", "NCCL docs/userguide/source/env.rst"
	return []unset{
		{name: "NCCL_IB_DISABLE", here: verbsOnly, source: doc,
			alone: "uses InfiniBand and RoCE where there are any", why: "1 means TCP on a machine with a fabric"},
		{name: "NCCL_IB_TC", here: roceOnly, source: wire,
			alone: "uses traffic class 0",
			why:   "the class with the fabric's guarantees is known to its operator alone"},
		{name: "NCCL_IB_SL", here: verbsOnly, source: wire, alone: "uses service level 0", why: "as NCCL_IB_TC"},
		{name: "NCCL_IB_RETRY_CNT", here: verbsOnly, source: wire,
			alone: "tries 7 times, the most that the field holds", why: "there is no larger value"},
		{name: "NCCL_IB_ADAPTIVE_ROUTING", here: roceOnly, source: wire,
			alone: "turns it on for InfiniBand and off for RoCE",
			why:   "whether a RoCE fabric routes adaptively is known to its operator alone"},
		{name: "NCCL_IB_PCI_RELAXED_ORDERING", here: verbsOnly, source: wire,
			alone: "turns it on where the driver has it", why: "the library sees it"},
		{name: "NCCL_NET_GDR_LEVEL", here: verbsOnly, source: "NCCL src/graph/paths.cc",
			alone: "uses GPUDirect as far as one PCI switch reaches",
			why:   "farther can be slower or broken, and only a measurement tells"},
		{name: "NCCL_CROSS_NIC", here: verbsOnly, source: "NCCL src/graph/search.cc",
			alone: "prefers the same rail", why: "whether the rails reach each other is not seen from one node"},
		{name: "NCCL_IB_SUBNET_AWARE_ROUTING", here: roceOnly, source: wire,
			alone: "takes every rail to reach every peer",
			why:   "a cable without a switch is not told from a routed port by one node"},
		{name: "NCCL_P2P_DISABLE", source: doc,
			alone: "uses NVLink and PCIe between GPUs where these allow it", why: "it is for diagnosis"},
		{name: "NCCL_SHM_DISABLE", source: doc,
			alone: "uses shared memory where P2P is not there",
			why:   "it is for diagnosis; a small /dev/shm is to be made larger"},
		{name: "NCCL_P2P_LEVEL", source: "NCCL src/graph/paths.cc",
			alone: "uses P2P as far as it is safe on this CPU", why: "only a measurement tells"},
		{name: "NCCL_SHM_USE_CUDA_MEMCPY", here: pcieOnly, source: doc,
			alone: "copies by a kernel (up to 2.30.4; later it is gone)",
			why:   "on PCIe-only machines it can help, and only a measurement tells"},
		{name: "NCCL_NVLS_ENABLE", source: doc, alone: "uses NVLink SHARP where it works", why: "the library sees it"},
		{name: "NCCL_MNNVL_ENABLE", here: func(v *view) bool { return v.nvlinkDomain() != "" }, source: "NCCL src/init.cc, src/mnnvl.cc",
			alone: "uses NVLink between nodes where they are one domain",
			why:   "where IMEX is down, 0 hides it: mend IMEX, or set 0 on all nodes"},
		{name: "NCCL_CUMEM_ENABLE", source: doc,
			alone: "uses cuMem where the driver has it",
			why:   "0 turns NVLink between nodes and registered buffers off"},
		{name: "NCCL_ALGO", source: doc,
			alone: "chooses for each size and topology", why: "forced, it is wrong for all other sizes"},
		{name: "NCCL_PROTO", source: doc, alone: "chooses for each size and topology", why: "as NCCL_ALGO"},
		{name: "NCCL_BUFFSIZE", source: doc,
			alone: "uses 4 MiB; plugins set their own", why: "only a measurement tells"},
		{name: "NCCL_MIN_NCHANNELS", source: doc,
			alone: "chooses by topology", why: "more channels take cores of the GPU from the program"},
		{name: "NCCL_COLLNET_ENABLE", here: verbsOnly, source: doc,
			alone: "does not reduce in the switches", why: "SHARP is for the fabric's operator to offer"},
		{name: "NCCL_IGNORE_CPU_AFFINITY", source: "NCCL src/graph/topo.cc",
			alone: "keeps to the cores that it was given", why: "the cores are for whoever starts the ranks to give"},
		{name: "NCCL_HOSTID", source: "NCCL src/misc/utils.cc",
			alone: "tells machines by host name and boot id",
			why:   "it is for several containers of one job on one machine"},
		{name: "NCCL_RAS_ADDR", source: "NCCL src/ras/client_support.cc",
			alone: "answers ncclras at localhost:28028", why: "only a second job on the node needs another port"},
		{name: "NCCL_DEBUG", source: doc,
			alone: "says nothing but errors", why: "it changes nothing; INFO shows what NCCL chose"},
		{name: "NCCL_COMM_ID", source: doc,
			alone: "is told by the framework where to meet", why: "torch has its own store"},
		{name: "NCCL_CONF_FILE", source: "NCCL src/misc/param.cc",
			alone: "reads ~/.nccl.conf, then /etc/nccl.conf", why: "it would hide the user's own file"},
		{name: "FI_EFA_USE_DEVICE_RDMA", here: efaOnly, source: "libfabric man/fi_efa.7.md",
			alone: "uses RDMA where the card has it", why: "1 ends the program on a card that has none"},
		{name: "FI_EFA_FORK_SAFE", here: efaOnly, source: "libfabric man/fi_efa.7.md",
			alone: "is told so by aws-ofi-nccl", why: "a kernel from 5.13 on needs it no more"},
		{name: "FI_EFA_USE_HUGE_PAGE", here: efaOnly, source: "aws-samples/awsome-distributed-training efa-cheatsheet.md",
			alone: "uses huge pages", why: "0 is for data loaders that fork and fail with ENOMEM"},
		{name: "FI_CXI_RX_MATCH_MODE", here: func(v *view) bool { return v.fab.Kind == rail.Slingshot }, source: "libfabric man/fi_cxi.7.md",
			alone: "matches in hardware", why: "sites with Slingshot have a profile of their own, and they differ"},
		{name: "UCX_TLS", source: "UCX src/ucp/core/ucp_context.c",
			alone: "chooses among all transports", why: "a list easily lacks one that is needed: self, sm, cuda"},
		{name: "UCX_IB_GID_INDEX", here: roceOnly, source: "UCX src/uct/ib/base/ib_device.c",
			alone: "prefers RoCE v2 with IPv4", why: "the choice is right, also with link-local addresses"},
		{name: "UCX_IB_TRAFFIC_CLASS", here: roceOnly, source: "UCX src/uct/ib/base/ib_device.c",
			alone: "uses the driver's default class, else 106", why: "as NCCL_IB_TC"},
		{name: "OMPI_MCA_btl_tcp_if_exclude", source: "Open MPI opal/mca/btl/tcp/btl_tcp_component.c",
			alone: "leaves 127.0.0.1/8 out", why: "what is to be used says it better, and names no interface"},
		{name: "OMPI_MCA_pml", source: "Open MPI opal/mca/common/ucx/common_ucx.c",
			alone: "takes UCX for the drivers called mlx*",
			why:   "a distribution's file that turns UCX off is found by the lint"},
		{name: "I_MPI_FABRICS", source: "Intel MPI Library Developer Reference",
			alone: "uses shared memory and libfabric", why: "the others are gone since 2019"},
		{name: "OMP_NUM_THREADS", source: "torch/distributed/run.py",
			alone: "is given 1 by torchrun where it starts several processes",
			why:   "how many cores a data loader needs is the program's to know"},
		{name: "TORCH_NCCL_ASYNC_ERROR_HANDLING", source: "torch/distributed/elastic/agent/server/local_elastic_agent.py",
			alone: "is given 1 by torchrun", why: "it ends a job whose peer died, which is what is wanted"},
		{name: "HOROVOD_GLOO_IFACE", source: "horovod/runner/gloo_run.py",
			alone: "asks all hosts (horovodrun) and takes an interface that they share",
			why:   "the driver sets it itself"},
	}
}

// pcieOnly tells that the GPUs have no NVLink, by what they are.
func pcieOnly(v *view) bool { return v.gpuCount() > 1 && len(v.rails()) == 0 }

// used tells whether the job uses a library, for the table of what is not set.
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
	Value    string         `json:"value,omitempty"`   // what is set, or would be if the user had not
	User     string         `json:"user,omitempty"`    // the user's own value
	From     string         `json:"from,omitempty"`    // where that stands
	Scope    setting.Scope  `json:"scope,omitempty"`   // of those that a plan may hold
	PerNode  bool           `json:"per_node,omitzero"` // this node needs it, and mpirun would carry it to the others
	Alone    string         `json:"alone"`             // what the library does with nothing set
	Why      string         `json:"why"`               // why it is set, or why not
	Versions string         `json:"versions,omitempty"`
	Seen     []finding.Seen `json:"seen,omitempty"`
	Source   string         `json:"source"`
}

// Explain says of each variable of the libraries that this job uses, which a
// plan may hold or people expect, why it is set or not: first those of the
// plan, then the others, in the order of the tables.
func Explain(in Input) []Explanation {
	v := look(in)
	var out []Explanation
	for _, d := range v.judge() {
		e := Explanation{Name: d.name, Library: d.library, Set: d.sets(), Scope: d.scope, Alone: d.alone, Versions: d.span.String(), Source: d.source}
		switch {
		case v.perNode(d.rule) && d.wrong != "" && !d.given:
			e.Set, e.PerNode = false, true
			e.Why = "not set: per node; mpirun would carry this node's value to the others. mpirun … launch PROGRAM sets it on each"
		case d.given:
			e.User, e.From = d.user.Value, d.user.From
			e.Why = "yours is kept"
			if d.kept() {
				e.Value, e.Seen = d.want.value, d.seen
				e.Why += ", but " + d.because
			}
		case e.Set:
			e.Value, e.Seen, e.Why = d.want.value, d.seen, d.wrong
			if d.because != "" {
				e.Why += "; " + d.because
			}
		case d.not != "":
			e.Why = d.not
		default:
			e.Why = fmt.Sprintf("%s does the right thing here by itself", d.library)
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
			e.User, e.From, e.Why = d.Value, d.From, "yours is kept; launch never sets it: "+u.why
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b Explanation) int {
		return slices.Index(groups(), a.Group()) - slices.Index(groups(), b.Group())
	})
	return out
}

// groups are the groups of explanations, in their order.
func groups() []string { return []string{"set", "wanted on each node", "yours", "not set"} }

// Group is a head for explanations that belong together: what launch does about
// the variable.
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
