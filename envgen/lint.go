package envgen

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"launch/fabric/rail"
	"launch/fabric/software"
	"launch/internal/finding"
	"launch/internal/setting"
)

// lintRule is one way in which an inherited setting is harmful or useless.
type lintRule struct {
	id    string   // "env.…"; those about interfaces begin with "env.ifname."
	names []string // the variables that it checks; * as in path.Match
	what  string   // what it finds, for docs/env.md; "": what the field is has

	look func(*view, setting.Decided) finding.Finding // none: nothing is wrong

	// Instead of look, where the words depend on nothing but the value.
	values []int                             // as NCCL reads numbers; nil: any
	only   string                            // the only value; "": any
	here   func(*view, setting.Decided) bool // nil: on every machine
	is     string                            // completes "NAME=VALUE …"
	breaks string
	fix    string // "" to drop it
}

// Lint returns which of the settings in force (in.Decided) are harmful, obsolete or without effect
// on this machine, and which are missing, in the order of the tables. A Fail means that the job
// dies or hangs here. It is only for several nodes and a library that this node will use (NCCL with
// GPUs, Gloo without), so that a stale variable never stops a job that does not read it.
func Lint(in Input) []finding.Finding {
	v := look(in)
	var out []finding.Finding
	for _, r := range lintRules() {
		seen := map[string]bool{}
		for _, d := range in.Decided {
			if seen[d.Name] || !slices.ContainsFunc(r.names, func(p string) bool { return matches(p, d.Name) }) {
				continue
			}
			if strings.Contains(d.Name, "NCCL_") && !v.gpus() && !v.Mpirun { // no library reads it here
				continue
			}
			seen[d.Name] = true // the first of a name is in force
			f := r.finds(v, d).Named(r.id).See(d.From, "%s=%s", d.Name, d.Value)
			f.Fix = cmp.Or(f.Fix, drop(d))
			out = append(out, f)
		}
	}
	for _, r := range lackRules() {
		out = append(out, r.look(v).Named(r.id))
	}
	return slices.DeleteFunc(out, func(f finding.Finding) bool { return f.Status == "" })
}

// LintIDs returns the IDs of all findings of Lint.
func LintIDs() []string {
	return slices.Concat(finding.Map(lintRules(), func(r lintRule) string { return r.id }),
		finding.Map(lackRules(), func(r lackRule) string { return r.id }))
}

func lintRules() []lintRule {
	return slices.Concat(ifnameLint(), ncclLint(), netLint(), railLint(), libraryLint(), plainLint())
}

// none is the result of a rule without a finding.
func none() finding.Finding { return finding.Finding{} }

// drop returns how to remove the setting where it is set.
func drop(d setting.Decided) string {
	if d.From == "environment" {
		return "unset " + d.Name
	}
	return "remove " + d.Name + " from " + d.From
}

// put returns how to replace the setting where it is set.
func put(d setting.Decided, value string) string {
	if d.From != "environment" {
		return "write " + d.Name + "=" + value + " in " + d.From
	}
	if quoted, err := syntax.Quote(value, syntax.LangPOSIX); err == nil {
		value = quoted
	}
	return "export " + d.Name + "=" + value
}

