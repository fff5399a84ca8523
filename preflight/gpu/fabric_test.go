package gpu

import (
	"fmt"
	"testing"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/preflight"
	"launch/preflight/checktest"
)

// before Hopper NVML has no state of the fabric.
func older(model string, up, total int) func(*preflight.Input) {
	return checktest.EveryGPU(func(g *gpu.GPU) {
		g.Name, g.Fabric, g.NVLink = model, nil, &gpu.NVLink{Up: up, Total: total}
	})
}

func switched(n int) func(*preflight.Input) {
	return func(in *preflight.Input) {
		for i := range n {
			in.Node.PCI = append(in.Node.PCI, fabric.PCI{Addr: fmt.Sprintf("0000:%02x:00.0", 0xc0+i), Class: "0x068000",
				Vendor: "0x10de", Device: "0x1af1"})
		}
	}
}

func cuInit(code int) func(*preflight.Input) {
	return func(in *preflight.Input) { in.Node.GPUs.Init = code }
}

func TestTheFabricManagerOfOlderGPUs(t *testing.T) {
	const a100, v100 = "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM3-32GB"
	for name, tt := range map[string]struct {
		in   preflight.Input
		want string
	}{
		"A100 that is set up": {checktest.HGX(older(a100, 12, 12), switched(6)), "ok 8 GPUs"},
		"V100 that is set up": {checktest.HGX(older(v100, 6, 6), switched(12)), "ok 8 GPUs"},
		"CUDA does not start": {checktest.HGX(older(a100, 0, 12), switched(6), cuInit(802)),
			"fail the fabric manager"},
		"the manager ended later": {checktest.HGX(older(a100, 12, 12), switched(6), cuInit(802)),
			"fail the fabric manager"},
		"CUDA does not start, one rank": {checktest.HGX(older(v100, 0, 6), switched(12), cuInit(802),
			checktest.ProcessesOf("1")),
			"warn the fabric manager"},
		"A100 without a link": {checktest.HGX(older(a100, 0, 12), switched(6)),
			"warn no NVLink is up on any GPU, although this node has NVSwitches (6)"},
		"V100 without a link":      {checktest.HGX(older(v100, 0, 6), switched(12)), "warn NVSwitches (12)"},
		"boards with open bridges": {checktest.HGX(older("NVIDIA A100-PCIE-40GB", 0, 12)), "skip no NVSwitch"},
		"V100 without switches":    {checktest.HGX(older("Tesla V100-SXM2-16GB", 6, 6)), "skip no NVSwitch"},
		"all in MIG mode": {checktest.HGX(older(a100, 0, 12), switched(6),
			checktest.EveryGPU(func(g *gpu.GPU) { g.MIG = "on" })), "ok 8 GPUs"},
		"one GPU is visible": {checktest.HGX(older(a100, 0, 12), switched(6), envOf(preflight.CUDAVisible, "3"),
			checktest.ProcessesOf("1")), "ok 1 GPU"},
		"another error of cuInit": {checktest.HGX(older(a100, 12, 12), switched(6), cuInit(100)), "ok 8 GPUs"},
		"Hopper has its own":      {checktest.HGX(switched(4)), "ok 8 GPUs"},
	} {
		t.Run(name, func(t *testing.T) { checktest.Wants(t, checktest.Verdict(t, Checks(), "gpu.fabric", tt.in), tt.want) })
	}
}
