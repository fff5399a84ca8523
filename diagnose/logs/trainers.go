package logs

import (
	"math"
	"strconv"
	"strings"
)

// dataBar is the fact that a bar of data that are prepared was the last that the job has done.
const dataBar = "data.bar"

const (
	fileLocksDo = "put the folder with locks on a disk of the node, or on a file system that has them: HF_HOME and " +
		"HF_DATASETS_CACHE, TRITON_CACHE_DIR, TORCH_EXTENSIONS_DIR, TMPDIR; NFS needs rpc.statd, or version 4, and Lustre " +
		"the option flock in its mount"
	preparedDo = "prepare the data before the job, in a run of its own, so that its cache is there; or raise the " +
		"timeout of the process group (init_process_group(timeout=…), ddp_timeout, ddp_timeout_seconds)"
	preparedSays = "{who} gave up waiting for a rank, rank 0 as a rule, that still prepares the data: its bar shows " +
		"{percent} % after {elapsed}"
)

var fileLocksNeed = []string{"df -T of that folder, and its options in mount", "flock -n FILE true there, on each node"}

// preparing says whether a rank prepared data when another one gave up waiting, and for about as long as that one.
func preparing(v map[string]string) bool {
	const least = 540 // seconds, of torch's shortest timeout
	percent, elapsed, _ := strings.Cut(v[latestFact], " ")
	secs := 0
	for part := range strings.SplitSeq(elapsed, ":") {
		secs = secs*60 + number(part)
	}
	v["percent"], v["elapsed"] = percent, elapsed
	waited := number(v["ms"]) / 1000
	if waited <= 0 {
		return number(percent) < 100 && secs >= least
	}
	return number(percent) < 100 && secs*10 >= waited*8
}

// bytesOf returns a size that torch writes, as "2.50 MiB".
func bytesOf(size string) float64 {
	n, unit, _ := strings.Cut(size, " ")
	out, err := strconv.ParseFloat(n, 64)
	if err != nil {
		return -1
	}
	return out * map[string]float64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "bytes": 1}[unit]
}

// percent returns how much of a bar is done; its numbers are as 12.5k.
func percent(n, of string) string {
	whole := func(s string) float64 {
		digits := strings.TrimRight(s, "kMG")
		out, _ := strconv.ParseFloat(digits, 64)
		return out * map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[s[len(digits):]]
	}
	return strconv.Itoa(int(math.Round(100 * whole(n) / max(whole(of), 1))))
}

