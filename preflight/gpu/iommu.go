package gpu

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

// gpuIOMMU finds GPUs of servers whose transfers the IOMMU translates: groups of type DMA and DMA-FQ
// (Documentation/ABI/testing/sysfs-kernel-iommu_groups). RCCL warns where iommu=pt is missing, except on a Cray and on
// Hyper-V (src/init.cc). NVIDIA's documentation of GPUDirect RDMA (IOMMUs) asks for none or for pass-through, and
// NCCL's (troubleshooting) says that the redirected traffic is slow or hangs. A guest needs the translation, and so
// does a host that gives functions to guests. On Arm the link between the processor and the GPU uses it.
func gpuIOMMU(_ context.Context, in preflight.Input) finding.Finding {
	guests := slices.ContainsFunc(in.Node.PCI, func(p fabric.PCI) bool { return p.Driver == "vfio-pci" })
	seen := slices.ContainsFunc(in.Node.PCI, func(p fabric.PCI) bool { return p.IOMMU != "" })
	switch {
	case in.Node.Cloud.Virtual:
		return finding.Skipf("a virtual machine: the translation is its host's")
	case guests:
		return finding.Skipf("this node has functions for guests, which need the translation")
	case !seen:
		return finding.Skipf("no IOMMU group is visible")
	case armRE.MatchString(in.Node.Kernel), slices.ContainsFunc(in.Node.GPUs.Devices, ofGrace):
		return finding.Skipf("on Arm the GPUs use the translation")
	}
	if all := translatedAMD(in); len(all) > 1 && !strings.Contains(in.Node.Kernel, "cray") {
		return passThrough(all).
			Breaking("RCCL warns of it at each start: \"can lead to system instability or hang\"")
	}
	if all := translatedNVIDIA(in); len(all) > 1 {
		return passThrough(all).
			Breaking("NVIDIA supports GPUDirect RDMA only without translation: else it is slow, and NCCL may hang")
	}
	return finding.Passf("no translation between GPUs and rails")
}

// armRE matches releases of kernels for Arm: Fedora's and those made from it, Ubuntu's for Grace.
var armRE = regexp.MustCompile(`aarch64|arm64|-64k$`)

func ofGrace(d gpu.GPU) bool {
	return slices.ContainsFunc([]string{"GH200", "GB200", "GB300", "GB10"}, func(m string) bool {
		return strings.Contains(d.Name, m)
	})
}

func translates(p fabric.PCI) bool { return strings.HasPrefix(p.IOMMU, "DMA") }

// translatedAMD returns the translated GPUs of AMD's servers. AMD recommends the translation for Radeon, whose GPUs
// reach each other over PCIe, and pass-through for Instinct (ROCm documentation, IOMMU).
func translatedAMD(in preflight.Input) (out []fabric.PCI) {
	for _, c := range preflight.Accelerators(in) {
		if p, ok := in.Node.Function(c.PCI); ok && c.Vendor == "amd" && !p.ForDisplay() && translates(p) {
			out = append(out, p)
		}
	}
	return out
}

// translatedNVIDIA returns the translated GPUs at the switch of a rail that is translated, too. GeForce has no
// GPUDirect.
func translatedNVIDIA(in preflight.Input) (out []fabric.PCI) {
	rails := rail.Of(in.Node, in.Addr).Rails
	for _, d := range in.Node.GPUs.Devices {
		p, ok := in.Node.Function(d.PCI)
		near := func(r rail.Rail) bool {
			q, _ := in.Node.Function(r.PCI)
			return r.HCA != "" && translates(q) && in.Node.Distance(d.PCI, r.PCI).Rank() <= fabric.PXB.Rank()
		}
		if ok && translates(p) && !strings.Contains(d.Name, "GeForce") && slices.ContainsFunc(rails, near) {
			out = append(out, p)
		}
	}
	return out
}

func passThrough(all []fabric.PCI) finding.Finding {
	const first = 2
	f := finding.Warnf("the IOMMU translates the transfers of %s", finding.Count(len(all), "GPU"))
	for _, p := range all[:min(len(all), first)] {
		f = f.See("/sys/bus/pci/devices/"+p.Addr+"/iommu_group/type", "%s", p.IOMMU)
	}
	return f.Do("add iommu=pt to GRUB_CMDLINE_LINUX in /etc/default/grub; update-grub; reboot   # or grub2-mkconfig\n"+
		"cat /sys/bus/pci/devices/%s/iommu_group/type   # must say identity then", all[0].Addr)
}
