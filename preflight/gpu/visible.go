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

// ROCm reads both of these and, where HIP's is not set, CUDA's too.
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
		return preflight.FailOr(torchrun, "%s names GPU %s twice, which hides all GPUs", s, s.Twice).See("environment", "%s", s).
			Breaking("torch finds no GPU").Do("unset %s; or name each GPU once", preflight.CUDAVisible)
	case s.Bad == "" && have == 0 && torchrun && in.Job.NProc.V == "gpu":
		return finding.Failf("one process per GPU is asked for, and %s hides the %d GPUs of this node", s, n).See("environment", "%s", s).
			Breaking("torchrun stops here, and the other nodes wait for it").Do("unset %s", preflight.CUDAVisible)
	case s.Bad == "" && have == 0:
		return finding.Skipf("%s hides the %d GPUs of this node", s, n)
	case s.Bad == "":
		return finding.Passf("%s: %d of %d GPUs", s, have, n)
	}
	f := preflight.FailOr(torchrun && short(in, have), "%s names %s, which is not here: it and what is named behind it are hidden, %d GPUs are left", s, gpuWord(s.Bad), have).
		See("environment", "%s", s)
	for _, d := range facts.Devices {
		f = f.See("NVML", "%s %s", called(d), d.UUID)
	}
	return f.Breaking("processes without a GPU die, and the other nodes wait for them").
		Do("unset %s, or name GPUs of this node (nvidia-smi -L)", preflight.CUDAVisible)
}

// short tells that there are more processes than GPUs where each needs one.
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

// amdVisible judges AMD's lists. How many GPUs ROCm has cannot be told from the
// PCI bus, since one may be split into several; but ROCR_VISIBLE_DEVICES comes
// first, and HIP's list counts what that leaves (ROCm documentation, GPU isolation
// techniques).
func amdVisible(in preflight.Input) finding.Finding {
	amd := 0
	for _, c := range in.Node.Cards {
		if c.Vendor == "amd" {
			amd++
		}
	}
	if amd == 0 {
		return finding.Skipf("no GPU is known here")
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
				Breaking("two processes may get one GPU, or none any").Do("unset %s; or name each GPU once", l.name)
		}
	}
	if both && set && len(first) > 0 {
		for _, w := range second {
			if i, err := strconv.Atoi(w); err == nil && i >= len(first) {
				return finding.Warnf("%s=%s counts the GPUs that %s=%s leaves, and there is no GPU %d among these %d", name, hip, rocrList, rocr, i, len(first)).
					See("environment", "%s=%s %s=%s", rocrList, rocr, name, hip).
					Breaking("the GPUs that are named beyond them are hidden").Do("unset %s", rocrList)
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

// called is what a person finds a GPU by: its index, its address and the end of
// its UUID.
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
