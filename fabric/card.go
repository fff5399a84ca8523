package fabric

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"launch/fabric/gpu"
)

// readCards lists the GPUs on the bus, and those in /proc/driver/nvidia/gpus where the bus is hidden. A
// container sees only its own GPUs there, and all GPUs on the bus.
func (n *Node) readCards(sys, proc fs.FS) {
	for _, p := range n.PCI {
		if vendor := gpuVendor(p); vendor != "" {
			n.Cards = append(n.Cards, Card{PCI: p.Addr, Vendor: vendor, Minor: -1})
		}
	}
	driver := dir{fsys: proc, name: "driver/nvidia/gpus"}
	for _, addr := range driver.names("") {
		if !slices.ContainsFunc(n.Cards, func(c Card) bool { return c.PCI == addr }) {
			n.Cards = append(n.Cards, Card{PCI: addr, Vendor: "nvidia", Minor: -1})
		}
	}
	slices.SortFunc(n.Cards, func(a, b Card) int { return strings.Compare(a.PCI, b.PCI) })
	for i, c := range n.Cards {
		if c.Vendor == "amd" {
			d := dir{fsys: sys, name: path.Join(pciDevices, c.PCI)}
			n.Cards[i].Parted = d.line("current_compute_partition")
		}
		if c.Vendor != "nvidia" {
			continue
		}
		d := dir{fsys: proc, name: path.Join(driver.name, c.PCI)}
		n.Cards[i].describe(d.line("information"))
		n.note(d.bad)
	}
	n.note(driver.bad)
	n.KFD = kfd(sys)
}

// kfd returns how many GPUs ROCm has for this process, parts of a divided GPU counted each: the nodes of the driver's
// topology with an id. Those that a container was not given are not readable (kfd_topology.c, node_show).
func kfd(sys fs.FS) (n int) {
	nodes := dir{fsys: sys, name: "class/kfd/kfd/topology/nodes"}
	for _, node := range nodes.names("") {
		if id := nodes.line(path.Join(node, "gpu_id")); id != "" && id != "0" {
			n++
		}
	}
	return n
}

// gpuVendor returns the vendor of a GPU or of another accelerator for training; else "". Hygon's count as AMD's, whose
// driver, runtime and RCCL they use. The classes and ids are from pci.ids and the vendors' drivers. These are no
// accelerators here: NPUs and FPGAs of Intel and Xilinx, Google's TPUs, whose network is their own, and the graphics of
// Intel's processors, which are always function 0000:00:02.
func gpuVendor(p PCI) string {
	display := strings.HasPrefix(p.Class, classDisplay)
	processor := strings.HasPrefix(p.Class, classAccelerator)
	switch p.Vendor {
	case vendorNVIDIA:
		return named("nvidia", display)
	case vendorAMD:
		return named("amd", display || processor)
	case vendorHygon:
		return named("amd", display || strings.HasPrefix(p.Class, classCoprocessor))
	case vendorIntel:
		return named("intel", display && !strings.HasPrefix(p.Addr, "0000:00:02."))
	case VendorAmazon:
		return named("amazon", strings.HasPrefix(p.Class, classPeripheral) && neuronRE.MatchString(p.Device))
	case vendorXilinx, vendorGoogle:
		return ""
	}
	name := map[string]string{"0x1da3": "habana", "0x19e5": "huawei", "0x9999": "metax", "0x1ed5": "mthreads",
		"0x1e3e": "iluvatar", "0x1e52": "tenstorrent"}[p.Vendor]
	displays := []string{"metax", "mthreads", "iluvatar"}
	return named(cmp.Or(name, "other"), processor || display && slices.Contains(displays, name))
}

func named(vendor string, is bool) string {
	if is {
		return vendor
	}
	return ""
}

// neuronRE matches Amazon's Inferentia and Trainium: 7064, 7164, 7264, 7364.
var neuronRE = regexp.MustCompile(`^0x7[0-9a-f]64$`)

// WithoutDriver returns the NVIDIA GPUs on the bus that neither NVIDIA's driver nor a guest has: no driver is bound to
// them, or the kernel's own, which knows no CUDA. Where GPUs of other models have NVIDIA's driver, these are not
// returned, since each of its releases leaves out some old models.
func (n Node) WithoutDriver() (out []PCI) {
	served := map[string]bool{} // models
	for _, p := range n.PCI {
		if gpuVendor(p) == "nvidia" && p.Driver == "nvidia" {
			served[p.Device] = true
		}
	}
	for _, p := range n.PCI {
		idle := slices.Contains([]string{"", "nouveau", "nova", "nova_core"}, p.Driver)
		if gpuVendor(p) == "nvidia" && idle && (len(served) == 0 || served[p.Device]) {
			out = append(out, p)
		}
	}
	return out
}

// Unlisted returns the GPUs that NVIDIA's driver has, and that NVML does not list although this process may use them:
// they did not start, or fell off the bus. In a container the driver's files are no sign of what it was given.
func (n Node) Unlisted() (out []Card) {
	g := n.GPUs
	silent := func(d gpu.GPU) bool { return d.PCI == "" }
	if len(g.Devices) == 0 || n.Container.Kind != "" || slices.ContainsFunc(g.Devices, silent) {
		return nil
	}
	for _, c := range n.Cards {
		listed := slices.ContainsFunc(g.Devices, func(d gpu.GPU) bool { return d.PCI == c.PCI })
		p, ok := n.Function(c.PCI)
		if c.Vendor == "nvidia" && c.Model != "" && !c.Excluded && !listed && ok && p.Driver == "nvidia" &&
			!slices.Contains(g.Withheld, c.PCI) {
			out = append(out, c)
		}
	}
	return out
}

// ForDisplay reports whether a GPU is a display adapter by its class, as those of workstations are; those of
// servers are "3D controllers".
func (p PCI) ForDisplay() bool { return strings.HasPrefix(p.Class, classVGA) }

// describe reads some rows. The UUID of a GPU that did not start consists of question marks.
func (c *Card) describe(information string) {
	for line := range strings.Lines(information) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Model":
			c.Model = value
		case "GPU UUID":
			if !strings.Contains(value, "?") {
				c.UUID = value
			}
		case "GPU Excluded", "Blacklisted":
			c.Excluded = value == "Yes"
		case "Device Minor":
			if n, err := strconv.Atoi(value); err == nil && n >= 0 {
				c.Minor = n
			}
		}
	}
}

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
	_, err := fs.Stat(r.Sys, "module/nvidia")
	g.Module = err == nil
	proc := dir{fsys: r.Proc}
	g.DMABuf = dmaBuf(kernel, proc.line("driver/nvidia/version"))
	return g
}

// dmaBuf returns "yes" if the driver can export a GPU's memory as a DMA-BUF, else why not; "" without
// NVIDIA's driver. It takes Linux 5.12 and NVIDIA's open kernel modules, release 515 or later (NVIDIA's
// GPU operator documentation, requirements of GPUDirect RDMA).
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
	n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return major, minor, n == 2 && major >= 0 && minor >= 0
}
