package gpu

import (
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

// ROCm reads both of these, and CUDA's list where HIP's is not set.
const (
	hipList  = "HIP_VISIBLE_DEVICES"
	rocrList = "ROCR_VISIBLE_DEVICES"
)

func gpuVisible(_ context.Context, in preflight.Input) finding.Finding {
	facts := in.Node.GPUs
	if len(facts.Devices) == 0 {
		return amdVisible(in)
	}
	s := preflight.VisibleGPUs(in)
	n, have := len(facts.Devices), s.Count()
	torchrun := in.Job.Line.Kind == launcher.Torchrun
	switch {
	case !s.Set:
		return finding.Passf("%s is not set: all %d GPUs", preflight.CUDAVisible, n)
	case s.Twice != "":
		return finding.FailOr(torchrun, "%s names GPU %s twice, which hides all GPUs", s, s.Twice).
			See("environment", "%s", s).
			Breaking("torch finds no GPU").Do("unset %s   # or name each GPU once", preflight.CUDAVisible)
	case s.Bad == "" && have == 0 && torchrun && in.Job.NProc.V == "gpu":
		return finding.Failf("the command asks for one process per GPU, and %s hides the %d GPUs of this node", s, n).
			See("environment", "%s", s).
			Breaking("torchrun stops here, and the other nodes wait for it").Do("unset %s", preflight.CUDAVisible)
	case s.Bad == "" && have == 0:
		return finding.Skipf("%s hides the %d GPUs of this node", s, n)
	case s.Bad == "":
		return finding.Passf("%s: %d of %d GPUs", s, have, n)
	}
	f := finding.FailOr(torchrun && short(in, have), "%s names %s, which this node does not have: "+
		"it and the entries after it do not count, and %d GPUs are left", s, gpuWord(s.Bad), have).
		See("environment", "%s", s)
	for _, d := range facts.Devices {
		f = f.See("NVML", "%s %s", called(d), d.UUID)
	}
	return f.Breaking("processes without a GPU die, and the other nodes wait for them").
		Do("unset %s   # or name GPUs of this node (nvidia-smi -L)", preflight.CUDAVisible)
}

// short reports whether there are more processes than GPUs where each needs one.
func short(in preflight.Input, have int) bool {
	if in.Job.NProc.V == "gpu" {
		return have == 0
	}
	n, ok := preflight.Processes(in)
	return in.Job.NProc.Set && ok && n > have
}

func gpuWord(word string) string {
	if preflight.IsUUID(word) {
		return word
	}
	return "GPU " + word
}

// amdVisible judges AMD's lists. The PCI bus does not show how many GPUs ROCm has, since
// one card may be split. But ROCR_VISIBLE_DEVICES applies first, and HIP's list numbers
// the GPUs that it leaves (ROCm documentation, GPU isolation techniques).
func amdVisible(in preflight.Input) finding.Finding {
	amd := cards(in, "amd")
	if amd == 0 {
		return finding.Skipf("no GPU is known on this node")
	}
	name := hipList
	hip, set := in.Getenv(name)
	if !set {
		name = preflight.CUDAVisible
		hip, set = in.Getenv(name)
	}
	rocr, both := in.Getenv(rocrList)
	first, second := preflight.VisibleWords(rocr), preflight.VisibleWords(hip)
	for _, l := range []struct {
		name, list string
		words      []string
	}{{rocrList, rocr, first}, {name, hip, second}} {
		if w := twice(l.words); w != "" {
			return finding.Warnf("%s=%s names GPU %s twice", l.name, l.list, w).
				Breaking("two processes may get one GPU, or no GPU").Do("unset %s   # or name each GPU once", l.name)
		}
	}
	if both && set && len(first) > 0 {
		for _, w := range second {
			if i, err := strconv.Atoi(w); err == nil && i >= len(first) {
				return finding.Warnf("%s=%s counts the GPUs that %s=%s leaves, and there is no GPU %d among these %d",
					name, hip, rocrList, rocr, i, len(first)).See("environment", "%s=%s %s=%s", rocrList, rocr, name, hip).
					Breaking("the GPUs after it are hidden").Do("unset %s", rocrList)
			}
		}
	}
	return finding.Passf("%d AMD GPUs on the bus", amd)
}

func twice(words []string) string {
	for i, w := range words {
		if slices.Contains(words[:i], w) {
			return w
		}
	}
	return ""
}

// called returns how a person finds a GPU: its index, its address and the end of its UUID.
func called(d gpu.GPU) string {
	const tail = 8
	var marks []string
	if d.PCI != "" {
		marks = append(marks, d.PCI)
	}
	if n := len(d.UUID); n > tail {
		marks = append(marks, "GPU-…"+d.UUID[n-tail:])
	}
	if len(marks) == 0 {
		return fmt.Sprintf("GPU %d", d.Index)
	}
	return fmt.Sprintf("GPU %d (%s)", d.Index, strings.Join(marks, ", "))
}

// pass returns the result of a check without faults.
func pass(u preflight.UsedGPUs) finding.Finding {
	return finding.Passf("%s", finding.Count(len(u.Devices), "GPU"))
}

func orPass(found []finding.Finding, u preflight.UsedGPUs) []finding.Finding {
	return preflight.OrPass(found, "%s", pass(u).What)
}

// isHelper reports whether a process has a context on a GPU and leaves the GPU to the
// job: the control of MPS, which shares GPUs on purpose, and NVIDIA's monitoring.
func isHelper(p gpu.Process) bool {
	return strings.HasPrefix(p.Name, "nvidia-") || p.Name == "nv-hostengine" || p.Name == "dcgmi" ||
		p.Name == "dcgm-exporter"
}

func isMPS(p gpu.Process) bool { return strings.HasPrefix(p.Name, "nvidia-cuda-mps") }

// gpuBusy reports the processes on the GPUs. NVML lists those of the whole machine, with
// their pids outside this container; none belongs to the job, which has not started.
func gpuBusy(_ context.Context, in preflight.Input) []finding.Finding {
	u, _ := preflight.GPUsOf(in)
	var out []finding.Finding
	var busy []gpu.GPU
	for _, d := range u.Devices {
		foreign := slices.DeleteFunc(slices.Clone(d.Processes), isHelper)
		shared := slices.ContainsFunc(d.Processes, isMPS)
		switch {
		case len(foreign) > 0 && d.ComputeMode == "exclusive_process" && !shared:
			out = append(out, finding.FailOr(u.Certain, "%s serves one process at a time, and %s uses it",
				called(d), whose(foreign[0])).See("NVML", "compute mode %s, %s", d.ComputeMode, holders(foreign)).
				Breaking("CUDA refuses a second process: \"all CUDA-capable devices are busy or unavailable\"").
				Do("%s", ending(foreign)+"\nor sudo nvidia-smi -i "+number(d)+" -c DEFAULT"))
		case !shared && taken(in, d, foreign):
			busy = append(busy, d)
		}
	}
	if len(busy) > 0 {
		out = append(out, busyWarning(busy))
	}
	return orPass(out, u)
}

func isOrAre(n int) string { return map[bool]string{true: " is", false: " are"}[n == 1] }

func busyWarning(busy []gpu.GPU) finding.Finding {
	var names []string
	var all []gpu.Process
	f := finding.Warnf("")
	for _, d := range busy {
		foreign := slices.DeleteFunc(slices.Clone(d.Processes), isHelper)
		names = append(names, called(d))
		all = append(all, foreign...)
		f = f.See("NVML", "%s: %s of %s used; %s",
			called(d), finding.Size(d.MemoryUsed), finding.Size(d.Memory), holders(foreign))
	}
	f.What = finding.Some(names) + isOrAre(len(busy)) + " in use by another process"
	if len(all) == 0 {
		f.What = finding.Some(names) + map[bool]string{true: " has", false: " have"}[len(busy) == 1] +
			" memory in use, by a process that is not visible here"
		return f.Breaking("the job has less memory, and dies where it needs more").
			Do("nvidia-smi   # on the machine itself, outside any container")
	}
	return f.Breaking("the job has less memory and time on these GPUs, and may run out of memory").Do("%s", ending(all))
}

// taken reports whether more of a GPU is in use than monitoring takes. Where the share of
// a process is not known (it is in another container) the total of the GPU counts, and
// without any process only a large part of it, since the driver uses some itself.
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
	// The kernel also uses GPU memory that is a NUMA node of the machine.
	return d.MemoryNUMA < 0 && d.Memory > 0 && d.MemoryUsed > d.Memory/5 && float64(d.MemoryUsed) >= limit &&
		len(d.Processes) == 0
}

