package preflight

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/fabric/gpu"
)

// board is a healthy GPU as NVML tells of one in an NVSwitch machine.
func board(i int, pci string) gpu.GPU {
	return gpu.GPU{
		Index: i, Name: "NVIDIA H100 80GB HBM3", UUID: fmt.Sprintf("GPU-00000000-0000-4000-8000-0000000000%02x", i+0xa0), PCI: pci, Minor: i,
		Memory: 85520809984, MemoryUsed: 1 << 29, MemoryNUMA: -1, Gen: 1, MaxGen: 5, Lanes: 16, MaxLanes: 16,
		ComputeMode: "default", Throttle: []string{"idle"}, MIG: "off",
		ECC: &gpu.ECC{Mode: "on", Pending: "on", Corrected: 2, CorrectedEver: 3, UncorrectedEver: 1}, Rows: &gpu.Rows{Corrected: 1},
		NVLink: &gpu.NVLink{Up: 18, Total: 18, Remotes: []gpu.Remote{{Type: "switch", PCI: "0000:07:00.0", Links: 18}}},
		Fabric: &gpu.Fabric{State: "completed", Status: "SUCCESS", Health: "healthy"},
	}
}

// hgx is one node of four with eight healthy GPUs and a process for each.
func hgx(edit ...func(*Input)) Input {
	in := four().nproc("8").envs()
	in.Node.BootID = "01234567-89ab-cdef-0123-456789abcdef"
	in.Node.GPUs = gpu.Facts{Present: true, Driver: "570.86.15", CUDA: "12.8"}
	for i := range 8 {
		in.Node.GPUs.Devices = append(in.Node.GPUs.Devices, board(i, fmt.Sprintf("0000:%02x:00.0", 0x1b+i*0x10)))
	}
	in.Node.Software.CUDA, in.Node.Software.Torch.Version, in.Node.Software.Torch.Path = "12.8", "2.9.0+cu128", "/env/torch/version.py"
	for _, e := range edit {
		e(&in)
	}
	return in
}

// of is an edit of one GPU.
func of(i int, edit func(*gpu.GPU)) func(*Input) {
	return func(in *Input) { edit(&in.Node.GPUs.Devices[i]) }
}

// every is an edit of all GPUs.
func every(edit func(*gpu.GPU)) func(*Input) {
	return func(in *Input) {
		for i := range in.Node.GPUs.Devices {
			edit(&in.Node.GPUs.Devices[i])
		}
	}
}

func xidOn(i, code, age int) func(*Input) {
	return func(in *Input) {
		in.Node.GPUs.XIDs = append(in.Node.GPUs.XIDs, gpu.XID{PCI: in.Node.GPUs.Devices[i].PCI, Code: code, Count: 1, Age: age, Text: "something"})
	}
}

func envOf(pairs ...string) func(*Input) {
	return func(in *Input) { *in = in.envs(pairs...) }
}