// trainerCauses are errors of trainers, of what they load, and of how they are called.
var trainerCauses = []cause{
	{
		id: "log.data-prepared", grade: family, job: true, with: dataBar,
		words: []string{"waitForInput: ", "retrieving ncclUniqueId from [", "wait timeout after",
			"Watchdog caught collective", "Socket Timeout"},
		form: re(`timed out after (?P<ms>\d+)ms|retrieving ncclUniqueId from \[0\].*(?:got error|[Tt]imeout|timed out)|` +
			`wait timeout after (?P<ms>\d+)ms|WorkNCCL\(SeqNum=[1-9],.*Timeout\(ms\)=(?P<ms>\d+)|Socket Timeout`),
		test: preparing, says: preparedSays, do: preparedDo,
		need: []string{"the output of the rank with the bar, after these lines"},
		from: "transformers training_args.py, datasets",
	}, {
		id: "log.extension-build", grade: family, words: []string{"torch_extensions/"},
		form: re(`/torch_extensions/\S*?(?P<name>[\w-]+)\.so: cannot open shared object file`),
		says: "{who} lacks the extension {name}, which torch builds when a program starts: the build failed, here or on " +
			"another rank of the host, or another rank still builds it",
		do: "look for the first error of ninja, nvcc or the compiler in the output of all ranks; build it once before the " +
			"job, remove its folder below torch_extensions before that, and set TORCH_EXTENSIONS_DIR to a disk of the node",
		need: []string{"the output of all ranks of that host from the start", "ls -l of that folder: is a file lock there"},
		from: "torch utils/cpp_extension.py",
	}, {
		id: "log.pmix-file", grade: family, words: []string{"PMIX_ERR_FILE_OPEN_FAILURE", "PMIX ERROR: FILE-OPEN-FAILURE"},
		form: opt(`in file (?P<file>\S+) at line`),
		says: "PMIx of {who} cannot open its file of shared memory in the folder of the job: that folder is not there, " +
			"full, not writable, or another one in the container",
		do: "export PMIX_MCA_gds=hash for all ranks, which does without that file; else look at the folder: TMPDIR, and " +
			"TmpFS of Slurm, must be the same for launcher and ranks (mount it into the container)",
		need: []string{"TMPDIR, and df and ls -ld of that folder, on that node as the job sees it",
			"the versions of PMIx of launcher and program"},
		from: "openpmix gds_shmem2.c",
	}, {
		id: "log.ray-resources", grade: family, soft: true, with: "ray.asks", words: []string{"'node:"},
		form: re(`^\s*(?:specs=\[)?` + nodeDemand), not: []string{"pending "}, // where the line is broken
		says: noNodeSays, do: noNodeDo, need: noNodeNeed, from: "vllm-project/vllm#14186",
	}, {
		id: "log.checkpoint-shape", grade: decisive, words: []string{"size mismatch for ", "Size mismatch between saved "},
		form: re(`size mismatch for (?P<what>[\w.-]+): copying a param with shape (?P<has>.*?) from checkpoint, the shape ` +
			`in current model is (?P<want>torch\.Size\(\[[\d, ]*\]\)|[^.]+)|Size mismatch between saved (?P<has>.*?) and ` +
			`current: (?P<want>.*?) for (?P<what>[\w.-]+)`),
		not:  append([]string{"not initialized"}, goingOn...),
		says: "the checkpoint that {who} loads is of another model: {what} has {has} in it, and {want} in the model",
		do: "load it into the model that it was saved from: compare the configuration (sizes, number of layers and heads, " +
			"size of the vocabulary, tensor-parallel size), or take another checkpoint",
		from: "torch Module.load_state_dict, torch.distributed.checkpoint",
	}, {
		id: "log.checkpoint-keys", grade: decisive,
		words: []string{"issing key(s) in state_dict: ", "nexpected key(s) in state_dict: ", "Missing key in checkpoint " +
			"state_dict: "},
		form: re(`(?P<kind>Missing|Unexpected) key(?:\(s\))? in (?:checkpoint )?state_dict: "?(?P<what>[\w.-]+)`),
		not:  append([]string{"strict=False"}, goingOn...),
		says: "the checkpoint that {who} loads does not have the names of the model ({kind}: {what})",
		do: "compare the names: a wrapper adds or removes a part (module. of DDP, _orig_mod. of torch.compile, " +
			"_fsdp_wrapped_module., base_model. of PEFT); else it is of another model or version",
		from: "torch Module.load_state_dict, torch.distributed.checkpoint",
	}, {
		id: "log.file-locks", grade: decisive, words: []string{"No locks available"},
		form: re(`(?:Errno|Error|error|failed|lock)\b.*No locks available`), not: goingOn,
		says: "the file system of a folder that {who} uses gives no locks of files (ENOLCK): NFS without its lock service, " +
			"as a rule",
		do: fileLocksDo, from: "Linux flock(2), nfs(5)",
	}, {
		id: "log.file-locks", grade: family, words: []string{"[Errno 38] Function not implemented",
			"[Errno 524] Unknown error 524", "[Errno 95] Operation not supported"},
		form: re(`OSError: \[Errno (?P<n>38|524|95)\]`), with: "python.lock",
		says: "the file system of a folder that {who} uses has no locks of files (errno {n})",
		do:   fileLocksDo, need: fileLocksNeed, from: "Linux flock(2), lustre mount.lustre(8)",
	}, {
		id: "log.file-permission", grade: family, words: []string{"PermissionError: [Errno 1] Operation not permitted: '"},
		form: re(`Operation not permitted: '(?P<file>/[^']*)'`), not: goingOn,
		says: "{who} may not change {file}: it is of another user, or its file system does not permit that (owner, mode, " +
			"lock)",
		do: "give each user a folder of their own (HF_HOME, HF_DATASETS_CACHE, TMPDIR, TRITON_CACHE_DIR), on a file system " +
			"that permits chmod; remove a lock file that another user left",
		need: []string{"id, ls -ld of {file}, and df -T of its folder, as the job sees them"},
		from: "Linux EPERM",
	}, {
		id: "log.host-oom", grade: family, words: []string{"OSError: [Errno 12] Cannot allocate memory"},
		form: re(`OSError: \[Errno 12\] Cannot allocate memory`), not: goingOn,
		says: "{who} gets no more memory of the host (ENOMEM), or may not start a further process of its size",
		do: "give the job more memory, or start fewer processes and DataLoader workers on the host; ulimit -v must say " +
			"unlimited, and vm.overcommit_memory not 2",
		need: []string{"free -g of that node, the memory limit of the job or container, and ulimit -v",
			"sysctl vm.overcommit_memory vm.max_map_count"},
		from: "Linux ENOMEM",
	}, {
		id: "log.shm-open", grade: open, words: []string{"unable to open shared memory object <"},
		form: re(`memory object </?(?P<obj>\w+)> in read-write mode(?:: (?P<why>[A-Z].*))?\s*$`),
		not:  []string{"Too many open files", "No space left", "Cannot allocate"},
		says: "{who} cannot open the shared memory of a tensor that another process passes to it[: {why}]; torch does not " +
			"say more: as a rule its limit of open files is reached, or that process has ended, or /dev/shm is full",
		need: []string{"ulimit -n as the job sees it, and ls /proc/PID/fd | wc -l of a rank",
			"df -h /dev/shm, and did a DataLoader worker end before",
			"a run with torch.multiprocessing.set_sharing_strategy(\"file_system\"), or fewer workers"},
		from: "torch MapAllocator.cpp",
	}, {
		id: "log.oom", grade: decisive, words: []string{"0 bytes already allocated", "memory 0 bytes is allocated by"},
		form: re(`GPU (?P<gpu>\d+)\b(?:; (?P<all>[\d.]+ \wi?B) total capacity; 0 bytes already allocated; ` +
			`(?P<free>[\d.]+ \w+) free| has a total capacity of (?P<all>[\d.]+ \wi?B) of which (?P<free>[\d.]+ \w+) is ` +
			`free\..*memory 0 bytes is allocated by)`),
		test: func(v map[string]string) bool { return bytesOf(v["free"]) < bytesOf(v["all"])/4 },
		says: "{who} finds GPU {gpu} full ({free} of {all} free) before it has put anything there: other processes hold " +
			"its memory",
		do: "nvidia-smi shows them: an earlier run or another job, which you end or avoid, or other ranks of this job: " +
			"choose the GPU by the local rank (torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])))",
		from: "torch CUDACachingAllocator.cpp",
	}, {
		id: "log.gpu-busy", grade: decisive, words: []string{"Free memory on device"},
		form: re(`Free memory on device (?P<dev>[\w:]*) ?\((?P<free>[\d.]+)/(?P<all>[\d.]+) GiB\)(?:.* less than desired ` +
			`GPU memory utilization \((?P<part>[\d.]+), (?P<want>[\d.]+) GiB\)| on startup is\s*$)`),
		later: []string{"esired GPU memory utilization ("},
		more:  re(`desired GPU memory utilization \((?P<part>[\d.]+), (?P<want>[\d.]+) GiB\)`),
		says: "{who} finds only {free} of {all} GiB of its GPU free at its start[, less than the {want} GiB that it is to " +
			"use]: another process holds the rest",
		do: "end that process (nvidia-smi shows it; it may be of an earlier run), use another GPU, or lower " +
			"--gpu-memory-utilization below {part}",
		from: "vllm worker utils",
	}, {
		id: "log.mpi-program-missing", grade: decisive, words: []string{"Executable: "},
		form: re(`^\s*Executable: +(?P<tool>\S+\.(?:py|sh))\s*$`), with: "mpi.program",
		says: "mpirun of {where} does not find the program {tool}: it is a script, to be called by its interpreter or by " +
			"its path",
		do:   "put the interpreter before it (mpirun … python {tool}), or chmod +x and give its path (./{tool})",
		from: "open-mpi/ompi",
	}, {
		id: "log.interface-not-found", grade: decisive, words: []string{"Unable to find address for: ",
			"Unable to find interface for"},
		form: re(`Unable to find (?:address|interface) for: ?(?P<if>[\^=]\S*)`),
		says: "GLOO_SOCKET_IFNAME of {who} is {if}: Gloo takes the name of an interface, and no ^ or =, as " +
			"NCCL_SOCKET_IFNAME does",
		do:   "set GLOO_SOCKET_IFNAME to the name of the interface that the nodes share (ip -br addr), or unset it",
		from: "torch ProcessGroupGloo, pytorch/gloo tcp/device.cc",
	}, {
		id: "log.gdr-peer-memory", grade: family, words: []string{"ibv_reg_mr", "ibv_reg_dmabuf_mr"},
		form: re(`UCX +ERROR .*ibv_reg_(?:dmabuf_)?mr\(.*(?P<why>Bad address|Invalid argument|Operation not ` +
			`supported|Protocol not supported)`),
		says: "UCX of {who} cannot register memory for RDMA ({why}): as a rule memory of a GPU, where nvidia-peermem is " +
			"not loaded and DMA-BUF does not work",
		do: "modprobe nvidia-peermem on that node, with a UCX that was built with CUDA (ucx_info -d | grep cuda); " +
			"UCX_IB_GPU_DIRECT_RDMA=n shows whether GPUDirect is the cause",
		need: []string{"lsmod of that node (nvidia_peermem)", "ucx_info -d of that node, in the job's container"},
		from: "openucx/ucx ib_md.c",
	}, {
		id: "log.script-missing", grade: decisive, words: []string{": can't open file '"},
		form: re(`can't open file '(?P<file>/\S*/(?:slurmd?|spool)/\S*job\d+/[^']*)'`),
		says: "{who} has no file {file}: sbatch copies the script of a job to that folder, and what it takes for its own " +
			"folder is not where the program is",
		do:   "name the program by its full path, or by $SLURM_SUBMIT_DIR, in the script in place of $(dirname \"$0\")",
		from: "slurm sbatch(1)",
	},
}

