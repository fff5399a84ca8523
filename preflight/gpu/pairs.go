package gpu

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"launch/internal/finding"
	"launch/preflight"
)

// pairs judges what NCCL is loaded with, as far as files show it.
func pairs(_ context.Context, in preflight.Input) []finding.Finding {
	s := in.Node.Software
	if s.NCCL.Version == "" {
		return finding.Skips("the NCCL of the command is not known")
	}
	var out []finding.Finding
	for _, judge := range []func(preflight.Input) (finding.Finding, bool){ncclDriver, pluginInterface, pluginFabric} {
		if f, bad := judge(in); bad {
			out = append(out, f)
		}
	}
	with := ""
	if s.NCCLCUDA != "" {
		with = " for CUDA " + s.NCCLCUDA
	}
	return preflight.OrPass(out, "NCCL %s%s, plugin %s", s.NCCL.Version, with, orUnknown(s.Plugin.Version))
}

func orUnknown(version string) string {
	if version == "" {
		return "not known"
	}
	return version
}

// ncclDriver finds an NCCL for a newer major release of CUDA than the driver serves. It brings its own CUDA runtime,
// which refuses the driver. Where torch's is of the same release, gpu.cuda says it.
func ncclDriver(in preflight.Input) (finding.Finding, bool) {
	facts, s := in.Node.GPUs, in.Node.Software
	built, serves, torch := versionNumbers(s.NCCLCUDA), versionNumbers(facts.CUDA), versionNumbers(s.CUDA)
	if len(built) == 0 || len(serves) == 0 || built[0] <= serves[0] || len(torch) > 0 && torch[0] >= built[0] ||
		s.HIP != "" {
		return finding.Finding{}, false
	}
	u, _ := preflight.GPUsOf(in)
	compat, known := forwardCompat(in, s.NCCLCUDA)
	f := finding.FailOr(u.Certain && known && compat == "",
		"the command loads an NCCL for CUDA %s, and the driver serves CUDA %s at most", s.NCCLCUDA, facts.CUDA).
		See(s.NCCL.Path, "NCCL %s, built for CUDA %s", s.NCCL.Version, s.NCCLCUDA).
		See("NVML", "driver %s, CUDA up to %s", facts.Driver, facts.CUDA).
		Breaking("NCCL does not start (\"driver version is insufficient for CUDA runtime version\")").
		Do("install an NCCL for CUDA %d, or a driver for CUDA %d; LD_LIBRARY_PATH and LD_PRELOAD choose another NCCL, too",
			serves[0], built[0])
	if compat != "" {
		f = f.See(compat, "a separate libcuda: NVIDIA's forward compatibility package may support this CUDA")
	}
	return f, true
}

// accepts is which versions of its network interface an NCCL looks for in a plugin, from a version on.
type accepts struct {
	since    [2]int
	from, to int
}

// interfaces returns the table of them, the newest first: the symbols ncclNetPlugin_vN in the sources of NCCL
// (src/net.cc, from 2.26 on src/plugin/net/net_vN.cc) of 2.12.12, 2.13.4, 2.14.3 to 2.18.6, 2.19.3, 2.20.3 to 2.23.4,
// 2.24.3, 2.25.1, 2.26.2, 2.27.7, 2.28.3, 2.29.7, 2.30.3 and 2.30.7.
func interfaces() []accepts {
	return []accepts{
		{[2]int{2, 31}, 0, 0}, // not known
		{[2]int{2, 30}, 6, 12}, {[2]int{2, 28}, 6, 11}, {[2]int{2, 26}, 6, 10}, {[2]int{2, 24}, 5, 9}, {[2]int{2, 20}, 5, 8},
		{[2]int{2, 19}, 5, 7}, {[2]int{2, 13}, 4, 6}, {[2]int{2, 12}, 4, 5},
	}
}

// accepted returns the versions that an NCCL looks for; false: they are not known.
func accepted(nccl string) (from, to int, ok bool) {
	have := versionNumbers(nccl)
	for _, a := range interfaces() {
		if len(have) > 1 && !olderThan(have, a.since[:]) {
			return a.from, a.to, a.to > 0
		}
	}
	return 0, 0, false
}

// pluginInterface finds a plugin of which NCCL knows no interface: NCCL goes on with its own networks.
func pluginInterface(in preflight.Input) (finding.Finding, bool) {
	s := in.Node.Software
	from, to, known := accepted(s.NCCL.Version)
	if !known || len(s.PluginNet) == 0 || s.HIP != "" ||
		slices.ContainsFunc(s.PluginNet, func(v int) bool { return from <= v && v <= to }) {
		return finding.Finding{}, false
	}
	has := finding.Join(s.PluginNet, func(v int) string { return fmt.Sprintf("v%d", v) })
	age := "a newer plugin"
	if s.PluginNet[0] > to {
		age = "an older plugin, or a newer NCCL"
	}
	return finding.Warnf("NCCL %s cannot use its network plugin %s: it takes the interfaces v%d to v%d, and the plugin "+
		"has %s", s.NCCL.Version, s.Plugin.Version, from, to, has).
		See(s.Plugin.Path, "ncclNetPlugin_%s", strings.ReplaceAll(has, ", ", ", ncclNetPlugin_")).
		Breaking("NCCL ignores the plugin and uses its own networks, which may be TCP: many times slower").
		Do("install %s; NCCL_DEBUG=INFO shows which network NCCL uses", age), true
}

// pluginFabric finds a plugin that the loader refuses, because its libfabric is too old.
func pluginFabric(in preflight.Input) (finding.Finding, bool) {
	s := in.Node.Software
	if len(s.PluginLacks) == 0 {
		return finding.Finding{}, false
	}
	return finding.Warnf("the network plugin %s does not load: it needs %s of libfabric, which %s does not have",
		s.Plugin.Version, strings.Join(s.PluginLacks, ", "), s.Libfabric.Path).
		See(s.Plugin.Path, "needs %s", strings.Join(s.PluginLacks, ", ")).
		See(s.Libfabric.Path, "%s", s.Libfabric.Version).
		Breaking("NCCL goes on without the plugin and uses its own networks, which may be TCP: many times slower").
		Do("install the libfabric that the plugin was built with, and put its folder first in LD_LIBRARY_PATH\n"+
			"ldd -v %s   # shows which file it finds", s.Plugin.Path), true
}
