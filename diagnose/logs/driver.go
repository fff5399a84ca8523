package logs

// inCode is in what a compiler writes of a program that has the names of CUDA's errors.
var inCode = re(`\d\)?: warning\b|enumeration value|\bcase cuda`)

// driverCauses are errors by which CUDA reports its driver or of MPS, by its numbers (CUresult).
var driverCauses = []cause{
	{
		id: "log.cuda-driver-too-old", grade: decisive, soft: true,
		words: []string{"API call is not supported in the installed CUDA driver", "cudaErrorCallRequiresNewerDriver"},
		not:   []string{"NCCL INFO"}, unless: inCode,
		says: "the NVIDIA driver of {where} is too old: NCCL, or the program, was built for a newer CUDA and makes a call " +
			"that the driver does not have (error 36)",
		do: "update the driver of that node, or install an NCCL, torch or image for an older CUDA (nvidia-smi shows the " +
			"newest CUDA of the driver)",
		from: "CUDA runtime API, cudaErrorCallRequiresNewerDriver",
	}, {
		id: "log.cuda-driver-too-old", grade: decisive,
		words: []string{"orward compatibility was attempted on non supported HW", "ErrorCompatNotSupportedOnDevice",
			"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "cuInit(0) returned 804"},
		unless: inCode,
		says: "the image of {who} has a newer CUDA than the driver of {where}, with a libcuda of its own (compat), which " +
			"this type of GPU does not support (error 804)",
		do: "update the driver of that node, or use an image for an older CUDA (nvidia-smi shows the newest one of the " +
			"driver). Where the driver is new enough, take CUDA's folder compat out of LD_LIBRARY_PATH and /etc/ld.so.conf.d",
		from: "CUDA runtime API, cudaErrorCompatNotSupportedOnDevice",
	}, {
		id: "log.gpu-ecc", grade: family, words: []string{"Invalid access of peer GPU memory over nvlink",
			"CUDA_ERROR_CONTAINED", "cudaErrorContained"},
		unless: inCode,
		says: "a GPU of {where} could not read memory, mostly of another GPU over NVLink, which ends this program alone: " +
			"an error of the link or of memory, or the process of the other GPU ended",
		do:   "look whether another rank failed before; else " + resetGPU,
		need: []string{"dmesg | grep Xid of that node", "the output of the other ranks of that node"},
		from: "CUDA driver API, CUDA_ERROR_CONTAINED",
	}, {
		id: "log.gpu-ecc", grade: decisive, words: []string{": GPU requires reset"},
		says: "a GPU of {where} must be reset before it can be used, after an error",
		do:   resetGPU, from: "NVML_ERROR_RESET_REQUIRED",
	}, {
		id: "log.cuda-mps", grade: family, words: []string{"MPS client failed to connect", "cudaErrorMps",
			"CUDA_ERROR_MPS_", "MPS server is not ready", "required to create MPS client have been exhausted",
			"required to support device connections have been exhausted", "MPS client has been terminated"},
		unless: inCode,
		says: "{who} is a client of CUDA's MPS, and gets no service: its daemon does not run, is of another user, has " +
			"ended after an error of a client, or has no more room",
		do: "on that node: echo get_server_list | nvidia-cuda-mps-control; start it anew (nvidia-cuda-mps-control -d) as " +
			"that user, or unset CUDA_MPS_PIPE_DIRECTORY and remove the folder /tmp/nvidia-mps to go on without",
		need: []string{"control.log and server.log of MPS (/var/log/nvidia-mps, CUDA_MPS_LOG_DIRECTORY) of that node"},
		from: "CUDA driver API, CUDA_ERROR_MPS_CONNECTION_FAILED",
	}, {
		id: "log.library-missing", grade: decisive, words: []string{"PTX JIT compiler library not found"},
		says: "{who} lacks the library of the driver that compiles PTX (libnvidia-ptxjitcompiler)",
		do: "give the container the driver's libraries (NVIDIA_DRIVER_CAPABILITIES=compute,utility or all, --gpus all), or " +
			"install a build for this type of GPU, which needs no PTX",
		from: "CUDA driver API, CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
	}, {
		id: "log.cuda-timeout", grade: family, words: []string{"the launch timed out and was terminated",
			"CUDA_ERROR_LAUNCH_TIMEOUT", "cudaErrorLaunchTimeout"},
		unless: inCode,
		says:   "a kernel of {who} ran longer than the driver lets one run on a GPU that has a display",
		do: "use a GPU without a display (nvidia-smi shows Disp.A), or stop the X server of that node (systemctl isolate " +
			"multi-user.target); else shorter kernels",
		need: []string{"nvidia-smi of that node: Disp.A and processes", "dmesg | grep Xid: Xid 8"},
		from: "CUDA driver API, CUDA_ERROR_LAUNCH_TIMEOUT",
	}, {
		id: "log.no-gpu", grade: family, soft: true, quiet: true,
		words: []string{"libnvidia-ml.so.1: cannot open shared object file", "open libnvidia-ml.so.1"},
		form:  re(`libnvidia-ml\.so\.1.*(?:cannot open|No such file)`), not: []string{"NCCL INFO"},
		says: "{who} finds no library of the NVIDIA driver (libnvidia-ml.so.1): its container was started without GPUs, or " +
			"without the driver's tools",
		do: "start the container with the GPUs and NVIDIA_DRIVER_CAPABILITIES=compute,utility (docker --gpus all, " +
			"apptainer or singularity --nv); nvidia-smi must work in it",
		need: []string{"nvidia-smi on the node, and in the container"}, from: "NVIDIA/nccl nvmlwrap.cc",
	}, {
		id: "log.cuda-error", grade: open, soft: true, words: []string{"operation not supported'", "OS call failed or "},
		form: re(`(?:WARN|error:?) .*(?P<why>operation not supported'|OS call failed)`), not: []string{"NCCL INFO"},
		says: "CUDA of {who} refuses a call ({why}): as a rule memory that processes or adapters are to share, which the " +
			"container, the virtual machine, the driver or the GPU does not permit",
		need: []string{"runs with NCCL_CUMEM_ENABLE=0, with NCCL_NVLS_ENABLE=0 and with NCCL_P2P_DISABLE=1: which one works",
			"are the ranks of one host in one container, with --ipc=host and ulimit -l unlimited",
			"nvidia-smi of that node: driver and GPU"},
		from: "CUDA driver API, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OPERATING_SYSTEM",
	}, {
		id: "log.cuda-error", grade: open, words: []string{"initialization error"},
		form: re(`(?:CUDA error: |Cuda failure (?:3 )?')initialization error`), not: []string{"NCCL INFO"},
		says: "CUDA of {who} does not start (initialization error, 3): the process was made by fork() after its parent had " +
			"used CUDA, as a rule; else the driver or a GPU is in a bad state",
		need: []string{"does the program use CUDA before it makes processes or DataLoader workers (start method spawn helps)",
			"nvidia-smi, and dmesg | grep -E 'NVRM|Xid', of that node"},
		from: "CUDA driver API, CUDA_ERROR_NOT_INITIALIZED",
	}, {
		id: "log.no-gpu", grade: family,
		words: []string{"hipErrorInvalidDevice", "hipErrorNoDevice", "no ROCm-capable device is detected"},
		form:  re(`hipError(?:InvalidDevice|NoDevice)\b|ROCm`), unless: inCode,
		says: "{who} finds no AMD GPU, or fewer than it uses: its container lacks the devices, its user the right to them, " +
			"or HIP_VISIBLE_DEVICES hides them",
		do: "rocminfo and rocm-smi must list the GPUs in the job's container: start it with --device=/dev/kfd " +
			"--device=/dev/dri --group-add video (and render), and start no more ranks than there are",
		need: []string{"rocm-smi in the container and on its host", "env | grep VISIBLE_DEVICES"},
		from: "ROCm clr hip_device.cpp",
	}, {
		// A warning of torch and of TensorFlow, after which a program goes on without a GPU.
		id: "log.cuda-error", grade: open, soft: true, words: []string{"CUDA unknown error", "[[ Unknown error (error 999)",
			"CUDA error: unknown error",
			"Cuda failure 'unknown error'", "Cuda failure 999", "CUDA_ERROR_UNKNOWN", "cudaErrorUnknown"},
		not: []string{"NCCL INFO"}, unless: inCode,
		says: "CUDA of {who} does not start (unknown error, 999): the module nvidia_uvm is not loaded or /dev/nvidia-uvm " +
			"is not in the container, CUDA_VISIBLE_DEVICES was changed after the start, or the driver is in a bad state",
		need: []string{"ls -l /dev/nvidia* on the host and in the container, and lsmod | grep nvidia_uvm (nvidia-modprobe " +
			"-u -c 0 makes the files)", "dmesg | grep -E 'NVRM|Xid' of that node",
			"does the program set CUDA_VISIBLE_DEVICES after the import of torch"},
		from: "CUDA driver API, CUDA_ERROR_UNKNOWN, torch CUDAFunctions.cpp",
	},
}

const resetGPU = "drain that node; dmesg | grep Xid shows which GPU and error; reset it (nvidia-smi --gpu-reset, " +
	"with no process on it) or reboot, and replace it if it happens again"
