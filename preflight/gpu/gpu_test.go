package gpu

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/preflight"
	"launch/preflight/checktest"
)

// envOf returns an edit of the environment.
func envOf(pairs ...string) func(*preflight.Input) {
	return func(in *preflight.Input) { *in = checktest.Env(*in, pairs...) }
}

func xidOn(i, code, age int) func(*preflight.Input) {
	return func(in *preflight.Input) {
		in.Node.GPUs.XIDs = append(in.Node.GPUs.XIDs,
			gpu.XID{PCI: in.Node.GPUs.Devices[i].PCI, Code: code, Count: 1, Age: age, Text: "something"})
	}
}

// paired has all GPUs reach each other across the machine, but of 2 and 5, which
// are so far apart, it is another answer.
func paired(distance, answer string) func(*preflight.Input) {
	return func(in *preflight.Input) {
		for a := range 8 {
			for b := a + 1; b < 8; b++ {
				p := gpu.Pair{A: a, B: b, Distance: "SYS", Read: "ok", Write: "ok", NVLink: "ok"}
				if a == 2 && b == 5 {
					p.Distance, p.Read, p.Write = distance, answer, answer
				}
				in.Node.GPUs.Pairs = append(in.Node.GPUs.Pairs, p)
			}
		}
	}
}

func fewer(in *preflight.Input)       { *in = checktest.NProc(*in, "4") }
func notTorchrun(in *preflight.Input) { in.Job.Line.Kind = "plain" }

func by(pid int, name string, memory uint64) func(*gpu.GPU) {
	return func(g *gpu.GPU) { g.Processes = append(g.Processes, gpu.Process{PID: pid, Name: name, Memory: memory}) }
}

