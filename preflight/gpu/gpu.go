// Package gpu holds the checks of this node's NVIDIA and AMD GPUs.
package gpu

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/fabric/gpu"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/preflight"
)

// Checks returns the checks of this package, in the order of the report.
func Checks() []preflight.Check { return slices.Concat(stateChecks(), useChecks()) }

// stateChecks look at the driver and at the state of the GPUs.
func stateChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "gpu.driver", Title: "the GPU driver answers, and all its parts have one version",
		Doc: "A driver that was upgraded and not reloaded refuses every process that asks it. A driver that hangs " +
			"blocks these processes, too.",
		Run: preflight.One(gpuDriver),
	}, {
		ID: "gpu.cuda", Needs: []string{"gpu.driver"}, Title: "the driver is new enough for the CUDA that torch brings",
		Doc:    "CUDA does not start on a driver older than its own release family (error 35), and torch sees no GPU.",
		Unless: noUsedGPU, Run: preflight.One(gpuCUDA),
	}, {
		ID: "gpu.pairs", Needs: []string{"gpu.driver"},
		Title: "NCCL, its network plugin, libfabric and the driver go together",
		Doc: "An NCCL for a newer CUDA than the driver's does not start. NCCL goes on without a plugin that has none of " +
			"the interfaces that it knows, or that does not load because libfabric is too old: then it may use TCP.",
		Unless: noUsedGPU, Run: pairs,
	}, {
		ID: "gpu.visible", Needs: []string{"gpu.driver"}, Title: "CUDA_VISIBLE_DEVICES names GPUs of this node, each once",
		Doc: "CUDA ignores all GPUs after an entry that does not exist, without a message. A GPU that is named twice hides " +
			"them all.",
		Run: preflight.One(gpuVisible),
	}, {
		ID: "gpu.listed", Needs: []string{"gpu.driver"}, Title: "NVML lists each GPU that the driver has",
		Doc: "A GPU that did not start is on the bus and in the driver's files, and no process can use it. A job that " +
			"takes as many processes as GPUs runs with fewer.",
		Unless: noUsedGPU, Run: preflight.One(gpuListed),
	}, {
		ID: "gpu.health", Needs: []string{"gpu.driver"}, Title: "the GPUs that the job sees work",
		Doc: "One process of the job finds a GPU that is lost or waits for a reset. It dies, and the others wait for it " +
			"in their first collective.",
		Unless: noUsedGPU, Run: gpuHealth,
	}, {
		ID: "gpu.fabric", Needs: []string{"gpu.driver"}, Title: "the fabric manager has set up the GPUs",
		Doc: "On a machine with NVSwitches CUDA does not start (error 802) until the fabric manager has given each GPU " +
			"its place.",
		Unless: noUsedGPU, Run: preflight.One(gpuFabric),
	}}
}

// useChecks look at what the job can do with the GPUs.
func useChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "gpu.mode", Needs: []string{"gpu.driver"}, Title: "the modes of the GPUs let a process use a whole GPU",
		Doc: "A GPU in a compute mode that forbids processes refuses them. In MIG mode a process sees one slice, without " +
			"NVLink or P2P.",
		Unless: noUsedGPU, Run: gpuMode,
	}, {
		ID: "gpu.count", Needs: []string{"gpu.driver", "gpu.visible", "gpu.health"},
		Title: "this node has a GPU for each requested process",
		Doc: "One process of the job finds that a GPU fell off the bus. It dies, and the others wait for it in their " +
			"first collective.",
		Run: preflight.One(gpuCount),
	}, {
		ID: "gpu.busy", Needs: []string{"gpu.driver"}, Title: "no other process uses the GPUs that the job sees",
		Doc: "The job lacks the memory that another process holds, and dies when it needs it. On a GPU for one process at " +
			"a time it does not start.",
		Unless: noUsedGPU, Run: gpuBusy,
	}, {
		ID: "gpu.throttle", Needs: []string{"gpu.driver"},
		Title: "no GPU is slowed down by power or heat", Doc: "All ranks wait for the slowest GPU.",
		Unless: noUsedGPU, Run: preflight.One(gpuThrottle),
	}, {
		ID: "gpu.pcie", Needs: []string{"gpu.driver"},
		Title: "each GPU has as many PCIe lanes as the others of its model",
		Doc: "A bad contact or riser takes lanes away: all that the GPU exchanges with the host and with HCAs is slower. " +
			"The generation of the link is not compared, since it falls while a GPU is idle.",
		Run: gpuPCIe,
	}, {
		ID: "gpu.nvlink", Needs: []string{"gpu.driver", "gpu.fabric"},
		Title:  "each GPU has as many NVLinks up as the others of its model",
		Doc:    "A link that is down slows all collectives of the node, and may stop them.",
		Unless: noUsedGPU, Run: gpuNVLink,
	}, {
		ID: "gpu.p2p", Needs: []string{"gpu.driver"},
		Title: "GPUs reach each other's memory, and network cards reach it across a common PCIe switch",
		Doc: "Where one pair of GPUs may not, NCCL uses the host's memory. Access control services send what one device " +
			"writes to another to the root of the bus and back, which is slow and has made NCCL hang.",
		Unless: noUsedGPU, Run: preflight.One(gpuP2P),
	}, {
		ID: "gpu.iommu", Needs: []string{"gpu.driver"},
		Title: "the IOMMU lets the transfers of GPUs pass without translation",
		Doc: "A translating IOMMU sends what GPUs and HCAs write to each other through the root of the bus. RCCL warns of " +
			"a hang, and NVIDIA does not support GPUDirect RDMA then.",
		Run: preflight.One(gpuIOMMU),
	}, {
		ID: "gpu.direct", Needs: []string{"gpu.driver"},
		Title: "the HCAs reach the memory of the GPUs (GPUDirect)",
		Doc: "Without nvidia_peermem and DMA-BUF NCCL copies all that it sends and receives through the host's memory, at " +
			"a fraction of the speed.",
		Unless: noUsedGPU, Run: preflight.One(gpuDirect),
	}}
}

