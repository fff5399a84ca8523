package gpu

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"launch/fabric/gpu"
	"launch/internal/finding"
	"launch/preflight"
)

// gpuHealth fails a job on a GPU that the driver calls unusable; errors that a GPU has handled are a warning.
func gpuHealth(_ context.Context, in preflight.Input) []finding.Finding {
	u, _ := preflight.GPUsOf(in)
	var out []finding.Finding
	for _, d := range u.Devices {
		if f, bad := shut(in, u, d); bad {
			out = append(out, f)
		} else if f, bad := unusable(u, d); bad {
			out = append(out, withXIDs(in, d, f))
		} else if f, bad := worn(in, d); bad {
			out = append(out, f)
		}
	}
	if f, bad := switches(in); bad {
		out = append(out, f)
	}
	return orPass(out, u)
}

// shut returns a finding if no process of this user can open a GPU.
func shut(in preflight.Input, u preflight.UsedGPUs, d gpu.GPU) (finding.Finding, bool) {
	for _, c := range in.Node.GPUs.Closed {
		if c.GPU == d.Index || c.GPU < 0 {
			return finding.FailOr(u.Certain, "%s cannot be used here: /dev/%s: %s", called(d), c.Node, c.Why).
				See("/dev/"+c.Node, "%s", c.Why).Breaking("torch finds no GPU; "+dies).
				Do("%s", in.Remedy(map[preflight.Place]string{
					preflight.InKubernetes: "resources: {limits: {nvidia.com/gpu: N}} in the container; do not mount /dev by hand",
					preflight.InContainer:  "docker run --gpus all …   # mounts the right nodes",
					preflight.InShell:      "ls -l /dev/nvidia*\nsudo nvidia-modprobe -u -c 0   # makes them again",
				})), true
		}
	}
	return finding.Finding{}, false
}

const dies = "the process of this GPU dies, and the other ranks wait for it"

// unusable returns a finding if the driver reports that no process can use a GPU.
func unusable(u preflight.UsedGPUs, d gpu.GPU) (finding.Finding, bool) {
	reset := "sudo nvidia-smi -r -i " + number(d) + "   # while no process uses it; or take this node out and reboot it"
	reboot := "take this node out and reboot it; if the fault returns, have the board reseated or replaced"
	seen := d.Err
	var f finding.Finding
	switch {
	case d.Code == "GPU_IS_LOST":
		f = finding.FailOr(u.Certain, "%s fell off the bus", called(d)).Do("%s", reboot)
	case d.Code == "RESET_REQUIRED":
		f = finding.FailOr(u.Certain, "%s needs a reset", called(d)).Do("%s", reset)
	case d.Err != "":
		f = finding.Warnf("%s does not answer properly", called(d)).
			Do("nvidia-smi -q -i %s; dmesg | grep -e NVRM -e Xid   # shows why\nif it remains so: %s", number(d), reboot)
	case d.Recovery == "":
		return f, false
	default:
		seen = "GPU recovery action " + d.Recovery
		// Recovery actions, by NVIDIA's GPU Memory Error Management: nothing works before these three
		// are done. The others name what to drain, and may concern another GPU of the domain.
		switch fault := called(d) + " has a fault, and the driver asks for "; d.Recovery {
		case "reset", "drain_and_reset":
			f = finding.FailOr(u.Certain, "%sa reset", fault).Do("%s", reset)
		case "reboot", "system_reboot":
			f = finding.FailOr(u.Certain, "%sa reboot of this machine", fault).Do("%s", reboot)
		default:
			f = finding.Warnf("%s%s", fault, strings.ReplaceAll(d.Recovery, "_", " ")).
				Do("end the processes that use its NVLinks; if the fault remains: %s", reset)
		}
	}
	return f.See("NVML", "%s", seen).Breaking(dies), true
}

// worn returns a finding about a GPU that answers and has had errors.
func worn(in preflight.Input, d gpu.GPU) (finding.Finding, bool) {
	var what []string
	f := finding.Warnf("").
		Breaking("it answers now; if the fault returns, its process dies and the other ranks wait").
		Do("sudo nvidia-smi -r -i %s   # between jobs\nif the fault returns, test it (dcgmi diag -r 3) or have it replaced",
			number(d))
	if e := d.ECC; e != nil && e.Uncorrected > 0 {
		what = append(what, finding.Count(int(e.Uncorrected), "uncorrectable memory error")+" since the driver was loaded")
		f = f.See("NVML", "%s: ECC errors since the driver was loaded: %d uncorrectable", called(d), e.Uncorrected)
	}
	if r := d.Rows; r != nil && (r.Failed || r.Pending) {
		row := "a memory row that waits for a reset to be replaced"
		if r.Failed {
			row = "a memory row that could not be replaced"
			f = f.Do("have the GPU replaced; until then leave it out: %s", preflight.CUDAVisible)
		}
		what = append(what, row)
		f = f.See("NVML", "%s: remapped rows: %d after uncorrectable errors, pending %t, failed %t",
			called(d), r.Uncorrected, r.Pending, r.Failed)
	}
	for _, x := range recent(in, d.PCI) {
		if means := xids()[x.Code]; means != "" {
			what = append(what, fmt.Sprintf("Xid %d %s ago (%s)", x.Code, age(x), means))
			f = f.See("kernel log", "%s", xidLine(x))
		}
	}
	f.What = called(d) + " had " + strings.Join(what, ", ")
	return f, len(what) > 0
}

