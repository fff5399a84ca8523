// Package envgen computes the plan: from the facts of the node, its peers and the variables that are
// set already, the few variables that the libraries would get wrong on their own, each with its reason
// and evidence. It also lints the variables that are set already. It runs nothing and reads no file.
package envgen

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/setting"
)

// World is the part of the agreed world that the plan needs.
type World struct {
	Nodes  int
	Rank   int
	Addr   netip.Addr     // this node's address, as its peers use it
	Called bool           // the nodes have called each other: Fast, Apart and Home are known
	Fast   bool           // all nodes reached each other in their FastNetwork
	Apart  bool           // each rail reaches the same rail of the other nodes, and no other one
	Home   bool           // another address where NCCL or Gloo would wait is not reached by all
	Peers  []netip.Addr   // the other nodes' addresses; empty before the rendezvous; of mpirun's hosts, those known
	Master netip.AddrPort // where the job's own store listens on node rank 0; invalid before the rendezvous
	Job    string         // the job's id
	Store  []string       // URLs of the job's etcd, if a program may use it without a key
	All    []netip.Addr   // the addresses of all nodes, in the order of their ranks; for TensorFlow alone
}

// Input is all that a plan depends on.
type Input struct {
	Node    fabric.Node
	World   World
	Decided []setting.Decided
	Torch   bool // the command is torchrun or a Python program: it may use Gloo and TensorPipe
	Mpirun  bool // the command is an MPI's mpirun on the head node: the plan has only constants of the job
	Script  bool // the command is, or is in, a shell script, which may set variables itself

	// MPI is the MPI of mpirun, or of this process: "openmpi", "openmpi4", "openmpi5", "mpich", "intel"; "" if
	// there is none or it is unknown.
	MPI string
	// Uses are libraries that the command names or its script imports: "jax", "tensorflow", "horovod", "nixl",
	// "nvshmem", "ucx"; and calls: "jax.distributed.initialize()".
	Uses []string

	Tasks   bool // this node has several processes of the job
	Devices int  // the NVIDIA GPUs that the only process of this node may use; 0: none, or unknown

	// Files has the texts of those of Paths that exist, "" for a directory. nil: unknown, and no rule is about files.
	Files map[string]string
}

// Plan is the variables to set, in a stable order, and those that the user's own value replaces (Kept).
type Plan []setting.Var

// rule is one variable that the plan may set. docs/env.md and Explain show the texts;
// want is the same as code.
type rule struct {
	name    string
	library string // reads it
	scope   setting.Scope
	span    span   // of a rule of NCCL: the versions for which it applies
	alone   string // what the library does on its own: completes "NCCL …"
	when    string // where that is wrong: completes "set where …"
	value   string // what is set then
	source  string
	single  bool             // the rule applies to a job on one machine too
	head    bool             // mpirun itself reads it, on its own node
	rails   bool             // the value depends on which ports are rails, and its words do not say so
	used    func(*view) bool // the job may use the library
	want    func(*view) want
	agrees  func(v *view, value string) bool // a value has the effect of want; nil: it is equal
}

// want is the right value, and what the library would do without it.
type want struct {
	value   string
	wrong   string // what is wrong with the library's own choice: "NCCL would …"; "" if it is right
	because string // why value is right; then a different value of the user is shown with it
	not     string // why nothing is set, unless the library is right: "no RDMA port is ACTIVE"
	seen    []finding.Seen
}

func right(not string) want { return want{not: not} }

// saw returns one piece of evidence.
func saw(where, what string) []finding.Seen { return []finding.Seen{{Where: where, What: what}} }

// verdict is a rule and its result.
type verdict struct {
	rule
	want
	user   setting.Decided // in force, where decided
	given  bool            // it is decided
	agreed bool            // and has the effect of want
}

// sets reports whether the plan sets the variable.
func (d verdict) sets() bool { return !d.given && d.wrong != "" && d.want.value != "" }

// kept reports whether the plan shows the user's value next to its own.
func (d verdict) kept() bool { return d.given && !d.agreed && d.want.value != "" && d.because != "" }

// reason returns why the plan sets the variable.
func (d verdict) reason() string {
	if d.because == "" {
		return d.wrong
	}
	return d.wrong + "; " + d.because
}

// judge returns the verdicts of the rules of all libraries in use.
func (v *view) judge() []verdict {
	var out []verdict
	for _, r := range rules() {
		if !r.used(v) {
			continue
		}
		d := verdict{rule: r}
		d.user, d.given = v.decided(r.name)
		agrees := func(value string) bool {
			if r.agrees == nil {
				return value == d.want.value
			}
			return r.agrees(v, value)
		}
		if !v.apart() && !r.single {
			d.want = right("the job is on one machine")
		} else if !r.span.holds(v.nccl) {
			d.want = right(spanWords(r, v.nccl))
		} else {
			d.want = r.want(v)
		}
		if r.rails && d.want.wrong != "" && d.want.because != "" && !v.fab.Sure {
			d.want.because += "; " + v.railWords()
		}
		// A value that would not select what it names (an interface that is down, a
		// family that it lacks) is worse than no value.
		if d.want.value != "" && !agrees(d.want.value) {
			d.want.value, d.not = "", "no value would be right here"
		}
		d.agreed = d.given && d.want.value != "" && agrees(d.user.Value)
		out = append(out, d)
	}
	return out
}

// perNode reports whether the rule is about one node and the command is mpirun, which
// would carry the value to the other nodes.
func (v *view) perNode(r rule) bool { return v.Mpirun && r.scope == setting.Node && !r.head }

