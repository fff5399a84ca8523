package fabric

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// gpuDirect returns how an HCA can reach a GPU's memory, according to files.
func gpuDirect(r Roots, kernel string) GPUDirect {
	var g GPUDirect
	// NCCL looks for these (ncclIbGdrModuleLoaded in src/transport/net_ib), RCCL for the last.
	for _, name := range []string{
		"kernel/mm/memory_peers/nv_mem/version",
		"kernel/mm/memory_peers/nv_mem_nc/version",
		"module/nvidia_peermem/version",
		"kernel/mm/memory_peers/amdkfd/version",
	} {
		if _, err := fs.Stat(r.Sys, name); err == nil {
			g.Peermem = true
		}
	}
	proc := dir{fsys: r.Proc}
	g.DMABuf = dmaBuf(kernel, proc.line("driver/nvidia/version"))
	return g
}

// dmaBuf returns "yes" if the driver can export a GPU's memory as a DMA-BUF, else why not; "" on a
// machine without NVIDIA's driver. It takes Linux 5.12 and NVIDIA's open kernel modules, release
// 515 or later (requirements of GPUDirect RDMA in NVIDIA's GPU operator documentation).
func dmaBuf(kernel, driver string) string {
	major, minor, ok := kernelVersion(kernel)
	switch {
	case driver == "":
		return ""
	case !strings.Contains(driver, "Open Kernel Module"):
		return "the driver's kernel modules are the closed ones"
	case !ok:
		return ""
	case major < 5 || major == 5 && minor < 12:
		return fmt.Sprintf("Linux %d.%d is older than 5.12", major, minor)
	}
	return "yes"
}

// kernelVersion returns the first two numbers of a release, "5.15.0-91-generic".
func kernelVersion(release string) (major, minor int, ok bool) {
	first, rest, _ := strings.Cut(release, ".")
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits >= 0 {
		rest = rest[:digits]
	}
	major, err1 := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(rest)
	return major, minor, err1 == nil && err2 == nil && major >= 0
}
