package logs

import "strconv"

const (
	tpuSays = "the TPU of {who} is held by another process, as a rule of another user"
	tpuDo   = "end that process on that host: sudo lsof -w /dev/accel* /dev/vfio/* shows it; where none is left, " +
		"remove /tmp/libtpu_lockfile"
)

var tpuNeed = []string{"lsof -w /dev/accel* /dev/vfio/* of that host, as root"}

// cudaCauses are errors of the GPU, its driver and its memory.
var cudaCauses = []cause{
	{
		id: "log.cuda-stub", grade: decisive, words: []string{"CUDA driver is a stub library", "cudaErrorStubLibrary",
			"CUDA_ERROR_STUB_LIBRARY"},
		says: "{who} loads the stub of libcuda, which is for linking only, in place of the driver's library",
		do: "take CUDA's folder lib64/stubs out of LD_LIBRARY_PATH and the program's RPATH (ldd PROGRAM | grep libcuda); " +
			"in a container let the engine mount the driver's libcuda (--gpus all)",
		from: "CUDA driver API",
	}, {
		id: "log.nccl-cuda-build-mismatch", grade: decisive, with: "nccl.cuda",
		words: []string{"CUDA driver version is insufficient"},
		form:  re(`WARN`),
		says:  "the NCCL that {who} loads was built for a newer CUDA than the driver supports",
		do:    "install the NCCL build for the CUDA in use, or a newer driver",
		from:  "NVIDIA/nccl init.cu",
	}, {
		id: "log.cuda-driver-too-old", grade: decisive,
		words: []string{"CUDA driver version is insufficient", "NVIDIA driver on your system is too old",
			"the provided PTX was compiled with an unsupported toolchain"},
		says: "the NVIDIA driver of {where} is too old for the CUDA in use",
		do:   "install a newer driver, or a build for an older CUDA",
	}, {
		id: "log.fabric-manager-down", grade: decisive, but: "fabric-manager.version",
		words: []string{"ystem not yet initialized", "cuInit(0) returned 802", "fabric manager"},
		form:  re(`[Ss]ystem not yet initialized|returned 802|abric manager .*(?:not running|not started|fail)`),
		says:  "the NVSwitch fabric manager does not run on {where}",
		do:    "start it: systemctl enable --now nvidia-fabricmanager, of the driver's version",
		from:  "NVIDIA/nccl-tests#264",
	}, {
		id: "log.oom", grade: decisive, words: []string{" GiB memory in use. Process "},
		form: re(`GPU (?P<gpu>\d+)\b.*?\bProcess (?P<p>\d+) has (?P<x>[\d.]+) GiB memory in use\. ` +
			`Process (?P<q>\d+) has (?P<y>[\d.]+) GiB memory in use`),
		test: func(v map[string]string) bool {
			x, _ := strconv.ParseFloat(v["x"], 64)
			y, _ := strconv.ParseFloat(v["y"], 64)
			return min(x, y) >= 1 && max(x, y) <= 1.5*min(x, y)
		},
		says: "{who} finds GPU {gpu} full: several processes of about the same size use it (pid {p} {x} GiB, pid {q} " +
			"{y} GiB), so several ranks are on one GPU",
		do: "choose the GPU by the local rank: torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])), and start no more " +
			"processes than GPUs",
		from: "torch CUDACachingAllocator.cpp",
	}, {
		id: "log.oom", grade: decisive,
		words: []string{"CUDA out of memory", "OutOfMemoryError: ", "CUDA error: out of memory",
			"Cuda failure 'out of memory'", "Cuda failure 2 'out of memory'", "RESOURCE_EXHAUSTED: Out of memory",
			"cudaErrorMemoryAllocation", "HIP out of memory", "NPU out of memory", "CUDA_ERROR_OUT_OF_MEMORY"},
		form: opt(`GPU (?P<gpu>\d+)\b`),
		not:  []string{"WARN memory", "retry", "java.lang", "ray.exceptions.", "running low on memory"},
		says: "{who} has run out of GPU memory",
		do:   "use a smaller batch or model share; nvidia-smi shows whether another process holds memory of that GPU",
	}, {
		id: "log.driver-mismatch", grade: decisive,
		words: []string{"Driver/library version mismatch", "driver/library version mismatch", "NVML/RM version mismatch",
			"ystem has unsupported display driver / cuda driver combination"},
		says: "the NVIDIA driver in the kernel and its libraries have different versions on {where}",
		do: "reboot that node, or reload the driver: its packages were updated under it (cat /proc/driver/nvidia/version " +
			"shows the one that runs); in a container remove libraries of another driver, as of CUDA's compat folder, from " +
			"LD_LIBRARY_PATH",
	}, {
		id: "log.cuda-fork", grade: decisive, words: []string{"re-initialize CUDA in forked subprocess"},
		says: "the program of {who} makes processes by fork() after its first use of CUDA, which CUDA does not permit",
		do: "start them by spawn (torch.multiprocessing.set_start_method, multiprocessing_context of a DataLoader), or use " +
			"CUDA only after they have begun; in vLLM VLLM_WORKER_MULTIPROC_METHOD=spawn",
		from: "torch cuda/__init__.py",
	}, {
		id: "log.gpu-peers", grade: decisive, words: []string{"peer mapping resources exhausted"},
		says: "{who} maps the memory of more GPUs than one GPU can have as peers (8 with most drivers)",
		do:   "give each process at most 8 GPUs that reach each other (CUDA_VISIBLE_DEVICES), or one process a GPU",
		from: "CUDA cudaErrorTooManyPeers",
	}, {
		id: "log.no-kernel-image", grade: decisive, words: []string{"no kernel image is available"},
		says: "the program of {who} was not built for this GPU",
		do:   "install a build for the GPU's compute capability (nvidia-smi --query-gpu=compute_cap --format=csv)",
	}, {
		id: "log.no-kernel-image", grade: family, soft: true,
		words: []string{"hipErrorNoBinaryForGpu", "Cannot find CO in the bundle",
			"Unable to find code object for all current", "etrieve Static function", "etrieve static function",
			"No compatible code objects found for", "hipErrorInvalidKernelFile", "HSA_STATUS_ERROR_INVALID_ISA",
			"HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS", "hipErrorSharedObjectInitFailed", "TensileLibrary"},
		form: opt(`for ISA: \S*?(?P<isa>gfx\w+)|GPU arch ?: ?(?P<isa>gfx\w+)|found for:? ?(?P<isa>gfx\w+)`),
		says: "the program of {who}, or a library, has no code for this AMD GPU[ ({isa})]",
		do: "install a build of torch, ROCm and RCCL that has that GPU in its list (rocminfo | grep gfx; roc-obj-ls " +
			"LIBRARY shows a library's), or build it: AMDGPU_TARGETS, PYTORCH_ROCM_ARCH",
		need: []string{"rocminfo | grep gfx, and python -c 'import torch; print(torch.cuda.get_arch_list())'"},
		from: "ROCm clr hip_fatbin.cpp",
	}, {
		id: "log.no-kernel-image", grade: family, words: []string{"invalid device function",
			"hipErrorInvalidDeviceFunction", "cudaErrorInvalidDeviceFunction"},
		says: "the program of {who}, or a library, has no code for this type of GPU (invalid device function)",
		do: "install a build for that GPU: rocminfo | grep gfx, or nvidia-smi --query-gpu=compute_cap --format=csv, " +
			"against torch.cuda.get_arch_list()",
		need: []string{"the GPU's type, and python -c 'import torch; print(torch.cuda.get_arch_list())'"},
		from: "CUDA and HIP runtime",
	}, {
		id: "log.device-index", grade: family,
		words: []string{"invalid device ordinal", "device ordinal out of range",
			"must be less than or equal to the number of visible devices"},
		not:  []string{"transport/"}, // the GPU of another rank
		says: "{who} uses a GPU that its node does not have: more ranks than GPUs, or too few visible ones",
		do:   "compare --nproc-per-node with nvidia-smi -L and CUDA_VISIBLE_DEVICES on that node",
		need: []string{"nvidia-smi -L and CUDA_VISIBLE_DEVICES as the job sees them", "--nproc-per-node"},
	}, {
		id: "log.gpu-permission", grade: family, words: []string{"/dev/kfd", "/dev/accel"},
		form: re(`(?:open (?:device: )?|open\()(?P<dev>/dev/\w+).*(?P<why>ermission denied|o such file|not permitted|` +
			`resource busy)`),
		not:  []string{"ot attempting"},
		says: "{who} cannot open its accelerator {dev}: not permitted, not in the container, or in use by another process",
		do: "join the device's group (render, video) or start the container with that device (--device {dev}, for AMD " +
			"--device /dev/dri, for a TPU --privileged); end the process that holds it, as of an earlier run (lsof {dev})",
		need: []string{"ls -l {dev} and id, as the job sees them", "lsof {dev} of that host, outside of the container too"},
	}, {
		id: "log.no-gpu", grade: family, but: "mpi.cuda-note", words: []string{"libcuda.so"},
		form: re(`libcuda\.so(?:\.1)?: cannot open shared object file`), not: []string{"libfabric:"},
		says: "{who} finds no library of the NVIDIA driver (libcuda.so.1): its container was started without GPUs, or the " +
			"node has no driver",
		do: "start the container with the GPUs: docker --gpus all, apptainer or singularity --nv, podman --device " +
			"nvidia.com/gpu=all, in Kubernetes nvidia.com/gpu in the limits; nvidia-smi must work in it. On a login node run " +
			"it as a job",
		need: []string{"nvidia-smi on the node, and in the container"},
	}, {
		id: "log.no-gpu", grade: family, but: "mpi.cuda-note",
		words: []string{
			"o CUDA-capable device is detected",
			"Found no NVIDIA driver on your system",
			"No CUDA GPUs are available",
			"no GPUs found", "failed: Driver Not Loaded",
		},
		form: re(`(?:NVIDIA driver|Driver Not Loaded|GPUs|CUDA-capable)`),
		says: "{who} has no visible GPU: no driver, no device in the container, or CUDA_VISIBLE_DEVICES hides it",
		do:   "run nvidia-smi in the job's container on that node, and look at CUDA_VISIBLE_DEVICES",
		need: []string{"nvidia-smi -L in the container", "CUDA_VISIBLE_DEVICES"},
	}, {
		id: "log.gpu-busy", grade: family,
		words: []string{"Device already acquired", "Maybe the last training process is running"},
		says:  "the accelerator of {who} is held by another process: of an earlier run, as a rule",
		do:    "end that process, wait 10 s, and start again: npu-smi info, hl-smi or ps show it",
		need:  []string{"the processes that use the accelerators of that node"},
	}, {
		id: "log.gpu-busy", grade: family, words: []string{"memory capacity is unbalanced"},
		says: "the GPUs of the ranks do not have the same free memory: another process holds memory of one of them",
		do:   "nvidia-smi on each node shows it: end that process, or use other GPUs",
		need: []string{"nvidia-smi of each node before the start"},
		from: "sglang model_runner.py",
	}, {
		id: "log.oom", grade: decisive, words: []string{"No available memory for the cache blocks",
			"larger than the maximum number of tokens that can be stored in KV cache", "KV cache is needed, which is larger",
			"increase --mem-fraction-static"},
		says: "{who} has too little GPU memory for its KV cache, after the model and its buffers",
		do: "use more GPUs for a copy of the model (tensor parallel), a shorter --max-model-len, or a larger share " +
			"(--gpu-memory-utilization, --mem-fraction-static); nvidia-smi shows whether another process holds memory",
		from: "vllm, sglang",
	}, {
		id: "log.gpu-busy", grade: family, words: []string{"is already in use by process"},
		form: re(`(?P<what>TPU|NPU|HPU|GPU|accelerator|[Dd]evice).*in use by process with pid (?P<pid>\d+)`),
		says: "the {what} of {who} is held by another process, pid {pid}",
		do: "look what it is (ps -fp {pid} on that host): a parent of this job that has opened the device before it " +
			"started its workers, or an earlier run, which you end by kill {pid}",
		need: []string{"ps -fp {pid} of that host"},
	}, {
		id: "log.gpu-busy", grade: family, words: []string{"/dev/vfio/", "iommu group /dev/"},
		form: re(`open\((?P<dev>/dev/vfio/\w+)\): Device or resource busy|` +
			`(?:[Cc]ould ?n[o']t|[Cc]annot|[Uu]nable to|[Ff]ail(?:ed|ure) to) open iommu group (?P<dev>/dev/vfio/\w+)`),
		not:  []string{"No such file", "ermission denied", "not permitted"},
		says: "the TPU of {who} ({dev}) is held by another process",
		do: "end that process on that host: lsof -w /dev/vfio/* shows it (also in other containers and pods), and " +
			"start again; one process per host may use the TPU, as a rule",
		need: []string{"lsof -w /dev/vfio/* of that host, outside of the container too"},
		from: "libtpu",
	}, {
		id: "log.gpu-busy", grade: family, words: []string{"already in use by another process"},
		form: re(`ABORTED: (?:libtpu\.so|The TPU is) already in use by another process`),
		says: tpuSays, do: tpuDo, need: tpuNeed, from: "tensorflow tpu_initializer_helper.cc",
	}, {
		id: "log.gpu-busy", grade: family, soft: true, quiet: true, words: []string{"already in use by another process"},
		form: re(`(?:libtpu\.so|The TPU is) already in use by another process`),
		says: tpuSays + "; it goes on without the TPU, as on the CPU",
		do:   tpuDo, need: tpuNeed, from: "tensorflow tpu_initializer_helper.cc",
	}, {
		id: "log.accelerator", grade: family, words: []string{"Invalid server type ("},
		form: re(`Invalid server type \((?P<type>[^)]*\]?)\) requested to generate`),
		says: "Gaudi's software of {who} does not know this type of server ({type}): it is of another release than the " +
			"driver, or no longer supports this generation of Gaudi",
		do: "compare the release in the image with the driver's (hl-smi), and the generation of the cards with what that " +
			"release supports; install one release in host and image that does",
		need: []string{"hl-smi of that node: the driver and the cards", "the release of SynapseAI in the image"},
		from: "SynapseAI hcl_device_control_factory.cpp",
	}, {
		id: "log.accelerator", grade: family, words: []string{"Failed to initialize hl", "CPU-CP timeout", "ArmCP timeout"},
		form: re(`Failed to initialize (?P<devs>hl\d+)|habanalabs (?P<devs>hl\d+): .*(?:CPU-|Arm)CP timeout`),
		says: "the Gaudi cards {devs} of {where} do not start: their own processor (firmware) does not answer the driver",
		do: "power-cycle that node (a warm reboot is often not enough), install firmware and driver of one release, and " +
			"leave the node out until hl-smi lists all cards; a card that fails again is broken",
		need: []string{"dmesg | grep habanalabs and hl-smi of that node", "the versions of firmware and driver"},
		from: "Linux drivers/accel/habanalabs",
	}, {
		id: "log.accelerator", grade: family,
		words: []string{"synDeviceAcquire", "Failed to initialize hl", "Device is NOT usable", "synStatus="},
		form:  re(`synDeviceAcquire.*(?:fail|error)|initialize hl|NOT usable|synStatus=(?P<code>[1-9]\d*)`),
		not:   []string{"already acquired"},
		says:  "a Gaudi accelerator of {where} cannot be used[ (synStatus {code})]",
		do:    "run hl-smi there: is the driver loaded, is the device free, and does the container have it",
		need:  []string{"hl-smi and dmesg of that node"},
	}, {
		id: "log.gpu-ipc", grade: family,
		words: []string{"IpcGetMemHandle", "IpcOpenMemHandle"},
		form: re(`(?:cuda|hip|cu)Ipc(?:Get|Open)MemHandle\b.*(?:fail|error|invalid|not (?:permitted|supported))|` +
			`(?:fail|error).*Ipc(?:Get|Open)MemHandle`),
		not:  []string{"NCCL INFO"},
		says: "{who} cannot share memory of its GPU with another process of the host (IPC)",
		do: "run the ranks of a host in one container, or with --ipc=host and --pid=host; NCCL_P2P_DISABLE=1 shows whether " +
			"that is it. With ROCm try HSA_ENABLE_IPC_MODE_LEGACY=0 and =1, which images of ROCm set",
		need: []string{"are the ranks of one host in one container", "the versions of driver and runtime"},
	}, {
		id: "log.gpu-busy", grade: family, words: []string{"all CUDA-capable devices are busy or unavailable",
			"device(s) is/are busy or unavailable"},
		says: "the GPU of {where} is in exclusive mode and in use, or is broken",
		do:   "nvidia-smi -q -d COMPUTE shows the mode, nvidia-smi the processes",
		need: []string{"nvidia-smi and nvidia-smi -q -d COMPUTE of that node"},
	}, {
		id: "log.device-assert", grade: decisive, words: []string{"device-side assert triggered"},
		says: "a kernel of {who} hit an assertion: an index is out of range, such as a label or a token",
		do:   "run with CUDA_LAUNCH_BLOCKING=1: the traceback then shows the operation",
	}, {
		id: "log.device-assert", grade: decisive, words: []string{"Assertion `", "Device-side assertion `", "Assertion '"},
		form: re(`: block: \[[^\]]*\], thread: \[[^\]]*\],? Assertion [` + "`'" + `](?P<what>.+)[` + "`'" + `] failed|` +
			`Device-side assertion [` + "`'" + `](?P<what>.+)[` + "`'" + `] failed`),
		says: "a kernel of {who} hit an assertion: {what}",
		do: "as a rule an index is out of range: compare labels, tokens and positions with the number of classes and the " +
			"size of the vocabulary; or a value is NaN. CUDA_LAUNCH_BLOCKING=1 shows the operation",
		from: "torch aten/src/ATen/native/cuda",
	}, {
		id: "log.cuda-memory-access", grade: family,
		words: []string{
			"an illegal memory access was encountered", "misaligned address", "unspecified launch failure",
			"an illegal instruction was encountered", "hardware stack error", "invalid program counter",
			"on global/shared address space",
		},
		says: "a kernel of {who} failed: a bug in a kernel, or a broken GPU",
		do:   "run with CUDA_LAUNCH_BLOCKING=1, and look at dmesg for Xid of that GPU",
		need: []string{"dmesg | grep Xid of that node", "a run with CUDA_LAUNCH_BLOCKING=1"},
	}, {
		id: "log.gpu-ecc", grade: family, words: []string{"HW Exception by "},
		form: re(`HW Exception by \w+ (?P<gpu>node-\d+) .*reason ?: ?(?P<why>[^:]+)`),
		says: "an AMD GPU of {who} ({gpu} in rocminfo) no longer works, and ROCm ends its processes ({why}): a kernel that " +
			"hangs, the driver, or the hardware",
		do: "drain that node; dmesg | grep amdgpu has the first error; reset the GPU (rocm-smi --gpureset) or reboot, and " +
			"replace it if it happens again",
		need: []string{"dmesg | grep amdgpu of that node", "rocminfo of that node: which GPU is {gpu}"},
		from: "ROCm rocr-runtime",
	}, {
		id: "log.cuda-memory-access", grade: family,
		words: []string{"Memory access fault by GPU", "HSA_STATUS_ERROR_MEMORY_"},
		form:  opt(`Memory access fault by GPU (?P<gpu>node-\d+).*?(?:Reason: (?P<why>[^.]+))?\.?\s*$`),
		says: "a kernel of {who} on an AMD GPU[ (ROCm's {gpu})] reached memory that is not there[ ({why})]: a bug in a " +
			"kernel or library, or a broken GPU",
		do: "run with AMD_SERIALIZE_KERNEL=3 and HIP_LAUNCH_BLOCKING=1 to see the operation, and look at dmesg of that " +
			"host (amdgpu); rocminfo shows which GPU it is",
		need: []string{"dmesg | grep amdgpu of that host", "a run with AMD_SERIALIZE_KERNEL=3"},
		from: "ROCm rocr-runtime",
	}, {
		id: "log.nvml", grade: family, soft: true, words: []string{"NVML: Unknown Error", "NVML_ERROR_UNKNOWN"},
		says: "{who} may not open the device files of the GPUs (/dev/nvidia*) of its container: NVML's \"Unknown Error\"",
		do: "where nvidia-smi works on the host, start the container again. If it happens again: check no-cgroups in " +
			"/etc/nvidia-container-runtime/config.toml, pass the devices (--device /dev/nvidia0 --device /dev/nvidiactl), and " +
			"run nvidia-ctk system create-dev-char-symlinks --create-all, as systemctl daemon-reload takes the rights away",
		need: []string{"nvidia-smi on the host and in the container", "ls -l /dev/nvidia* in the container"},
		from: "NVIDIA/nvidia-container-toolkit#48",
	}, {
		id: "log.nvml", grade: family, soft: true,
		words: []string{"Failed to initialize NVML", "Insufficient Permissions"},
		form:  re(`NVML`),
		not:   []string{"version mismatch"},
		says:  "{who} cannot use the NVIDIA driver",
		do:    "run nvidia-smi in the job's container on that node",
		need:  []string{"nvidia-smi in the container of that node"},
	}, {
		id: "log.cuda-error", grade: open, words: []string{"shmutils.cc"},
		form: re(`WARN Cuda failure (?P<why>.+)`),
		says: "CUDA of {who} does not take the shared memory that NCCL has made for the ranks of a host: {why}",
		need: []string{"a run with NCCL_SHM_DISABLE=1", "df -h /dev/shm in the container",
			"the versions of NCCL and the driver"},
	}, {
		id: "log.cuda-error", grade: open,
		words: []string{
			"Cuda failure", "CUDA error: ", "CUDA failure", "cudaError", "initialization error", "CUDA_ERROR_",
			"HIP failure", "HIP error: ",
		},
		form: re(`[Ee]rror|failure|CUDA_ERROR`),
		not:  []string{"NCCL INFO", "peer access is already enabled", "not supported"},
		says: "{who} got an error from CUDA or HIP: {error}",
		need: []string{"nvidia-smi of that node: driver, other processes, free memory",
			"which libcuda, libcudart and libnccl the program loads (LD_DEBUG=libs)"},
	},
}
