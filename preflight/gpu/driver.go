package gpu

import (
	"fmt"
	"slices"
	"strings"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/preflight"
)

// driverless finds GPUs on the PCI bus that NVIDIA's driver does not have. It fails if the job surely needs them: each
// has a process, and torch was built for CUDA. A single display adapter may only show the console of a node for CPUs,
// and a container sees GPUs that it was not given. What NVML lists has the driver, whatever the bus shows.
func driverless(in preflight.Input) (finding.Finding, bool) {
	bare, s := in.Node.WithoutDriver(), in.Node.Software
	bare = slices.DeleteFunc(bare, func(p fabric.PCI) bool {
		return slices.ContainsFunc(in.Node.GPUs.Devices, func(d gpu.GPU) bool { return d.PCI == p.Addr || d.PCI == "" })
	})
	facts, asked := in.Node.GPUs, in.Job.NProc.V == "gpu"
	none := len(facts.Devices) == 0
	cpu := s.Torch.Version != "" && s.CUDA == "" || s.HIP != "" || preflight.VisibleGPUs(in).Hides()
	others := !asked && (none && len(bare) == 1 && bare[0].ForDisplay() || in.Node.Container.Kind != "")
	if facts.Err != "" || none && facts.Absent == "" || len(bare) == 0 || cpu || others {
		return finding.Finding{}, false
	}
	by := map[string]int{}
	out := finding.FailOr(in.Job.Line.Kind == launcher.Torchrun && none && (asked || everyCard(in) && s.CUDA != ""), "")
	for _, p := range bare {
		by[p.Driver]++
		if len(out.Seen) < finding.MaxSeen {
			out = out.See("/sys/bus/pci/devices/"+p.Addr, "%s:%s, class %s, %s", p.Vendor, p.Device, p.Class, bound(p))
		}
	}
	out.What = fmt.Sprintf("%s of this node without NVIDIA's driver: %s", finding.Count(len(bare), "NVIDIA GPU"),
		bound(bare[0]))
	fix := "modprobe nvidia; dmesg | grep -i nvidia   # on the machine itself: shows why it is not loaded\n" +
		"dkms status; uname -r   # whether it was built for this kernel; if not, install it again"
	switch {
	case !none:
		out = out.See("NVML", "%s", finding.Count(len(facts.Devices), "GPU"))
		fix = fmt.Sprintf("dmesg | grep -i -e nvrm -e %s   # shows why the driver refused it", bare[0].Addr)
	case by[""] < len(bare):
		fix = "echo blacklist nouveau > /etc/modprobe.d/nouveau.conf   # and build the initramfs again\n" +
			"install NVIDIA's driver for this kernel (uname -r), and reboot"
	}
	return out.Breaking("torch finds no CUDA on them: processes that need a GPU die, and the other nodes wait for them").
		Do("%s\nif the job runs on CPUs: %s= launch …", fix, preflight.CUDAVisible), true
}

// bound describes the driver of a function.
func bound(p fabric.PCI) string {
	if p.Driver == "" {
		return "no driver is bound"
	}
	return "bound to " + strings.ReplaceAll(p.Driver, "_", "-")
}