// trainerFacts are lines that these causes need.
var trainerFacts = []cause{
	{id: dataBar, grade: fact, words: []string{"okeniz", "Map", "Filter", "Generating ", "rocessing", " Packing ",
		"Packing:", "onverting ", "rouping ", "aving the dataset", "uilding ", "ropping ", "Caching ", "reparing "},
		// it begins with text that lines without a bar lack, so that these cost little
		form: re(`%\|[^|]*\| *(?P<n>[\d.]+[kMG]?)/(?P<of>[\d.]+[kMG]?) \[(?P<elapsed>(?:\d+:)?\d+:\d\d)<`),
		test: func(v map[string]string) bool {
			v["v"] = percent(v["n"], v["of"]) + " " + v["elapsed"]
			return true
		}},
	{id: "ray.asks", grade: fact, words: []string{"o available node types can fulfill resource request"},
		form: re(`(?P<v>fulfill)`)},
	{id: "ray.node-asked", grade: fact, with: "ray.asks", words: []string{"'node:"}, form: re(nodeDemand),
		test: func(v map[string]string) bool { v["v"] = v["addr"]; return true }},
	{id: "ray.dead-worker", grade: fact, words: []string{"A worker died or was killed while executing a task"},
		form: re(`Worker IP address: (?P<v>[\w.:-]+?\w) `)},
	{id: "python.lock", grade: fact, frame: true, words: []string{"filelock", "flock(", "lockf("},
		form: re(`(?P<v>filelock|flock|lockf)`)},
}

