//go:build linux && cgo && !nonvml

package gpu

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// ask asks NVML. Nothing is called before Init has succeeded: without the
// library such a call ends the process with a symbol lookup error. Each
// function used here is older than the R535 driver, so none needs
// LookupSymbol.
func ask() Facts {
	lib := nvml.New()
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return Facts{Err: fmt.Sprintf("nvmlInit: %s%s", code(ret), meaning(ret))}
	}
	defer lib.Shutdown()

	f := Facts{Present: true}
	if v, ret := lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		f.Driver = v
	}
	if v, ret := lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
		f.CUDA = cudaVersion(v)
	}
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return Facts{Driver: f.Driver, CUDA: f.CUDA, Err: "nvmlDeviceGetCount: " + code(ret)}
	}
	for i := range n {
		f.Devices = append(f.Devices, device(lib, i))
	}
	return f
}

// device reads one GPU and keeps the first thing that it did not tell.
func device(lib nvml.Interface, i int) GPU {
	g := GPU{Index: i}
	dev, ret := lib.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		g.Err = "nvmlDeviceGetHandleByIndex: " + code(ret)
		return g
	}
	seen := func(call string, ret nvml.Return) bool {
		// NOT_SUPPORTED is a gap of the model (no own memory on an
		// integrated GPU), not a fault of the device.
		if ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_SUPPORTED && g.Err == "" {
			g.Err = call + ": " + code(ret)
		}
		return ret == nvml.SUCCESS
	}
	if v, ret := dev.GetName(); seen("nvmlDeviceGetName", ret) {
		g.Name = v
	}
	if v, ret := dev.GetUUID(); seen("nvmlDeviceGetUUID", ret) {
		g.UUID = v
	}
	if v, ret := dev.GetPciInfo(); seen("nvmlDeviceGetPciInfo", ret) {
		g.PCI = sysfsPCI(text(v.BusId[:]))
	}
	if v, ret := dev.GetMemoryInfo(); seen("nvmlDeviceGetMemoryInfo", ret) {
		g.Memory = v.Total
	}
	return g
}

// code is the name of the constant: NVML's own texts differ by version.
func code(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return noLibrary
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return noDriver
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "ERROR_LIB_RM_VERSION_MISMATCH"
	case nvml.ERROR_NO_PERMISSION:
		return "ERROR_NO_PERMISSION"
	case nvml.ERROR_GPU_IS_LOST:
		return "ERROR_GPU_IS_LOST"
	}
	return fmt.Sprintf("%s (NVML error %d)", ret.Error(), int(ret))
}

// meaning says what the usual failures of Init are.
func meaning(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return " (libnvidia-ml.so.1 is not on the library path; in a container: the utility capability)"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return " (the kernel module does not answer)"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return " (the library and the loaded kernel module differ: driver upgraded, not reloaded)"
	}
	return ""
}

// text is a C string in a fixed array.
func text(c []int8) string {
	var b []byte
	for _, ch := range c {
		if ch == 0 {
			break
		}
		b = append(b, byte(ch))
	}
	return string(b)
}
