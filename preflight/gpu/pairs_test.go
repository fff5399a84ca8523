package gpu

import (
	"testing"

	"launch/fabric/software"
	"launch/preflight"
	"launch/preflight/checktest"
)

func TestNCCLGoesWithItsDriverAndItsPlugin(t *testing.T) {
	with := func(s software.Facts, serves string, edit ...func(*preflight.Input)) preflight.Input {
		return checktest.HGX(append([]func(*preflight.Input){exists(), func(in *preflight.Input) {
			in.Node.Software, in.Node.GPUs.CUDA = s, serves
		}}, edit...)...)
	}
	nccl := func(version, cuda, torch string) software.Facts {
		return software.Facts{NCCL: software.Item{Version: version, Path: "/n/libnccl.so.2"}, NCCLCUDA: cuda, CUDA: torch,
			Plugin: software.Item{Version: software.None}}
	}
	plugin := func(version string, has ...int) software.Facts {
		s := nccl(version, "12.8", "12.8")
		s.Plugin, s.PluginNet = software.Item{Version: "aws-ofi-nccl 1.9.1", Path: "/p/libnccl-net.so"}, has
		return s
	}
	old := plugin("2.27.5", 9, 10)
	old.PluginLacks = []string{"FABRIC_1.8"}
	old.Libfabric = software.Item{Version: "libfabric.so.1 1f2e", Path: "/usr/lib/l"}
	amd := nccl("2.21.5", "", "")
	amd.HIP = "6.2"
	for name, tt := range map[string]struct {
		in   preflight.Input
		want string
	}{
		"as the driver's own": {with(nccl("2.27.5", "12.8", "12.8"), "12.8"),
			"ok NCCL 2.27.5 for CUDA 12.8, plugin none"},
		"a later minor release": {with(nccl("2.27.5", "12.9", "12.8"), "12.2"),
			"ok NCCL 2.27.5"},
		"an older major release": {with(nccl("2.21.5", "11.8", "12.1"), "12.2"),
			"ok NCCL 2.21.5"},
		"a newer major, torch is not": {with(nccl("2.28.3", "13.0", "12.8"), "12.8"),
			"fail NCCL for CUDA 13.0, and the driver"},
		"a newer major, torch's, too": {with(nccl("2.28.3", "13.0", "13.0"), "12.8"),
			"ok NCCL 2.28.3"}, // gpu.cuda says it
		"a program without torch": {with(nccl("2.28.3", "13.0", ""), "12.8"),
			"fail NCCL for CUDA 13.0"},
		"a compatibility package": {with(nccl("2.28.3", "13.0", ""), "12.8", exists("/usr/local/cuda/compat/libcuda.so.1")),
			"warn NCCL for CUDA 13.0"},
		"not known what it is for": {with(nccl("2.27.5", "", ""), "12.8"),
			"ok NCCL 2.27.5, plugin none"},
		"a driver that does not say": {with(nccl("2.28.3", "13.0", ""), ""),
			"ok NCCL 2.28.3"},
		"RCCL": {with(amd, "12.8"),
			"ok NCCL 2.21.5"},
		"no NCCL": {with(software.Facts{}, "12.8"),
			"skip the NCCL of the command is not known"},
		"a plugin that goes with it": {with(plugin("2.27.5", 9, 10), "12.8"),
			"ok plugin aws-ofi-nccl"},
		"an old plugin, an old NCCL": {with(plugin("2.18.6", 4, 5, 6), "12.8"),
			"ok plugin"},
		"a plugin that is too old": {with(plugin("2.19.3", 3, 4), "12.8"),
			"warn it takes the interfaces v5 to v7, and the plugin has v3, v4"},
		"a plugin that is too new": {with(plugin("2.18.6", 7, 8), "12.8"),
			"warn it takes the interfaces v4 to v6"},
		"the last that 2.25 took": {with(plugin("2.25.1", 5), "12.8"),
			"ok plugin"},
		"2.26 takes it no longer": {with(plugin("2.26.2", 5), "12.8"),
			"warn it takes the interfaces v6 to v10"},
		"an NCCL newer than the table": {with(plugin("2.31.0", 3), "12.8"),
			"ok plugin"},
		"an NCCL older than the table": {with(plugin("2.8.4", 8), "12.8"),
			"ok plugin"},
		"nothing is known about it": {with(plugin("2.27.5"), "12.8"),
			"ok plugin"},
		"a libfabric that is too old": {with(old, "12.8"),
			"warn does not load: it needs FABRIC_1.8 of libfabric, which /usr/lib/l"},
	} {
		t.Run(name, func(t *testing.T) { checktest.Wants(t, checktest.Verdict(t, Checks(), "gpu.pairs", tt.in), tt.want) })
	}
}
