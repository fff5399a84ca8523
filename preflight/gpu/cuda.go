package gpu

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/preflight"
)

// gpuDriver judges a driver that could not be asked at all. It fails only where library and kernel
// module differ: then CUDA refuses (error 803), and so does NCCL, which asks NVML itself.
func gpuDriver(_ context.Context, in preflight.Input) finding.Finding {
	facts := in.Node.GPUs
	if f, bad := driverless(in); bad {
		return f
	}
	switch {
	case facts.Err == "" && facts.Absent != "" && len(in.Node.WithoutDriver()) > 0:
		return finding.Skipf("no NVIDIA driver here: %s", facts.Absent)
	case facts.Err == "" && facts.Absent != "":
		return finding.Skipf("no NVIDIA GPU here: %s", facts.Absent)
	case facts.Err == "" && !facts.Present:
		return finding.Skipf("the driver was not asked for the GPUs of this node")
	case facts.Err == "" && facts.Driver == "":
		return finding.Passf("NVML answers")
	case facts.Err == "":
		return finding.Passf("driver %s", facts.Driver)
	case facts.Code == "LIB_RM_VERSION_MISMATCH":
		return finding.FailOr(everyCard(in), "the GPU driver's library and its kernel module have different versions").
			See("NVML", "%s", facts.Err).Breaking("CUDA and NCCL refuse to start").
			Do("reboot this node, or while no process uses the GPUs: " +
				"sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia\n" +
				"in a container: remove libnvidia-ml.so.1 and libcuda.so.1 from the image")
	}
	f := finding.Warnf("this node has an NVIDIA driver, but it could not be asked").See("NVML", "%s", facts.Err).
		Breaking("a process that uses CUDA may hang or stop").
		Do("nvidia-smi; dmesg | grep NVRM   # shows why; where library and module differ in their version, reboot this node")
	for _, x := range facts.XIDs {
		f = f.See("kernel log", "%s", xidLine(x))
	}
	return f
}

// everyCard reports whether the job needs all GPUs of this node, counted on the PCI bus, since NVML does not answer.
func everyCard(in preflight.Input) bool {
	all := cards(in, "nvidia")
	n, err := strconv.Atoi(in.Job.NProc.V)
	return in.Job.Line.Kind == launcher.Torchrun && all > 0 && (in.Job.NProc.V == "gpu" || err == nil && n == all)
}

// cards returns the number of a vendor's GPUs on the PCI bus.
func cards(in preflight.Input, vendor string) (n int) {
	for _, c := range in.Node.Cards {
		if c.Vendor == vendor {
			n++
		}
	}
	return n
}

// release is a family of CUDA runtimes and the first driver that supports it.
type release struct {
	major, minor int // minor -1: all of the major release
	driver       []int
}

// releases returns the families. Sources: "Minor Version Compatibility" and "CUDA Toolkit 10.x Minimum Required
// Driver Versions" in NVIDIA's CUDA Compatibility document (docs.nvidia.com/deploy/cuda-compatibility), and table
// 2 of the CUDA Toolkit Release Notes for the full numbers. From CUDA 11 on, a runtime works with every driver of
// its major release and of later ones.
func releases() []release {
	return []release{
		{13, -1, []int{580, 65, 6}},  // 13.x: >= 580.65.06
		{12, -1, []int{525, 60, 13}}, // 12.x: >= 525.60.13
		{11, -1, []int{450, 80, 2}},  // 11.x: >= 450.80.02
		{11, 0, []int{450, 36, 6}},   // 11.0 is older than the rule
		{10, 2, []int{440, 33, 0}},   // 10.2: >= 440.33
		{10, 1, []int{418, 39, 0}},   // 10.1: >= 418.39
		{10, 0, []int{410, 48, 0}},   // 10.0: >= 410.48
	}
}

// oldest returns the first driver that supports a runtime; nil if the table has none.
func oldest(major, minor int) (driver []int) {
	for _, r := range releases() {
		if r.major == major && (r.minor == minor || r.minor < 0 && driver == nil) {
			driver = r.driver
		}
	}
	return driver
}

// gpuCUDA compares torch's CUDA to the driver. What NVML reports as the newest supported CUDA counts first.
func gpuCUDA(_ context.Context, in preflight.Input) finding.Finding {
	facts, runtime := in.Node.GPUs, in.Node.Software.CUDA
	u, _ := preflight.GPUsOf(in)
	numbers := versionNumbers(runtime)
	switch {
	case in.Node.Software.HIP != "":
		return finding.Skipf("this torch is for AMD GPUs")
	case len(numbers) < 2:
		return finding.Skipf("the CUDA version of the command is not known")
	}
	major := numbers[0]
	if serves := versionNumbers(facts.CUDA); len(serves) > 1 &&
		(serves[0] > major || serves[0] == major && (major > 10 || serves[1] >= numbers[1])) {
		return finding.Passf("CUDA %s, the driver supports %s", runtime, facts.CUDA)
	}
	need := oldest(major, numbers[1])
	have := versionNumbers(facts.Driver)
	switch {
	case need == nil || len(have) == 0:
		return finding.Skipf("could not tell: the driver that CUDA %s needs, or the version of this driver, is not known",
			runtime)
	case !olderThan(have, need):
		return finding.Passf("CUDA %s, driver %s", runtime, facts.Driver)
	}
	compat, known := forwardCompat(in, runtime)
	f := finding.FailOr(u.Certain && known && compat == "", "driver %s is too old for CUDA %s, which torch uses",
		facts.Driver, runtime).See("NVML", "driver %s, CUDA up to %s", facts.Driver, facts.CUDA).
		See(in.Node.Software.Torch.Path, "torch %s, CUDA %s", in.Node.Software.Torch.Version, runtime).
		Breaking("CUDA does not start (\"driver version is insufficient for CUDA runtime version\"), and torch sees no GPU").
		Do("install driver %d or later on this node, or a torch for CUDA %d", need[0], served(have))
	if compat != "" {
		f = f.See(compat, "a separate libcuda: NVIDIA's forward compatibility package may support this CUDA")
	}
	return f
}

// served returns the newest major release of CUDA that a driver supports.
func served(driver []int) int {
	for _, r := range releases() {
		if !olderThan(driver, r.driver) {
			return r.major
		}
	}
	return releases()[len(releases())-1].major
}

// forwardCompat returns a libcuda.so.1 that a program may load in place of the driver's (CUDA
// Compatibility, "Forward Compatibility"). known is false where this run looks at no files.
func forwardCompat(in preflight.Input, runtime string) (file string, known bool) {
	if in.Exists == nil {
		return "", false
	}
	paths, _ := in.Getenv("LD_LIBRARY_PATH")
	dirs := append(strings.Split(paths, ":"), "/usr/local/cuda/compat", "/usr/local/cuda-"+runtime+"/compat",
		"/usr/local/cuda/compat/lib.real", "/usr/local/cuda/compat/lib")
	for _, dir := range dirs {
		if file := path.Join(dir, "libcuda.so.1"); dir != "" && in.Exists(file) {
			return file, true
		}
	}
	return "", true
}

// versionNumbers returns the numbers of "580.65.06"; nil for other forms.
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

// olderThan compares as many numbers as b has; a missing one is 0.
func olderThan(a, b []int) bool {
	a = append(slices.Clone(a), make([]int, len(b))...)
	return slices.Compare(a[:len(b)], b) < 0
}
