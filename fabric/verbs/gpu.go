package verbs

import "fmt"

// GPU is an NVIDIA GPU of this node, whose memory a test uses instead of the host's.
type GPU struct {
	PCI     string `json:"pci"`               // as in sysfs, 0000:1b:00.0
	Peermem bool   `json:"peermem,omitempty"` // nvidia_peermem or nv_peer_mem is loaded: no DMA-BUF needed
}

// How the HCA accesses a GPU's memory: by a DMA-BUF, or by its address through a kernel module.
const (
	byDMABuf  = "dmabuf"
	byPeermem = "peermem"
)

// The steps that prepare a GPU's memory.
const (
	stepLoadCUDA = "load libcuda"
	stepGPU      = "use the GPU"
	stepGPUShare = "let the HCA use the GPU's memory"
	stepGPUCopy  = "copy from or to the GPU's memory"
)

// ofLoad returns why libcuda could not be loaded: it is missing or broken, or lacks a function.
func ofLoad(missing bool, why string) *Error {
	e := &Error{Cause: NoCUDA, Step: stepLoadCUDA, Text: "the libcuda.so.1 here is too old: it lacks " + why}
	if missing {
		e.Text = why + ": NVIDIA's driver installs it; in a container, NVIDIA's toolkit does " +
			"(NVIDIA_DRIVER_CAPABILITIES=compute)"
	}
	return e
}

// cudaErrors are the errors of CUDA with a cause of their own (enum cudaError_enum in cuda.h).
var cudaErrors = map[int]struct {
	cause Cause
	words string
}{
	2:   {GPUBusy, "its memory is used up: nvidia-smi lists the processes"},
	34:  {NoCUDA, "this libcuda.so.1 is only for linking: remove its folder from LD_LIBRARY_PATH"},
	46:  {GPUBusy, "it is in exclusive or prohibited compute mode: end the process that uses it, or nvidia-smi -c 0"},
	100: {NoGPU, "CUDA sees no GPU: CUDA_VISIBLE_DEVICES hides them, or the container has none"},
	101: {NoGPU, "CUDA does not see it: CUDA_VISIBLE_DEVICES hides it, or the container lacks it"},
	214: {GPUFailed, "its memory has uncorrectable errors: see the kernel log; reset or replace it"},
	802: {GPUFailed, "its fabric is not up: systemctl status nvidia-fabricmanager"},
	803: {GPUFailed, "libcuda and the kernel's driver have different releases: reboot, or restart the container"},
	804: {GPUFailed, "the container's compatibility libcuda does not support this card or driver: remove it from " +
		"LD_LIBRARY_PATH"},
	999: {GPUFailed, "see the kernel log"},
}

// ofCUDA returns the failure of a call of CUDA, by the result's number and name.
func ofCUDA(step, pci, call string, code int, name string) *Error {
	if name == "" {
		name = fmt.Sprintf("CUDA error %d", code)
	}
	e := &Error{Cause: GPUFailed, Step: step, Text: fmt.Sprintf("GPU %s: %s: %s", pci, call, name)}
	if known, ok := cudaErrors[code]; ok {
		e.Cause = known.cause
		e.Text += " (" + known.words + ")"
	}
	return e
}

// noWayToGPU returns why the HCA cannot use the GPU's memory, neither by a DMA-BUF nor without.
func noWayToGPU(g GPU, device string, dmabuf, peermem error) *Error {
	e := &Error{Cause: NoGPUDirect, Step: stepGPUShare,
		Text: fmt.Sprintf("%s cannot use memory of GPU %s: by DMA-BUF: %v; ", device, g.PCI, dmabuf)}
	if peermem == nil {
		e.Text += "and nvidia_peermem is not loaded: modprobe nvidia_peermem"
	} else {
		e.Text += fmt.Sprintf("through nvidia_peermem: %v", peermem)
	}
	return e
}