func gpuMode(_ context.Context, in preflight.Input) []finding.Finding {
	u, _ := preflight.GPUsOf(in)
	var out []finding.Finding
	var sliced, numbers []string
	for _, d := range u.Devices {
		if d.ComputeMode == "prohibited" {
			out = append(out, finding.FailOr(u.Certain, "%s is in compute mode prohibited", called(d)).
				See("NVML", "compute mode %s", d.ComputeMode).
				Breaking("CUDA refuses every process on it").Do("sudo nvidia-smi -i %s -c DEFAULT", number(d)))
		}
		if d.MIG == "on" {
			sliced, numbers = append(sliced, called(d)), append(numbers, number(d))
		}
	}
	if len(sliced) > 0 && len(u.Devices) > 1 {
		out = append(out, finding.Warnf("%s of %s in MIG mode: %s", finding.Count(len(sliced), "GPU"),
			finding.Count(len(u.Devices), "GPU"), finding.Some(sliced)).
			Breaking("a process sees one slice only, slices have neither NVLink nor P2P, and NCCL refuses two ranks on one GPU").
			Do("%s\nor one slice for each process: %s", wholeAgain(numbers), preflight.CUDAVisible))
	}
	return orPass(out, u)
}

// wholeAgain returns the command that ends the MIG mode of some GPUs.
func wholeAgain(numbers []string) string {
	return "sudo nvidia-smi -i " + strings.Join(numbers, ",") + " -mig 0   # while no process uses them"
}

