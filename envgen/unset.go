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
	name    string
	library string
	alone   string // what the library does with nothing set
	why     string // why launch leaves it alone
	source  string
	here    func(*view) bool // people expect it on this node; nil: wherever the library is used
}

func roceOnly(v *view) bool  { return len(v.roceRails()) > 0 }
func verbsOnly(v *view) bool { return len(v.rails()) > 0 }
func efaOnly(v *view) bool   { return v.fab.Kind == rail.EFA }

// unsets is the table of them.
func unsets() []unset {
	const wire, doc = "NCCL src/transport/net_ib/connect.cc", "NCCL docs/userguide/source/env.rst"
	return []unset{
		{"NCCL_IB_DISABLE", setting.NCCL, "uses InfiniBand and RoCE where there are any", "1 means TCP on a machine with a fabric", doc, verbsOnly},
		{"NCCL_IB_TC", setting.NCCL, "uses traffic class 0", "the class with the fabric's guarantees is known to its operator alone", wire, roceOnly},
		{"NCCL_IB_SL", setting.NCCL, "uses service level 0", "as NCCL_IB_TC", wire, verbsOnly},
		{"NCCL_IB_RETRY_CNT", setting.NCCL, "tries 7 times, the most that the field holds", "there is no larger value", wire, verbsOnly},
		{"NCCL_IB_ADAPTIVE_ROUTING", setting.NCCL, "turns it on for InfiniBand and off for RoCE", "whether a RoCE fabric routes adaptively is known to its operator alone", wire, roceOnly},
		{"NCCL_IB_PCI_RELAXED_ORDERING", setting.NCCL, "turns it on where the driver has it", "the library sees it", wire, verbsOnly},
		{"NCCL_NET_GDR_LEVEL", setting.NCCL, "uses GPUDirect as far as one PCI switch reaches", "farther can be slower or broken, and only a measurement tells", "NCCL src/graph/paths.cc", verbsOnly},
		{"NCCL_CROSS_NIC", setting.NCCL, "prefers the same rail", "whether the rails reach each other is not seen from one node", "NCCL src/graph/search.cc", verbsOnly},
		{"NCCL_IB_SUBNET_AWARE_ROUTING", setting.NCCL, "takes every rail to reach every peer", "a cable without a switch is not told from a routed port by one node", wire, roceOnly},
		{"NCCL_P2P_DISABLE", setting.NCCL, "uses NVLink and PCIe between GPUs where these allow it", "it is for diagnosis", doc, nil},
		{"NCCL_SHM_DISABLE", setting.NCCL, "uses shared memory where P2P is not there", "it is for diagnosis; a small /dev/shm is to be made larger", doc, nil},
		{"NCCL_P2P_LEVEL", setting.NCCL, "uses P2P as far as it is safe on this CPU", "only a measurement tells", "NCCL src/graph/paths.cc", nil},
		{"NCCL_SHM_USE_CUDA_MEMCPY", setting.NCCL, "copies by a kernel (up to 2.30.4; later it is gone)", "on PCIe-only machines it can help, and only a measurement tells", doc, pcieOnly},
		{"NCCL_NVLS_ENABLE", setting.NCCL, "uses NVLink SHARP where it works", "the library sees it", doc, nil},
		{"NCCL_MNNVL_ENABLE", setting.NCCL, "uses NVLink between nodes where they are one domain", "where IMEX is down, 0 hides it: mend IMEX, or set 0 on all nodes", "NCCL src/init.cc, src/mnnvl.cc", func(v *view) bool { return v.nvlinkDomain() != "" }},
		{"NCCL_CUMEM_ENABLE", setting.NCCL, "uses cuMem where the driver has it", "0 turns NVLink between nodes and registered buffers off", doc, nil},
		{"NCCL_ALGO", setting.NCCL, "chooses for each size and topology", "forced, it is wrong for all other sizes", doc, nil},
		{"NCCL_PROTO", setting.NCCL, "chooses for each size and topology", "as NCCL_ALGO", doc, nil},
		{"NCCL_BUFFSIZE", setting.NCCL, "uses 4 MiB; plugins set their own", "only a measurement tells", doc, nil},
		{"NCCL_MIN_NCHANNELS", setting.NCCL, "chooses by topology", "more channels take cores of the GPU from the program", doc, nil},
		{"NCCL_COLLNET_ENABLE", setting.NCCL, "does not reduce in the switches", "SHARP is for the fabric's operator to offer", doc, verbsOnly},
		{"NCCL_IGNORE_CPU_AFFINITY", setting.NCCL, "keeps to the cores that it was given", "the cores are for whoever starts the ranks to give", "NCCL src/graph/topo.cc", nil},
		{"NCCL_HOSTID", setting.NCCL, "tells machines by host name and boot id", "it is for several containers of one job on one machine", "NCCL src/misc/utils.cc", nil},
		{"NCCL_RAS_ADDR", setting.NCCL, "answers ncclras at localhost:28028", "only a second job on the node needs another port", "NCCL src/ras/client_support.cc", nil},
		{"NCCL_DEBUG", setting.NCCL, "says nothing but errors", "it changes nothing; INFO shows what NCCL chose", doc, nil},
		{"NCCL_COMM_ID", setting.NCCL, "is told by the framework where to meet", "torch has its own store", doc, nil},
		{"NCCL_CONF_FILE", setting.NCCL, "reads ~/.nccl.conf, then /etc/nccl.conf", "it would hide the user's own file", "NCCL src/misc/param.cc", nil},
		{"FI_EFA_USE_DEVICE_RDMA", setting.Libfabric, "uses RDMA where the card has it", "1 ends the program on a card that has none", "libfabric man/fi_efa.7.md", efaOnly},
		{"FI_EFA_FORK_SAFE", setting.Libfabric, "is told so by aws-ofi-nccl", "a kernel from 5.13 on needs it no more", "libfabric man/fi_efa.7.md", efaOnly},
		{"FI_EFA_USE_HUGE_PAGE", setting.Libfabric, "uses huge pages", "0 is for data loaders that fork and fail with ENOMEM", "aws-samples/awsome-distributed-training efa-cheatsheet.md", efaOnly},
		{"FI_CXI_RX_MATCH_MODE", setting.Libfabric, "matches in hardware", "sites with Slingshot have a profile of their own, and they differ", "libfabric man/fi_cxi.7.md", func(v *view) bool { return v.fab.Kind == rail.Slingshot }},
		{"UCX_TLS", setting.UCX, "chooses among all transports", "a list easily lacks one that is needed: self, sm, cuda", "UCX src/ucp/core/ucp_context.c", nil},
		{"UCX_IB_GID_INDEX", setting.UCX, "prefers RoCE v2 with IPv4", "the choice is right, also with link-local addresses", "UCX src/uct/ib/base/ib_device.c", roceOnly},
		{"UCX_IB_TRAFFIC_CLASS", setting.UCX, "uses the driver's default class, else 106", "as NCCL_IB_TC", "UCX src/uct/ib/base/ib_device.c", roceOnly},
		{"OMPI_MCA_btl_tcp_if_exclude", setting.OpenMPI, "leaves 127.0.0.1/8 out", "what is to be used says it better, and names no interface", "Open MPI opal/mca/btl/tcp/btl_tcp_component.c", nil},
		{"OMPI_MCA_pml", setting.OpenMPI, "takes UCX for the drivers called mlx*", "a distribution's file that turns UCX off is found by the lint", "Open MPI opal/mca/common/ucx/common_ucx.c", nil},
		{"I_MPI_FABRICS", setting.IntelMPI, "uses shared memory and libfabric", "the others are gone since 2019", "Intel MPI Library Developer Reference", nil},
		{"OMP_NUM_THREADS", setting.Torch, "is given 1 by torchrun where it starts several processes", "how many cores a data loader needs is the program's to know", "torch/distributed/run.py", nil},
		{"TORCH_NCCL_ASYNC_ERROR_HANDLING", setting.Torch, "is given 1 by torchrun", "it ends a job whose peer died, which is what is wanted", "torch/distributed/elastic/agent/server/local_elastic_agent.py", nil},
		{"HOROVOD_GLOO_IFACE", setting.Horovod, "asks all hosts (horovodrun) and takes an interface that they share", "the driver sets it itself", "horovod/runner/gloo_run.py", nil},
	}
}

const ()

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
		if !v.used(u.library) || !given && u.here != nil && !u.here(v) {
			continue
		}
		e := Explanation{Name: u.name, Library: u.library, Alone: u.alone, Why: u.why, Source: u.source}
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
