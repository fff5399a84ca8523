package verbs

import "fmt"

// GPU is an NVIDIA GPU of this node whose memory a test sends from and receives
// into, instead of the host's.
type GPU struct {
	PCI     string `json:"pci"`               // as sysfs writes it, 0000:1b:00.0
	Peermem bool   `json:"peermem,omitempty"` // a module of the kernel lets the HCA have it without a DMA-BUF: nvidia_peermem, nv_peer_mem
}

// How the HCA got at the memory of a GPU: by a DMA-BUF of it, or by its address
// through a module of the kernel.
const (
	byDMABuf  = "dmabuf"
	byPeermem = "peermem"
)

// The steps of memory of a GPU.
const (
	stepLoadCUDA = "load libcuda"
	stepGPU      = "use the GPU"
	stepGPUShare = "let the HCA use the GPU's memory"
	stepGPUCopy  = "copy from or to the GPU's memory"
)

// ofLoad is why libcuda could not be used: it is not there, or something is
// wrong with it, or a function is missing.
func ofLoad(missing bool, why string) *Error {
	e := &Error{Cause: NoCUDA, Step: stepLoadCUDA, Text: "the libcuda.so.1 here is too old: it lacks " + why}
	if missing {
		e.Text = why + ": NVIDIA's driver brings it, and into a container its toolkit does (NVIDIA_DRIVER_CAPABILITIES=compute)"
	}
	return e
}

// The results of CUDA that are told apart (enum cudaError_enum in cuda.h).
var cudaErrors = map[int]struct {
	cause Cause
	words string
}{
	2:   {GPUBusy, "its memory is used up: nvidia-smi shows by whom"},
	34:  {NoCUDA, "this libcuda.so.1 is the one for linking alone: take its folder out of LD_LIBRARY_PATH"},
	46:  {GPUBusy, "it is in exclusive or prohibited compute mode: end who uses it, or nvidia-smi -c 0"},
	100: {NoGPU, "CUDA has none here: CUDA_VISIBLE_DEVICES, or the container was given none"},
	101: {NoGPU, "CUDA does not have it here: CUDA_VISIBLE_DEVICES hides it, or the container was not given it"},
	214: {GPUFailed, "its memory has errors that cannot be corrected: the kernel log; reset or replace it"},
	802: {GPUFailed, "its fabric is not up: systemctl status nvidia-fabricmanager"},
	803: {GPUFailed, "libcuda and the kernel's driver are of different releases: reboot, or start the container anew"},
	804: {GPUFailed, "the container's compatibility libcuda does not go with this card or driver: take it out of LD_LIBRARY_PATH"},
	999: {GPUFailed, "the kernel log says more"},
}

// ofCUDA is the failure of a call of CUDA by the result's number and name.
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

// noWayToGPU is why the HCA can have no memory of the GPU, from why there was no
// DMA-BUF, and why it did not go without.
func noWayToGPU(g GPU, device string, dmabuf, peermem error) *Error {
	e := &Error{Cause: NoGPUDirect, Step: stepGPUShare, Text: fmt.Sprintf("%s cannot use memory of GPU %s: by DMA-BUF: %v; ", device, g.PCI, dmabuf)}
	if peermem == nil {
		e.Text += "and nvidia_peermem is not loaded: modprobe nvidia_peermem"
	} else {
		e.Text += fmt.Sprintf("through nvidia_peermem: %v", peermem)
	}
	return e
}
