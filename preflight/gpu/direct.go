package gpu

import (
	"context"
	"slices"
	"strings"

	"launch/fabric/gpu"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

// gpuDirect looks at how an HCA can reach the memory of the GPUs. GeForce has no GPUDirect RDMA, and an EFA has a way
// of its own.
func gpuDirect(_ context.Context, in preflight.Input) finding.Finding {
	u, _ := preflight.GPUsOf(in)
	f := rail.Of(in.Node, in.Addr)
	d := in.Node.GPUDirect
	switch {
	case f.Kind != rail.InfiniBand && f.Kind != rail.RoCE || len(rail.PortsOf(in.Node, f)) == 0:
		return finding.Skipf("no InfiniBand or RoCE here")
	case !slices.ContainsFunc(u.Devices, func(g gpu.GPU) bool { return !strings.Contains(g.Name, "GeForce") }):
		return finding.Skipf("these GPUs have no GPUDirect RDMA")
	case d.Peermem:
		return finding.Passf("nvidia_peermem is loaded")
	case d.DMABuf == "yes":
		return finding.Passf("by DMA-BUF")
	case d.DMABuf == "" || !d.Module:
		return finding.Skipf("could not tell: /sys/module or the driver's version could not be read")
	}
	return finding.Warnf("the HCAs cannot reach the memory of the GPUs: nvidia_peermem is not loaded, and %s", d.DMABuf).
		See("/sys/module/nvidia_peermem", "missing").See("/proc/driver/nvidia/version", "%s", d.DMABuf).
		Breaking("NCCL copies all data through the host's memory, at a fraction of the speed").
		Do("sudo modprobe nvidia-peermem   # after each boot: echo nvidia-peermem >/etc/modules-load.d/nvidia-peermem.conf")
}
