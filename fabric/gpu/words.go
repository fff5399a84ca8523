package gpu

import (
	"fmt"
	"path"
	"strings"
)

// NVML's return values (nvmlReturn_t in nvml.h) that this package acts on.
const (
	driverNotLoaded = 9
	libraryNotFound = 12
	gpuIsLost       = 15
	resetRequired   = 16
)

// trouble is one of NVML's errors: its name, and what to do about it.
type trouble struct{ name, means string }

// troubles are the errors that a user can see. NVML's own texts suggest no fix.
func troubles() map[int]trouble {
	const reset = "stop what uses this GPU, then nvidia-smi --gpu-reset, or reboot"
	const log = "see: dmesg | grep -e NVRM -e Xid"
	return map[int]trouble{
		0:               {"SUCCESS", ""},
		1:               {"UNINITIALIZED", ""},
		2:               {"INVALID_ARGUMENT", ""},
		3:               {"NOT_SUPPORTED", "this GPU does not support it"},
		4:               {"NO_PERMISSION", "this user or container may not access the device: see /dev/nvidia*"},
		6:               {"NOT_FOUND", ""},
		7:               {"INSUFFICIENT_SIZE", ""},
		8:               {"INSUFFICIENT_POWER", "a power cable of the board is not attached"},
		driverNotLoaded: {"DRIVER_NOT_LOADED", "the kernel module does not answer: modprobe nvidia; " + log},
		10:              {"TIMEOUT", log},
		11:              {"IRQ_ISSUE", "its interrupts do not arrive: " + log},
		libraryNotFound: {"LIBRARY_NOT_FOUND",
			"libnvidia-ml.so.1 is missing or not on the library path; a container needs NVIDIA_DRIVER_CAPABILITIES with " +
				"utility"},
		13: {"FUNCTION_NOT_FOUND", "the driver is too old for this query"},
		14: {"CORRUPTED_INFOROM", "the board's infoROM is corrupt: replace the board"},
		gpuIsLost: {"GPU_IS_LOST", "it fell off the bus: reboot; if it happens again, reseat or replace the board; " +
			log},
		resetRequired: {"RESET_REQUIRED", reset},
		17:            {"OPERATING_SYSTEM", "the operating system or a cgroup denies this process access to /dev/nvidia*"},
		18: {"LIB_RM_VERSION_MISMATCH",
			"library and kernel module differ, as after a driver upgrade: reboot; a container's image must not have its own " +
				"libnvidia-ml.so.1"},
		19: {"IN_USE", "another process uses it"},
		20: {"MEMORY", "the machine is out of memory"},
		23: {"INSUFFICIENT_RESOURCES", log},
		25: {"ARGUMENT_VERSION_MISMATCH", "the driver is too old for this query"},
		27: {"NOT_READY", "the driver is still starting: try again in a minute; with NVSwitches: systemctl " +
			"status nvidia-fabricmanager"},
		28:  {"GPU_NOT_FOUND", "the driver has no GPU"},
		29:  {"INVALID_STATE", reset},
		999: {"UNKNOWN", "an error inside the driver: " + log},
	}
}

// nameOf returns the name of NVML's constant without its prefix.
func nameOf(code int) string {
	if t, ok := troubles()[code]; ok {
		return t.name
	}
	return fmt.Sprintf("error %d", code)
}

// sentence describes the result of a call: its name, and what to do.
func sentence(call string, code int) string {
	s := call + ": " + nameOf(code)
	if means := troubles()[code].means; means != "" {
		s += " (" + means + ")"
	}
	return s
}

// throttle names the bits of nvmlClocksEventReasons (nvml.h). hw_slowdown, sw_thermal, hw_thermal
// and power_brake mean a fault, or a lack of power or cooling; healthy GPUs have the others too.
func throttle(bits uint64) []string {
	names := []string{"idle", "application_clocks", "sw_power_cap", "hw_slowdown", "sync_boost",
		"sw_thermal", "hw_thermal", "power_brake", "display_clocks"}
	var out []string
	for i := range 64 {
		switch {
		case bits>>i&1 == 0:
		case i < len(names):
			out = append(out, names[i])
		default:
			out = append(out, fmt.Sprintf("bit_%d", i))
		}
	}
	return out
}

// word returns the word for one of NVML's numbers, or the number, since a newer driver may have more.
func word(n int, words ...string) string {
	if n >= 0 && n < len(words) {
		return words[n]
	}
	return fmt.Sprintf("unknown_%d", n)
}

func onOff(n int) string { return word(n, "off", "on") }

func computeMode(n int) string {
	return word(n, "default", "exclusive_thread", "prohibited", "exclusive_process")
}

// fabricState names nvmlGpuFabricState_t; 0 is a GPU in no fabric.
func fabricState(n int) string { return word(n, "", "not_started", "in_progress", "completed") }

// fabricHealth names the summary of nvmlGpuFabricInfo_v3_t; 0 means none.
func fabricHealth(n int) string { return word(n, "", "healthy", "unhealthy", "limited_capacity") }

// fabricProblems returns the problems in the mask of nvmlGpuFabricInfo_v2_t: four of two bits each, of
// which 1 is yes; then four bits for the configuration (NVML_GPU_FABRIC_HEALTH_MASK_*).
func fabricProblems(mask uint32) []string {
	var out []string
	for i, name := range []string{"degraded_bandwidth", "route_recovery", "route_unhealthy", "access_timeout_recovery"} {
		if mask>>(2*i)&3 == 1 {
			out = append(out, name)
		}
	}
	if n := int(mask >> 8 & 0xf); n > 1 {
		out = append(out, word(n, "", "", "wrong_system_guid", "wrong_chassis_serial", "no_partition", "too_few_nvlinks",
			"incompatible_firmware", "invalid_location"))
	}
	return out
}

// p2p names nvmlGpuP2PStatus_t.
func p2p(n int) string {
	return word(n, "ok", "chipset", "gpu", "topology", "disabled", "not_supported", "unknown")
}

// distance names nvmlGpuTopologyLevel_t, which counts in tens.
func distance(n int) string {
	if n%10 != 0 {
		return word(n)
	}
	return word(n/10, "INTERNAL", "PIX", "PXB", "PHB", "NODE", "SYS")
}

// remoteType names nvmlIntNvLinkDeviceType_t; 255 is unknown.
func remoteType(n int) string {
	if n == 255 {
		return ""
	}
	return word(n, "gpu", "npu", "switch")
}

// recoveryAction names nvmlDeviceGpuRecoveryAction_t. go-nvml's headers lack the last three.
func recoveryAction(n int) string {
	return word(n, "", "reset", "reboot", "drain_p2p", "drain_and_reset", "recover_imex_domain", "bus_reset",
		"system_reboot")
}

// uuid writes 16 bytes as a UUID; "" where they are zero.
func uuid(b [16]byte) string {
	if b == [16]byte{} {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// program returns a program's name. NVML has its first argument, or its whole command line.
func program(name string) string {
	fields := strings.Fields(name)
	if len(fields) == 0 {
		return ""
	}
	return path.Base(fields[0])
}