// paired has all GPUs reach each other across the machine, but of 2 and 5, which
// are so far apart, it is another answer.
func paired(distance, answer string) func(*Input) {
	return func(in *Input) {
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

func processesOf(n string) func(*Input) { return func(in *Input) { *in = in.nproc(n) } }

func fewer(in *Input)       { *in = in.nproc("4") }
func notTorchrun(in *Input) { in.Job.Line.Kind = "plain" }

func by(pid int, name string, memory uint64) func(*gpu.GPU) {
	return func(g *gpu.GPU) { g.Processes = append(g.Processes, gpu.Process{PID: pid, Name: name, Memory: memory}) }
}

func TestGPUChecks(t *testing.T) {
	lost := of(3, func(g *gpu.GPU) {
		*g = gpu.GPU{Index: 3, PCI: "0000:4b:00.0", Minor: -1, Err: "nvmlDeviceGetHandleByIndex: GPU_IS_LOST", Code: "GPU_IS_LOST"}
	})
	reset := of(3, func(g *gpu.GPU) { g.Recovery = "reset" })
	hide3 := envOf(cudaList, "0,1,2,4,5,6,7")
	rows := func(pending, failed bool) func(*Input) {
		return of(3, func(g *gpu.GPU) { g.Rows = &gpu.Rows{Uncorrected: 1, Pending: pending, Failed: failed} })
	}
	state := func(s string) func(*Input) { return every(func(g *gpu.GPU) { g.Fabric = &gpu.Fabric{State: s} }) }
	links := func(i, up int) func(*Input) {
		return of(i, func(g *gpu.GPU) { g.NVLink = &gpu.NVLink{Up: up, Total: 18, Remotes: g.NVLink.Remotes} })
	}
	mig := func(g *gpu.GPU) { g.MIG, g.MIGDevices = "on", []gpu.MIGDevice{{UUID: "MIG-a"}} }
	mismatch := func(in *Input) {
		in.Node.GPUs = gpu.Facts{Err: "nvmlInit: LIB_RM_VERSION_MISMATCH", Code: "LIB_RM_VERSION_MISMATCH"}
		for range 8 {
			in.Node.Cards = append(in.Node.Cards, fabric.Card{Vendor: "nvidia"})
		}
	}
	exclusive := every(func(g *gpu.GPU) { g.ComputeMode = "exclusive_process" })
	for _, tt := range []struct {
		name, id string
		in       Input
		want     string
	}{
		{"healthy", "gpu.driver", hgx(), "ok driver 570.86.15"},
		{"library and module differ", "gpu.driver", hgx(mismatch), "fail different versions"},
		{"the same, fewer processes", "gpu.driver", hgx(mismatch, fewer), "warn different versions"},
		{"the same, another program", "gpu.driver", hgx(mismatch, notTorchrun), "warn different versions"},
		{"a driver that hangs", "gpu.driver", hgx(func(in *Input) { in.Node.GPUs = gpu.Facts{Err: "NVML did not answer within 27s"} }), "warn could not be asked"},

		{"healthy", "gpu.health", hgx(), "ok 8 GPUs"},
		{"lost", "gpu.health", hgx(lost), "fail GPU 3 (0000:4b:00.0) fell off the bus"},
		{"lost, fewer processes than GPUs", "gpu.health", hgx(lost, fewer), "warn GPU 3 (0000:4b:00.0) fell off"},
		{"lost, and hidden", "gpu.health", hgx(lost, hide3, processesOf("7")), "ok 7 GPUs"},
		{"wants a reset", "gpu.health", hgx(reset), "fail GPU 3 (0000:4b:00.0, GPU-…000000a3) has a fault, and the driver wants it reset"},
		{"wants a reset, a process per GPU", "gpu.health", hgx(reset, processesOf("gpu")), "fail wants it reset"},
		{"wants a reset, another program", "gpu.health", hgx(reset, notTorchrun), "warn wants it reset"},
		{"wants a reset, hidden", "gpu.health", hgx(reset, hide3, processesOf("7")), "ok 7 GPUs"},
		{"wants a reset, seen by its UUID", "gpu.health", hgx(reset, envOf(cudaList, "GPU-00000000-0000-4000-8000-0000000000a3"), processesOf("1")), "fail wants it reset"},
		{"wants a reset, GPUs of two models in CUDA's own order", "gpu.health",
			hgx(reset, of(0, func(g *gpu.GPU) { g.Name = "NVIDIA T4" }), envOf(cudaList, "0,1,2,3"), fewer), "warn wants it reset"},
		{"the same, by address", "gpu.health",
			hgx(reset, of(0, func(g *gpu.GPU) { g.Name = "NVIDIA T4" }), envOf(cudaList, "0,1,2,3", "CUDA_DEVICE_ORDER", "PCI_BUS_ID"), fewer), "fail wants it reset"},
		{"wants a reboot", "gpu.health", hgx(of(3, func(g *gpu.GPU) { g.Recovery = "reboot" })), "fail wants this machine rebooted"},
		{"wants its links drained", "gpu.health", hgx(of(3, func(g *gpu.GPU) { g.Recovery = "drain_p2p" })), "warn asks for drain p2p"},
		{"an action of a newer driver", "gpu.health", hgx(of(3, func(g *gpu.GPU) { g.Recovery = "unknown_9" })), "warn asks for unknown 9"},
		{"memory errors", "gpu.health", hgx(of(3, func(g *gpu.GPU) { g.ECC.Uncorrected = 4 })), "warn had 4 uncorrectable memory errors"},
		{"a remap is pending", "gpu.health", hgx(rows(true, false)), "warn waits for a reset"},
		{"a remap failed", "gpu.health", hgx(rows(false, true)), "warn could not be replaced"},
		{"a fault of the hardware", "gpu.health", hgx(xidOn(3, 79, 600)), "warn Xid 79 10 minutes ago (it fell off the bus)"},
		{"a fault of the hardware, long ago", "gpu.health", hgx(xidOn(3, 79, 30*3600)), "ok 8 GPUs"},
		{"an application's fault", "gpu.health", hgx(xidOn(3, 31, 60), xidOn(3, 13, 60), xidOn(3, 45, 60), xidOn(3, 94, 60)), "ok 8 GPUs"},
		{"a number that no catalog has", "gpu.health", hgx(xidOn(3, 4711, 60)), "ok 8 GPUs"},
		{"another machine's GPU in the log", "gpu.health", hgx(func(in *Input) { in.Node.GPUs.XIDs = []gpu.XID{{PCI: "0000:ff:00.0", Code: 79}} }), "ok 8 GPUs"},
		{"a fatal fault of a switch", "gpu.health", hgx(func(in *Input) {
			in.Node.GPUs.XIDs = []gpu.XID{{PCI: "0000:c1:00.0", Switch: true, Code: 20034, Count: 1, Text: "Fatal, Link 30 LTSSM Fault Up"}}
		}), "warn SXid 20034"},
		{"a fault of a switch that is none", "gpu.health", hgx(func(in *Input) {
			in.Node.GPUs.XIDs = []gpu.XID{{PCI: "0000:c1:00.0", Switch: true, Code: 12028, Count: 9, Text: "Non-fatal, Link 32 egress"}}
		}), "ok 8 GPUs"},

		{"one pair may not", "gpu.p2p", hgx(paired("SYS", "topology")), "warn GPUs that may not use each other's memory, as others like them may: 2 and 5"},
		{"one pair may not, in a virtual machine", "gpu.p2p", hgx(paired("SYS", "disabled"), func(in *Input) { in.Node.Cloud.Virtual = true }), "warn 2 and 5"},
		{"one that is farther apart may not", "gpu.p2p", hgx(paired("NODE", "topology")), "skip no GPU and rail"},
		{"one that could not be asked", "gpu.p2p", hgx(paired("SYS", "")), "skip no GPU and rail"},
		{"all may", "gpu.p2p", hgx(paired("SYS", "ok")), "skip no GPU and rail"},
		{"one of them in MIG mode", "gpu.p2p", hgx(paired("SYS", "not_supported"), of(5, func(g *gpu.GPU) { g.MIG = "on" })), "skip no GPU and rail"},
		{"one of another model", "gpu.p2p", hgx(paired("SYS", "gpu"), of(5, func(g *gpu.GPU) { g.Name = "NVIDIA T4" }), func(in *Input) {
			for i, p := range in.Node.GPUs.Pairs {
				if p.A == 5 || p.B == 5 {
					in.Node.GPUs.Pairs[i].Read = "gpu"
				}
			}
		}), "skip no GPU and rail"},
		{"hidden from the job", "gpu.p2p", hgx(paired("SYS", "gpu"), envOf("CUDA_VISIBLE_DEVICES", "0,1,2,3")), "skip no GPU and rail"},

		{"healthy", "gpu.fabric", hgx(), "ok 8 GPUs"},
		{"the manager does not run", "gpu.fabric", hgx(state("not_started")), "fail has not set up"},
		{"the manager is at work", "gpu.fabric", hgx(state("in_progress")), "fail has not set up"},
		{"no switch is seen, as in a guest", "gpu.fabric", hgx(state("not_started"), every(func(g *gpu.GPU) { g.NVLink = nil })), "warn has not set up"},
		{"the switch is on the bus", "gpu.fabric", hgx(state("not_started"), every(func(g *gpu.GPU) { g.NVLink = nil }),
			func(in *Input) { in.Node.PCI = []fabric.PCI{{Addr: "0000:07:00.0", Driver: "nvidia-nvswitch"}} }), "fail has not set up"},
		{"a bad route", "gpu.fabric", hgx(of(1, func(g *gpu.GPU) { g.Fabric.Health, g.Fabric.Problems = "unhealthy", []string{"route_unhealthy"} })), "warn not in order for GPU 1"},
		{"refused", "gpu.fabric", hgx(of(1, func(g *gpu.GPU) { g.Fabric.Status = "UNKNOWN" })), "warn not in order"},
		{"no NVSwitch", "gpu.fabric", hgx(every(func(g *gpu.GPU) { g.Fabric = nil })), "skip no NVSwitch"},
		{"no IMEX channel", "gpu.fabric", hgx(every(func(g *gpu.GPU) { g.Fabric.Cluster = "c" }), exists("/dev/nvidiactl")), "warn no IMEX channel"},
		{"an IMEX channel", "gpu.fabric", hgx(every(func(g *gpu.GPU) { g.Fabric.Cluster = "c" }), exists("/dev/nvidia-caps-imex-channels/channel7")), "ok 8 GPUs"},
		{"no IMEX channel, not wanted", "gpu.fabric", hgx(every(func(g *gpu.GPU) { g.Fabric.Cluster = "c" }), exists(), envOf("NCCL_MNNVL_ENABLE", "0")), "ok 8 GPUs"},
		{"no IMEX channel, one node", "gpu.fabric", hgx(every(func(g *gpu.GPU) { g.Fabric.Cluster = "c" }), exists(), func(in *Input) { in.Job.Nodes.V = 1 }), "ok 8 GPUs"},

		{"healthy", "gpu.mode", hgx(), "ok 8 GPUs"},
		{"one at a time", "gpu.mode", hgx(exclusive), "ok 8 GPUs"},
		{"prohibited", "gpu.mode", hgx(of(5, func(g *gpu.GPU) { g.ComputeMode = "prohibited" })), "fail GPU 5"},
		{"prohibited, fewer processes", "gpu.mode", hgx(of(5, func(g *gpu.GPU) { g.ComputeMode = "prohibited" }), fewer), "warn GPU 5"},
		{"some in MIG mode", "gpu.mode", hgx(of(5, mig), of(6, mig)), "warn 2 GPUs of 8 GPUs in MIG mode"},
		{"the only one in MIG mode", "gpu.mode", hgx(of(5, mig), envOf(cudaList, "5"), processesOf("1")), "ok 1 GPU"},

		{"healthy", "gpu.busy", hgx(), "ok 8 GPUs"},
		{"monitoring", "gpu.busy", hgx(every(by(99, "nv-hostengine", 3<<30)), every(by(98, "python", 500<<20))), "ok 8 GPUs"},
		{"somebody computes", "gpu.busy", hgx(of(2, by(4711, "python", 40<<30))), "warn GPU 2 (0000:3b:00.0, GPU-…000000a2) is in use by another process"},
		{"somebody in another container", "gpu.busy", hgx(of(2, by(4711, "", 0)), of(2, func(g *gpu.GPU) { g.MemoryUsed = 60 << 30 })), "warn in use by another process"},
		{"a context in another container", "gpu.busy", hgx(of(2, by(4711, "", 0))), "ok 8 GPUs"},
		{"memory of nobody", "gpu.busy", hgx(of(2, func(g *gpu.GPU) { g.MemoryUsed = 60 << 30 })), "warn has memory in use"},
		{"memory of the machine itself", "gpu.busy", hgx(of(2, func(g *gpu.GPU) { g.MemoryUsed, g.MemoryNUMA = 60<<30, 9 })), "ok 8 GPUs"},
		{"shared by MPS", "gpu.busy", hgx(exclusive, of(2, by(1, "nvidia-cuda-mps-server", 30<<20)), of(2, by(4711, "python", 40<<30))), "ok 8 GPUs"},
		{"one at a time, and taken", "gpu.busy", hgx(exclusive, of(2, by(4711, "python", 100<<20))), "fail serves one process at a time, and python (pid 4711"},
		{"one at a time, taken, and hidden", "gpu.busy", hgx(exclusive, of(3, by(4711, "python", 1<<30)), hide3, processesOf("7")), "ok 7 GPUs"},

		{"idle", "gpu.throttle", hgx(), "ok 8 GPUs"},
		{"at its power limit", "gpu.throttle", hgx(every(func(g *gpu.GPU) { g.Throttle = []string{"sw_power_cap", "sync_boost"} })), "ok 8 GPUs"},
		{"power brake", "gpu.throttle", hgx(of(2, func(g *gpu.GPU) { g.Throttle = []string{"hw_slowdown", "power_brake"} })), "warn is slowed down by the power brake"},
		{"hot", "gpu.throttle", hgx(of(2, func(g *gpu.GPU) { g.Throttle = []string{"hw_slowdown", "hw_thermal"} }), of(4, func(g *gpu.GPU) { g.Throttle = []string{"sw_thermal"} })), "warn are slowed down by heat"},
		{"slow for no reason that is named", "gpu.throttle", hgx(of(2, func(g *gpu.GPU) { g.Throttle = []string{"hw_slowdown", "idle"} })), "warn by the hardware"},

		{"healthy", "gpu.nvlink", hgx(), "ok 8 GPUs"},
		{"one link is down", "gpu.nvlink", hgx(links(3, 17)), "warn has 17 NVLinks up, others of its kind have 18"},
		{"no link of one is up", "gpu.nvlink", hgx(links(3, 0)), "warn has 0 NVLinks up"},
		{"a link of each is down", "gpu.nvlink", hgx(every(func(g *gpu.GPU) { g.NVLink.Up = 12 })), "ok 8 GPUs"},
		{"boards without bridges", "gpu.nvlink", hgx(every(func(g *gpu.GPU) { g.NVLink = &gpu.NVLink{Total: 18} })), "skip no NVLink"},
		{"a bridge between two of eight", "gpu.nvlink", hgx(every(func(g *gpu.GPU) {
			g.NVLink = &gpu.NVLink{Total: 18}
			if g.Index < 2 {
				g.NVLink.Up, g.NVLink.Remotes = 18, []gpu.Remote{{Type: "gpu", Links: 18}}
			}
		})), "ok 8 GPUs"},
		{"a bridge that sits badly", "gpu.nvlink", hgx(every(func(g *gpu.GPU) {
			g.NVLink = &gpu.NVLink{Up: 18, Total: 18, Remotes: []gpu.Remote{{Type: "gpu", Links: 18}}}
			if g.Index < 2 {
				g.NVLink.Up = 6
			}
		})), "warn has 6 NVLinks up"},
	} {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) { wants(t, verdict(t, tt.id, tt.in), tt.want) })
	}
}

