package logs

import "regexp"

const (
	lossSays = "the loss of {who} is not a number (NaN): the training has diverged, and further steps are of no use"
	lossDo   = "start again from a checkpoint before the first NaN, with a lower learning rate or longer warm-up, " +
		"clipped gradients, or bf16 in place of fp16; look at the data of that step (torch.autograd.set_detect_anomaly)"
)

// notTraining are kinds of losses that may be NaN while the training goes on.
var notTraining = regexp.MustCompile(`^(?i:val|eval|test|dev)`)

var lossNeed = []string{"the log from the last good step on: at which step and on which rank is the first NaN"}

// programCauses are errors in how a program was called, or was built.
var programCauses = []cause{
	{
		id: "log.loss-nan", grade: family, words: []string{"found NaN in local", "Unexpected result nan"},
		form: re(`Rank (?P<rank>\d+)(?:: |, node (?P<node>[\w.-]+), device (?P<dev>\d+), ).*?(?:found NaN in local|` +
			`Unexpected result nan)(?:.*[Dd]evice: (?P<dev>\d+), node: (?P<node>[\w.-]+))?|` +
			`Unexpected result nan on rank (?P<rank>\d+)`),
		later: []string{", device "}, more: re(`Rank \d+, node (?P<node>[\w.-]+), device (?P<dev>\d+)`),
		says: "the gradients of {who}[, device {dev},] are not numbers (NaN): the training has diverged, or that GPU " +
			"computes wrongly",
		do: lossDo, need: lossNeed,
		from: "Megatron-LM rerun_state_machine.py, param_and_grad_buffer.py",
	}, {
		id: "log.loss-nan", grade: family, words: []string{"oss is NaN", "oss is nan", "oss is not finite", "NaN loss",
			"nan loss", "oss diverged", "raining diverged", "NaN in local", "NaNs in loss", "NaN in loss", "on-finite loss"},
		form: re(`[Ll]oss is (?:NaN|nan|not finite)\b.*(?i:stop|abort|exit|rais|terminat)|` +
			`Error: .*(?i:\bnan\b|finite|diverged)|[Tt]raining diverged|found NaN in local`),
		says: lossSays, do: lossDo, need: lossNeed,
	}, {
		id: "log.loss-nan", grade: family, quiet: true, words: []string{"nan", "NaN", "NAN"},
		form: re(`(?i)(?P<of>[a-z]*)[ _-]?loss(?:es)?['"]?(?: is|\s*[:=])?\s*(?:tensor\()?-?nan\b`),
		test: func(v map[string]string) bool { return !notTraining.MatchString(v["of"]) },
		says: lossSays, do: lossDo, need: lossNeed,
	}, {
		id: "log.option-unknown", grade: decisive,
		words: []string{": error: unrecognized arguments: ", ": error: argument ",
			"error: the following arguments are required",
			": error: ambiguous option"},
		form: re(`(?P<program>[\w./-]+): error: (?P<why>(?:unrecognized arguments|argument|the following|ambiguous).*)`),
		says: "{program} refuses its command line: {why}",
		do: "compare the line with the help of this version; --local-rank is passed by torch.distributed.launch and not by " +
			"torchrun, where LOCAL_RANK is set",
		from: "argparse",
	}, {
		id: "log.script-missing", grade: decisive, with: "slurm.chdir", words: []string{": can't open file '"},
		form: re(`can't open file '(?P<file>(?:/tmp/)?[^'/][^']*)'`),
		says: "{who} has no file {file}: Slurm could not enter {latest}, the folder of the job, and started it in /tmp",
		do:   "mount that folder on the node, or make it there; else name one that all nodes have (--chdir)",
		from: "slurmstepd",
	}, {
		id: "log.script-missing", grade: decisive, words: []string{": can't open file '", ": can't find '__main__'"},
		form: re(`can't (?:open file|find '__main__' module in) '(?P<file>[^']*)'`),
		says: "{who} has no file {file}",
		do:   "give the path as the node or the container has it, or start in that folder (--chdir, --workdir, a mount)",
		from: "CPython",
	}, {
		id: "log.not-executable", grade: family, soft: true,
		words: []string{": Permission denied", "cannot execute binary file"},
		form: re(`^(?:\S+: )?(?:-?(?:bash|sh|dash|zsh)|/\S*sh|exec|env): (?:line \d+: |\d+: )?(?P<file>[^\s:]+): ` +
			`(?:Permission denied|cannot execute binary file)`),
		not:  []string{"rc: ", "profile: ", "proc/", "sys/", "dev/"}, // a shell that goes on
		says: "the shell of {who} may not execute {file}",
		need: []string{"ls -l and file of it on that node, and the options of its mount"},
		do:   "chmod +x {file}, or call it by its interpreter; a folder may be mounted noexec, or the file be of another CPU",
	}, {
		id: "log.parallel-sizes", grade: decisive, words: []string{"divisible by", "mpiSize == tp * pp"},
		form: re(`mpiSize == tp|(?i)world[_ ]?size\D*\(?(?P<world>\d+)\)?.{0,40}not divisible by\D*(?P<by>\d+)|` +
			`(?i)world[_ ]?size.{0,60}(?:not|should be|must be) divisible by`),
		says: "the number of ranks[ ({world})] is no multiple of the model's parallel sizes[ ({by})]",
		do:   "start as many ranks as tensor x pipeline x context parallel sizes, or a multiple; are all nodes in the job?",
		from: "Megatron parallel_state.py",
	}, {
		id: "log.hostfile-bad", grade: decisive,
		words: []string{"Hostfile contains a bad entry", "No slot '", "Hostfile contains multiple entries", "parse hostfile",
			"Hostfile is not formatted correctly", "Hostfile is empty"},
		form: re(`(?P<why>Hostfile (?:contains|is) .*|No slot '[^']*' specified on host.*|.*parse hostfile.*)`),
		says: "the launcher cannot use the hostfile: {why}",
		do:   "write one line a host, HOST slots=N, each host once; --include and --exclude name slots from 0 to N-1",
		from: "deepspeedai/DeepSpeed runner.py",
	}, {
		id: "log.p2p-import", grade: family, words: []string{"transport/p2p.cc", "cuMemImportFromShareableHandle"},
		form: re(`WARN.*(?:Cuda failure 101|invalid device ordinal|cuMemImport)`),
		says: "NCCL of {who} cannot use the memory of another rank's GPU: the containers of one host see different GPUs",
		do: "give all ranks of a host all its GPUs, or set NCCL_P2P_DISABLE=1; NCCL_CUMEM_ENABLE=0 shows " +
			"whether that is it",
		need: []string{"nvidia-smi -L in the container of each rank of that host"},
		from: "NVIDIA/nccl#1647",
	}, {
		id: "log.p2p-import", grade: family, words: []string{"nvmlDeviceGetHandleByPciBusId() failed: Not Found"},
		says: "NCCL of {who} asks for a GPU of another rank of its host, which this container does not have",
		do: "give all ranks of a host all its GPUs, or give each container its own NCCL_HOSTID: then NCCL takes them for " +
			"several hosts",
		need: []string{"nvidia-smi -L in the container of each rank of that host"},
		from: "NVIDIA/nccl nvmlwrap.cc",
	}, {
		id: "log.imex", grade: family, words: []string{"importShareableHandle", "CU_MEM_HANDLE_TYPE_FABRIC"},
		form: re(`isFabric=true|HANDLE_TYPE_FABRIC.*(?:fail|not)`),
		says: "{who} cannot map memory of a GPU of another tray over NVLink: no common IMEX domain",
		do: "nvidia-imex-ctl -N on each node: all must be READY in one domain; NCCL_MNNVL_ENABLE=0 shows whether that " +
			"is it",
		need: []string{"nvidia-imex-ctl -N and nvidia-smi -q (Fabric) of each node"},
	}, {
		id: "log.nccl-algo", grade: family, words: []string{"no algorithm/protocol available"},
		says: "NCCL of {who} has no algorithm left for a collective: NCCL_ALGO and NCCL_PROTO exclude all that fit it",
		do:   "unset NCCL_ALGO and NCCL_PROTO; where one is needed, name it for its collective: NCCL_ALGO=allreduce:tree",
		need: []string{"env | grep NCCL_ of each node, and /etc/nccl.conf"},
		from: "NVIDIA/nccl enqueue.cc",
	}, {
		id: "log.license", grade: decisive,
		words: []string{"icensing error:", "FLEXlm error:", "Cannot connect to license server"},
		form:  re(`(?:FLEX\w*|FlexNet) (?:[Ll]icensing )?error: *(?P<code>-(?:15|96|7|14|16|34))\b|license server`),
		says:  "{who} gets no answer from its license server[ (FlexNet {code})]",
		do: "look at PORT@HOST in LM_LICENSE_FILE or the product's own variable; lmutil lmstat -a -c PORT@HOST on that " +
			"node shows whether lmgrd runs and its ports are open",
		from: "FlexNet Publisher",
	}, {
		id: "log.license", grade: decisive, words: []string{"icensing error:", "FLEXlm error:"},
		form: re(`(?:FLEX\w*|FlexNet) (?:[Ll]icensing )?error: *(?P<code>-\d+)`),
		says: "the license server gives {who} no license (FlexNet {code}): all are in use, or it has no license of that kind",
		do:   "lmutil lmstat -a -c PORT@HOST shows what is licensed, until when, and who holds it",
		from: "FlexNet Publisher",
	}, {
		id: "log.checkpoint-damaged", grade: decisive,
		words: []string{"failed finding central directory", "invalid header or archive is corrupted",
			"Error while deserializing header: ", "The file might be corrupted"},
		form: re(`PytorchStreamReader failed|deserializing header: (?P<why>\w+)|file might be corrupted`),
		says: "a checkpoint or file of a model that {who} reads is cut off or damaged[: {why}]",
		do: "compare its size with another copy: a disk that was full, a write that still goes on, or a pointer file of " +
			"git-lfs; take the checkpoint before, or fetch the file again",
		from: "torch caffe2/serialize, safetensors",
	}, {
		id: "log.nats-jetstream", grade: family, words: []string{"ServiceUnavailableError", "JetStream not enabled",
			"NoRespondersError", "jetstream is not enabled", "no responders available"},
		form: re(`\b[Nn][Aa][Tt][Ss]\b|etStream not enabled`),
		says: "the NATS server of {who} does not answer requests for JetStream: it runs without it, or is not ready",
		do: "start it with JetStream (nats-server -js; in its Helm chart config.jetstream.enabled=true), and look at " +
			"NATS_SERVER: is it the server that was meant",
		need: []string{"nats account info, and the output of the NATS server"},
		from: "nats-io/nats.py",
	}, {
		id: "log.cache-race", grade: family, words: []string{"No such file or directory: '/", "Stale file handle: '/"},
		form: re(`: '(?P<file>/[^']*(?i:triton|inductor)[^']*|/[^']*\.(?:hsaco|cubin|ttg?ir|llir|ptx|amdgcn)[^']*)'`),
		not:  []string{".py'"},
		says: "{who} misses a compiled kernel in a cache that several ranks write ({file}): another rank or host has " +
			"replaced or removed it",
		do: "give each rank its own cache on a disk of its node: TRITON_CACHE_DIR=/tmp/triton-$USER-$RANK, and " +
			"TORCHINDUCTOR_CACHE_DIR likewise; not on NFS or a shared home",
		need: []string{"TRITON_CACHE_DIR and TORCHINDUCTOR_CACHE_DIR of a rank, and df of that folder"},
		from: "triton runtime/cache.py",
	}, {
		id: "log.save-race", grade: family, words: []string{"Directory not empty: "},
		form: re(`OSError: \[Errno 39\] Directory not empty: '(?P<from>[^']+)' -> '(?P<to>[^']+)'`),
		says: "{who} cannot rename {from} to {to}, which another rank has made",
		do: "let one rank save (of the job, or of each node where the folder is on a local disk), and let the others wait " +
			"in a barrier; a newer transformers does so",
		need: []string{"which ranks save, and is that folder on a file system that the nodes share"},
		from: "transformers trainer.py",
	}, {
		id: "log.worlds-of-one", grade: family, words: []string{"requires exactly ", "requires at least "},
		form: re(`requires (?:exactly|at least) (?P<n>two|\d+) (?:MPI )?(?:processes|ranks)`),
		says: "{who} found fewer ranks than it needs ({n}): each process is a world of its own, or too few were started",
		do:   "start it with the mpirun of the MPI that it is linked with (ldd), or with srun and the right --mpi",
		need: []string{"ldd of the program, and mpirun --version"},
	}, {
		id: "log.worlds-of-one", grade: family, words: []string{" singletons will be started"},
		form: re(`(?P<n>\d+) singletons will be started`),
		says: "each of the {n} processes is a world of its own: srun offers no PMIx, and this MPI has no other PMI",
		do:   "start it with srun --mpi=pmix (srun --mpi=list shows what there is), or with the mpirun of that MPI",
		need: []string{"srun --mpi=list"},
		from: "open-mpi/ompi",
	}, {
		id: "log.cumem-host", grade: decisive, words: []string{"transport/shm.cc", "misc/shmutils.cc"},
		form: re(`WARN.*(?:peer access is not supported|Cuda failure 217)|` +
			`attaching to shared memory segment .*\(size 0\)`),
		says: "NCCL of {who} cannot share host memory between the GPUs of the host by cuMem: they may not reach each " +
			"other's memory",
		do: "set NCCL_CUMEM_HOST_ENABLE=0 on all nodes: NCCL takes /dev/shm instead, which needs room (df -h /dev/shm). " +
			"Where the line remains (in a VM, or with PCIe's access control): NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1",
		from: "NVIDIA/nccl#1838, #2190",
	}, {
		id: "log.no-process-group", grade: decisive,
		words: []string{"Default process group has not been initialized"},
		says:  "{who} calls torch.distributed before init_process_group",
		do: "call init_process_group first; with accelerate or Lightning, create their object first, and " +
			"start by a launcher",
		from: "torch distributed_c10d.py",
	}, {
		id: "log.init-twice", grade: decisive, words: []string{"trying to initialize the default process group twice"},
		says: "{who} calls init_process_group twice",
		do:   "call it once; a framework such as accelerate, DeepSpeed or Lightning calls it by itself",
		from: "torch distributed_c10d.py",
	}, {
		id: "log.backend-device", grade: decisive,
		words: []string{"No backend type associated with device type", "Tensors must be CUDA and dense",
			"Only cuda tensors are supported"},
		form: opt(`device type (?P<device>\w+)`),
		says: "a tensor is on a device[ ({device})] that the backend of its group does not serve",
		do:   "move the tensor (x.cuda()), or make the group for both: init_process_group(\"cpu:gloo,cuda:nccl\")",
		from: "torch ProcessGroup",
	}, {
		id: "log.rank-range", grade: decisive,
		words: []string{"Invalid rank requested", "rank should be less than world_size", "Invalid rank "},
		form:  re(`Invalid rank requested : (?P<rank>\d+)/(?P<of>\d+)|less than world_size|Invalid rank (?P<rank>\d+), rank`),
		says:  "a rank[ ({rank} of {of})] is not below the world size",
		do:    "number the ranks from 0 to WORLD_SIZE-1: RANK = node rank x ranks per node + local rank",
		from:  "NVIDIA/nccl init.cc",
	}, {
		id: "log.net-not-found", grade: decisive, words: []string{"Error: network "},
		form: re(`Error: network (?P<net>\S+) not found`),
		says: "NCCL of {who} has no network {net}, which NCCL_NET asks for",
		do:   "unset NCCL_NET, or install the plugin and the devices that it needs on that node",
		from: "NVIDIA/nccl net.cc",
	}, {
		id: "log.nvls", grade: family, soft: true,
		words: []string{"NVLink SHARP (NVLS)", "transport/nvls.cc"},
		form:  re(`WARN|^Failed to \w+ NVLink SHARP .*(?:CUDA )?error (?P<code>\d+)`),
		not:   []string{"NCCL INFO"},
		says: "NCCL of {who} cannot use NVLink SHARP[ (CUDA error {code})]: the fabric manager, the driver, or a " +
			"container without it",
		do: "set NCCL_NVLS_ENABLE=0 to go on. Where the fabric manager was stopped or restarted after the GPUs were " +
			"started: " +
			"reset the GPUs (nvidia-smi -r, with no process on them) or reboot that node; else compare the versions of driver " +
			"and fabric manager there",
		need: []string{"systemctl status nvidia-fabricmanager of that node: since when does it run, and since when the node",
			"nvidia-smi -q -d FABRIC, or nvidia-smi -q (Fabric), of that node"},
		from: "NVIDIA/nccl nvls.cc",
	}, {
		id: "log.cuda-build-mismatch", grade: decisive,
		words: []string{"does not match the version torch was compiled with",
			"mismatches the version that was used to compile",
			"CUDA_HOME does not exist, unable to compile CUDA op"},
		form: opt(`(?:Installed CUDA version|detected CUDA version \() ?(?P<has>[\d.]+)\D.* (?P<needs>\d+\.\d+)`),
		says: "the CUDA toolkit of {who}[, {has},] is not the one that torch was built with[, {needs}]",
		do:   "install the toolkit of torch's version and set CUDA_HOME, or use operators that are built already",
	}, {
		id: "log.download", grade: family, soft: true,
		words: []string{"We couldn't connect to 'https://huggingface.co'", "Max retries exceeded with url",
			"LocalEntryNotFoundError", "Failed to establish a new connection", "429 Client Error: Too Many Requests",
			"thrown while requesting HEAD https", "thrown while requesting GET https",
			"internet connection or see how to run the library in offline mode"},
		form: opt(`https?://(?P<host>[\w.-]+)|host='(?P<host>[\w.-]+)'`),
		not:  []string{"wandb", "etrying", "retry"},
		says: "{who} cannot download what it needs[ from {host}]",
		do: "fetch it once before the job to a folder that all nodes have, and set HF_HUB_OFFLINE=1 (where the answer is " +
			"429, all ranks asked at once); or " +
			"give the nodes a way out",
		need: []string{"curl -sI of that host from a node of the job"},
	}, {
		id: "log.extension-lock", grade: family, soft: true,
		words: []string{"Lock file exists in build directory", "wait (torch/utils/file_baton.py"},
		form:  opt(`build directory: '(?P<file>[^']+)'`),
		says:  "{who} waits for a lock of an earlier build of an extension of torch[: {file}]",
		do:    "remove the file \"lock\" there (a build that was killed left it), if no other process builds now",
		need:  []string{"is another process building: ps of that node (ninja, nvcc)"},
		from:  "torch utils/file_baton.py",
	}, {
		id: "log.extension-lock", grade: waits, soft: true, words: []string{"as PyTorch extensions root"},
		form: opt(`Using +(?P<file>\S+) as`),
		not:  []string{"[repeated "}, // Ray shows the lines of one process, and what it repeats of others in part
		says: "{who} began to build an extension of torch[ in {file}], and went no further: a long build, or an old lock",
		need: []string{"is there a file \"lock\" in a folder below it, and a process that builds (ninja, nvcc)"},
		from: "torch utils/cpp_extension.py",
	}, {
		id: "log.seccomp", grade: family, soft: true, words: []string{"pthread_create"},
		form: re(`pthread_create.*(?:Operation not permitted|EPERM)`),
		says: "{who} is not permitted to start a thread, which is no limit: as a rule the seccomp profile of an older " +
			"container engine forbids the call (clone3) of a newer image",
		do: "update the container engine and libseccomp of that node; docker --security-opt seccomp=unconfined shows " +
			"whether that is it",
		need: []string{"docker version and the version of libseccomp of that node", "ulimit -u as the job sees it"},
		from: "glibc clone3, moby/moby#42680",
	}, {
		id: "log.ulimit-nproc", grade: family, soft: true,
		words: []string{"pthread_create failed", "pthread_create() failed", "RLIMIT_NPROC",
			"can't start new thread", "fork: retry: Resource"},
		form: opt(`RLIMIT_NPROC (?P<limit>\d+)`),
		not:  []string{"RLIMIT_NPROC -1"},
		says: "{who} may start no more threads or processes[: the limit is {limit}]",
		do: "raise ulimit -u, or the pids limit of the container (docker --pids-limit, podPidsLimit); OMP_NUM_THREADS=1 " +
			"needs fewer",
		need: []string{"ulimit -u and the cgroup's pids.max as the job sees them"},
	}, {
		id: "log.proxy", grade: family, words: []string{"key=content-type value=text/html"},
		says: "an HTTP proxy answers {who} in place of another process of the job (gRPC)",
		do:   "unset http_proxy and https_proxy, or put the hosts of the job into no_proxy (also the addresses)",
		need: []string{"env | grep -i proxy on each node"},
		from: "ray-project/ray#37757",
	}, {
		id: "log.ray-version", grade: decisive, words: []string{"Version mismatch: The cluster was started with"},
		later: []string{" Ray: ", " Python: ", "loudpickle: ", "yarrow: ", "This process on node "},
		more: re(`^\s+(?:Ray: (?P<ray>\S+)|Python: (?P<python>\S+)|Cloudpickle: (?P<cloudpickle>\S+)|` +
			`Pyarrow: (?P<pyarrow>\S+))\s*$|This process on node (?P<node>[\w.:-]+?)(?:,? was|,)`),
		says: "{who} has another version of Ray, Python or a package than the cluster's head[; Ray {ray2}, the head {ray}]" +
			"[; Python {python2}, the head {python}][; cloudpickle {cloudpickle2}, the head {cloudpickle}]" +
			"[; pyarrow {pyarrow2}, the head {pyarrow}]",
		do: "install the same versions of all three on all nodes, in the environment that ray start uses (one image, or " +
			"one lock file); the lines below have both lists",
		from: "ray utils.py",
	}, {
		id: "log.mount-gone", grade: family, soft: true, words: []string{"Stale file handle"},
		form: re(`(?:Errno|Error|error|failed with).*Stale`),
		not:  []string{"slurm_receive_msg"},
		says: "a file that {who} uses on a shared file system is no longer there: another process or host removed or " +
			"replaced it, or its server was changed (ESTALE)",
		do: "let one rank write and remove such files, and the others wait; give each run its own folder for caches; " +
			"where ls of the folder fails too, mount it again",
		need: []string{"which processes of other hosts write or remove files of that folder", "ls and df of that folder"},
		from: "Linux ESTALE, nfs(5)",
	}, {
		id: "log.mount-gone", grade: family, soft: true,
		words: []string{"Stale file handle", "Transport endpoint is not connected", "[Errno 5] Input/output error",
			"Cannot send after transport endpoint shutdown"},
		form: re(`(?:Errno|OSError|error|cannot|ls:|failed with) ?.*(?:Stale|endpoint|Input/output)`),
		not:  []string{"slurm_receive_msg", "socket"},
		says: "a file system of {where} does not answer any more",
		do:   "mount it again on that node; look at dmesg for NFS, Lustre or FUSE",
		need: []string{"dmesg and df on that node"},
	}, {
		id: "log.ucx-shm", grade: family,
		words: []string{"open(file_name=/proc/", "mm ep failed to connect to remote FIFO",
			"failed to connect to remote FIFO"},
		form: re(`UCX  ?ERROR`),
		says: "UCX of {who} cannot map the shared memory of another rank: they are in different containers or users",
		do: "let the ranks of a host share the PID and IPC namespaces, or set UCX_POSIX_USE_PROC_LINK=n, " +
			"or leave shared memory out (UCX_TLS=^posix,sysv,cma)",
		need: []string{"are the ranks of one host in one container", "kernel.yama.ptrace_scope"},
		from: "openucx/ucx#4224",
	}, {
		id: "log.sysv-shm", grade: decisive, words: []string{"shmget(size="},
		form: re(`shmget\(size=.*(?:No space left|Invalid argument|Operation not permitted|Cannot allocate)`),
		says: "the limits of System V shared memory are too small on {where}",
		do: "raise kernel.shmmax, kernel.shmall and kernel.shmmni (ipcs -l), remove old segments " +
			"(ipcrm), or set UCX_TLS=^sysv",
		from: "openucx/ucx",
	},
}
