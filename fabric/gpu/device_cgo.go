//go:build linux && cgo && !nonvml

package gpu

import (
	"math"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// question is one query of a device, and the ways to ask it, the best first.
type question struct {
	what string // the field, as the JSON names it
	ways []way
}

// way is one function of NVML, under each name that it has had, and how to store its answer.
type way struct {
	functions []string
	read      func(nvml.Device, *GPU) nvml.Return
}

// by returns a question with one way to ask it.
func by(what, function string, read func(nvml.Device, *GPU) nvml.Return) question {
	return question{what, []way{{[]string{function}, read}}}
}

// field is by for an answer that is stored as it is.
func field[T any](what, function string, read func(nvml.Device) (T, nvml.Return), to func(*GPU) *T) question {
	return by(what, function, func(d nvml.Device, g *GPU) (ret nvml.Return) { *to(g), ret = read(d); return })
}

// versions returns the names that a function has had, the newest first.
func versions(function string) []string {
	return []string{function + "_v3", function + "_v2", function}
}

// questions returns all queries of a device; those that identify it are first.
func (a *asker) questions() []question {
	type dev = nvml.Device
	return append(slices.Concat(identity(), health(), a.load()),
		recovery(),
		field("gen", "nvmlDeviceGetCurrPcieLinkGeneration", dev.GetCurrPcieLinkGeneration,
			func(g *GPU) *int { return &g.Gen }),
		field("max_gen", "nvmlDeviceGetMaxPcieLinkGeneration", dev.GetMaxPcieLinkGeneration,
			func(g *GPU) *int { return &g.MaxGen }),
		field("lanes", "nvmlDeviceGetCurrPcieLinkWidth", dev.GetCurrPcieLinkWidth, func(g *GPU) *int { return &g.Lanes }),
		field("max_lanes", "nvmlDeviceGetMaxPcieLinkWidth", dev.GetMaxPcieLinkWidth,
			func(g *GPU) *int { return &g.MaxLanes }),
		field("memory_numa", "nvmlDeviceGetNumaNodeId", dev.GetNumaNodeId, func(g *GPU) *int { return &g.MemoryNUMA }),
		by("persistence", "nvmlDeviceGetPersistenceMode", func(d dev, g *GPU) nvml.Return {
			mode, ret := d.GetPersistenceMode()
			g.Persistence = onOff(int(mode))
			return ret
		}),
		by("compute_mode", "nvmlDeviceGetComputeMode", func(d dev, g *GPU) nvml.Return {
			mode, ret := d.GetComputeMode()
			g.ComputeMode = computeMode(int(mode))
			return ret
		}),
		by("mig", "nvmlDeviceGetMigMode", func(d dev, g *GPU) nvml.Return {
			now, pending, ret := d.GetMigMode()
			g.MIG = onOff(now)
			if pending != now {
				g.MIGPending = onOff(pending)
			}
			return ret
		}),
		by("mig_devices", "nvmlDeviceGetMigDeviceHandleByIndex", a.migDevices),
		question{"processes", []way{{versions("nvmlDeviceGetComputeRunningProcesses"),
			func(d dev, g *GPU) nvml.Return { return a.processes(g, d.GetComputeRunningProcesses) }}}},
		question{"processes", []way{{versions("nvmlDeviceGetMPSComputeRunningProcesses"),
			func(d dev, g *GPU) nvml.Return { return a.processes(g, d.GetMPSComputeRunningProcesses) }}}},
		by("nvlink", "nvmlDeviceGetNvLinkState", a.nvlink),
		question{"fabric", []way{
			{[]string{"nvmlDeviceGetGpuFabricInfoV"}, fabricV}, {[]string{"nvmlDeviceGetGpuFabricInfo"}, fabricV1},
		}},
	)
}

// identity returns the queries that identify a device.
func identity() []question {
	type dev = nvml.Device
	return []question{
		field("name", "nvmlDeviceGetName", dev.GetName, func(g *GPU) *string { return &g.Name }),
		field("uuid", "nvmlDeviceGetUUID", dev.GetUUID, func(g *GPU) *string { return &g.UUID }),
		{"pci", []way{{versions("nvmlDeviceGetPciInfo"), func(d dev, g *GPU) nvml.Return {
			info, ret := d.GetPciInfo()
			g.PCI = busID(info)
			return ret
		}}}},
		field("minor", "nvmlDeviceGetMinorNumber", dev.GetMinorNumber, func(g *GPU) *int { return &g.Minor }),
		by("memory", "nvmlDeviceGetMemoryInfo", func(d dev, g *GPU) nvml.Return {
			m, ret := d.GetMemoryInfo()
			g.Memory, g.MemoryUsed = m.Total, m.Used
			return ret
		}),
	}
}

// health returns the queries of a device's own fault counters.
func health() []question {
	throttled := func(read func(nvml.Device) (uint64, nvml.Return)) func(nvml.Device, *GPU) nvml.Return {
		return func(d nvml.Device, g *GPU) nvml.Return {
			bits, ret := read(d)
			g.Throttle = throttle(bits)
			return ret
		}
	}
	errors := func(what string, kind nvml.MemoryErrorType, since nvml.EccCounterType, field func(*ECC) *int64) question {
		return by(what, "nvmlDeviceGetTotalEccErrors", func(d nvml.Device, g *GPU) nvml.Return {
			if g.ECC == nil { // without the mode there is nothing to count
				return nvml.ERROR_NOT_SUPPORTED
			}
			n, ret := d.GetTotalEccErrors(kind, since)
			if ret == nvml.SUCCESS {
				*field(g.ECC) = int64(min(n, math.MaxInt64))
			}
			return ret
		})
	}
	const corrected, uncorrected = nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.MEMORY_ERROR_TYPE_UNCORRECTED
	return []question{
		by("ecc", "nvmlDeviceGetEccMode", func(d nvml.Device, g *GPU) nvml.Return {
			now, pending, ret := d.GetEccMode()
			g.ECC = &ECC{Mode: onOff(int(now)), Pending: onOff(int(pending)),
				Corrected: -1, Uncorrected: -1, CorrectedEver: -1, UncorrectedEver: -1}
			return ret
		}),
		errors("ecc.corrected", corrected, nvml.VOLATILE_ECC, func(e *ECC) *int64 { return &e.Corrected }),
		errors("ecc.uncorrected", uncorrected, nvml.VOLATILE_ECC, func(e *ECC) *int64 { return &e.Uncorrected }),
		errors("ecc.corrected_ever", corrected, nvml.AGGREGATE_ECC, func(e *ECC) *int64 { return &e.CorrectedEver }),
		errors("ecc.uncorrected_ever", uncorrected, nvml.AGGREGATE_ECC, func(e *ECC) *int64 { return &e.UncorrectedEver }),
		by("remapped_rows", "nvmlDeviceGetRemappedRows", func(d nvml.Device, g *GPU) nvml.Return {
			corrected, uncorrected, pending, failed, ret := d.GetRemappedRows()
			g.Rows = &Rows{Corrected: corrected, Uncorrected: uncorrected, Pending: pending, Failed: failed}
			return ret
		}),
		{"throttle", []way{ // the second is the name before R535
			{[]string{"nvmlDeviceGetCurrentClocksEventReasons"}, throttled(nvml.Device.GetCurrentClocksEventReasons)},
			{[]string{"nvmlDeviceGetCurrentClocksThrottleReasons"}, throttled(nvml.Device.GetCurrentClocksThrottleReasons)},
		}},
	}
}

// load returns the queries of what a device does now, if they were asked for.
func (a *asker) load() []question {
	if !a.Load {
		return nil
	}
	watts := func(what, function string, read func(nvml.Device) (uint32, nvml.Return), to func(*Load) *float64) question {
		return by(what, function, func(d nvml.Device, g *GPU) nvml.Return {
			milliwatts, ret := read(d)
			if ret == nvml.SUCCESS {
				*to(g.Load) = float64(milliwatts) / 1000
			}
			return ret
		})
	}
	return []question{
		by("load.temperature", "nvmlDeviceGetTemperature", func(d nvml.Device, g *GPU) nvml.Return {
			degrees, ret := d.GetTemperature(nvml.TEMPERATURE_GPU)
			if ret == nvml.SUCCESS {
				g.Load.Temperature = int(degrees)
			}
			return ret
		}),
		watts("load.power", "nvmlDeviceGetPowerUsage", nvml.Device.GetPowerUsage,
			func(l *Load) *float64 { return &l.Power }),
		watts("load.power_limit", "nvmlDeviceGetEnforcedPowerLimit", nvml.Device.GetEnforcedPowerLimit,
			func(l *Load) *float64 { return &l.PowerLimit }),
		by("load.utilization", "nvmlDeviceGetUtilizationRates", func(d nvml.Device, g *GPU) nvml.Return {
			u, ret := d.GetUtilizationRates()
			if ret == nvml.SUCCESS {
				g.Load.Utilization, g.Load.MemoryBusy = int(u.Gpu), int(u.Memory)
			}
			return ret
		}),
	}
}

// processes adds the processes of one list to another list.
func (a *asker) processes(g *GPU, list func() ([]nvml.ProcessInfo, nvml.Return)) nvml.Return {
	found, ret := list()
	for _, p := range found {
		q := Process{PID: int(p.Pid)}
		if p.UsedGpuMemory != math.MaxUint64 { // NVML_VALUE_NOT_AVAILABLE
			q.Memory = p.UsedGpuMemory
		}
		if a.has("processes.name", "nvmlSystemGetProcessName") {
			if name, ret := a.lib.SystemGetProcessName(q.PID); ret == nvml.SUCCESS {
				q.Name = program(name)
			}
		}
		g.Processes = append(g.Processes, q)
	}
	return ret
}

// migDevices lists the slices of a GPU in MIG mode. Their numbers have gaps.
func (a *asker) migDevices(d nvml.Device, g *GPU) nvml.Return {
	if g.MIG != onOff(1) || !a.has("mig_devices", "nvmlDeviceGetMaxMigDeviceCount") {
		return nvml.ERROR_NOT_SUPPORTED
	}
	n, ret := d.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return ret
	}
	for i := range n {
		slice, ret := d.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if ret != nvml.SUCCESS {
			return ret
		}
		var part GPU
		for _, q := range identity() {
			if w, ok := a.way(q); ok && (q.what == "name" || q.what == "uuid" || q.what == "memory") {
				w.read(slice, &part)
			}
		}
		g.MIGDevices = append(g.MIGDevices, MIGDevice{UUID: part.UUID, Name: part.Name, Memory: part.Memory})
	}
	return nvml.SUCCESS
}

// busID returns an address as sysfs writes it. Old libraries fill in only the short form.
func busID(p nvml.PciInfo) string {
	if long := text(p.BusId[:]); long != "" {
		return sysfsPCI(long)
	}
	return sysfsPCI(text(p.BusIdLegacy[:]))
}

// recovery returns the query for the action before the next use, unknown to drivers before R565.
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
