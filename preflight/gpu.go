package preflight

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"launch/internal/finding"
	"launch/internal/launcher"
)

func gpuChecks() []Check {
	return []Check{{
		ID: "gpu.count", Limit: computed,
		Title: "this node has a GPU for each process that was asked for",
		Doc:   "A GPU that fell off the bus is found by one process of the job, which dies, while the others wait for it in their first collective.",
		Run:   one(gpuCount),
	}}
}

// asked is the number of processes on this node, as far as the command line
// says it. ok is false where it depends on what is not known here (the number
// of CPUs, say).
func asked(in Input) (n int, ok bool) {
	v := in.Job.NProc
	if !v.Set {
		return 1, true // torchrun's own default, and a plain program
	}
	if n, err := strconv.Atoi(v.V); err == nil && n > 0 {
		return n, true
	}
	gpus, _ := visible(in)
	return gpus, (v.V == "gpu" || v.V == "auto") && gpus > 0
}

// visible is how many GPUs a process can see, and how that was found.
// CUDA_VISIBLE_DEVICES lists indices or UUIDs; what stands behind the first one
// that does not exist is not seen (CUDA C++ Programming Guide, CUDA Environment
// Variables). One that is lost is not counted.
func visible(in Input) (n int, how string) {
	devices := in.Node.GPUs.Devices
	list, set := in.env("CUDA_VISIBLE_DEVICES")
	if !set {
		for _, d := range devices {
			if d.Err == "" {
				n++
			}
		}
		return n, "NVML"
	}
	how = "CUDA_VISIBLE_DEVICES=" + list
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		i, err := strconv.Atoi(word)
		uuid := strings.HasPrefix(word, "GPU-") || strings.HasPrefix(word, "MIG-")
		if !uuid && (err != nil || i < 0 || i >= len(devices)) {
			break
		}
		if !uuid && devices[i].Err != "" {
			continue
		}
		n++
	}
	return n, how
}

func gpuCount(_ context.Context, in Input) finding.Finding {
	facts := in.Node.GPUs
	want := in.Job.NProc
	switch {
	case in.Job.Line.Kind != launcher.Torchrun:
		return finding.Skipf("the command does not say how many processes it starts on a node")
	case facts.Err != "":
		return finding.Warnf("an NVIDIA driver is here, but it could not be asked").See("NVML", "%s", facts.Err).
			Breaking("a process that uses CUDA may hang or stop here").Do("nvidia-smi")
	case len(facts.Devices) == 0:
		return noGPU(in)
	}
	n, numeric := asked(in)
	have, how := visible(in)
	switch {
	case have == 0:
		return finding.Skipf("%s hides the %d GPUs of this node", how, len(facts.Devices))
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
	if how != "NVML" {
		f = f.See("environment", "%s", how)
	}
	return f.Breaking("the process without a GPU dies, and the other nodes wait for it").
		Do("%s %d; or CUDA_VISIBLE_DEVICES= launch … if the job runs on CPUs", want.From.Name, have)
}

// noGPU: without a driver the job runs on CPUs, unless the line asks for GPUs
// by name. AMD's GPUs go by that name too and NVML does not know them; their
// driver is /dev/kfd.
func noGPU(in Input) finding.Finding {
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
