package gpu

import (
	"testing"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/preflight"
	"launch/preflight/checktest"
)

// The width of a link counts, not its generation, which is 1 on an idle GPU.
func TestLanesOfGPUs(t *testing.T) {
	node := func(slot int, lanes ...int) preflight.Input {
		return checktest.HGX(func(in *preflight.Input) {
			in.Node.GPUs.Devices = in.Node.GPUs.Devices[:len(lanes)]
			for i, n := range lanes {
				p := fabric.PCI{Addr: in.Node.GPUs.Devices[i].PCI, Vendor: "0x10de", Device: "0x2330", Class: "0x030200",
					Driver: "nvidia", Gen: 1, MaxGen: 5, Lanes: n, MaxLanes: 16}
				if n < p.MaxLanes {
					p.Slot = slot
				}
				in.Node.PCI = append(in.Node.PCI, p)
				in.Node.Cards = append(in.Node.Cards, fabric.Card{PCI: p.Addr, Vendor: "nvidia"})
			}
		})
	}
	edit := func(in preflight.Input, edit func(*preflight.Input)) preflight.Input { edit(&in); return in }
	amd := func(in *preflight.Input) {
		in.Node.GPUs = gpu.Facts{Absent: "no driver"}
		for i := range in.Node.PCI {
			in.Node.PCI[i].Vendor, in.Node.PCI[i].Driver, in.Node.Cards[i].Vendor = "0x1002", "amdgpu", "amd"
		}
	}
	unasked := func(in *preflight.Input) { in.Node.GPUs = gpu.Facts{} }
	guest := func(in *preflight.Input) { in.Node.Cloud.Virtual = true }
	other := func(in *preflight.Input) { in.Node.PCI[1].Device = "0x26b9" }
	for _, tt := range []struct {
		name string
		in   preflight.Input
		want string
	}{
		{"one of eight has four", node(0, 16, 16, 16, 16, 16, 4, 16, 16),
			"warn GPU 5 (0000:6b:00.0) has 4 of its 16 PCIe lanes, 0000:1b:00.0 of the same model has 16"},
		{"one of two, in a slot of 16", node(16, 16, 8), "warn GPU 1 (0000:2b:00.0) has 8 of its 16"},
		{"without NVML", edit(node(0, 16, 8, 16, 16), unasked), "warn GPU 0000:2b:00.0 has 8 of its 16"},
		{"AMD's", edit(node(0, 16, 16, 8, 16), amd), "warn GPU 0000:3b:00.0 has 8 of its 16"},
		{"all are idle", node(0, 16, 16, 16, 16), "ok 4 GPUs"},
		{"all have eight", node(16, 8, 8, 8, 8), "ok 4 GPUs"},
		{"a slot of eight", node(8, 16, 16, 16, 8), "ok 4 GPUs"},
		{"one of two", node(0, 16, 8), "ok 2 GPUs"},
		{"half of them", node(16, 16, 8, 16, 8, 8, 16), "ok 6 GPUs"},
		{"another model", edit(node(16, 16, 8, 16), other), "ok 3 GPUs"},
		{"a guest", edit(node(0, 16, 8, 16, 16), guest), "skip a virtual machine"},
		{"without the bus", checktest.HGX(), "skip the links of the GPUs are not known"},
	} {
		t.Run(tt.name, func(t *testing.T) { checktest.Wants(t, checktest.Verdict(t, Checks(), "gpu.pcie", tt.in), tt.want) })
	}
}
