// Package gpu holds the checks of this node's NVIDIA and AMD GPUs.
package gpu

import (
	"cmp"
	"context"

	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/preflight"
)

func Checks() []preflight.Check {
	return []preflight.Check{{
		ID: "gpu.driver", Limit: preflight.Computed,
		Title: "the GPU driver answers, and is of one version",
		Doc:   "A driver that was upgraded and not loaded anew refuses every process that asks it; one that hangs takes them with it.",
		Run:   preflight.One(gpuDriver),
	}, {
		ID: "gpu.cuda", Needs: []string{"gpu.driver"}, Limit: preflight.Computed,
		Title: "the driver is new enough for the CUDA that torch brings",
		Doc:   "CUDA does not start on a driver older than its own release family (error 35), and torch sees no GPU.",
		Run:   preflight.One(gpuCUDA),
	}, {
		ID: "gpu.visible", Needs: []string{"gpu.driver"}, Limit: preflight.Computed,
		Title: "CUDA_VISIBLE_DEVICES names GPUs of this node, each once",
		Doc:   "What stands behind a GPU that is not here is hidden without a word, and a GPU that is named twice hides them all.",
		Run:   preflight.One(gpuVisible),
	}, {
		ID: "gpu.health", Needs: []string{"gpu.driver"}, Limit: preflight.Computed,
		Title: "the GPUs that the job sees are in order",
		Doc:   "A GPU that is lost or waits for a reset is found by one process of the job, which dies, while the others wait for it in their first collective.",
		Run:   gpuHealth,
	}, {
		ID: "gpu.fabric", Needs: []string{"gpu.driver"}, Limit: preflight.Computed,
		Title: "the fabric manager has set the GPUs up",
		Doc:   "On a machine with NVSwitches CUDA does not start (error 802) until the fabric manager has given each GPU its place.",
		Run:   preflight.One(gpuFabric),
	}, {
		ID: "gpu.mode", Needs: []string{"gpu.driver"}, Limit: preflight.Computed,
		Title: "the modes of the GPUs let a process use a whole one",
		Doc:   "A GPU whose compute mode forbids processes refuses them; in MIG mode a process sees one slice, without NVLink or P2P.",
		Run:   gpuMode,
	}, {
		ID: "gpu.count", Needs: []string{"gpu.driver", "gpu.visible", "gpu.health"}, Limit: preflight.Computed,
		Title: "this node has a GPU for each process that was asked for",
		Doc:   "A GPU that fell off the bus is found by one process of the job, which dies, while the others wait for it in their first collective.",
		Run:   preflight.One(gpuCount),
	}, {
		ID: "gpu.busy", Needs: []string{"gpu.driver"}, Limit: preflight.Computed,
		Title: "nobody else uses the GPUs that the job sees",
		Doc:   "Memory that another process holds is missing to the job, which dies when it needs it; on a GPU for one process at a time it does not start.",
		Run:   gpuBusy,
	}, {
		ID: "gpu.throttle", Needs: []string{"gpu.driver"}, Limit: preflight.Computed,
		Title: "no GPU is slowed down for want of power or cooling",
		Doc:   "All ranks wait for the slowest GPU.",
		Run:   preflight.One(gpuThrottle),
	}, {
		ID: "gpu.nvlink", Needs: []string{"gpu.driver", "gpu.fabric"}, Limit: preflight.Computed,
		Title: "each GPU has as many NVLinks up as those beside it",
		Doc:   "A link that is down slows all collectives of the node, and may stop them.",
		Run:   gpuNVLink,
	}, {
		ID: "gpu.p2p", Needs: []string{"gpu.driver"}, Limit: preflight.Computed,
		Title: "GPUs reach each other's memory, and network cards theirs across a common PCIe switch",
		Doc:   "Where one pair of GPUs may not, NCCL goes through the host's memory. Access control services send what one device writes to another up to the root of the bus and back, which is slow and has made NCCL hang.",
		Run:   preflight.One(gpuP2P),
	}}
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
		return noGPU(in)
	}
	n, numeric := preflight.Processes(in)
	s := preflight.VisibleGPUs(in)
	have := s.Count()
	switch {
	case have == 0 && s.Set:
		return finding.Skipf("%s hides the %d GPUs of this node", s, len(facts.Devices))
	case !numeric:
		return finding.Passf("%d GPUs visible", have)
	case n <= have:
		return finding.Passf("%d processes, %d GPUs visible (%s)", n, have, facts.Devices[0].Name)
	}
	// With one GPU in a workstation, more processes are most often a trial run
	// on CPUs; on a node with several, one that is missing is the likelier cause.
	f := finding.Failf("%d processes are asked for, and %d GPUs are visible on this node", n, have)
	if len(facts.Devices) == 1 {
		f = finding.Warnf("%d processes are asked for, and this node has one GPU", n)
	}
	for _, d := range facts.Devices {
		f = f.See("NVML", "GPU %d %s %s", d.Index, cmp.Or(d.Err, d.Name), d.PCI)
	}
	if s.Set {
		f = f.See("environment", "%s", s)
	}
	return f.Breaking("the process without a GPU dies, and the other nodes wait for it").
		Do("%s %d; or CUDA_VISIBLE_DEVICES= launch … if the job runs on CPUs", want.From.Name, have)
}

// noGPU: without a driver the job runs on CPUs, unless the line asks for GPUs
// by name. AMD's GPUs go by that name too and NVML does not know them; their
// driver is /dev/kfd.
func noGPU(in preflight.Input) finding.Finding {
	why := in.Node.GPUs.Absent
	switch {
	case in.Node.GPUs.Present:
		why = "the driver lists none"
	case why == "":
		return finding.Skipf("the GPUs of this node were not asked for")
	}
	amd := in.Exists != nil && in.Exists("/dev/kfd")
	if in.Job.NProc.V != "gpu" || amd {
		return finding.Skipf("no NVIDIA GPU here: %s", why)
	}
	const breaks, fix = "torchrun stops here, and the other nodes wait for it", "look at nvidia-smi; in a container, give it the GPUs (docker run --gpus all)"
	if in.Exists == nil { // AMD's cannot be ruled out
		return finding.Warnf("one process per GPU is asked for, and this node has no NVIDIA GPU").See("NVML", "%s", why).
			Breaking(breaks).Do(fix)
	}
	return finding.Failf("one process per GPU is asked for, and this node has none").See("NVML", "%s", why).
		See("/dev/kfd", "not there: no AMD GPU either").
		Breaking(breaks).Do(fix)
}
