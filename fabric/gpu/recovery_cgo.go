//go:build linux && cgo && !nonvml

package gpu

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// recovery asks what the driver wants done before the GPU is used again. A
// driver before R565 has no such field, which is NVML's answer for it and no
// fault.
func recovery() question {
	return by("recovery", "nvmlDeviceGetFieldValues", func(d nvml.Device, g *GPU) nvml.Return {
		values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
		if ret := d.GetFieldValues(values); ret != nvml.SUCCESS {
			return ret
		}
		n, ok := number(values[0])
		if !ok {
			return nvml.ERROR_NOT_SUPPORTED
		}
		g.Recovery = recoveryAction(int(n))
		return nvml.SUCCESS
	})
}
