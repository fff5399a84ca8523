package preflight

import (
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/internal/launcher"
)

// Processes returns the number of processes on this node according to the command line. ok is false
// where the number depends on facts that are not known here, such as the number of CPUs.
func Processes(in Input) (n int, ok bool) {
	v := in.Job.NProc
	if !v.Set {
		return 1, true // the default of torchrun, and of a plain program
	}
	if n, err := strconv.Atoi(v.V); err == nil && n > 0 {
		return n, true
	}
	gpus := VisibleGPUs(in).Count()
	return gpus, (v.V == "gpu" || v.V == "auto") && gpus > 0
}

// UsedGPUs are the GPUs that the job's processes see.
type UsedGPUs struct {
	Devices []gpu.GPU
	// Certain reports that each GPU belongs to some process, so the job dies of a GPU that does not work. With fewer
	// processes, or with a program that does not say how many it starts, the broken GPU may be unused.
	Certain bool
}

// GPUsOf returns the GPUs of the job, or why the checks can say nothing about them.
func GPUsOf(in Input) (u UsedGPUs, why string) {
	facts := in.Node.GPUs
	switch {
	case facts.Err != "":
		return u, "could not tell: the driver could not be asked"
	case len(facts.Devices) == 0 && facts.Present:
		return u, "the driver lists no GPU"
	case len(facts.Devices) == 0 && facts.Absent != "" && len(in.Node.WithoutDriver()) > 0:
		return u, "the GPUs of this node have no NVIDIA driver"
	case len(facts.Devices) == 0 && facts.Absent != "":
		return u, "no NVIDIA GPU here"
	case len(facts.Devices) == 0:
		return u, "the driver was not asked for the GPUs of this node"
	}
	s := VisibleGPUs(in)
	u.Devices = slices.DeleteFunc(slices.Clone(s.Devices), hidden)
	if len(u.Devices) == 0 {
		if s.Set {
			return u, s.String() + " hides the GPUs of this node"
		}
		return u, "this container has no GPU"
	}
	n, known := Processes(in)
	each := in.Job.NProc.V == "gpu" || in.Job.NProc.Set && known && n >= s.Count()
	u.Certain = in.Job.Line.Kind == launcher.Torchrun && each && inOrder(in, s)
	return u, ""
}

// Accelerators returns the GPUs and other accelerators that NVML does not know, that have a driver of this machine, and
// that the job's torch may use: AMD's need a build for ROCm, and the others a build or a plugin of their own, but none
// for CUDA. A display adapter counts only where there is nothing else.
func Accelerators(in Input) (out []fabric.Card) {
	s := in.Node.Software
	server := false
	for _, c := range in.Node.Cards {
		p, ok := in.Node.Function(c.PCI)
		torch := s.CUDA == "" && s.HIP == ""
		if c.Vendor == "amd" {
			torch = s.Torch.Version == "" || s.HIP != ""
		}
		if c.Vendor != "nvidia" && torch && (!ok || p.Driver != "" && p.Driver != "vfio-pci") {
			out = append(out, c)
			server = server || !p.ForDisplay()
		}
	}
	return slices.DeleteFunc(out, func(c fabric.Card) bool {
		p, _ := in.Node.Function(c.PCI)
		return server && p.ForDisplay()
	})
}

// inOrder reports whether CUDA numbers the GPUs as NVML does. By default CUDA puts the
// fastest first, which is the same order where all are of one model.
func inOrder(in Input, s Visible) bool {
	words := VisibleWords(s.List)
	if order, _ := in.Getenv("CUDA_DEVICE_ORDER"); order == "PCI_BUS_ID" || !s.Set || len(words) > 0 && IsUUID(words[0]) {
		return true
	}
	all := in.Node.GPUs.Devices
	return !slices.ContainsFunc(all, func(d gpu.GPU) bool {
		return d.Name != all[0].Name && d.Err == "" && all[0].Err == ""
	})
}

// CUDAVisible is the variable that lists the GPUs for CUDA.
const CUDAVisible = "CUDA_VISIBLE_DEVICES"

// Visible is what CUDA_VISIBLE_DEVICES leaves of the GPUs of this node. Its entries are
// all indices or all beginnings of UUIDs, like the first. CUDA ignores the entries after
// one that does not exist (CUDA C++ Programming Guide, CUDA Environment Variables). A
// repeated entry empties the list (_parse_visible_devices in torch/cuda/__init__.py).
type Visible struct {
	Set     bool
	List    string
	Devices []gpu.GPU // the GPUs whose facts are known, lost ones too
	Others  int       // entries without known facts: MIG slices, UUIDs that NVML does not report
	Bad     string    // the entry at which the list ends
	Twice   string    // the repeated entry
}

func (s Visible) String() string { return CUDAVisible + "=" + s.List }

// Hides reports whether the list leaves no GPU, on purpose.
func (s Visible) Hides() bool { return s.Set && len(VisibleWords(s.List)) == 0 }

// Count returns how many GPUs a process can see. A lost one does not count, and one in MIG mode without an instance.
func (s Visible) Count() int {
	if s.Twice != "" {
		return 0
	}
	n := s.Others
	for _, d := range s.Devices {
		if d.Err == "" && !Undivided(d) {
			n++
		}
	}
	return n
}

// Undivided reports whether a GPU is in MIG mode and is known to have no instance: CUDA does not list it.
func Undivided(d gpu.GPU) bool {
	return d.MIG == "on" && len(d.MIGDevices) == 0 &&
		!slices.ContainsFunc(d.Unknown, func(u gpu.Unknown) bool { return u.What == "mig_devices" })
}

// VisibleGPUs returns the GPUs that CUDA_VISIBLE_DEVICES leaves.
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

// VisibleWords returns the entries of a list, up to one that ends it on purpose: "-1",
// an empty one, or text such as Slurm's NoDevFiles. It reads numbers as strtoul does.
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

// IsUUID reports whether an entry of a list is a UUID.
func IsUUID(word string) bool {
	return strings.HasPrefix(word, "GPU-") || strings.HasPrefix(word, "MIG-")
}

// find returns the GPU of an entry, or nil and true where a GPU without known facts may
// match. A UUID may be cut short as long as it is unambiguous.
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

// hidden reports whether a GPU is visible to NVML but not given to this container.
func hidden(d gpu.GPU) bool { return d.Code == "NO_PERMISSION" || d.Code == "OPERATING_SYSTEM" }