// noUsedGPU returns why the checks can say nothing about the GPUs of the job, or "".
func noUsedGPU(in preflight.Input) string {
	_, why := preflight.GPUsOf(in)
	return why
}

func gpuCount(_ context.Context, in preflight.Input) finding.Finding {
	facts := in.Node.GPUs
	want := in.Job.NProc
	switch {
	case in.Job.Line.Kind != launcher.Torchrun:
		return finding.Skipf("the command does not say how many processes it starts on a node")
	case facts.Err != "":
		return finding.Skipf("could not tell: the driver could not be asked")
	case len(facts.Devices) == 0:
		if f, known := cardCount(in); known {
			return f
		}
		return noGPU(in)
	}
	n, numeric := preflight.Processes(in)
	s := preflight.VisibleGPUs(in)
	have := s.Count()
	switch {
	case have == 0 && s.Set:
		return finding.Skipf("%s hides the %d GPUs of this node", s, len(facts.Devices))
	case !numeric:
		return lone(in, finding.Passf("%d GPUs visible", have))
	case n <= have:
		return lone(in, finding.Passf("%d processes, %d GPUs visible (%s)", n, have, facts.Devices[0].Name))
	}
	// With one GPU, as in a workstation, more processes are most likely a trial run on
	// CPUs. On a node with several GPUs one of them is probably missing.
	f := finding.Failf("the command asks for %d processes, and this node has %d visible GPUs", n, have)
	if len(facts.Devices) == 1 && have == 1 {
		f = finding.Warnf("the command asks for %d processes, and this node has one GPU", n)
	}
	var divided []string // without an instance
	for _, d := range facts.Devices {
		state := cmp.Or(d.Err, d.Name)
		if preflight.Undivided(d) {
			state = "in MIG mode without an instance"
			divided = append(divided, number(d))
		}
		f = f.See("NVML", "GPU %d %s %s", d.Index, state, d.PCI)
	}
	for _, c := range in.Node.Unlisted() {
		f = f.See("/proc/driver/nvidia/gpus/"+c.PCI, "%s, which NVML does not list", c.Model)
	}
	if s.Set {
		f = f.See("environment", "%s", s)
	}
	var fixes []string
	if len(divided) > 0 {
		fixes = append(fixes, wholeAgain(divided))
	}
	if have > 0 {
		fixes = append(fixes, fmt.Sprintf("%s %d", want.From.Name, have))
	}
	fixes = append(fixes, "if the job runs on CPUs: CUDA_VISIBLE_DEVICES= launch …")
	return f.Breaking("the process without a GPU dies, and the other nodes wait for it").
		Do("%s", strings.Join(fixes, "\nor "))
}

// noGPU judges a node without NVIDIA GPUs. Without a driver the job runs on CPUs, unless the line asks
// for GPUs. "gpu" may also mean AMD GPUs, which NVML does not know and whose driver is /dev/kfd.
func noGPU(in preflight.Input) finding.Finding {
	why := in.Node.GPUs.Absent
	switch {
	case in.Node.GPUs.Present:
		why = "the driver lists none"
	case why == "":
		return finding.Skipf("the driver was not asked for the GPUs of this node")
	}
	amd := in.Exists != nil && in.Exists("/dev/kfd")
	if in.Job.NProc.V != "gpu" && len(in.Node.WithoutDriver()) > 0 {
		return finding.Skipf("the GPUs of this node have no NVIDIA driver")
	}
	if in.Job.NProc.V != "gpu" || amd {
		return finding.Skipf("no NVIDIA GPU here: %s", why)
	}
	f := finding.Failf("the command asks for one process per GPU, and this node has no GPU").See("NVML", "%s", why).
		See("/dev/kfd", "does not exist: no AMD GPU either")
	if in.Exists == nil { // it may have AMD GPUs
		f = finding.Warnf("the command asks for one process per GPU, and this node has no NVIDIA GPU").See("NVML", "%s", why)
	}
	return f.Breaking("torchrun stops here, and the other nodes wait for it").
		Do("nvidia-smi\nin a container: docker run --gpus all …")
}

// number returns a GPU as nvidia-smi -i takes it.
func number(d gpu.GPU) string { return strconv.Itoa(d.Index) }

func whose(p gpu.Process) string {
	if p.Name == "" {
		return fmt.Sprintf("process %d of the machine", p.PID)
	}
	return fmt.Sprintf("%s (pid %d of the machine)", p.Name, p.PID)
}

func holders(list []gpu.Process) string {
	if len(list) == 0 {
		return "no visible process"
	}
	return finding.Some(finding.Map(list, func(p gpu.Process) string {
		if p.Memory > 0 {
			return whose(p) + ", " + finding.Size(p.Memory)
		}
		return whose(p)
	}))
}

// ending returns the commands that end processes. NVML has their pids on the machine, not those in a container.
func ending(list []gpu.Process) string {
	pids := finding.Map(list, func(p gpu.Process) string { return strconv.Itoa(p.PID) })
	return "ps -fp " + strings.Join(pids, ",") + "   # on the machine itself, outside any container; end what is left over"
}
