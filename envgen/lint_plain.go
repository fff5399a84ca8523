package envgen

import (
	"fmt"
	"slices"

	"launch/internal/finding"
	"launch/internal/setting"
)

// plain is a rule about the value alone, or only the name.
type plain struct {
	id     string
	names  []string
	values []int  // as NCCL reads numbers; empty: any
	only   string // the only value; "": any
	here   func(*view) bool
	is     string // completes "NAME=VALUE …"
	breaks string
	fix    string // "" to drop it
	gone   bool
}

// plainLint returns the rules for settings that are wrong on every machine.
func plainLint() []lintRule {
	var out []lintRule
	for _, p := range plains() {
		out = append(out, lintRule{id: p.id, names: p.names, what: "it " + p.is, gone: p.gone, look: p.look})
	}
	return out
}

func plains() []plain {
	nvidia := func(v *view) bool { return v.gpus() && v.Node.Software.HIP == "" }
	return []plain{
		{id: "env.efa-rdma", names: []string{"FI_EFA_USE_DEVICE_RDMA"}, values: []int{1},
			is:     "is not needed: libfabric decides on its own from 1.18",
			breaks: "the program aborts on a card without RDMA"},
		{id: "env.fork-safe", names: []string{"RDMAV_FORK_SAFE", "IBV_FORK_SAFE", "FI_EFA_FORK_SAFE"},
			is:     "is for kernels before 5.13, and aws-ofi-nccl sets what it needs",
			breaks: "registering memory becomes slow and can fail"},
		{id: "env.no-prefix", names: []string{"RX_QUEUE_LEN", "IB_RX_QUEUE_LEN", "coll_hcoll_enable"}, gone: true,
			is: "has no effect: the prefix of the name is missing (UCX_, OMPI_MCA_)"},
		{id: "env.torch-old-name", names: []string{"NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT"},
			is: "is an old name: the variable of torch begins with TORCH_ from 2.2"},
		{id: "env.torch-async", names: []string{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"},
			values: []int{0},
			is:     "turns off torch's watch for NCCL's errors", breaks: "the job hangs forever when a peer dies"},
		{id: "env.torch-debug", names: []string{"TORCH_DISTRIBUTED_DEBUG"}, only: "DETAIL",
			is: "compares all ranks at each collective", breaks: "training is slow; it is for diagnosis"},
		{id: "env.torch-wait", names: []string{"TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"}, values: []int{1},
			is: "makes each collective block the processor", breaks: "training is slow; it is for diagnosis"},
		{id: "env.gdr-flush", names: []string{"NCCL_GDR_FLUSH_DISABLE", "OFI_NCCL_GDR_FLUSH_DISABLE"},
			values: []int{1}, here: nvidia,
			is:     "skips the flush after GPUDirect's writes, which only AMD's cards may",
			breaks: "kernels can read data that has not arrived yet"},
		{id: "env.env-plugin", names: []string{"NCCL_ENV_PLUGIN"},
			is:     "lets a library replace NCCL's variables",
			breaks: "NCCL may use other values than the environment, so launch does not see them",
			fix:    "NCCL_DEBUG=INFO shows what NCCL uses"},
		{id: "env.gdr-check", names: []string{"OFI_NCCL_DISABLE_GDR_REQUIRED_CHECK"}, values: []int{1},
			is:     "hides that GPUDirect does not work",
			breaks: "the fabric has a fraction of its speed without any message"},
	}
}

func (p plain) look(v *view, d setting.Decided) (finding.Finding, bool) {
	number := p.values == nil || d.Value != "" && slices.Contains(p.values, leadingInt(d.Value, 0))
	if p.here != nil && !p.here(v) || !number || p.only != "" && d.Value != p.only {
		return none()
	}
	f := finding.Warnf("%s=%s %s", d.Name, d.Value, p.is).Do("%s", drop(d))
	if p.fix != "" {
		f = f.Do("%s", p.fix)
	}
	f.Breaks = p.breaks
	return f, true
}

// obsolete returns the settings that no library reads any more, and the last version
// that did (a scan of NCCL's release tags; the documents of the others).
func obsolete() [][2]string {
	return [][2]string{
		{"NCCL_IB_CUDA_SUPPORT", "2.3.7"}, {"NCCL_IB_GDR_LEVEL", "2.3.7"}, {"NCCL_LL_THRESHOLD", "2.4.8"},
		{"NCCL_TREE_THRESHOLD", "2.4.8"}, {"NCCL_RINGS", "2.4.8"}, {"NCCL_WORK_FIFO_DEPTH", "2.21.5"},
		{"NCCL_CHECKS_DISABLE", ""},
	}
}

func obsoleteNames() []string {
	var names []string
	for _, o := range obsolete() {
		names = append(names, o[0])
	}
	return names
}

func lintObsolete(_ *view, d setting.Decided) (finding.Finding, bool) {
	for _, o := range obsolete() {
		if o[0] != d.Name {
			continue
		}
		since := "no released NCCL reads it"
		if o[1] != "" {
			since = fmt.Sprintf("no NCCL after %s reads it", o[1])
		}
		return finding.Warnf("%s=%s has no effect: %s", d.Name, d.Value, since).Do("%s", drop(d)), true
	}
	return none()
}