func spanWords(r rule, now version) string {
	if !now.known() {
		return fmt.Sprintf("it is for %s %s; the version here is unknown and counts as a current one",
			r.library, r.span)
	}
	return fmt.Sprintf("it is for %s %s; this is %d.%d.%d", r.library, r.span, now[0], now[1], now[2])
}

// Make returns the plan: the variables without which a library would make a wrong choice. It never
// replaces a variable that is set; one with another effect is listed as Kept, with the right value. For
// mpirun it has only constants of the job and what mpirun itself reads.
func Make(in Input) Plan {
	var plan Plan
	v := look(in)
	for _, d := range v.judge() {
		if v.perNode(d.rule) || !d.sets() && !d.kept() {
			continue
		}
		p := setting.Var{Name: d.name, Value: d.want.value, Scope: d.scope, Source: d.source, Seen: d.seen,
			Reason: d.reason()}
		if d.kept() {
			p.Kept, p.User, p.From = true, d.user.Value, d.user.From
			p.Seen = saw(d.user.From, d.user.Name+"="+d.user.Value)
			p.Reason = "your value is used, but " + d.because
		}
		plan = append(plan, p)
	}
	return plan
}

// rules returns the rules in the order of a plan.
func rules() []rule {
	all := slices.Concat(addressRules(), fabricRules(), gidRules(), nodeRules(), mpiRules(), nvshmemRules(),
		frameworkRules())
	for i := range all {
		all[i].library = setting.Library(all[i].name)
	}
	return all
}

// ReadByMpirun reports whether mpirun itself reads a variable of the plan, so that its
// own environment needs it: Open MPI's daemons do not see -x.
func ReadByMpirun(name string) bool {
	return slices.ContainsFunc(rules(), func(r rule) bool { return r.head && r.name == name })
}

// constants returns the variables that have to be equal on all nodes, as patterns of
// path.Match. With a difference ranks disagree about messages, or hang.
func constants() []string {
	return []string{
		"NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_IB_DISABLE", "NCCL_SOCKET_FAMILY", "NCCL_ALGO", "NCCL_PROTO",
		"NCCL_BUFFSIZE", "NCCL_*_CHUNKSIZE", "NCCL_M??_NCHANNELS", "NCCL_M??_CTAS", "NCCL_CROSS_NIC", "NCCL_PXN_*",
		"NCCL_P2P_*", "NCCL_SHM_DISABLE", "NCCL_MNNVL_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE",
		"NCCL_COLLNET_ENABLE", "NCCL_SOCKET_MAGIC", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ROCE_VERSION_NUM",
		"NCCL_IB_TC", "NCCL_IB_SL", "UCX_TLS", "FI_PROVIDER", "OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl",
		"NVSHMEM_REMOTE_TRANSPORT", "NVSHMEM_LIBFABRIC_PROVIDER", "NIXL_ETCD_*", TorchDebug,
		"TORCH_DIST_INIT_BARRIER", "GLOO_DEVICE_TRANSPORT", lazyGloo, rankSequence, HashSeed,
	}
}

// Switches by which Gloo connects ranks in another way: on one node alone, ranks end with a segmentation fault (torch
// 2.15.0 on two ranks; of Gloo's other switches none does harm).
const lazyGloo, rankSequence = "TORCH_GLOO_LAZY_INIT", "GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER"

// glooSwitches returns them with the values that switch them on (c10d/Utils.hpp, in any case; gloo/common/utils.cc).
func glooSwitches() map[string][]string {
	return map[string][]string{lazyGloo: {"1", "y", "yes", "t", "true"}, rankSequence: {"1", "true"}}
}

// TorchDebug is torch's level of checks. With DETAIL a rank compares each collective with all others first.
const TorchDebug = "TORCH_DISTRIBUTED_DEBUG"

// HashSeed decides the order of Python's sets of strings. A value on most nodes says that the order matters.
const HashSeed = "PYTHONHASHSEED"

// offByDefault are switches of NCCL that it reads as numbers, and that are 0 without a setting (src/init.cc,
// src/graph/paths.cc, src/transport), and one of torch (distributed_c10d.py).
func offByDefault() []string {
	return []string{"NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_PXN_DISABLE", "NCCL_COLLNET_ENABLE",
		"TORCH_DIST_INIT_BARRIER"}
}

// Constants returns the settings in force here that have to be equal on all nodes,
// from the environment, files and the plan. The nodes compare them. A switch that is
// off is left out, as is a level of torch's that only prints.
func Constants(p Plan, decided []setting.Decided) map[string]string {
	out := map[string]string{}
	for _, d := range decided {
		constant := slices.ContainsFunc(constants(), func(pattern string) bool { return matches(pattern, d.Name) })
		if _, ok := out[d.Name]; !ok && constant {
			out[d.Name] = d.Value
		}
	}
	maps.DeleteFunc(out, func(name, value string) bool {
		return slices.Contains(offByDefault(), name) && leadingInt(value, 0) == 0 ||
			name == TorchDebug && !strings.EqualFold(value, "DETAIL") || // other levels only print
			name == HashSeed && (value == "" || value == "random") // as without it
	})
	for name, on := range glooSwitches() {
		switch value, set := out[name]; {
		case set && slices.Contains(on, strings.ToLower(value)):
			out[name] = "1"
		case set:
			delete(out, name)
		}
	}
	for _, v := range p {
		if v.Scope == setting.Job && !v.Kept {
			out[v.Name] = v.Value
		}
	}
	return out
}

// matches reports whether a well-formed pattern matches a name.
func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}
