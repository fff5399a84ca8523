package faultbench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gpuFaults returns faults in the answers of NVML on the sick host.
func gpuFaults() []fault {
	// nvml changes answers on the sick host.
	nvml := func(lines ...string) func(*trial) {
		return func(tr *trial) {
			tr.equip(onIB)
			tr.sick.nvml(tr, lines...)
		}
	}
	visible := func(list string) func(*trial) {
		return func(tr *trial) {
			tr.equip(onIB)
			tr.sick.env = append(tr.sick.env, "CUDA_VISIBLE_DEVICES="+list)
		}
	}
	const (
		replayed = "NVML's answers come from a file"
		fell     = "as above; the kernel log shows it too, but hosts of the bench share that log"
		owner    = "nvmlSystemGetProcessName 4711 = /opt/conda/bin/python"
		two      = "0,1,2,3,4,5,6,"
	)
	all := []fault{
		{name: "seven GPUs of eight", ci: true, inject: nvml("nvmlDeviceGetCount = 7"), want: []string{"gpu.count"}},
		{name: "a GPU is lost", ci: true, inject: nvml("nvmlDeviceGetHandleByIndex 3 = !15"), want: []string{"gpu.health"},
			real: fell},
		{name: "a GPU is lost while NVML reads it", inject: nvml("nvmlDeviceGetMemoryInfo 3 = !15"),
			want: []string{"gpu.health"}, real: fell},
		{name: "a GPU has to be reset", inject: nvml("nvmlDeviceGetHandleByIndex 6 = !16"), want: []string{"gpu.health"}},
		{name: "uncorrectable memory errors", runs: true, inject: nvml("nvmlDeviceGetTotalEccErrors 2 1 0 = 4"),
			want: []string{"gpu.health"}},
		{name: "a row waits to be replaced", runs: true, inject: nvml("nvmlDeviceGetRemappedRows 5 = 0 1 1 0"),
			want: []string{"gpu.health"}},
		{name: "a row could not be replaced", runs: true, inject: nvml("nvmlDeviceGetRemappedRows 5 = 0 1 0 1"),
			want: []string{"gpu.health"}},
		{name: "the driver wants a reset", inject: nvml("nvmlDeviceGetFieldValues 1 230 = 1"), want: []string{"gpu.health"}},
		{name: "library and kernel module differ", ci: true, inject: nvml("nvmlInit = !18"), want: []string{"gpu.driver"}},
		{name: "the fabric manager is not done",
			inject: nvml("nvmlDeviceGetGpuFabricInfo * = 2 0 0 0 0 00000000000000000000000000000000"),
			want:   []string{"gpu.fabric"}},
		{name: "the fabric manager of an A100 is not done", ci: true, inject: func(tr *trial) {
			tr.equip(onIB)
			tr.sick.onSwitches(tr, 802)
		}, want: []string{"gpu.fabric"}, real: "NVML's answers come from a file, and libcuda is a stand-in"},
		{name: "NVLinks are down", runs: true, inject: nvml("nvmlDeviceGetNvLinkState 3 16 = 0",
			"nvmlDeviceGetNvLinkState 3 17 = 0"), want: []string{"gpu.nvlink"}},
		{name: "an exclusive GPU is in use", inject: nvml("nvmlDeviceGetComputeMode 0 = 3",
			"nvmlDeviceGetComputeRunningProcesses 0 = 4711 528482304", owner), want: []string{"gpu.busy"}},
		{name: "a GPU is prohibited", inject: nvml("nvmlDeviceGetComputeMode 4 = 2"), want: []string{"gpu.mode"}},
		{name: "an old process holds memory", ci: true, runs: true,
			inject: nvml("nvmlDeviceGetComputeRunningProcesses 6 = 4711 42949672960",
				"nvmlDeviceGetMemoryInfo 6 = 85520809984 43949672960", owner), want: []string{"gpu.busy"}},
		{name: "a GPU is too hot", runs: true, inject: nvml("nvmlDeviceGetCurrentClocksEventReasons 2 = 72"),
			want: []string{"gpu.throttle"}},
		{name: "the power brake", runs: true, inject: nvml("nvmlDeviceGetCurrentClocksEventReasons * = 136"),
			want: []string{"gpu.throttle"}},
		{name: "MIG is on", runs: true, inject: nvml("nvmlDeviceGetMigMode 7 = 1 1"), want: []string{"gpu.mode"}},
		{name: "NVML hangs at once", inject: nvml("nvmlInit = hang"), runs: true, want: []string{"gpu.driver"},
			real: "there a process that hangs in the driver may survive SIGKILL"},
		{name: "NVML hangs at one GPU that slept", sizes: []int{3}, runs: true, inject: func(tr *trial) {
			tr.equip(onIB)
			tr.sick.nvml(tr, "nvmlDeviceGetCurrPcieLinkGeneration 5 = hang")
			tr.sick.Prepare = append(tr.sick.Prepare, "rm /run/nvidia-persistenced/socket")
			tr.each(func(h *host) { h.flags = append(h.flags, "--join-timeout", "50s") })
		}, want: []string{"gpu.driver"},
			real: "as above; each of eight GPUs may take 3 s to start where nothing keeps them awake"},
		{name: "CUDA_VISIBLE_DEVICES has a number twice", ci: true, inject: visible(two + "6"), want: []string{"gpu.visible"},
			real: "all is real"},
		{name: "CUDA_VISIBLE_DEVICES has a number too many", inject: visible(two + "8"), want: []string{"gpu.visible"},
			real: "all is real"},
		{name: "CUDA_VISIBLE_DEVICES has an unknown UUID", inject: visible("GPU-deadbeef"), want: []string{"gpu.visible"},
			real: "all is real"},
		{name: "CUDA_VISIBLE_DEVICES of another job", inject: visible("0,1,2,3"), want: []string{"gpu.count"},
			real: "all is real"},
		{name: "another model", runs: true, inject: nvml("nvmlDeviceGetName * = NVIDIA A100-SXM4-80GB"),
			want: []string{"same.gpu"}},
		{name: "less memory", runs: true, inject: nvml("nvmlDeviceGetMemoryInfo * = 42949672960 0"),
			want: []string{"same.gpu.memory"}},
		{name: "another driver", runs: true, inject: nvml("nvmlSystemGetDriverVersion = 560.35.03"),
			want: []string{"same.driver"}},
		{name: "a device node that is none", inject: func(tr *trial) {
			tr.equip(onIB)
			tr.sick.devices("mknod -m 666 /dev/nvidia3 c 1 3")
		}, want: []string{"fail gpu.health /dev/nvidia3"}},
		{name: "one node sees no GPU", runs: true, inject: func(tr *trial) {
			tr.equip(onIB)
			tr.oneProgram()
			tr.sick.nvml(tr, "nvmlDeviceGetCount = 0")
			tr.sick.env = append(tr.sick.env, "CUDA_VISIBLE_DEVICES=")
		}, want: []string{"warn same.gpu.seen has no GPU"}},
		{name: "access control between a GPU and its rail", runs: true, inject: func(tr *trial) {
			tr.equip(onIB)
			tr.sick.change(tr, `(?m) bridge$`, " bridge acs=on")
		}, want: []string{"warn gpu.p2p devices behind one PCIe switch communicate through the root"},
			real: "the bridges' configuration is replayed"},
		{name: "two containers of one machine have one host name", runs: true, inject: func(tr *trial) {
			tr.equip(onIB)
			tr.sick.bootAs(tr.t, tr.hosts[0])
		}, want: []string{"warn same.hostid 2 containers of one machine have one host name"}},
		{name: "a driver too old for torch's CUDA", inject: func(tr *trial) {
			tr.equip(onIB)
			tr.each(func(h *host) { h.venv(tr, "2.9.0+cu128", "12.8", "2.27.5") })
			tr.sick.nvml(tr, "nvmlSystemGetDriverVersion = 470.256.02", "nvmlSystemGetCudaDriverVersion = 11040")
		}, want: []string{"gpu.cuda"}},
		{name: "an NCCL for a newer CUDA than the driver's", inject: func(tr *trial) {
			tr.equip(onIB)
			tr.each(func(h *host) { h.venv(tr, "2.9.0+cu128", "12.8", "2.27.5"); h.nccl(tr, "2.27.5+cuda12.8") })
			tr.sick.nccl(tr, "2.27.5+cuda13.0")
			tr.sick.nvml(tr, "nvmlSystemGetCudaDriverVersion = 12080")
		}, want: []string{"fail gpu.pairs an NCCL for CUDA 13.0, and the driver serves CUDA 12.8"}},
	}
	for i := range all {
		all[i].group = "gpu"
		if all[i].real == "" {
			all[i].real = replayed
		}
	}
	return all
}

