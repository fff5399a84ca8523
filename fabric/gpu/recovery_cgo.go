//go:build linux && cgo && !nonvml

package gpu

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// recovery returns the query for the action that the driver requires before the next
// use. A driver before R565 has no such field, which is not an error.
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