// withXIDs adds the messages about a GPU in the kernel log.
func withXIDs(in preflight.Input, d gpu.GPU, f finding.Finding) finding.Finding {
	for _, x := range recent(in, d.PCI) {
		f = f.See("kernel log", "%s", xidLine(x))
	}
	return f
}

// recent returns the recent faults of a GPU in the kernel log, which does not show a later reset.
func recent(in preflight.Input, pci string) []gpu.XID {
	limit := in.Threshold("gpu.xid")
	return slices.DeleteFunc(slices.Clone(in.Node.GPUs.XIDs), func(x gpu.XID) bool {
		return x.Switch || pci == "" || x.PCI != pci || float64(x.Age) > limit
	})
}

// switches reports the NVSwitches with a fatal fault. The message itself says whether it is fatal ("SXid … 20034,
// Fatal, Link 30 …", NVIDIA Fabric Manager User Guide, NVSwitch SXid errors); healthy machines log the others, too.
func switches(in preflight.Input) (finding.Finding, bool) {
	f := finding.Warnf("")
	var names []string
	for _, x := range in.Node.GPUs.XIDs {
		if x.Switch && strings.HasPrefix(x.Text, "Fatal") && float64(x.Age) <= in.Threshold("gpu.xid") {
			f = f.See("kernel log", "%s", xidLine(x))
			names = append(names, fmt.Sprintf("NVSwitch %s: SXid %d %s ago", x.PCI, x.Code, age(x)))
		}
	}
	f.What = "a fatal fault of " + finding.Some(names)
	return f.Breaking("GPUs behind it may be unable to use NVLink until they and it are reset").
			Do("nvidia-smi -q | grep -A4 Fabric; dmesg | grep SXid\nsudo nvidia-smi -r   # resets all GPUs; or reboot this " +
				"node"),
		len(names) > 0
}

func xidLine(x gpu.XID) string {
	kind := map[bool]string{true: "SXid", false: "Xid"}[x.Switch]
	return fmt.Sprintf("%s (%s) %d, %s ago, %s: %s",
		kind, x.PCI, x.Code, age(x), finding.Count(x.Count, "time"), cmp.Or(x.Text, "no text"))
}

func age(x gpu.XID) string {
	d := time.Duration(x.Age) * time.Second
	switch {
	case d < time.Minute:
		return finding.Count(x.Age, "second")
	case d < 2*time.Hour:
		return finding.Count(int(d/time.Minute), "minute")
	}
	return finding.Count(int(d/time.Hour), "hour")
}

// xids returns the meanings of codes that are due to the hardware, or that leave the GPU unusable until a reset,
// from NVIDIA's XID catalog ("Analyzing Xid Errors with the Xid Catalog", docs.nvidia.com/deploy/xid-errors):
// those whose immediate action is to reset the GPU (RESET_GPU), to restart the machine (RESTART_BM) or to look at
// cables (CHECK_MECHANICALS), or which have the workflow of a double bit error or of NVLink. The action follows
// each row. Not here are those with RESTART_APP or IGNORE (13, 31, 43, 45, 63, 94, …), which are an application's
// own or over, and 109 and 155, which hung programs and sleeping links cause, too.
func xids() map[int]string {
	return map[int]string{
		46:  "the GPU stopped processing",              // RESET_GPU
		48:  "uncorrectable memory error",              // WORKFLOW_XID_48: reset or reboot clears it
		54:  "no auxiliary power",                      // CHECK_MECHANICALS
		62:  "its microcontroller halted",              // RESET_GPU
		64:  "a bad memory row could not be replaced",  // RESET_GPU
		74:  "NVLink error",                            // WORKFLOW_NVLINK_ERR (Ampere, Hopper)
		79:  "it fell off the bus",                     // RESTART_BM
		95:  "uncontained memory error",                // RESET_GPU
		110: "security fault",                          // RESET_GPU
		119: "its GSP did not answer",                  // RESET_GPU
		120: "error in its GSP",                        // RESET_GPU
		136: "NVLink training failed",                  // RESET_GPU
		140: "uncorrectable memory error, not handled", // RESET_GPU
		143: "it could not be initialized",             // RESET_GPU
		158: "fatal timeout",                           // RESET_GPU
	}
}
