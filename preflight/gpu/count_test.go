package gpu

import (
	"slices"
	"strings"
	"testing"

	"launch/fabric/gpu"
	"launch/internal/launcher"
	"launch/preflight"
	"launch/preflight/checktest"
)

func TestGPUCount(t *testing.T) {
	program := checktest.NProc(checktest.GPUs(checktest.Four(), 2), "8")
	program.Job.Line.Kind = launcher.Program
	wedged := checktest.NProc(checktest.Four(), "8")
	wedged.Node.GPUs = gpu.Facts{Err: "NVML did not answer within 5s"}
	amd := checktest.NProc(checktest.Four(), "gpu")
	amd.Exists = func(path string) bool { return path == "/dev/kfd" }
	unasked := checktest.NProc(checktest.Four(), "gpu")
	unasked.Node.GPUs = gpu.Facts{}
	empty := checktest.NProc(checktest.Four(), "8")
	empty.Node.GPUs = gpu.Facts{Present: true}
	none := checktest.NProc(checktest.Four(), "gpu")
	none.Exists = func(string) bool { return false }
	lost := checktest.NProc(checktest.GPUs(checktest.Four(), 8), "8")
	lost.Node.GPUs.Devices = slices.Clone(lost.Node.GPUs.Devices)
	lost.Node.GPUs.Devices[3].Err = "it fell off the bus"
	mig := func(instances int, n string) preflight.Input {
		return checktest.HGX(checktest.ProcessesOf(n), checktest.OfGPU(6, func(g *gpu.GPU) {
			g.MIG, g.MIGDevices = "on", make([]gpu.MIGDevice, instances)
		}))
	}
	unanswered := checktest.HGX(checktest.ProcessesOf("8"), checktest.OfGPU(6, func(g *gpu.GPU) {
		g.MIG, g.Unknown = "on", []gpu.Unknown{{What: "mig_devices", Why: "unknown error"}}
	}))
	lonely := checktest.NProc(checktest.GPUs(checktest.Four(), 1), "1")
	lonely.Node.GPUs.Devices = slices.Clone(lonely.Node.GPUs.Devices)
	lonely.Node.GPUs.Devices[0].MIG = "on"
	if f := checktest.Verdict(t, Checks(), "gpu.count", lonely); strings.Contains(f.Fix, "nproc") ||
		!strings.HasPrefix(f.Fix, "sudo nvidia-smi") {
		t.Errorf("fix %q", f.Fix)
	}
	for _, tt := range []struct {
		name string
		in   preflight.Input
		want string
	}{
		{"instances are not known", unanswered, "ok 8 processes, 8 GPUs"},
		{"the only one is without an instance", lonely, "fail the command asks for 1 processes, and this node has 0 visible"},
		{"one is in MIG mode without an instance", mig(0, "8"), "fail the command asks for 8 processes, and this node has 7"},
		{"one is in MIG mode with an instance", mig(1, "8"), "ok 8 processes, 8 GPUs"},
		{"the others are enough", mig(0, "7"), "ok 7 processes, 7 GPUs"},
		{"one is there, but lost", lost, "fail the command asks for 8 processes, and this node has 7 visible GPUs"},
		{"as many", checktest.NProc(checktest.GPUs(checktest.Four(), 8), "8"), "ok 8 processes, 8 GPUs"},
		{"one fell off the bus", checktest.NProc(checktest.GPUs(checktest.Four(), 7), "8"),
			"fail the command asks for 8 processes, and this node has 7 visible GPUs"},
		{"a trial on a workstation", checktest.NProc(checktest.GPUs(checktest.Four(), 1), "2"), "warn this node has one GPU"},
		{"one process", checktest.GPUs(checktest.Four(), 1), "ok 1 processes"},
		{"hidden, a CPU job", checktest.Env(checktest.NProc(checktest.GPUs(checktest.Four(), 2), "8"), "CUDA_VISIBLE_DEVICES",
			""), "skip hides the 2 GPUs"},
		{"hidden, as Slurm does", checktest.Env(checktest.NProc(checktest.GPUs(checktest.Four(), 2), "8"),
			"CUDA_VISIBLE_DEVICES", "NoDevFiles"), "skip hides the 2 GPUs"},
		{"half are visible", checktest.Env(checktest.NProc(checktest.GPUs(checktest.Four(), 8), "8"), "CUDA_VISIBLE_DEVICES",
			"0,1,2,3"), "fail this node has 4 visible GPUs"},
		{"those behind a wrong one are not", checktest.Env(checktest.NProc(checktest.GPUs(checktest.Four(), 4), "2"),
			"CUDA_VISIBLE_DEVICES", "0,9,1"), "fail this node has 1 visible GPUs"},
		{"by UUID", checktest.Env(checktest.NProc(checktest.GPUs(checktest.Four(), 4), "2"), "CUDA_VISIBLE_DEVICES",
			"GPU-aa, MIG-bb"), "ok 2 processes"},
		{"one per GPU", checktest.NProc(checktest.GPUs(checktest.Four(), 4), "gpu"), "ok 4 processes, 4 GPUs"},
		{"no driver, a CPU job", checktest.NProc(checktest.Four(), "8"), "skip no NVIDIA GPU here: no driver"},
		{"no driver, one per GPU", none, "fail this node has no GPU"},
		{"no driver, one per GPU, AMD's", amd, "skip no NVIDIA GPU"},
		{"no driver, one per GPU, AMD not looked for", checktest.NProc(checktest.Four(), "gpu"), "warn no NVIDIA GPU"},
		{"driver without a GPU", empty, "skip the driver lists none"},
		{"not asked", unasked, "skip was not asked"},
		{"driver does not answer", wedged, "skip could not be asked"},
		{"by number of CPUs", checktest.NProc(checktest.GPUs(checktest.Four(), 2), "cpu"), "ok 2 GPUs visible"},
		{"a program", program, "skip does not say"},
	} {
		t.Run(tt.name, func(t *testing.T) { checktest.Wants(t, checktest.Verdict(t, Checks(), "gpu.count", tt.in), tt.want) })
	}
}

// The command that ends the MIG mode names the GPUs that are in it, and no other one.
func TestTheLineAgainstMIGNamesItsGPUs(t *testing.T) {
	in := checktest.HGX()
	for _, i := range []int{2, 5} {
		in.Node.GPUs.Devices[i].MIG = "on"
	}
	const want = "sudo nvidia-smi -i 2,5 -mig 0   # while no process uses them\nor "
	for _, id := range []string{"gpu.mode", "gpu.count"} {
		if f := checktest.Verdict(t, Checks(), id, in); !strings.HasPrefix(f.Fix, want) {
			t.Errorf("%s: %q", id, f.Fix)
		}
	}
}
