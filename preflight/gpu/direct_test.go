package gpu

import (
	"testing"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/preflight"
	"launch/preflight/checktest"
)

func TestTheWayToGPUMemory(t *testing.T) {
	with := func(link string, d fabric.GPUDirect, edit ...func(*preflight.Input)) preflight.Input {
		return checktest.Railed(4, link,
			append(edit, func(in *preflight.Input) { in.Node.GPUDirect = d })...)
	}
	closed := fabric.GPUDirect{Module: true, DMABuf: "the driver's kernel modules are the closed ones"}
	for name, tt := range map[string]struct {
		in   preflight.Input
		want string
	}{
		"peermem": {with("InfiniBand", fabric.GPUDirect{Peermem: true, DMABuf: "Linux 5.4 is older"}),
			"ok nvidia_peermem"},
		"DMA-BUF":     {with("Ethernet", fabric.GPUDirect{DMABuf: "yes"}), "ok by DMA-BUF"},
		"neither, IB": {with("InfiniBand", closed), "warn nvidia_peermem is not loaded, and the driver's kernel modules"},
		"neither, RoCE": {with("Ethernet", fabric.GPUDirect{Module: true, DMABuf: "Linux 5.4 is older than 5.12"}),
			"warn Linux 5.4"},
		"not known": {with("InfiniBand", fabric.GPUDirect{}), "skip could not tell"},
		"GeForce": {with("InfiniBand", closed, checktest.EveryGPU(func(g *gpu.GPU) {
			g.Name = "NVIDIA GeForce RTX 4090"
		})), "skip these GPUs"},
		"a record without modules": {with("InfiniBand", fabric.GPUDirect{DMABuf: "Linux 5.4 is older"}), "skip could not"},
		"no RDMA":                  {checktest.HGX(), "skip no InfiniBand"},
	} {
		t.Run(name, func(t *testing.T) { checktest.Wants(t, checktest.Verdict(t, Checks(), "gpu.direct", tt.in), tt.want) })
	}
}