func TestGPUChecks(t *testing.T) {
	lost := checktest.OfGPU(3, func(g *gpu.GPU) {
		*g = gpu.GPU{Index: 3, PCI: "0000:4b:00.0", Minor: -1, Err: "nvmlDeviceGetHandleByIndex: GPU_IS_LOST",
			Code: "GPU_IS_LOST"}
	})
	reset := checktest.OfGPU(3, func(g *gpu.GPU) { g.Recovery = "reset" })
	hide3 := envOf(preflight.CUDAVisible, "0,1,2,4,5,6,7")
	rows := func(pending, failed bool) func(*preflight.Input) {
		return checktest.OfGPU(3, func(g *gpu.GPU) { g.Rows = &gpu.Rows{Uncorrected: 1, Pending: pending, Failed: failed} })
	}
	state := func(s string) func(*preflight.Input) {
		return checktest.EveryGPU(func(g *gpu.GPU) { g.Fabric = &gpu.Fabric{State: s} })
	}
	links := func(i, up int) func(*preflight.Input) {
		return checktest.OfGPU(i, func(g *gpu.GPU) { g.NVLink = &gpu.NVLink{Up: up, Total: 18, Remotes: g.NVLink.Remotes} })
	}
	mig := func(g *gpu.GPU) { g.MIG, g.MIGDevices = "on", []gpu.MIGDevice{{UUID: "MIG-a"}} }
	mismatch := func(in *preflight.Input) {
		in.Node.GPUs = gpu.Facts{Err: "nvmlInit: LIB_RM_VERSION_MISMATCH", Code: "LIB_RM_VERSION_MISMATCH"}
		for range 8 {
			in.Node.Cards = append(in.Node.Cards, fabric.Card{Vendor: "nvidia"})
		}
	}
	exclusive := checktest.EveryGPU(func(g *gpu.GPU) { g.ComputeMode = "exclusive_process" })
	for _, tt := range []struct {
		name, id string
		in       preflight.Input
		want     string
	}{
		{"healthy", "gpu.driver", checktest.HGX(), "ok driver 570.86.15"},
		{"library and module differ", "gpu.driver", checktest.HGX(mismatch), "fail different versions"},
		{"the same, fewer processes", "gpu.driver", checktest.HGX(mismatch, fewer), "warn different versions"},
		{"the same, another program", "gpu.driver", checktest.HGX(mismatch, notTorchrun), "warn different versions"},
		{"a driver that hangs", "gpu.driver", checktest.HGX(
			func(in *preflight.Input) { in.Node.GPUs = gpu.Facts{Err: "NVML did not answer within 27s"} }),
			"warn could not be asked"},

		{"healthy", "gpu.health", checktest.HGX(), "ok 8 GPUs"},
		{"lost", "gpu.health", checktest.HGX(lost), "fail GPU 3 (0000:4b:00.0) fell off the bus"},
		{"lost, fewer processes than GPUs", "gpu.health", checktest.HGX(lost, fewer), "warn GPU 3 (0000:4b:00.0) fell off"},
		{"lost, and hidden", "gpu.health", checktest.HGX(lost, hide3, checktest.ProcessesOf("7")), "ok 7 GPUs"},
		{"wants a reset", "gpu.health", checktest.HGX(reset),
			"fail GPU 3 (0000:4b:00.0, GPU-…000000a3) has a fault, and the driver asks for a reset"},
		{"wants a reset, a process per GPU", "gpu.health", checktest.HGX(reset, checktest.ProcessesOf("gpu")),
			"fail asks for a reset"},
		{"wants a reset, another program", "gpu.health", checktest.HGX(reset, notTorchrun), "warn asks for a reset"},
		{"wants a reset, hidden", "gpu.health", checktest.HGX(reset, hide3, checktest.ProcessesOf("7")), "ok 7 GPUs"},
		{"wants a reset, seen by its UUID", "gpu.health",
			checktest.HGX(reset, envOf(preflight.CUDAVisible, "GPU-00000000-0000-4000-8000-0000000000a3"),
				checktest.ProcessesOf("1")), "fail asks for a reset"},
		{"wants a reset, GPUs of two models in CUDA's own order", "gpu.health",
			checktest.HGX(reset, checktest.OfGPU(0, func(g *gpu.GPU) { g.Name = "NVIDIA T4" }),
				envOf(preflight.CUDAVisible, "0,1,2,3"), fewer), "warn asks for a reset"},
		{"the same, by address", "gpu.health",
			checktest.HGX(reset, checktest.OfGPU(0, func(g *gpu.GPU) { g.Name = "NVIDIA T4" }),
				envOf(preflight.CUDAVisible, "0,1,2,3", "CUDA_DEVICE_ORDER", "PCI_BUS_ID"), fewer),
			"fail asks for a reset"},
		{"wants a reboot", "gpu.health", checktest.HGX(checktest.OfGPU(3, func(g *gpu.GPU) { g.Recovery = "reboot" })),
			"fail asks for a reboot of this machine"},
		{"wants its links drained", "gpu.health", checktest.HGX(checktest.OfGPU(3,
			func(g *gpu.GPU) { g.Recovery = "drain_p2p" })), "warn asks for drain p2p"},
		{"an action of a newer driver", "gpu.health",
			checktest.HGX(checktest.OfGPU(3, func(g *gpu.GPU) { g.Recovery = "unknown_9" })), "warn asks for unknown 9"},
		{"memory errors", "gpu.health", checktest.HGX(checktest.OfGPU(3, func(g *gpu.GPU) { g.ECC.Uncorrected = 4 })),
			"warn had 4 uncorrectable memory errors"},
		{"a remap is pending", "gpu.health", checktest.HGX(rows(true, false)), "warn waits for a reset"},
		{"a remap failed", "gpu.health", checktest.HGX(rows(false, true)), "warn could not be replaced"},
		{"a fault of the hardware", "gpu.health", checktest.HGX(xidOn(3, 79, 600)),
			"warn Xid 79 10 minutes ago (it fell off the bus)"},
		{"a fault of the hardware, long ago", "gpu.health", checktest.HGX(xidOn(3, 79, 30*3600)), "ok 8 GPUs"},
		{"an application's fault", "gpu.health", checktest.HGX(xidOn(3, 31, 60), xidOn(3, 13, 60), xidOn(3, 45, 60),
			xidOn(3, 94, 60)), "ok 8 GPUs"},
		{"a number that no catalog has", "gpu.health", checktest.HGX(xidOn(3, 4711, 60)), "ok 8 GPUs"},
		{"another machine's GPU in the log", "gpu.health",
			checktest.HGX(func(in *preflight.Input) { in.Node.GPUs.XIDs = []gpu.XID{{PCI: "0000:ff:00.0", Code: 79}} }),
			"ok 8 GPUs"},
		{"a fatal fault of a switch", "gpu.health", checktest.HGX(func(in *preflight.Input) {
			in.Node.GPUs.XIDs = []gpu.XID{{PCI: "0000:c1:00.0", Switch: true, Code: 20034, Count: 1,
				Text: "Fatal, Link 30 LTSSM Fault Up"}}
		}), "warn SXid 20034"},
		{"a fault of a switch that is none", "gpu.health", checktest.HGX(func(in *preflight.Input) {
			in.Node.GPUs.XIDs = []gpu.XID{{PCI: "0000:c1:00.0", Switch: true, Code: 12028, Count: 9,
				Text: "Non-fatal, Link 32 egress"}}
		}), "ok 8 GPUs"},

		{"one pair may not", "gpu.p2p", checktest.HGX(paired("SYS", "topology")),
			"warn GPUs that may not use each other's memory, while comparable pairs may: 2 and 5"},
		{"one pair may not, in a virtual machine", "gpu.p2p",
			checktest.HGX(paired("SYS", "disabled"), func(in *preflight.Input) { in.Node.Cloud.Virtual = true }),
			"warn 2 and 5"},
		{"one that is farther apart may not", "gpu.p2p", checktest.HGX(paired("NODE", "topology")), "skip no GPU and rail"},
		{"one that could not be asked", "gpu.p2p", checktest.HGX(paired("SYS", "")), "skip no GPU and rail"},
		{"all may", "gpu.p2p", checktest.HGX(paired("SYS", "ok")), "skip no GPU and rail"},
		{"one of them in MIG mode", "gpu.p2p", checktest.HGX(paired("SYS", "not_supported"),
			checktest.OfGPU(5, func(g *gpu.GPU) { g.MIG = "on" })), "skip no GPU and rail"},
		{"one of another model", "gpu.p2p", checktest.HGX(paired("SYS", "gpu"),
			checktest.OfGPU(5, func(g *gpu.GPU) { g.Name = "NVIDIA T4" }), func(in *preflight.Input) {
				for i, p := range in.Node.GPUs.Pairs {
					if p.A == 5 || p.B == 5 {
						in.Node.GPUs.Pairs[i].Read = "gpu"
					}
				}
			}), "skip no GPU and rail"},
		{"hidden from the job", "gpu.p2p", checktest.HGX(paired("SYS", "gpu"),
			envOf("CUDA_VISIBLE_DEVICES", "0,1,2,3")), "skip no GPU and rail"},

		{"healthy", "gpu.fabric", checktest.HGX(), "ok 8 GPUs"},
		{"the manager does not run", "gpu.fabric", checktest.HGX(state("not_started")), "fail has not set up"},
		{"the manager is at work", "gpu.fabric", checktest.HGX(state("in_progress")), "fail has not set up"},
		{"no switch is seen, as in a guest", "gpu.fabric",
			checktest.HGX(state("not_started"), checktest.EveryGPU(func(g *gpu.GPU) { g.NVLink = nil })), "warn has not set up"},
		{"the switch is on the bus", "gpu.fabric", checktest.HGX(state("not_started"),
			checktest.EveryGPU(func(g *gpu.GPU) { g.NVLink = nil }),
			func(in *preflight.Input) {
				in.Node.PCI = []fabric.PCI{{Addr: "0000:07:00.0", Class: "0x068000", Vendor: "0x10de"}}
			}), "fail has not set up"},
		{"a bad route", "gpu.fabric", checktest.HGX(checktest.OfGPU(1,
			func(g *gpu.GPU) { g.Fabric.Health, g.Fabric.Problems = "unhealthy", []string{"route_unhealthy"} })),
			"warn faulty for GPU 1"},
		{"refused", "gpu.fabric", checktest.HGX(checktest.OfGPU(1, func(g *gpu.GPU) { g.Fabric.Status = "UNKNOWN" })),
			"warn fabric is faulty"},
		{"no NVSwitch", "gpu.fabric", checktest.HGX(checktest.EveryGPU(func(g *gpu.GPU) { g.Fabric = nil })),
			"skip no NVSwitch"},
		{"no IMEX channel", "gpu.fabric", checktest.HGX(checktest.EveryGPU(func(g *gpu.GPU) { g.Fabric.Cluster = "c" }),
			exists("/dev/nvidiactl")), "warn no IMEX channel"},
		{"an IMEX channel", "gpu.fabric", checktest.HGX(checktest.EveryGPU(func(g *gpu.GPU) { g.Fabric.Cluster = "c" }),
			exists("/dev/nvidia-caps-imex-channels/channel7")), "ok 8 GPUs"},
		{"no IMEX channel, not wanted", "gpu.fabric",
			checktest.HGX(checktest.EveryGPU(func(g *gpu.GPU) { g.Fabric.Cluster = "c" }), exists(),
				envOf("NCCL_MNNVL_ENABLE", "0")), "ok 8 GPUs"},
		{"no IMEX channel, one node", "gpu.fabric", checktest.HGX(
			checktest.EveryGPU(func(g *gpu.GPU) { g.Fabric.Cluster = "c" }), exists(),
			func(in *preflight.Input) { in.Job.Nodes.V = 1 }), "ok 8 GPUs"},

		{"healthy", "gpu.mode", checktest.HGX(), "ok 8 GPUs"},
		{"one at a time", "gpu.mode", checktest.HGX(exclusive), "ok 8 GPUs"},
		{"prohibited", "gpu.mode", checktest.HGX(checktest.OfGPU(5, func(g *gpu.GPU) { g.ComputeMode = "prohibited" })),
			"fail GPU 5"},
		{"prohibited, fewer processes", "gpu.mode", checktest.HGX(checktest.OfGPU(5,
			func(g *gpu.GPU) { g.ComputeMode = "prohibited" }), fewer), "warn GPU 5"},
		{"some in MIG mode", "gpu.mode", checktest.HGX(checktest.OfGPU(5, mig), checktest.OfGPU(6, mig)),
			"warn 2 GPUs of 8 GPUs in MIG mode"},
		{"the only one in MIG mode", "gpu.mode", checktest.HGX(checktest.OfGPU(5, mig),
			envOf(preflight.CUDAVisible, "5"), checktest.ProcessesOf("1")), "ok 1 GPU"},

		{"healthy", "gpu.busy", checktest.HGX(), "ok 8 GPUs"},
		{"monitoring", "gpu.busy", checktest.HGX(checktest.EveryGPU(by(99, "nv-hostengine", 3<<30)),
			checktest.EveryGPU(by(98, "python", 500<<20))), "ok 8 GPUs"},
		{"another process computes", "gpu.busy", checktest.HGX(checktest.OfGPU(2, by(4711, "python", 40<<30))),
			"warn GPU 2 (0000:3b:00.0, GPU-…000000a2) is in use by another process"},
		{"a process in another container", "gpu.busy",
			checktest.HGX(checktest.OfGPU(2, by(4711, "", 0)),
				checktest.OfGPU(2, func(g *gpu.GPU) { g.MemoryUsed = 60 << 30 })), "warn in use by another process"},
		{"a context in another container", "gpu.busy", checktest.HGX(checktest.OfGPU(2, by(4711, "", 0))), "ok 8 GPUs"},
		{"memory without a process", "gpu.busy", checktest.HGX(checktest.OfGPU(2,
			func(g *gpu.GPU) { g.MemoryUsed = 60 << 30 })),
			"warn has memory in use"},
		{"memory of the machine itself", "gpu.busy", checktest.HGX(checktest.OfGPU(2,
			func(g *gpu.GPU) { g.MemoryUsed, g.MemoryNUMA = 60<<30, 9 })), "ok 8 GPUs"},
		{"shared by MPS", "gpu.busy", checktest.HGX(exclusive, checktest.OfGPU(2, by(1, "nvidia-cuda-mps-server", 30<<20)),
			checktest.OfGPU(2, by(4711, "python", 40<<30))), "ok 8 GPUs"},
		{"one at a time, and taken", "gpu.busy", checktest.HGX(exclusive, checktest.OfGPU(2, by(4711, "python", 100<<20))),
			"fail serves one process at a time, and python (pid 4711"},
		{"one at a time, taken, and hidden", "gpu.busy",
			checktest.HGX(exclusive, checktest.OfGPU(3, by(4711, "python", 1<<30)), hide3,
				checktest.ProcessesOf("7")), "ok 7 GPUs"},

		{"idle", "gpu.throttle", checktest.HGX(), "ok 8 GPUs"},
		{"at its power limit", "gpu.throttle", checktest.HGX(
			checktest.EveryGPU(func(g *gpu.GPU) { g.Throttle = []string{"sw_power_cap", "sync_boost"} })), "ok 8 GPUs"},
		{"power brake", "gpu.throttle", checktest.HGX(checktest.OfGPU(2,
			func(g *gpu.GPU) { g.Throttle = []string{"hw_slowdown", "power_brake"} })),
			"warn is slowed down by the power brake"},
		{"hot", "gpu.throttle", checktest.HGX(checktest.OfGPU(2,
			func(g *gpu.GPU) { g.Throttle = []string{"hw_slowdown", "hw_thermal"} }),
			checktest.OfGPU(4, func(g *gpu.GPU) { g.Throttle = []string{"sw_thermal"} })), "warn are slowed down by heat"},
		{"slow for no reason that is named", "gpu.throttle",
			checktest.HGX(checktest.OfGPU(2, func(g *gpu.GPU) { g.Throttle = []string{"hw_slowdown", "idle"} })),
			"warn by the hardware"},

		{"healthy", "gpu.nvlink", checktest.HGX(), "ok 8 GPUs"},
		{"one link is down", "gpu.nvlink", checktest.HGX(links(3, 17)), "warn has 17 NVLinks up, others of its kind have 18"},
		{"no link of one is up", "gpu.nvlink", checktest.HGX(links(3, 0)), "warn has 0 NVLinks up"},
		{"a link of each is down", "gpu.nvlink", checktest.HGX(checktest.EveryGPU(func(g *gpu.GPU) { g.NVLink.Up = 12 })),
			"ok 8 GPUs"},
		{"boards without bridges", "gpu.nvlink", checktest.HGX(
			checktest.EveryGPU(func(g *gpu.GPU) { g.NVLink = &gpu.NVLink{Total: 18} })), "skip no NVLink"},
		{"a bridge between two of eight", "gpu.nvlink", checktest.HGX(checktest.EveryGPU(func(g *gpu.GPU) {
			g.NVLink = &gpu.NVLink{Total: 18}
			if g.Index < 2 {
				g.NVLink.Up, g.NVLink.Remotes = 18, []gpu.Remote{{Type: "gpu", Links: 18}}
			}
		})), "ok 8 GPUs"},
		{"a bridge that sits badly", "gpu.nvlink", checktest.HGX(checktest.EveryGPU(func(g *gpu.GPU) {
			g.NVLink = &gpu.NVLink{Up: 18, Total: 18, Remotes: []gpu.Remote{{Type: "gpu", Links: 18}}}
			if g.Index < 2 {
				g.NVLink.Up = 6
			}
		})), "warn has 6 NVLinks up"},
	} {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), tt.id, tt.in),
				tt.want)
		})
	}
}

