package preflight

import (
	"context"
	"slices"
	"strings"

	"launch/fabric/gpu"
	"launch/internal/finding"
	"launch/internal/launcher"
)

// The defaults of thresholds: see there.
const (
	busyMemory = 1 << 30
	recentXID  = 24 * 60 * 60
)

// usage is the GPUs that the job's processes see.
type usage struct {
	devices []gpu.GPU
	// certain: every one of them is some process' own, so that the job dies of one
	// that does not work. With fewer processes, or with a program that does not
	// say how many it starts, it may be one that nobody takes.
	certain bool
}

// used is the GPUs of the job, or why there is nothing to say about them.
func used(in Input) (u usage, why string) {
	facts := in.Node.GPUs
	switch {
	case facts.Err != "":
		return u, "could not tell: the driver could not be asked"
	case len(facts.Devices) == 0 && facts.Present:
		return u, "the driver lists no GPU"
	case len(facts.Devices) == 0 && facts.Absent != "":
		return u, "no NVIDIA GPU here"
	case len(facts.Devices) == 0:
		return u, "the GPUs of this node were not asked for"
	}
	s := seen(in)
	for _, d := range s.devices {
		if !hidden(d) {
			u.devices = append(u.devices, d)
		}
	}
	if len(u.devices) == 0 {
		if s.set {
			return u, s.String() + " hides the GPUs of this node"
		}
		return u, "this container was given no GPU"
	}
	n, known := asked(in)
	each := in.Job.NProc.V == "gpu" || in.Job.NProc.Set && known && n >= s.count()
	u.certain = in.Job.Line.Kind == launcher.Torchrun && each && inOrder(in, s)
	return u, ""
}

// inOrder tells that CUDA numbers the GPUs as NVML does. By itself it puts the
// fastest first, which is the same order where all are of one model.
func inOrder(in Input, s selection) bool {
	words := visibleWords(s.list)
	if order, _ := in.env("CUDA_DEVICE_ORDER"); order == "PCI_BUS_ID" || !s.set || len(words) > 0 && isUUID(words[0]) {
		return true
	}
	all := in.Node.GPUs.Devices
	return !slices.ContainsFunc(all, func(d gpu.GPU) bool { return d.Name != all[0].Name && d.Err == "" && all[0].Err == "" })
}

// pass is what a check says that has found nothing.
func (u usage) pass() []finding.Finding {
	return []finding.Finding{finding.Passf("%s", howMany(len(u.devices), "GPU"))}
}

func skip(why string) []finding.Finding { return []finding.Finding{finding.Skipf("%s", why)} }

// isHelper tells programs that have a context on a GPU and leave it to the job: the
// control of MPS, which shares GPUs on purpose, and NVIDIA's monitoring.
func isHelper(p gpu.Process) bool {
	return strings.HasPrefix(p.Name, "nvidia-") || p.Name == "nv-hostengine" || p.Name == "dcgmi" || p.Name == "dcgm-exporter"
}

func isMPS(p gpu.Process) bool { return strings.HasPrefix(p.Name, "nvidia-cuda-mps") }

// gpuBusy: NVML lists the processes of the whole machine, by their number
// outside of this container, so what is there now is not the job's, which has
// not begun.
func gpuBusy(_ context.Context, in Input) []finding.Finding {
	u, why := used(in)
	if why != "" {
		return skip(why)
	}
	var out []finding.Finding
	var busy []gpu.GPU
	for _, d := range u.devices {
		foreign := slices.DeleteFunc(slices.Clone(d.Processes), isHelper)
		shared := slices.ContainsFunc(d.Processes, isMPS)
		switch {
		case len(foreign) > 0 && d.ComputeMode == "exclusive_process" && !shared:
			out = append(out, failOr(u.certain, "%s serves one process at a time, and %s has it", called(d), whose(foreign[0])).
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
		return u.pass()
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
		f = f.See("NVML", "%s: %s of %s used; %s", called(d), size(d.MemoryUsed), size(d.Memory), holders(foreign))
	}
	f.What = some(names) + map[bool]string{true: " is", false: " are"}[len(busy) == 1] + " in use by another process"
	if len(all) == 0 {
		f.What = some(names) + map[bool]string{true: " has", false: " have"}[len(busy) == 1] + " memory in use, of a process that is not seen here"
		return f.Breaking("the job has less memory, and dies where it needs it").Do("nvidia-smi (on the machine itself, outside of any container)")
	}
	return f.Breaking("the job has less memory and time on these GPUs, and may die for want of memory").Do("%s", ending(all))
}

// taken tells whether so much of a GPU is in use that it is more than what
// monitoring leaves. Where the process' own share is not known (of another
// container) the GPU's counts; and without any process only a large part of it,
// since the driver itself has some.
func taken(in Input, d gpu.GPU, foreign []gpu.Process) bool {
	limit := in.threshold("gpu.busy")
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

func gpuMode(_ context.Context, in Input) []finding.Finding {
	u, why := used(in)
	if why != "" {
		return skip(why)
	}
	var out []finding.Finding
	var sliced []string
	for _, d := range u.devices {
		if d.ComputeMode == "prohibited" {
			out = append(out, failOr(u.certain, "%s is in compute mode prohibited", called(d)).See("NVML", "compute mode %s", d.ComputeMode).
				Breaking("CUDA refuses every process on it").Do("sudo nvidia-smi -i %s -c DEFAULT", number(d)))
		}
		if d.MIG == "on" {
			sliced = append(sliced, called(d))
		}
	}
	if len(sliced) > 0 && len(u.devices) > 1 {
		out = append(out, finding.Warnf("%s of %s in MIG mode: %s", howMany(len(sliced), "GPU"), howMany(len(u.devices), "GPU"), some(sliced)).
			Breaking("a process sees one slice only, slices have neither NVLink nor P2P, and NCCL refuses two ranks on one GPU").
			Do("sudo nvidia-smi -mig 0 (all GPUs idle), or one slice for each process by %s", cudaList))
	}
	if len(out) == 0 {
		return u.pass()
	}
	return out
}

// gpuThrottle: an idle GPU, one at its power limit and one whose clocks somebody
// set are slow on purpose.
func gpuThrottle(_ context.Context, in Input) finding.Finding {
	u, why := used(in)
	if why != "" {
		return finding.Skipf("%s", why)
	}
	words := map[string]string{
		"power_brake": "the power brake of the machine (too little power, or a power supply is gone)",
		"hw_thermal":  "heat", "sw_thermal": "heat", "hw_slowdown": "the hardware (heat or power)",
	}
	var names, reasons []string
	f := finding.Warnf("")
	for _, d := range u.devices {
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
		return u.pass()[0]
	}
	f.What = some(names) + map[bool]string{true: " is", false: " are"}[len(names) == 1] + " slowed down by " + strings.Join(reasons, " and by ")
	return f.Breaking("all ranks wait for the slowest GPU").Do("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; look at the machine's power supplies and fans")
}
