package gpu

import (
	"context"
	"slices"
	"strings"

	"launch/fabric/gpu"
	"launch/internal/finding"
	"launch/preflight"
)

// pass is what a check says that has found nothing.
func pass(u preflight.UsedGPUs) []finding.Finding {
	return []finding.Finding{finding.Passf("%s", preflight.Count(len(u.Devices), "GPU"))}
}

// isHelper tells programs that have a context on a GPU and leave it to the job: the
// control of MPS, which shares GPUs on purpose, and NVIDIA's monitoring.
func isHelper(p gpu.Process) bool {
	return strings.HasPrefix(p.Name, "nvidia-") || p.Name == "nv-hostengine" || p.Name == "dcgmi" || p.Name == "dcgm-exporter"
}

func isMPS(p gpu.Process) bool { return strings.HasPrefix(p.Name, "nvidia-cuda-mps") }

// gpuBusy: NVML lists the processes of the whole machine, by their number
// outside of this container, so what is there now is not the job's, which has
// not begun.
func gpuBusy(_ context.Context, in preflight.Input) []finding.Finding {
	u, why := preflight.GPUsOf(in)
	if why != "" {
		return preflight.Skip(why)
	}
	var out []finding.Finding
	var busy []gpu.GPU
	for _, d := range u.Devices {
		foreign := slices.DeleteFunc(slices.Clone(d.Processes), isHelper)
		shared := slices.ContainsFunc(d.Processes, isMPS)
		switch {
		case len(foreign) > 0 && d.ComputeMode == "exclusive_process" && !shared:
			out = append(out, preflight.FailOr(u.Certain, "%s serves one process at a time, and %s has it", called(d), whose(foreign[0])).
				See("NVML", "compute mode %s, %s", d.ComputeMode, holders(foreign)).
				Breaking("CUDA refuses a second process: \"all CUDA-capable devices are busy or unavailable\"").
				Do("%s", ending(foreign)+"; or sudo nvidia-smi -i "+number(d)+" -c DEFAULT"))
		case !shared && taken(in, d, foreign):
			busy = append(busy, d)
		}
	}
	if len(busy) > 0 {
		out = append(out, busyWarning(busy))
	}
	if len(out) == 0 {
		return pass(u)
	}
	return out
}

func busyWarning(busy []gpu.GPU) finding.Finding {
	var names []string
	var all []gpu.Process
	f := finding.Warnf("")
	for _, d := range busy {
		foreign := slices.DeleteFunc(slices.Clone(d.Processes), isHelper)
		names = append(names, called(d))
		all = append(all, foreign...)
		f = f.See("NVML", "%s: %s of %s used; %s", called(d), preflight.Size(d.MemoryUsed), preflight.Size(d.Memory), holders(foreign))
	}
	f.What = preflight.Some(names) + map[bool]string{true: " is", false: " are"}[len(busy) == 1] + " in use by another process"
	if len(all) == 0 {
		f.What = preflight.Some(names) + map[bool]string{true: " has", false: " have"}[len(busy) == 1] + " memory in use, of a process that is not seen here"
		return f.Breaking("the job has less memory, and dies where it needs it").Do("nvidia-smi (on the machine itself, outside of any container)")
	}
	return f.Breaking("the job has less memory and time on these GPUs, and may die for want of memory").Do("%s", ending(all))
}

// taken tells whether so much of a GPU is in use that it is more than what
// monitoring leaves. Where the process' own share is not known (of another
// container) the GPU's counts; and without any process only a large part of it,
// since the driver itself has some.
func taken(in preflight.Input, d gpu.GPU, foreign []gpu.Process) bool {
	limit := in.Threshold("gpu.busy")
	var sum uint64
	known := true
	for _, p := range foreign {
		sum += p.Memory
		known = known && p.Memory > 0
	}
	switch {
	case len(foreign) > 0 && known:
		return float64(sum) >= limit
	case len(foreign) > 0:
		return float64(max(sum, d.MemoryUsed)) >= limit
	}
	// Memory that is a NUMA node of the machine is used by the kernel too.
	return d.MemoryNUMA < 0 && d.Memory > 0 && d.MemoryUsed > d.Memory/5 && float64(d.MemoryUsed) >= limit && len(d.Processes) == 0
}

func gpuMode(_ context.Context, in preflight.Input) []finding.Finding {
	u, why := preflight.GPUsOf(in)
	if why != "" {
		return preflight.Skip(why)
	}
	var out []finding.Finding
	var sliced []string
	for _, d := range u.Devices {
		if d.ComputeMode == "prohibited" {
			out = append(out, preflight.FailOr(u.Certain, "%s is in compute mode prohibited", called(d)).See("NVML", "compute mode %s", d.ComputeMode).
				Breaking("CUDA refuses every process on it").Do("sudo nvidia-smi -i %s -c DEFAULT", number(d)))
		}
		if d.MIG == "on" {
			sliced = append(sliced, called(d))
		}
	}
	if len(sliced) > 0 && len(u.Devices) > 1 {
		out = append(out, finding.Warnf("%s of %s in MIG mode: %s", preflight.Count(len(sliced), "GPU"), preflight.Count(len(u.Devices), "GPU"), preflight.Some(sliced)).
			Breaking("a process sees one slice only, slices have neither NVLink nor P2P, and NCCL refuses two ranks on one GPU").
			Do("sudo nvidia-smi -mig 0 (all GPUs idle), or one slice for each process by %s", preflight.CUDAVisible))
	}
	if len(out) == 0 {
		return pass(u)
	}
	return out
}

// gpuThrottle: an idle GPU, one at its power limit and one whose clocks somebody
// set are slow on purpose.
func gpuThrottle(_ context.Context, in preflight.Input) finding.Finding {
	u, why := preflight.GPUsOf(in)
	if why != "" {
		return finding.Skipf("%s", why)
	}
	words := map[string]string{
		"power_brake": "the power brake of the machine (too little power, or a power supply is gone)",
		"hw_thermal":  "heat", "sw_thermal": "heat", "hw_slowdown": "the hardware (heat or power)",
	}
	var names, reasons []string
	f := finding.Warnf("")
	for _, d := range u.Devices {
		var own []string
		for _, r := range d.Throttle {
			if w := words[r]; w != "" && (r != "hw_slowdown" || len(d.Throttle) == 1) && !slices.Contains(own, w) {
				own = append(own, w)
			}
		}
		if len(own) == 0 && slices.Contains(d.Throttle, "hw_slowdown") {
			own = []string{words["hw_slowdown"]}
		}
		if len(own) == 0 {
			continue
		}
		names = append(names, called(d))
		for _, w := range own {
			if !slices.Contains(reasons, w) {
				reasons = append(reasons, w)
			}
		}
		f = f.See("NVML", "%s: %s", called(d), strings.Join(d.Throttle, ", "))
	}
	if len(names) == 0 {
		return pass(u)[0]
	}
	f.What = preflight.Some(names) + map[bool]string{true: " is", false: " are"}[len(names) == 1] + " slowed down by " + strings.Join(reasons, " and by ")
	return f.Breaking("all ranks wait for the slowest GPU").Do("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; look at the machine's power supplies and fans")
}