// exists makes only these paths exist.
func exists(paths ...string) func(*preflight.Input) {
	return func(in *preflight.Input) { in.Exists = func(p string) bool { return slices.Contains(paths, p) } }
}

func TestCUDAAgainstTheDriver(t *testing.T) {
	loads := func(runtime, driver, serves string, edit ...func(*preflight.Input)) preflight.Input {
		return checktest.HGX(append([]func(*preflight.Input){exists(), func(in *preflight.Input) {
			in.Node.Software.CUDA, in.Node.GPUs.Driver, in.Node.GPUs.CUDA = runtime, driver, serves
		}}, edit...)...)
	}
	for name, tt := range map[string]struct {
		in   preflight.Input
		want string
	}{
		"as the driver's own":           {loads("12.8", "570.86.15", "12.8"), "ok CUDA 12.8"},
		"an older minor release serves": {loads("12.9", "525.60.13", "12.0"), "ok CUDA 12.9"},
		"just too old for the release": {loads("12.9", "525.60.12", "11.8"),
			"fail driver 525.60.12 is too old for CUDA 12.9"},
		"two major releases behind":          {loads("13.0", "470.256.02", "11.4"), "fail too old for CUDA 13.0"},
		"one behind":                         {loads("13.0", "570.86.15", "12.8"), "fail too old for CUDA 13.0"},
		"the first of its release":           {loads("13.1", "580.65.06", "13.0"), "ok CUDA 13.1"},
		"an old runtime on a new driver":     {loads("11.8", "580.65.06", "13.0"), "ok CUDA 11.8"},
		"NVML does not tell what it serves":  {loads("12.1", "535.104.05", ""), "ok driver 535.104.05"},
		"neither, and too old":               {loads("12.1", "515.43.04", ""), "fail too old"},
		"CUDA 11.0 has its own":              {loads("11.0", "450.51.06", ""), "ok driver 450.51.06"},
		"CUDA 10 has no rule":                {loads("10.2", "418.87.00", "10.1"), "fail too old for CUDA 10.2"},
		"CUDA 10 and its driver":             {loads("10.2", "440.64.00", "10.2"), "ok CUDA 10.2"},
		"a release that is not in the table": {loads("14.0", "580.65.06", "13.0"), "skip could not tell"},
		"a compatibility package": {loads("13.0", "570.86.15", "12.8",
			exists("/usr/local/cuda/compat/libcuda.so.1")), "warn too old for CUDA 13.0"},
		"one in the loader's path": {loads("13.0", "570.86.15", "12.8", exists("/opt/c/libcuda.so.1"),
			envOf("LD_LIBRARY_PATH", "/x::/opt/c")), "warn too old"},
		"nothing can be looked for": {loads("13.0", "570.86.15", "12.8", func(in *preflight.Input) { in.Exists = nil }),
			"warn too old"},
		"GPUs that the job may not use": {loads("13.0", "570.86.15", "12.8", notTorchrun), "warn too old"},
		"a torch for AMD": {loads("12.8", "418.1", "10.1",
			func(in *preflight.Input) { in.Node.Software.HIP = "6.2" }), "skip AMD"},
		"no torch":                  {loads("", "418.1", "10.1"), "skip not known"},
		"a driver of another shape": {loads("12.8", "dev build", ""), "skip could not tell"},
	} {
		t.Run(name, func(t *testing.T) { checktest.Wants(t, checktest.Verdict(t, Checks(), "gpu.cuda", tt.in), tt.want) })
	}
}

func TestTheTableOfReleasesIsInOrder(t *testing.T) {
	rs := releases()
	for i, r := range rs[1:] {
		if !olderThan(r.driver, rs[i].driver) {
			t.Errorf("%v is not older than %v", r, rs[i])
		}
	}
}

// One cause is one finding: what counts the GPUs waits for those that say why one
// is missing.
func TestALostGPUIsSaidOnce(t *testing.T) {
	in := checktest.HGX(checktest.OfGPU(3, func(g *gpu.GPU) { *g = gpu.GPU{Index: 3, Err: "lost", Code: "GPU_IS_LOST"} }))
	got, err := preflight.Run(t.Context(), Checks(), in,
		preflight.Options{Only: []string{"gpu.driver", "gpu.visible", "gpu.health", "gpu.count"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ok gpu.driver: driver 570.86.15", "ok gpu.visible: CUDA_VISIBLE_DEVICES is not set: all 8 GPUs",
		"fail gpu.health: GPU 3 fell off the bus", "skip gpu.count: needs gpu.health"}
	if diff := cmp.Diff(want, checktest.Lines(got)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
