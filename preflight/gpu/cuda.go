package gpu

import (
	"context"
	"path"
	"strconv"
	"strings"

	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/preflight"
)

// gpuDriver judges a driver that could not be asked at all. Only where library
// and kernel module differ nothing can work: CUDA refuses (error 803), and so does
// NCCL, which asks NVML by itself.
func gpuDriver(_ context.Context, in preflight.Input) finding.Finding {
	facts := in.Node.GPUs
	switch {
	case facts.Err == "" && facts.Absent != "":
		return finding.Skipf("no NVIDIA GPU here: %s", facts.Absent)
	case facts.Err == "" && !facts.Present:
		return finding.Skipf("the GPUs of this node were not asked for")
	case facts.Err == "" && facts.Driver == "":
		return finding.Passf("NVML answers")
	case facts.Err == "":
		return finding.Passf("driver %s", facts.Driver)
	case facts.Code == "LIB_RM_VERSION_MISMATCH":
		return preflight.FailOr(everyCard(in), "the GPU driver's library and its kernel module are of different versions").See("NVML", "%s", facts.Err).
			Breaking("CUDA and NCCL refuse to start").
			Do("reboot this node, or with nothing on the GPUs: sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia\n" +
				"in a container: the image must not bring a libnvidia-ml.so.1 or libcuda.so.1 of its own")
	}
	f := finding.Warnf("an NVIDIA driver is here, but it could not be asked").See("NVML", "%s", facts.Err).
		Breaking("a process that uses CUDA may hang or stop here").Do("nvidia-smi")
	for _, x := range facts.XIDs {
		f = f.See("kernel log", "%s", xidLine(x))
	}
	return f
}

// everyCard tells that the job needs the GPUs of this node, by their number on
// the PCI bus: NVML has not told.
func everyCard(in preflight.Input) bool {
	cards := 0
	for _, c := range in.Node.Cards {
		if c.Vendor == "nvidia" {
			cards++
		}
	}
	n, err := strconv.Atoi(in.Job.NProc.V)
	return in.Job.Line.Kind == launcher.Torchrun && cards > 0 && (in.Job.NProc.V == "gpu" || err == nil && n == cards)
}

// release is a family of CUDA runtimes and the first driver that serves it.
type release struct {
	major, minor int // minor -1: all of the major release
	driver       []int
}

// releases: "Minor Version Compatibility" and "CUDA Toolkit 10.x Minimum Required
// Driver Versions" in NVIDIA's CUDA Compatibility document
// (docs.nvidia.com/deploy/cuda-compatibility), with the full numbers of table 2 in
// the CUDA Toolkit Release Notes. From CUDA 11 on a runtime works with every driver
// of its major release and later ones.
func releases() []release {
	return []release{
		{13, -1, []int{580, 65, 6}},  // 13.x: >= 580.65.06
		{12, -1, []int{525, 60, 13}}, // 12.x: >= 525.60.13
		{11, -1, []int{450, 80, 2}},  // 11.x: >= 450.80.02
		{11, 0, []int{450, 36, 6}},   // 11.0 came with it, before the rule
		{10, 2, []int{440, 33, 0}},   // 10.2: >= 440.33
		{10, 1, []int{418, 39, 0}},   // 10.1: >= 418.39
		{10, 0, []int{410, 48, 0}},   // 10.0: >= 410.48
	}
}

// oldest is the first driver that serves a runtime; nil where the table has none.
func oldest(major, minor int) (driver []int) {
	for _, r := range releases() {
		if r.major == major && (r.minor == minor || r.minor < 0 && driver == nil) {
			driver = r.driver
		}
	}
	return driver
}

// gpuCUDA compares the CUDA that torch was built with to the driver. NVML's own
// word on the newest CUDA that it serves goes first.
func gpuCUDA(_ context.Context, in preflight.Input) finding.Finding {
	facts, runtime := in.Node.GPUs, in.Node.Software.CUDA
	u, why := preflight.GPUsOf(in)
	if why != "" {
		return finding.Skipf("%s", why)
	}
	numbers := versionNumbers(runtime)
	switch {
	case in.Node.Software.HIP != "":
		return finding.Skipf("this torch is for AMD's GPUs")
	case len(numbers) < 2:
		return finding.Skipf("which CUDA the command brings is not known")
	}
	major := numbers[0]
	if serves := versionNumbers(facts.CUDA); len(serves) > 1 && (serves[0] > major || serves[0] == major && (major > 10 || serves[1] >= numbers[1])) {
		return finding.Passf("CUDA %s, the driver serves %s", runtime, facts.CUDA)
	}
	need := oldest(major, numbers[1])
	have := versionNumbers(facts.Driver)
	switch {
	case need == nil || len(have) == 0:
		return finding.Skipf("could not tell: which driver CUDA %s needs is not known, or this driver's version", runtime)
	case !olderThan(have, need):
		return finding.Passf("CUDA %s, driver %s", runtime, facts.Driver)
	}
	compat, known := forwardCompat(in, runtime)
	f := preflight.FailOr(u.Certain && known && compat == "", "driver %s is too old for CUDA %s, which torch brings", facts.Driver, runtime).
		See("NVML", "driver %s, CUDA up to %s", facts.Driver, facts.CUDA).
		See(in.Node.Software.Torch.Path, "torch %s, CUDA %s", in.Node.Software.Torch.Version, runtime).
		Breaking("CUDA does not start (\"driver version is insufficient for CUDA runtime version\"), and torch sees no GPU").
		Do("a driver of %d or later on this node, or a torch for CUDA %d", need[0], served(have))
	if compat != "" {
		f = f.See(compat, "a libcuda of its own is here: NVIDIA's forward compatibility package may make up for it")
	}
	return f
}

// served is the newest major release of CUDA that a driver serves.
func served(driver []int) int {
	for _, r := range releases() {
		if !olderThan(driver, r.driver) {
			return r.major
		}
	}
	return releases()[len(releases())-1].major
}

// forwardCompat is a libcuda.so.1 that a program may load in place of the
// driver's (CUDA Compatibility, "Forward Compatibility"). known is false where
// nothing can be looked for.
func forwardCompat(in preflight.Input, runtime string) (file string, known bool) {
	if in.Exists == nil {
		return "", false
	}
	paths, _ := in.Getenv("LD_LIBRARY_PATH")
	dirs := append(strings.Split(paths, ":"), "/usr/local/cuda/compat", "/usr/local/cuda-"+runtime+"/compat", "/usr/local/cuda/compat/lib.real", "/usr/local/cuda/compat/lib")
	for _, dir := range dirs {
		if file := path.Join(dir, "libcuda.so.1"); dir != "" && in.Exists(file) {
			return file, true
		}
	}
	return "", true
}

// versionNumbers are the numbers of "580.65.06"; nil of anything else.
func versionNumbers(s string) []int {
	var out []int
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil
		}
		out = append(out, n)
	}
	return out
}

func olderThan(a, b []int) bool {
	for i := range b {
		x := 0
		if i < len(a) {
			x = a[i]
		}
		if x != b[i] {
			return x < b[i]
		}
	}
	return false
}