// bootAs gives a host the boot id of another: both run on one machine, with networks of their own.
func (h *host) bootAs(t testing.TB, o *host) {
	t.Helper()
	id, err := os.ReadFile(filepath.Join(o.Dir(), "boot_id"))
	if err == nil {
		err = os.WriteFile(filepath.Join(h.Dir(), "boot_id"), id, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// oneProgram makes the line one of a plain program, one process on each node.
func (tr *trial) oneProgram() {
	tr.each(func(h *host) {
		h.flags = append(h.flags, "--nnodes", fmt.Sprint(len(tr.hosts)))
		h.line = []string{"true"}
	})
}

// devices makes device nodes on a host alone.
func (h *host) devices(lines ...string) {
	h.Prepare = append(append(h.Prepare, `mkdir -p "$0/dev"`, `mount -t tmpfs none "$0/dev"`,
		`mkdir "$0/dev/upper" "$0/dev/work"`,
		`mount -t overlay -o "lowerdir=/dev,upperdir=$0/dev/upper,workdir=$0/dev/work" overlay /dev`), lines...)
}

// onSwitches gives a host older GPUs on NVSwitches, and a libcuda that starts with an error.
func (h *host) onSwitches(tr *trial, cuInit int) {
	tr.t.Helper()
	h.describe(tr, above(h.read(tr, "node.txt"), `
pci0000:fd numa=1
  0000:fe:00.0 10de:1af1 0680 nvidia-nvswitch
  0000:fe:01.0 10de:1af1 0680 nvidia-nvswitch
`))
	h.nvml(tr, "nvmlDeviceGetGpuFabricInfo * = !3", "nvmlDeviceGetName * = NVIDIA A100-SXM4-80GB")
	h.write(tr, "cuda.c", fmt.Sprintf("int cuInit(unsigned flags) { return %d; }\n", cuInit))
	out, err := exec.Command(compiler(), "-shared", "-fPIC", "-o", h.file("lib/libcuda.so.1"), h.file("cuda.c")).
		CombinedOutput()
	if err != nil {
		tr.t.Fatalf("build a libcuda: %v\n%s", err, out)
	}
}

// nccl builds an NCCL of a version, and a torch that loads it, into the host's environment.
func (h *host) nccl(tr *trial, version string) {
	tr.t.Helper()
	const site = "env/lib/python3.12/site-packages/"
	h.write(tr, "nccl.c", "const char nccl_version[] = \"NCCL version "+version+"\";\n")
	h.write(tr, site+"nvidia/nccl/lib/README", "")
	h.write(tr, site+"torch/lib/README", "")
	lib := h.file(site + "nvidia/nccl/lib/libnccl.so.2")
	for _, args := range [][]string{
		{"-Wl,-soname,libnccl.so.2", "-o", lib, h.file("nccl.c")},
		{"-Wl,--no-as-needed,-rpath,$ORIGIN/../../nvidia/nccl/lib", "-o", h.file(site + "torch/lib/libtorch_cuda.so"), lib},
	} {
		out, err := exec.Command(compiler(), append([]string{"-shared", "-fPIC"}, args...)...).CombinedOutput()
		if err != nil {
			tr.t.Fatalf("build an NCCL: %v\n%s", err, out)
		}
	}
}

// venv writes the files of a Python environment with torch, and with NCCL if a
// version is given. Its torchrun is the stand-in.
func (h *host) venv(tr *trial, torch, cuda, nccl string) {
	tr.t.Helper()
	const site = "env/lib/python3.12/site-packages/"
	h.write(tr, "env/pyvenv.cfg", "home = /usr/bin\nversion = 3.12.3\n")
	h.write(tr, "env/bin/python3", "#!/bin/sh\ncase $1 in */torchrun) shift; exec "+tools.fake+"/torchrun \"$@\";; esac\n"+
		"exec /usr/bin/python3 \"$@\"\n")
	h.write(tr, "env/bin/torchrun", "#!"+h.file("env/bin/python3")+"\n")
	h.write(tr, site+"torch/version.py", "__version__ = '"+torch+"'\ncuda: Optional[str] = '"+cuda+"'\n")
	if nccl != "" {
		h.write(tr, site+"nvidia_nccl_cu12-"+nccl+".dist-info/METADATA", "")
	}
	path := "PATH=" + h.file("env/bin") + ":" + strings.Join([]string{tools.fake, "/usr/sbin", "/usr/bin", "/sbin",
		"/bin"}, ":")
	h.env = append(h.env, path)
}
