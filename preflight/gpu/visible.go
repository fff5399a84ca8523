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
	amd := 0
	for _, c := range in.Node.Cards {
		if c.Vendor == "amd" {
			amd++
		}
	}
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
					name, hip, rocrList, rocr, i, len(first)).
					See("environment", "%s=%s %s=%s", rocrList, rocr, name, hip).
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
