package preflight

import (
	"slices"
	"strconv"
	"strings"

	"launch/fabric/gpu"
	"launch/internal/launcher"
)

// asked is the number of processes on this node, as far as the command line
// says it. ok is false where it depends on what is not known here (the number
// of CPUs, say).
func Processes(in Input) (n int, ok bool) {
	v := in.Job.NProc
	if !v.Set {
		return 1, true // torchrun's own default, and a plain program
	}
	if n, err := strconv.Atoi(v.V); err == nil && n > 0 {
		return n, true
	}
	gpus := VisibleGPUs(in).Count()
	return gpus, (v.V == "gpu" || v.V == "auto") && gpus > 0
}

// usage is the GPUs that the job's processes see.
type UsedGPUs struct {
	Devices []gpu.GPU
	// certain: every one of them is some process' own, so that the job dies of one
	// that does not work. With fewer processes, or with a program that does not
	// say how many it starts, it may be one that nobody takes.
	Certain bool
}

// used is the GPUs of the job, or why there is nothing to say about them.
func GPUsOf(in Input) (u UsedGPUs, why string) {
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
	s := VisibleGPUs(in)
	for _, d := range s.Devices {
		if !hidden(d) {
			u.Devices = append(u.Devices, d)
		}
	}
	if len(u.Devices) == 0 {
		if s.Set {
			return u, s.String() + " hides the GPUs of this node"
		}
		return u, "this container was given no GPU"
	}
	n, known := Processes(in)
	each := in.Job.NProc.V == "gpu" || in.Job.NProc.Set && known && n >= s.Count()
	u.Certain = in.Job.Line.Kind == launcher.Torchrun && each && inOrder(in, s)
	return u, ""
}

// inOrder tells that CUDA numbers the GPUs as NVML does. By itself it puts the
// fastest first, which is the same order where all are of one model.
func inOrder(in Input, s Visible) bool {
	words := VisibleWords(s.List)
	if order, _ := in.Getenv("CUDA_DEVICE_ORDER"); order == "PCI_BUS_ID" || !s.Set || len(words) > 0 && IsUUID(words[0]) {
		return true
	}
	all := in.Node.GPUs.Devices
	return !slices.ContainsFunc(all, func(d gpu.GPU) bool { return d.Name != all[0].Name && d.Err == "" && all[0].Err == "" })
}

// CUDAVisible is CUDA's list of GPUs.
const CUDAVisible = "CUDA_VISIBLE_DEVICES"

// selection is what CUDA_VISIBLE_DEVICES leaves of the GPUs of this node. It
// lists indices or beginnings of UUIDs, as the first one is; what stands behind
// the first one that does not exist is not seen (CUDA C++ Programming Guide, CUDA
// Environment Variables), and one that is named twice makes the list empty
// (_parse_visible_devices in torch/cuda/__init__.py).
type Visible struct {
	Set     bool
	List    string
	Devices []gpu.GPU // of which the facts are known, lost ones too
	Others  int       // that are named and of which nothing is known: MIG slices, UUIDs that NVML did not tell
	Bad     string    // the word at which the list ends
	Twice   string    // the word that is there twice
}

func (s Visible) String() string { return CUDAVisible + "=" + s.List }

// count is how many GPUs a process can see: one that is lost is not counted.
func (s Visible) Count() int {
	if s.Twice != "" {
		return 0
	}
	n := s.Others
	for _, d := range s.Devices {
		if d.Err == "" {
			n++
		}
	}
	return n
}

func VisibleGPUs(in Input) Visible {
	devices := in.Node.GPUs.Devices
	list, set := in.Getenv(CUDAVisible)
	if !set {
		return Visible{Devices: devices}
	}
	s := Visible{Set: true, List: list}
	words := VisibleWords(list)
	for i, word := range words {
		if slices.Contains(words[:i], word) {
			s.Twice = word
			return s
		}
		switch d, ok := find(devices, word); {
		case ok && d != nil:
			s.Devices = append(s.Devices, *d)
		case ok:
			s.Others++
		default:
			s.Bad = word
			return s
		}
	}
	return s
}

// visibleWords are the GPUs of a list, up to what ends it on purpose: "-1",
// nothing, or a word like Slurm's NoDevFiles. Numbers are read as strtoul does.
func VisibleWords(list string) []string {
	var out []string
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		if !IsUUID(word) {
			digits := strings.TrimLeft(strings.TrimPrefix(word, "+"), "0123456789")
			word = strings.TrimPrefix(strings.TrimSuffix(word, digits), "+")
			if word == "" || len(out) > 0 && IsUUID(out[0]) {
				break
			}
			if n, err := strconv.Atoi(word); err == nil { // 00 is 0
				word = strconv.Itoa(n)
			}
		} else if len(out) > 0 && !IsUUID(out[0]) {
			break
		}
		out = append(out, word)
	}
	return out
}

func IsUUID(word string) bool {
	return strings.HasPrefix(word, "GPU-") || strings.HasPrefix(word, "MIG-")
}

// find is the GPU that a word of the list means: nil and true where there may be
// one of which nothing is known. A UUID may be cut short where it is still only one
// GPU's.
func find(devices []gpu.GPU, word string) (*gpu.GPU, bool) {
	if strings.HasPrefix(word, "MIG-") {
		return nil, true
	}
	if !IsUUID(word) {
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
