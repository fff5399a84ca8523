package gpu

import (
	"fmt"
	"path"
	"strings"
)

// What NVML answers, by the numbers of nvml.h (nvmlReturn_t): those that this
// package acts on.
const (
	success         = 0
	notSupported    = 3
	driverNotLoaded = 9
	libraryNotFound = 12
	gpuIsLost       = 15
	resetRequired   = 16
)

// trouble is one of NVML's answers: its name, and what it means for whoever has
// to mend it.
type trouble struct{ name, means string }

// troubles are the answers that a person can meet. NVML's own texts
// differ by version and do not say what to do.
func troubles() map[int]trouble {
	const reset = "stop what uses this GPU, then nvidia-smi --gpu-reset, or reboot"
	const log = "dmesg | grep -e NVRM -e Xid tells more"
	return map[int]trouble{
		success:         {"SUCCESS", ""},
		1:               {"UNINITIALIZED", ""},
		2:               {"INVALID_ARGUMENT", ""},
		notSupported:    {"NOT_SUPPORTED", "this GPU has no such thing"},
		4:               {"NO_PERMISSION", "this user may not ask, or this container was not given the device: look at /dev/nvidia*"},
		6:               {"NOT_FOUND", ""},
		7:               {"INSUFFICIENT_SIZE", ""},
		8:               {"INSUFFICIENT_POWER", "a power cable of the board is not attached"},
		driverNotLoaded: {"DRIVER_NOT_LOADED", "the kernel module does not answer: modprobe nvidia; " + log},
		10:              {"TIMEOUT", log},
		11:              {"IRQ_ISSUE", "its interrupts do not arrive: " + log},
		libraryNotFound: {"LIBRARY_NOT_FOUND", "libnvidia-ml.so.1 cannot be opened or is not on the library path; in a container: NVIDIA_DRIVER_CAPABILITIES must hold utility"},
		13:              {"FUNCTION_NOT_FOUND", "the driver is older than the question"},
		14:              {"CORRUPTED_INFOROM", "the board's own records are damaged: it is to be replaced"},
		gpuIsLost:       {"GPU_IS_LOST", "it fell off the bus: reboot; when it happens again, reseat or replace the board; " + log},
		resetRequired:   {"RESET_REQUIRED", reset},
		17:              {"OPERATING_SYSTEM", "the operating system or a cgroup keeps this process from /dev/nvidia*"},
		18:              {"LIB_RM_VERSION_MISMATCH", "library and loaded kernel module differ, as after an upgrade of the driver: reboot; in a container: the image must not bring a libnvidia-ml.so.1 of its own"},
		19:              {"IN_USE", "another process holds it"},
		20:              {"MEMORY", "the machine is out of memory"},
		23:              {"INSUFFICIENT_RESOURCES", log},
		25:              {"ARGUMENT_VERSION_MISMATCH", "the driver is older than the question"},
		27:              {"NOT_READY", "the driver has not finished starting: try again in a minute; with NVSwitches: systemctl status nvidia-fabricmanager"},
		28:              {"GPU_NOT_FOUND", "the driver has no GPU"},
		29:              {"INVALID_STATE", reset},
		999:             {"UNKNOWN", "an error inside the driver: " + log},
	}
}

// nameOf is NVML's constant without its prefix.
func nameOf(code int) string {
	if t, ok := troubles()[code]; ok {
		return t.name
	}
	return fmt.Sprintf("error %d", code)
}

// sentence says what a call came to: its name, and what that means.
func sentence(call string, code int) string {
	s := call + ": " + nameOf(code)
	if means := troubles()[code].means; means != "" {
		s += " (" + means + ")"
	}
	return s
}

// throttle names the bits of nvmlClocksEventReasons (nvml.h). The words of a
// fault or a lack of power or cooling are hw_slowdown, sw_thermal, hw_thermal
// and power_brake; the rest is what a healthy GPU does too.
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

// word is the one that stands for a number of NVML's, or the number: a newer
// driver may have more.
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

// fabricState names nvmlGpuFabricState_t; 0 is a GPU that is in no fabric.
func fabricState(n int) string {
	return word(n, "", "not_started", "in_progress", "completed")
}

// fabricHealth names the summary of nvmlGpuFabricInfo_v3_t; 0 is none.
func fabricHealth(n int) string {
	return word(n, "", "healthy", "unhealthy", "limited_capacity")
}

// fabricProblems are what the mask of nvmlGpuFabricInfo_v2_t says is wrong. The
// first four are two bits each, of which 1 is yes; then four bits for
// the configuration, of which 0 and 1 are fine (NVML_GPU_FABRIC_HEALTH_MASK_*).
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

// recoveryAction names nvmlDeviceGpuRecoveryAction_t; 0 is none. The last three
// are in headers newer than go-nvml's.
func recoveryAction(n int) string {
	return word(n, "", "reset", "reboot", "drain_p2p", "drain_and_reset", "recover_imex_domain", "bus_reset", "system_reboot")
}

// uuid is 16 bytes as people write them; "" where they are zero.
func uuid(b [16]byte) string {
	if b == [16]byte{} {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// program is the name in what NVML says of a process, which is its first
// argument, and of one that renames itself the whole command line.
func program(name string) string {
	fields := strings.Fields(name)
	if len(fields) == 0 {
		return ""
	}
	return path.Base(fields[0])
}