// gpuThrottle ignores an idle GPU, one at its power limit and one with fixed clocks: these are slow on purpose.
func gpuThrottle(_ context.Context, in preflight.Input) finding.Finding {
	u, _ := preflight.GPUsOf(in)
	words := map[string]string{
		"power_brake": "the power brake of the machine (too little power, or a failed power supply)",
		"hw_thermal":  "heat", "sw_thermal": "heat",
	}
	var names, reasons []string
	f := finding.Warnf("")
	for _, d := range u.Devices {
		var own []string
		for _, r := range d.Throttle {
			if w := words[r]; w != "" && !slices.Contains(own, w) {
				own = append(own, w)
			}
		}
		if len(own) == 0 && slices.Contains(d.Throttle, "hw_slowdown") {
			own = []string{"the hardware (heat or power)"}
		}
		if len(own) == 0 {
			continue
		}
		names = append(names, called(d))
		known := func(w string) bool { return slices.Contains(reasons, w) }
		reasons = append(reasons, slices.DeleteFunc(own, known)...)
		f = f.See("NVML", "%s: %s", called(d), strings.Join(d.Throttle, ", "))
	}
	if len(names) == 0 {
		return pass(u)
	}
	f.What = finding.Some(names) + isOrAre(len(names)) + " slowed down by " + strings.Join(reasons, " and by ")
	return f.Breaking("all ranks wait for the slowest GPU").
		Do("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER   # then inspect the machine's power supplies and fans")
}
