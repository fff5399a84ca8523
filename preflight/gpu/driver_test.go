package gpu

import (
	"fmt"
	"testing"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/internal/launcher"
	"launch/preflight"
	"launch/preflight/checktest"
)

// Each shape of GPUs without NVIDIA's driver has a twin that is in order: GPUs of a guest, a display adapter that only
// shows a console, a job for CPUs.
func TestGPUsWithoutTheDriver(t *testing.T) {
	node := func(n int, class, driver string, edit ...func(*preflight.Input)) preflight.Input {
		in := checktest.NProc(checktest.Env(checktest.Four()), fmt.Sprint(n))
		in.Node.GPUs = gpu.Facts{Absent: "no /proc/driver/nvidia/version and no /dev/nvidiactl"}
		for i := range n {
			addr := fmt.Sprintf("0000:%02x:00.0", 0x18+i*0x10)
			in.Node.PCI = append(in.Node.PCI,
				fabric.PCI{Addr: addr, Vendor: "0x10de", Device: "0x20b2", Class: class, Driver: driver})
			in.Node.Cards = append(in.Node.Cards, fabric.Card{PCI: addr, Vendor: "nvidia"})
		}
		for _, e := range edit {
			e(&in)
		}
		return in
	}
	cuda := func(in *preflight.Input) {
		in.Node.Software.Torch.Version, in.Node.Software.CUDA = "2.9.0+cu128", "12.8"
	}
	cpu := func(in *preflight.Input) { in.Node.Software.Torch.Version = "2.9.0+cpu" }
	one := func(in *preflight.Input) { *in = checktest.NProc(*in, "1") }
	each := func(in *preflight.Input) { *in = checktest.NProc(*in, "gpu") }
	program := func(in *preflight.Input) { in.Job.Line.Kind = launcher.Program }
	pod := func(in *preflight.Input) { in.Node.Container.Kind = "kubernetes" }
	hides := func(in *preflight.Input) { *in = checktest.Env(*in, "CUDA_VISIBLE_DEVICES", "") }
	first := func(n int, driver string) func(*preflight.Input) {
		return func(in *preflight.Input) {
			for i := range n {
				in.Node.PCI[i].Driver = driver
				if driver == "nvidia" {
					in.Node.GPUs.Devices = append(in.Node.GPUs.Devices, checktest.Board(i, in.Node.PCI[i].Addr))
				}
			}
			in.Node.GPUs.Present, in.Node.GPUs.Absent = driver == "nvidia", ""
		}
	}
	old := func(in *preflight.Input) { in.Node.PCI[len(in.Node.PCI)-1].Device = "0x128b" }
	const controller, display = "0x030200", "0x030000"
	for _, tt := range []struct {
		name string
		in   preflight.Input
		want string
	}{
		{"nouveau, and torch needs CUDA", node(8, controller, "nouveau", cuda),
			"fail 8 NVIDIA GPUs of this node without NVIDIA's driver: bound to nouveau"},
		{"no driver", node(4, controller, "", cuda), "fail 4 NVIDIA GPUs of this node without NVIDIA's driver: no driver"},
		{"nova", node(2, display, "nova_core", cuda), "fail bound to nova-core"},
		{"a process for each GPU", node(1, display, "", each), "fail 1 NVIDIA GPU of this node without NVIDIA's driver"},
		{"torch is not known", node(8, controller, "nouveau"), "warn 8 NVIDIA GPUs"},
		{"fewer processes", node(8, controller, "nouveau", cuda, one), "warn 8 NVIDIA GPUs"},
		{"a program", node(8, controller, "nouveau", cuda, program), "warn 8 NVIDIA GPUs"},
		{"the driver refused one of them", node(8, controller, "", first(7, "nvidia")), "warn 1 NVIDIA GPU of this node"},
		{"a sandbox whose bus shows no driver", node(2, controller, "", first(2, "nvidia"), func(in *preflight.Input) {
			in.Node.PCI[0].Driver, in.Node.PCI[1].Driver = "", ""
		}, each), "ok"},
		{"for guests", node(8, controller, "vfio-pci", cuda), "skip no NVIDIA GPU here"},
		{"one is for a guest", node(8, controller, "vfio-pci", first(7, "nvidia")), "ok"},
		{"an old model, which the driver left out", node(3, display, "", first(2, "nvidia"), old), "ok"},
		{"torch for CPUs", node(8, controller, "nouveau", cpu), "skip no NVIDIA driver here"},
		{"the GPUs are hidden on purpose", node(8, controller, "nouveau", cuda, hides), "skip no NVIDIA driver here"},
		{"a console", node(1, display, "nouveau", cuda), "skip no NVIDIA driver here"},
		{"a pod for CPUs", node(8, controller, "nouveau", cuda, pod), "skip no NVIDIA driver here"},
		{"this run did not ask", node(8, controller, "", func(in *preflight.Input) { in.Node.GPUs = gpu.Facts{} }),
			"skip the driver was not asked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), "gpu.driver", tt.in), tt.want)
		})
	}
}