// exists makes only these paths exist.
func exists(paths ...string) func(*Input) {
	return func(in *Input) { in.Exists = func(p string) bool { return slices.Contains(paths, p) } }
}

func TestCUDAAgainstTheDriver(t *testing.T) {
	loads := func(runtime, driver, serves string, edit ...func(*Input)) Input {
		return hgx(append([]func(*Input){exists(), func(in *Input) {
			in.Node.Software.CUDA, in.Node.GPUs.Driver, in.Node.GPUs.CUDA = runtime, driver, serves
		}}, edit...)...)
	}
	for name, tt := range map[string]struct {
		in   Input
		want string
	}{
		"as the driver's own":                {loads("12.8", "570.86.15", "12.8"), "ok CUDA 12.8"},
		"an older minor release serves":      {loads("12.9", "525.60.13", "12.0"), "ok CUDA 12.9"},
		"just too old for the release":       {loads("12.9", "525.60.12", "11.8"), "fail driver 525.60.12 is too old for CUDA 12.9"},
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
		"a compatibility package":            {loads("13.0", "570.86.15", "12.8", exists("/usr/local/cuda/compat/libcuda.so.1")), "warn too old for CUDA 13.0"},
		"one in the loader's path":           {loads("13.0", "570.86.15", "12.8", exists("/opt/c/libcuda.so.1"), envOf("LD_LIBRARY_PATH", "/x::/opt/c")), "warn too old"},
		"nothing can be looked for":          {loads("13.0", "570.86.15", "12.8", func(in *Input) { in.Exists = nil }), "warn too old"},
		"GPUs that the job may not use":      {loads("13.0", "570.86.15", "12.8", notTorchrun), "warn too old"},
		"a torch for AMD":                    {loads("12.8", "418.1", "10.1", func(in *Input) { in.Node.Software.HIP = "6.2" }), "skip AMD"},
		"no torch":                           {loads("", "418.1", "10.1"), "skip not known"},
		"a driver of another shape":          {loads("12.8", "dev build", ""), "skip could not tell"},
	} {
		t.Run(name, func(t *testing.T) { wants(t, verdict(t, "gpu.cuda", tt.in), tt.want) })
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

func TestVisibleGPUs(t *testing.T) {
	uuid := func(i int) string { return board(i, "").UUID }
	amd := func(pairs ...string) Input {
		in := four().nproc("4").envs(pairs...)
		for range 4 {
			in.Node.Cards = append(in.Node.Cards, fabric.Card{Vendor: "amd"})
		}
		return in
	}
	for _, tt := range []struct {
		name, list string
		edit       []func(*Input)
		want       string
	}{
		{"half", "0,1,2,3", []func(*Input){fewer}, "ok 4 of 8 GPUs"},
		{"in another order, with spaces", " 7, 6 ,5,4", []func(*Input){fewer}, "ok 4 of 8"},
		{"one that is not here", "0,1,2,3,8", []func(*Input){fewer}, "warn names GPU 8, which is not here"},
		{"one that is not here, and too few are left", "0,1,8,2,3", []func(*Input){fewer}, "fail names GPU 8, which is not here: it and what is named behind it are hidden, 2 GPUs are left"},
		{"the same, another program", "0,1,8,2,3", []func(*Input){fewer, notTorchrun}, "warn names GPU 8"},
		{"only one that is not here, one process per GPU", "8", []func(*Input){processesOf("gpu")}, "fail 0 GPUs are left"},
		{"twice", "0,1,1,2", []func(*Input){fewer}, "fail names GPU 1 twice"},
		{"twice, another program", "0,1,1,2", []func(*Input){notTorchrun}, "warn twice"},
		{"twice, written differently", "0,01,+1", []func(*Input){fewer}, "fail twice"},
		{"twice by UUID", uuid(1) + "," + uuid(1), []func(*Input){fewer}, "fail twice"},
		{"by UUID", uuid(1) + "," + uuid(2), []func(*Input){processesOf("2")}, "ok 2 of 8"},
		{"a UUID of another machine", "GPU-ffffffff-0000-4000-8000-0000000000a1", []func(*Input){processesOf("1")}, "fail GPU-ffffffff"},
		{"a UUID that is cut too short", "GPU-0000", []func(*Input){processesOf("1")}, "fail GPU-0000"},
		{"a UUID that NVML did not tell", "GPU-ffff", []func(*Input){processesOf("1"), of(2, func(g *gpu.GPU) { g.UUID = "" })}, "ok 1 of 8"},
		{"a MIG slice", "MIG-ffff", []func(*Input){processesOf("1")}, "ok 1 of 8"},
		{"none", "", nil, "skip hides the 8 GPUs"},
		{"none, as Slurm has it", "NoDevFiles", nil, "skip hides the 8 GPUs"},
		{"none, -1", "-1", nil, "skip hides the 8 GPUs"},
		{"none, and one process per GPU", "", []func(*Input){processesOf("gpu")}, "fail hides the 8 GPUs"},
		{"ended on purpose", "0,1,-1,2", []func(*Input){processesOf("2")}, "ok 2 of 8"},
		{"not given to this container", "0,1,2,3", []func(*Input){fewer, of(0, func(g *gpu.GPU) { g.Err, g.Code = "no", "NO_PERMISSION" })}, "ok 4 of 8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wants(t, verdict(t, "gpu.visible", hgx(append([]func(*Input){envOf(cudaList, tt.list)}, tt.edit...)...)), tt.want)
		})
	}
	for name, tt := range map[string]struct {
		in   Input
		want string
	}{
		"AMD, all":                        {amd(), "ok 4 AMD GPUs"},
		"AMD, both lists and consistent":  {amd(rocrList, "4,5", hipList, "0,1"), "ok 4 AMD"},
		"AMD, both lists by machine":      {amd(rocrList, "2,3", hipList, "2,3"), "warn there is no GPU 2 among these 2"},
		"AMD, both, by CUDA's name":       {amd(rocrList, "2,3", cudaList, "2,3"), "warn there is no GPU 2"},
		"AMD, one list":                   {amd(hipList, "2,3"), "ok 4 AMD"},
		"AMD, a partition beyond the bus": {amd(hipList, "60"), "ok 4 AMD"},
		"AMD, twice":                      {amd(hipList, "2,2"), "warn twice"},
		"nothing":                         {four(), "skip no GPU"},
	} {
		t.Run(name, func(t *testing.T) { wants(t, verdict(t, "gpu.visible", tt.in), tt.want) })
	}
}

// One cause is one finding: what counts the GPUs waits for those that say why one
// is missing.
func TestALostGPUIsSaidOnce(t *testing.T) {
	in := hgx(of(3, func(g *gpu.GPU) { *g = gpu.GPU{Index: 3, Err: "lost", Code: "GPU_IS_LOST"} }))
	got, err := Local(t.Context(), in, Options{Only: []string{"gpu.driver", "gpu.visible", "gpu.health", "gpu.count"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ok gpu.driver: driver 570.86.15", "ok gpu.visible: CUDA_VISIBLE_DEVICES is not set: all 8 GPUs",
		"fail gpu.health: GPU 3 fell off the bus", "skip gpu.count: needs gpu.health"}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "0,1", "0,0", "GPU-a,MIG-b", "-1", "+1,01,1x", "NoDevFiles", ",,", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		in := hgx(envOf(cudaList, list))
		s := seen(in)
		if n := s.count(); n < 0 || n > len(s.devices)+s.others || s.set != true {
			t.Errorf("%q leaves %d GPUs of %+v", list, n, s)
		}
		for i, d := range s.devices {
			if slices.ContainsFunc(s.devices[:i], func(o gpu.GPU) bool { return o.Index == d.Index }) && !isUUID(strings.TrimSpace(list)) {
				t.Errorf("%q has GPU %d twice", list, d.Index)
			}
		}
		if f := gpuVisible(t.Context(), in); f.Status == "" || f.What == "" {
			t.Errorf("%q: %+v", list, f)
		}
	})
}