// plainLint returns the rules for settings that are wrong on every machine.
func plainLint() []lintRule {
	nvidia := func(v *view, _ setting.Decided) bool { return v.gpus() && v.Node.Software.HIP == "" }
	return []lintRule{
		{id: "env.efa-rdma", names: []string{"FI_EFA_USE_DEVICE_RDMA"}, values: []int{1},
			is:     "is not needed: libfabric decides on its own from 1.18",
			breaks: "the program aborts on a card without RDMA"},
		{id: "env.fork-safe", names: []string{"RDMAV_FORK_SAFE", "IBV_FORK_SAFE", "FI_EFA_FORK_SAFE"},
			is:     "is for kernels before 5.13, and aws-ofi-nccl sets what it needs",
			breaks: "registering memory becomes slow and can fail"},
		{id: "env.no-prefix", names: []string{"RX_QUEUE_LEN", "IB_RX_QUEUE_LEN", "coll_hcoll_enable"},
			is: "has no effect: the prefix of the name is missing (UCX_, OMPI_MCA_)"},
		{id: "env.torch-old-name", names: []string{"NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT"},
			is: "is an old name: the variable of torch begins with TORCH_ from 2.2"},
		{id: "env.torch-async", names: []string{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"},
			values: []int{0},
			is:     "turns off torch's watch for NCCL's errors", breaks: "the job hangs forever when a peer dies"},
		{id: "env.torch-debug", names: []string{TorchDebug}, only: "DETAIL",
			is: "compares all ranks at each collective", breaks: "training is slow; it is for diagnosis"},
		{id: "env.torch-wait", names: []string{"TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"}, values: []int{1},
			is: "makes each collective block the processor", breaks: "training is slow; it is for diagnosis"},
		{id: "env.gdr-flush", names: []string{"NCCL_GDR_FLUSH_DISABLE", "OFI_NCCL_GDR_FLUSH_DISABLE"},
			values: []int{1}, here: nvidia,
			is:     "skips the flush after GPUDirect's writes, which only AMD's cards may",
			breaks: "kernels can read data that has not arrived yet"},
		{id: "env.env-plugin", names: []string{"NCCL_ENV_PLUGIN"}, is: "lets a library replace NCCL's variables",
			breaks: "NCCL may use other values than the environment, so launch does not see them",
			fix:    "NCCL_DEBUG=INFO shows what NCCL uses"},
		{id: "env.gdr-check", names: []string{"OFI_NCCL_DISABLE_GDR_REQUIRED_CHECK"}, values: []int{1},
			is:     "hides that GPUDirect does not work",
			breaks: "the fabric has a fraction of its speed without any message"},
	}
}

// finds returns the finding about a setting, or none.
func (r lintRule) finds(v *view, d setting.Decided) finding.Finding {
	if r.look != nil {
		return r.look(v, d)
	}
	number := r.values == nil || d.Value != "" && slices.Contains(r.values, leadingInt(d.Value, 0))
	if r.here != nil && !r.here(v, d) || !number || r.only != "" && d.Value != r.only {
		return none()
	}
	f := finding.Warnf("%s=%s %s", d.Name, d.Value, r.is)
	f.Breaks, f.Fix = r.breaks, r.fix
	return f
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
	return finding.Map(obsolete(), func(o [2]string) string { return o[0] })
}

func lintObsolete(_ *view, d setting.Decided) finding.Finding {
	since := "no released NCCL reads it"
	if last := obsolete()[slices.Index(obsoleteNames(), d.Name)][1]; last != "" {
		since = fmt.Sprintf("no NCCL after %s reads it", last)
	}
	return finding.Warnf("%s=%s has no effect: %s", d.Name, d.Value, since)
}

// lackRule finds a setting that is missing and that the plan cannot set: only a vendor's files have it, or no value is
// right.
type lackRule struct {
	id   string
	name string // of the setting
	what string // what is missing, for docs/env.md
	look func(*view) finding.Finding
}

func lackRules() []lackRule {
	return []lackRule{
		{id: "env.plugin", name: "NCCL_NET", look: lackPlugin,
			what: "the fabric is EFA or Slingshot, but NCCL finds no plugin for it"},
		{id: "env.vendor-script", name: "NCCL_NET", look: lackScript,
			what: "a machine of Google has the settings of its network module in a script, but none is set"},
		{id: "env.partition", name: "NCCL_IB_PKEY", look: lackPartition,
			what: "the rails are no full members of one InfiniBand partition at the same index"},
		{id: "env.gid", name: "NCCL_IB_GID_INDEX", look: lackGID,
			what: "the right GID entries of the rails differ, and no setting makes NCCL use all of them"},
	}
}

// lackPlugin finds a missing plugin: without aws-ofi-nccl NCCL uses TCP, without a
// message at its default level (src/plugin/net.cc).
func lackPlugin(v *view) finding.Finding {
	if !v.gpus() || v.Mpirun || v.Script || !v.needsPlugin() || v.has("NCCL_NET") || v.has("NCCL_NET_PLUGIN") ||
		v.Node.Software.Plugin.Version != software.None {
		return none()
	}
	fix := "install aws-ofi-nccl, built for Slingshot's libfabric"
	if v.fab.Kind == rail.EFA {
		fix = "install aws-ofi-nccl (Amazon's EFA installer has it)"
	}
	return finding.Warnf("the fabric is %s, but NCCL finds no network plugin for it", v.fab.Kind).
		See("libnccl-net.so", "not found where NCCL looks").
		Breaking("NCCL uses TCP instead of the fabric and reports it only at NCCL_DEBUG=INFO").
		Do("%s, and add its directory to LD_LIBRARY_PATH", fix)
}

// gibScript and fastrakScripts are where Google's installers put the settings of their
// network modules: gIB on machines with RDMA (A3 Ultra, A4), FasTrak on those without
// (A3 Mega), on the machine and in a container of GKE.
const gibScript = "/usr/local/gib/scripts/set_nccl_env.sh"

func fastrakScripts() []string {
	return []string{"/var/lib/tcpxo/lib64/nccl-env-profile.sh", "/usr/local/nvidia/lib64/nccl-env-profile.sh"}
}

// lackScript finds a script that was not sourced: the scripts change with the modules, which refuse
// other values, so the user has to source them and not to copy them.
func lackScript(v *view) finding.Finding {
	if !v.gpus() || v.Mpirun || v.Script || !v.apart() ||
		v.uses("", "NCCL_NET", "NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_", "NCCL_TUNER_") {
		return none()
	}
	script, fix := "", ""
	if _, ok := v.Files[gibScript]; ok && len(v.rails()) > 0 {
		script = gibScript
		fix = "source " + script + "; export LD_LIBRARY_PATH=/usr/local/gib/lib64:$LD_LIBRARY_PATH"
	}
	for _, f := range fastrakScripts() {
		if _, ok := v.Files[f]; ok && script == "" && len(v.ncclPorts()) == 0 {
			script = f
			dir := path.Dir(f)
			fix = "export NCCL_LIB_DIR=" + dir + " LD_LIBRARY_PATH=" + dir + ":$LD_LIBRARY_PATH; source " + script
		}
	}
	if script == "" {
		return none()
	}
	return finding.Warnf("the variables of %s are not set", script).
		See(script, "Google's settings of its network module for this machine").
		Breaking("NCCL uses its own network module instead, at a fraction of the fabric's speed").
		Do("%s   # before launch, on each node", fix)
}
