package envgen

import (
	"path"

	"launch/fabric/rail"
	"launch/fabric/software"
	"launch/internal/finding"
)

// lackRule is one way in which a missing setting loses the fabric. Only a vendor's
// files have the setting, so the plan cannot.
type lackRule struct {
	id   string
	name string // the variable that is set if the user took care
	what string // what is missing, for docs/env.md
	look func(*view) (finding.Finding, bool)
}

func lackRules() []lackRule {
	return []lackRule{
		{id: "env.plugin", name: "NCCL_NET", look: lackPlugin,
			what: "the fabric is EFA or Slingshot, but NCCL finds no plugin for it"},
		{id: "env.vendor-script", name: "NCCL_NET", look: lackScript,
			what: "a machine of Google has the settings of its network module in a script, but none is set"},
	}
}

// lackPlugin finds a missing plugin: without aws-ofi-nccl NCCL uses TCP, without a
// message at its default level (src/plugin/net.cc).
func lackPlugin(v *view) (finding.Finding, bool) {
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
		Do("%s, and add its directory to LD_LIBRARY_PATH", fix), true
}

// gibScript and fastrakScripts are where Google's installers put the settings of their
// network modules: gIB on machines with RDMA (A3 Ultra, A4), FasTrak on those without
// (A3 Mega), on the machine and in a container of GKE.
const gibScript = "/usr/local/gib/scripts/set_nccl_env.sh"

func fastrakScripts() []string {
	return []string{"/var/lib/tcpxo/lib64/nccl-env-profile.sh", "/usr/local/nvidia/lib64/nccl-env-profile.sh"}
}

// lackScript finds a script that was not sourced: the scripts change with the modules, which refuse
// other values, so the
// user has to source them and not to copy them.
func lackScript(v *view) (finding.Finding, bool) {
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
		Do("%s   # before launch, on each node", fix), true
}