// gatheredCauses are errors whose reason several lines give together.
var gatheredCauses = []cause{
	{
		id: "log.watchdog-stuck", grade: waits, words: []string{"Heartbeat monitor timed out", "watchdog got stuck for"},
		form: opt(`stuck for (?P<secs>\d+) seconds`),
		says: "torch's watchdog of {who} does not move[, for {secs} s]: a call of CUDA or NCCL hangs in that process, or " +
			"another of its threads holds Python's lock (GIL)",
		need: []string{"the stacks of these processes while they hang: py-spy dump --native --pid PID",
			"the output of all other ranks: one may have ended, or be in another collective",
			"dmesg | grep Xid and nvidia-smi of their nodes"},
		from: "torch ProcessGroupNCCL",
	}, {
		id: "log.collective-timeout", grade: waits, words: []string{"detected by watchdog at work"},
		says: "{who} waited for a collective that did not complete",
		need: []string{"the output of all ranks: one may have ended, or be in another collective",
			"a flight recorder dump (TORCH_FR_BUFFER_SIZE=2000, TORCH_FR_DUMP_ON_TIMEOUT=1), or the stacks of all ranks",
			"how long each rank needs to reach this collective; it may only be slow"},
		from: "torch ProcessGroupNCCL",
	}, {
		id: "log.ray-worker", grade: open, recalls: "ray.dead-worker",
		words: []string{"because its worker process has died", "Worker exit type: SYSTEM_ERROR"},
		form:  re(`Worker exit type: (?P<type>\w+)(?: Worker exit detail: (?P<why>[^.]+))?`),
		test: func(v map[string]string) bool {
			if addr := v[latestFact]; addr != "" {
				v["node"] = addr
			}
			return true
		},
		says: "the process of a worker of Ray on {where} ended, and wrote no error[: {type}][, {why}]",
		need: []string{"dmesg of that node: did the OOM killer end it, or did it crash",
			"the worker's own output there: /tmp/ray/session_latest/logs/worker-*.err", "raylet.out of that node"},
		from: "ray core_worker.cc",
	},
}

