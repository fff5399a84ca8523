package preflight

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/fabric/gpu"
	"launch/internal/finding"
	"launch/internal/launcher"
)

// cudaList and its like are lists of GPUs. CUDA reads the first, ROCm the other
// two and, where HIP's is not set, the first too.
const (
	cudaList = "CUDA_VISIBLE_DEVICES"
	hipList  = "HIP_VISIBLE_DEVICES"
	rocrList = "ROCR_VISIBLE_DEVICES"
)

// selection is what CUDA_VISIBLE_DEVICES leaves of the GPUs of this node. It
// lists indices or beginnings of UUIDs, as the first one is; what stands behind
// the first one that does not exist is not seen (CUDA C++ Programming Guide, CUDA
// Environment Variables), and one that is named twice makes the list empty
// (_parse_visible_devices in torch/cuda/__init__.py).
type selection struct {
	set     bool
	list    string
	devices []gpu.GPU // of which the facts are known, lost ones too
	others  int       // that are named and of which nothing is known: MIG slices, UUIDs that NVML did not tell
	bad     string    // the word at which the list ends
	twice   string    // the word that is there twice
}

func (s selection) String() string { return cudaList + "=" + s.list }

// count is how many GPUs a process can see: one that is lost is not counted.
func (s selection) count() int {
	if s.twice != "" {
		return 0
	}
	n := s.others
	for _, d := range s.devices {
		if d.Err == "" {
			n++
		}
	}
	return n
}

func seen(in Input) selection {
	devices := in.Node.GPUs.Devices
	list, set := in.env(cudaList)
	if !set {
		return selection{devices: devices}
	}
	s := selection{set: true, list: list}
	words := visibleWords(list)
	for i, word := range words {
		if slices.Contains(words[:i], word) {
			s.twice = word
			return s
		}
		switch d, ok := find(devices, word); {
		case ok && d != nil:
			s.devices = append(s.devices, *d)
		case ok:
			s.others++
		default:
			s.bad = word
			return s
		}
	}
	return s
}

// visibleWords are the GPUs of a list, up to what ends it on purpose: "-1",
// nothing, or a word like Slurm's NoDevFiles. Numbers are read as strtoul does.
func visibleWords(list string) []string {
	var out []string
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		if !isUUID(word) {
			digits := strings.TrimLeft(strings.TrimPrefix(word, "+"), "0123456789")
			word = strings.TrimPrefix(strings.TrimSuffix(word, digits), "+")
			if word == "" || len(out) > 0 && isUUID(out[0]) {
				break
			}
			if n, err := strconv.Atoi(word); err == nil { // 00 is 0
				word = strconv.Itoa(n)
			}
		} else if len(out) > 0 && !isUUID(out[0]) {
			break
		}
		out = append(out, word)
	}
	return out
}

func isUUID(word string) bool {
	return strings.HasPrefix(word, "GPU-") || strings.HasPrefix(word, "MIG-")
}

// find is the GPU that a word of the list means: nil and true where there may be
// one of which nothing is known. A UUID may be cut short where it is still only one
// GPU's.
func find(devices []gpu.GPU, word string) (*gpu.GPU, bool) {
	if strings.HasPrefix(word, "MIG-") {
		return nil, true
	}
	if !isUUID(word) {
		i, err := strconv.Atoi(word)
		if err != nil || i >= len(devices) {
			return nil, false
		}
		if slices.ContainsFunc(devices, hidden) { // CUDA counts only those that it may open
			return nil, true
		}
		return &devices[i], true
	}
	var found *gpu.GPU
	unknown := false
	for i, d := range devices {
		switch {
		case d.UUID == "":
			unknown = true
		case strings.HasPrefix(d.UUID, word) && found != nil:
			return nil, false
		case strings.HasPrefix(d.UUID, word):
			found = &devices[i]
		}
	}
	return found, found != nil || unknown
}

// hidden tells a GPU that NVML shows and this container was not given.
func hidden(d gpu.GPU) bool { return d.Code == "NO_PERMISSION" || d.Code == "OPERATING_SYSTEM" }

func gpuVisible(_ context.Context, in Input) finding.Finding {
	facts := in.Node.GPUs
	if len(facts.Devices) == 0 {
		return amdVisible(in)
	}
	s := seen(in)
	n, have := len(facts.Devices), s.count()
	torchrun := in.Job.Line.Kind == launcher.Torchrun
	switch {
	case !s.set:
		return finding.Passf("%s is not set: all %d GPUs", cudaList, n)
	case s.twice != "":
		return failOr(torchrun, "%s names GPU %s twice, which hides all GPUs", s, s.twice).See("environment", "%s", s).
			Breaking("torch finds no GPU").Do("unset %s; or name each GPU once", cudaList)
	case s.bad == "" && have == 0 && torchrun && in.Job.NProc.V == "gpu":
		return finding.Failf("one process per GPU is asked for, and %s hides the %d GPUs of this node", s, n).See("environment", "%s", s).
			Breaking("torchrun stops here, and the other nodes wait for it").Do("unset %s", cudaList)
	case s.bad == "" && have == 0:
		return finding.Skipf("%s hides the %d GPUs of this node", s, n)
	case s.bad == "":
		return finding.Passf("%s: %d of %d GPUs", s, have, n)
	}
	f := failOr(torchrun && short(in, have), "%s names %s, which is not here: it and what is named behind it are hidden, %d GPUs are left", s, gpuWord(s.bad), have).
		See("environment", "%s", s)
	for _, d := range facts.Devices {
		f = f.See("NVML", "%s %s", called(d), d.UUID)
	}
	return f.Breaking("processes without a GPU die, and the other nodes wait for them").
		Do("unset %s, or name GPUs of this node (nvidia-smi -L)", cudaList)
}

// short tells that there are more processes than GPUs where each needs one.
func short(in Input, have int) bool {
	if in.Job.NProc.V == "gpu" {
		return have == 0
	}
	n, ok := asked(in)
	return in.Job.NProc.Set && ok && n > have
}

func gpuWord(word string) string {
	if isUUID(word) {
		return word
	}
	return "GPU " + word
}

// amdVisible judges AMD's lists. How many GPUs ROCm has cannot be told from the
// PCI bus, since one may be split into several; but ROCR_VISIBLE_DEVICES comes
// first, and HIP's list counts what that leaves (ROCm documentation, GPU isolation
// techniques).
func amdVisible(in Input) finding.Finding {
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
	hip, set := in.env(name)
	if !set {
		name = cudaList
		hip, set = in.env(name)
	}
	rocr, both := in.env(rocrList)
	first, second := visibleWords(rocr), visibleWords(hip)
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

// failOr is a failure where the job is certain to die of it, else a warning.
func failOr(certain bool, format string, a ...any) finding.Finding {
	if certain {
		return finding.Failf(format, a...)
	}
	return finding.Warnf(format, a...)
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
