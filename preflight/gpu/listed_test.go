package gpu

import (
	"slices"
	"testing"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/internal/finding"
	"launch/preflight"
	"launch/preflight/checktest"
)

// A GPU on the bus with NVIDIA's driver that NVML does not list, and what looks like one.
func TestGPUsThatNVMLDoesNotList(t *testing.T) {
	const addr = "0000:b5:00.0"
	type edit = func(*preflight.Input)
	node := func(nproc string, edits ...edit) preflight.Input {
		return checktest.HGX(append([]edit{checktest.ProcessesOf(nproc), func(in *preflight.Input) {
			for _, d := range in.Node.GPUs.Devices {
				in.Node.Cards = append(in.Node.Cards, fabric.Card{PCI: d.PCI, Vendor: "nvidia", Model: d.Name})
			}
			in.Node.Cards = append(in.Node.Cards, fabric.Card{PCI: addr, Vendor: "nvidia", Model: "NVIDIA H20"})
			in.Node.PCI = append(in.Node.PCI, fabric.PCI{Addr: addr, Vendor: "0x10de", Class: "0x030200", Driver: "nvidia"})
		}}, edits...)...)
	}
	function := func(p fabric.PCI) edit {
		return func(in *preflight.Input) { in.Node.PCI[len(in.Node.PCI)-1] = p }
	}
	card := func(change func(*fabric.Card)) edit {
		return func(in *preflight.Input) { change(&in.Node.Cards[len(in.Node.Cards)-1]) }
	}
	const lost = "warn GPU " + addr + " is on the bus with NVIDIA's driver, and NVML does not list it"
	for _, tt := range []struct {
		name string
		in   preflight.Input
		want string
	}{
		{"one process for each", node("gpu"), lost},
		{"more processes than NVML has GPUs", node("9"), lost},
		{"auto", node("auto"), lost},
		{"two of them", node("gpu", func(in *preflight.Input) {
			in.Node.Cards = append(in.Node.Cards, fabric.Card{PCI: "0000:c5:00.0", Vendor: "nvidia", Model: "NVIDIA H20"})
			in.Node.PCI = append(in.Node.PCI, fabric.PCI{Addr: "0000:c5:00.0", Driver: "nvidia"})
		}), "warn GPUs 0000:b5:00.0, 0000:c5:00.0 are on the bus with NVIDIA's driver, and NVML does not list them"},
		{"enough for the processes", node("8"), "ok 8 GPUs"},
		{"all are listed", checktest.HGX(), "ok 8 GPUs"},
		{"the job names its GPUs", checktest.Env(node("gpu"), "CUDA_VISIBLE_DEVICES", "0,1,2,3"), "ok 8 GPUs"},
		{"a guest has it", node("gpu", function(fabric.PCI{Addr: addr, Vendor: "0x10de", Driver: "vfio-pci"})), "ok 8 GPUs"},
		{"no driver", node("gpu", function(fabric.PCI{Addr: addr, Vendor: "0x10de"})), "ok 8 GPUs"},
		{"not in the driver's files", node("gpu", card(func(c *fabric.Card) { c.Model = "" })), "ok 8 GPUs"},
		{"the driver leaves it out on purpose", node("gpu", card(func(c *fabric.Card) { c.Excluded = true })), "ok 8 GPUs"},
		{"another vendor's", node("gpu", card(func(c *fabric.Card) { c.Vendor = "amd" })), "ok 8 GPUs"},
		{"a container", node("gpu", func(in *preflight.Input) { in.Node.Container.Kind = "docker" }), "ok 8 GPUs"},
		{"a step of Slurm has a part", node("gpu", func(in *preflight.Input) { in.Node.GPUs.Withheld = []string{addr} }),
			"ok 8 GPUs"},
		{"a GPU without an address", node("gpu", checktest.OfGPU(3, func(g *gpu.GPU) { g.PCI = "" })), "ok 8 GPUs"},
	} {
		checktest.Wants(t, checktest.Verdict(t, Checks(), "gpu.listed", tt.in), tt.want)
		if t.Failed() {
			t.Fatal(tt.name)
		}
	}
	f := checktest.Verdict(t, Checks(), "gpu.count", node("9"))
	if !slices.ContainsFunc(f.Seen, func(s finding.Seen) bool { return s.Where == "/proc/driver/nvidia/gpus/"+addr }) {
		t.Errorf("gpu.count does not name the missing one: %+v", f.Seen)
	}
}