// leftoverCauses are what is written after a job that may be well.
var leftoverCauses = []cause{{
	id: "log.end-noise", grade: harmless, words: []string{"[pmixp_rmdir_recursively]", "[_is_dir] mpi/pmix"},
	says: "what Slurm's PMIx plugin writes when it removes the folder of a job twice", from: "openpmix/openpmix#1444",
}}

// sharedGPU is a GPU that two processes of a host use, by the lines of NCCL.
var sharedGPU = cause{
	id: "log.duplicate-gpu", grade: open, job: true, soft: true, // parts of one GPU (MIG) have its number
	says: "ranks {a} and {b} of {where} are on the same GPU, {bus}: the program does not choose it by the local rank, " +
		"or each process sees one GPU, the same one",
	need: []string{"nvidia-smi -L and CUDA_VISIBLE_DEVICES as each rank of that host sees them (Slurm: --gpus-per-task, " +
		"--gpu-bind)", "does the program call torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])) before it first uses " +
		"CUDA"},
	from: "NVIDIA/nccl init.cc",
}

// user is a process of NCCL that uses a GPU.
type user struct{ rank, pid int }

var busForm = re(`^(?:\[[^\]]*\] )?(?P<host>[A-Za-z0-9.][\w.-]*):(?P<pid>\d+):\d+ .*\brank (?P<rank>\d+) nranks ` +
	`(?P<of>\d+) .*\bbusId (?P<bus>[\da-f]+)\b(?: commId (?P<comm>0x[\da-f]+)| - Abort)`)

// noteGPU notes which process uses which GPU, and a GPU that two processes of one host use in one communicator. Hosts
// may have the same name: processes of one have numbers close to each other.
func (f *follower) noteGPU(st *stream, p *prefix) {
	const near = 200
	m := busForm().FindSubmatch(p.body)
	if m == nil || len(f.users) >= maxStreams {
		return
	}
	v := values(busForm(), m)
	now := user{number(v["rank"]), number(v["pid"])}
	key := strings.Join([]string{strconv.Itoa(f.index), v["host"], v["bus"], v["of"], v["comm"]}, " ")
	old, ok := f.users[key]
	if f.users[key] = now; !ok || old.pid == now.pid || old.rank == now.rank ||
		max(old.pid-now.pid, now.pid-old.pid) > near {
		return
	}
	f.add(&sharedGPU, st, p, map[string]string{"a": strconv.Itoa(min(old.rank, now.rank)),
		"b": strconv.Itoa(max(old.rank, now.rank)), "bus": v["bus"], "node": v["host"]})
}
