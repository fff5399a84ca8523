package logs

const weightsDo = "compare the folder with a complete one: the checkpoint of a run that ended while it wrote, one " +
	"whose weights are in shards of the optimizer (DeepSpeed: zero_to_fp32.py; FSDP: torch.distributed.checkpoint." +
	"format_utils), or another folder than the one that was meant"

var hostMemoryNeed = []string{"dmesg of that node: did the OOM killer end a process", "free -g of that node, and the " +
	"memory limit of the job or container"}

// goingOn are parts of lines after which a program goes on without what they name.
var goingOn = []string{"WARN", "arning", "INFO", "DEBUG", "etrying", "alling back", "allback", "gnoring", "gnored",
	"kipping", "kipped", "ontinuing", "cached files"}

// frameworkCauses are what trainers, engines and compilers of kernels refuse, each in its own words.
var frameworkCauses = []cause{
	{
		id: "log.parallel-sizes", grade: decisive, words: []string{"train_batch_size is not equal to "},
		form: re(`train_batch_size is not equal to (?P<of>[\w *]+?) (?P<n>\d+) != (?P<product>\d+(?: \* \d+)+)`),
		says: "the batch size in DeepSpeed's configuration of {who}, {n}, is not {of} ({product})",
		do: "start as many ranks as it was written for, or give two of the three sizes and let DeepSpeed compute the third " +
			"(leave it out, or \"auto\" in transformers)",
		from: "DeepSpeed runtime/config.py",
	}, {
		id: "log.parallel-sizes", grade: decisive, words: []string{"must be a multiple of "},
		form: re(`Error: .*?\b(?P<of>[a-z]\w+) \((?P<n>\d+)\) must be a multiple of (?P<by>[a-z]\w+) \((?P<m>\d+)\)`),
		says: "two sizes of {who} do not fit: {of}, {n}, is no multiple of {by}, {m}",
		do:   "lower {by}, or choose a {of} that it divides",
		from: "Megatron transformer_config.py",
	}, {
		id: "log.checkpoint-shape", grade: decisive, words: []string{"Global shape mismatch for loaded "},
		form: re(`Global shape mismatch for loaded \((?P<has>.*?)\) and expected \((?P<want>.*?)\) ` +
			`tensor for key (?P<what>\S+)`),
		says: "the checkpoint that {who} loads is of another model: {what} has {has} in it, and {want} in the model",
		do: "compare the configuration with the run that wrote it: sizes, layers, heads, and for the embedding the size of " +
			"the vocabulary, which Megatron pads by the tensor-parallel size (--make-vocab-size-divisible-by)",
		from: "Megatron core dist_checkpointing",
	}, {
		id: "log.checkpoint-incomplete", grade: family, words: []string{"Error no file named "},
		form: re(`no file named (?P<what>.+?) found in directory (?P<dir>\S+?)\.?\s*$`),
		says: "the folder {dir} of {who} has no weights of a model in it",
		do:   weightsDo, need: []string{"ls -l of {dir} on that node"}, from: "transformers modeling_utils.py",
	}, {
		id: "log.checkpoint-damaged", grade: family, words: []string{"UnpicklingError: invalid load key, "},
		form: re(`invalid load key, '(?P<key>\\x00|[^']*)'`), not: goingOn,
		says: "a file that {who} loads is no checkpoint (it begins with {key}): v is a pointer file of git-lfs, < a " +
			"page of the web, \\x00 a file whose data was not written",
		do:   "look at its first line (head -c 100 FILE) and size: fetch it again (git lfs pull), or take another checkpoint",
		need: []string{"head -c 100 of that file, and its size"},
		from: "CPython pickle, torch.load",
	}, {
		id: "log.download", grade: family, words: []string{"Consistency check failed: file should be of size "},
		form: re(`should be of size (?P<want>\d+) but has size (?P<has>\d+) \((?P<file>[^)]+)\)`), not: goingOn,
		says: "a download of {who} was cut off: {file} has {has} of {want} bytes: a full disk or quota, or several ranks " +
			"that write to one cache",
		do: "fetch it once before the job, by one process, to a folder that all nodes have, and set HF_HUB_OFFLINE=1; " +
			"remove the file first (force_download=True)",
		need: []string{"df -h of HF_HOME, and quota -s"},
		from: "huggingface_hub file_download.py",
	}, {
		id: "log.hub-access", grade: family, words: []string{"access a gated repo", "GatedRepoError",
			"RepositoryNotFoundError",
			"401 Client Error", "403 Client Error"},
		form: re(`^(?:[\w.]*Error: |[\w.]*\bHTTPError: ).*(?:access a gated repo|Client Error.*huggingface)|` +
			`\b(?:GatedRepo|RepositoryNotFound)Error: |huggingface_hub\S*: 40[13] Client Error`),
		not:  append([]string{"/discussions"}, goingOn...), // of a thread that looks for safetensors
		says: "the hub does not give {who} a model or data set: it has no token, a token without the right, or another name",
		do: "accept its terms on its page, and give all ranks a token (HF_TOKEN, also inside of the container), or " +
			"fetch it before the job and set HF_HUB_OFFLINE=1; compare the name",
		need: []string{"hf auth whoami as the job's user, in its container"},
		from: "huggingface_hub errors.py",
	}, {
		id: "log.uneven-inputs", grade: decisive, words: []string{"one rank that exhausted inputs"},
		says: "a rank has fewer batches than {who} and the others: its data ended first",
		do: "give all ranks the same number of batches: DistributedSampler, drop_last=True, or a fixed number of steps; or " +
			"let Join go on without it (throw_on_early_termination=False)",
		from: "torch distributed/algorithms/join.py",
	}, {
		id: "log.gpu-busy", grade: family, words: []string{"Error in memory profiling. "},
		form: re(`Initial free memory (?P<a>[\d.]+ ?\w*),? current free memory (?P<b>[\d.]+ ?\w*)`),
		says: "another process of the GPU of {who} gave back memory while vLLM measured it (free: {a}, then {b})",
		do:   "end the other process first (nvidia-smi shows it), and start engines that share a GPU one after another",
		need: []string{"nvidia-smi of that node before the start"},
		from: "vllm gpu_worker.py",
	}, {
		id: "log.oom", grade: family, words: []string{"_STATUS_NOT_INITIALIZED", "_STATUS_ALLOC_FAILED"},
		form: re(`(?:[Ee]rror: |handle: ).*?(?P<lib>CUBLAS|CUDNN|CUSOLVER)_STATUS_(?:NOT_INITIALIZED|ALLOC_FAILED)`),
		not:  goingOn,
		says: "{lib} of {who} does not start: as a rule the memory of its GPU is full",
		do: "use a smaller batch or model share, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; nvidia-smi shows " +
			"whether another process holds memory; with free memory compare driver and libraries",
		need: []string{"nvidia-smi of that node while the job runs", "ldd of libtorch_cuda.so: which cuBLAS and cuDNN"},
		from: "cuBLAS and cuDNN API",
	}, {
		id: "log.library-mismatch", grade: decisive, words: []string{"cuDNN version incompatibility"},
		form: re(`compiled against \(?(?P<want>[\d., ]+?)\)? but found runtime version \(?(?P<has>[\d., ]+\d)`),
		says: "{who} loads cuDNN {has}, and its torch was built for {want}",
		do: "take the other cuDNN out of LD_LIBRARY_PATH (torch brings its own), and install nvidia-cudnn in the version " +
			"that torch asks for",
		from: "torch backends/cudnn",
	}, {
		id: "log.no-kernel-image", grade: decisive, words: []string{"is not defined for option 'gpu-name'"},
		form: re(`Value '(?P<isa>sm_\w+)' is not defined for option`),
		says: "the assembler of Triton (ptxas) of {who} does not know its GPU ({isa}): it is older than the GPU",
		do:   "install a newer Triton with its torch, or set TRITON_PTXAS_PATH to the ptxas of a newer CUDA toolkit",
		from: "ptxas, triton",
	}, {
		id: "log.kernel-resources", grade: decisive, words: []string{"out of resource: "},
		form: re(`OutOfResources: out of resource: (?P<what>[\w ]+), Required: (?P<want>\d+), Hardware limit: (?P<has>\d+)`),
		not:  append([]string{"utotun"}, goingOn...), // where it chooses a kernel, it takes another one
		says: "a kernel of Triton of {who} needs more {what} than its GPU has ({want}, and there are {has}): it was tuned " +
			"for a larger type of GPU",
		do: "use smaller blocks or num_stages, or another implementation of that operation for this type of GPU (eager, " +
			"another attention backend)",
		from: "triton compiler",
	}, {
		id: "log.compiler-missing", grade: decisive, words: []string{"Failed to find C compiler"},
		form: re(`Error: Failed to find C compiler`), not: goingOn,
		says: "{who} cannot compile at run time (Triton, torch.compile): its image has no C compiler",
		do:   "install gcc in the image, on all nodes, or set CC",
		from: "triton runtime/build.py",
	}, {
		id: "log.compiler-missing", grade: family, words: []string{"Python.h: No such file"},
		form: re(`fatal error: Python\.h: `),
		says: "a compiler that {who} starts does not find the headers of Python (Python.h)",
		do: "install python3-dev of that version of Python in the image, on all nodes: Triton and torch.compile need it " +
			"at run time",
		need: []string{"does a program compile at run time, or does pip build a package that it can do without"},
		from: "triton runtime/build.py",
	}, {
		id: "log.gpu-too-old", grade: family, words: []string{"with compute capability", "support bf16/gpu"},
		form: re(`Error: .*(?:only supported on .*compute capability (?P<want>.+)|doesn't support bf16/gpu|` +
			`only supports .*with compute capability (?P<want>.+))`),
		not:  goingOn,
		says: "the GPU of {who} has not what the program asks for[: compute capability {want}]",
		do: "choose a type of number that it has (float16 in place of bfloat16 or fp8), or another kernel; are all " +
			"nodes of the type of GPU that was meant",
		need: []string{"nvidia-smi --query-gpu=name,compute_cap --format=csv of each node"},
		from: "torch, vllm, transformers",
	}, {
		id: "log.device-index", grade: family, words: []string{"is less than total desired GPUs "},
		form: re(`Total available GPUs (?P<has>[\d.]+) is less than total desired GPUs (?P<want>\d+)`),
		says: "{who} asks Ray for {want} GPUs, and its cluster has {has}",
		do:   "let all nodes join first (ray status), or lower nnodes and n_gpus_per_node to what there is",
		need: []string{"ray status, and nvidia-smi -L of each node"},
		from: "verl single_controller/ray/base.py",
	}, {
		id: "log.wandb", grade: decisive, words: []string{"api_key not configured (no-tty)"},
		says: "Weights & Biases of {who} has no key, and cannot ask for one",
		do:   "set WANDB_API_KEY for all ranks that log, or WANDB_MODE=offline",
		from: "wandb sdk",
	}, {
		id: "log.wandb", grade: family, words: []string{"Run initialization has timed out after ",
			"wandb.errors.CommError: "},
		form: re(`wandb.*CommError: (?P<why>.+)`), not: append([]string{"offline"}, goingOn...),
		says: "Weights & Biases of {who} gets no answer from its server[: {why}]",
		do:   "set WANDB_MODE=offline, or give the nodes a way out (https_proxy, with no_proxy for the hosts of the job)",
		need: []string{"curl -sI https://api.wandb.ai from that node"},
		from: "wandb sdk",
	}, {
		id: "log.worker-killed", grade: family, words: []string{"abruptly died during map operation",
			"process pool was terminated abruptly"},
		says: "a helper process of {who} was killed or crashed: for its memory, as a rule",
		do: "start fewer helpers (num_proc, max_workers) or smaller batches (writer_batch_size), or give the job more " +
			"memory; with num_proc=1 the error of a crash is shown",
		need: hostMemoryNeed, from: "datasets, CPython concurrent.futures",
	}, {
		id: "log.package-too-old", grade: family, words: []string{"but Transformers does not recognize this architecture",
			"did not match any variant of untagged enum ", "are not supported for now. Supported"},
		form: re("model type [`'](?P<what>[\\w-]+)|(?P<what>untagged enum \\w+)|Model architectures \\['?(?P<what>\\w+)"),
		not:  goingOn,
		says: "the transformers, tokenizers or engine of {who} does not know the model ({what}): it is older than the model",
		do:   "install a newer release, the same on all nodes; compare with the card of the model",
		need: []string{"pip list | grep -iE 'transformers|tokenizers|vllm|sglang' on each node"},
		from: "transformers, tokenizers, vllm",
	}, {
		id: "log.wrapper", grade: ended, words: []string{"CheckpointException ranks:dict_keys("},
		form: re(`ranks:dict_keys\(\[(?P<ranks>[\d, ]+)\]\)`),
		says: "{who} failed in a checkpoint that all ranks write or read together; their own error follows, as a rule",
		need: []string{"the traceback with (RANK N) after this line, and the output of these ranks"},
		from: "torch distributed/checkpoint/api.py",
	}, {
		id: "log.loss-nan", grade: family, words: []string{"oss returned in "},
		form: re("[Ll]oss returned in .training_step. is (?:nan|inf)"), says: lossSays, do: lossDo, need: lossNeed,
		from: "Lightning nan detection",
	}, {
		id: rankFailed.id, grade: rankFailed.grade, words: []string{"Expected all tensors to be on the same device",
			"has been modified by an inplace operation"},
		form: re(`^[A-Z]\w*Error: `), says: rankFailed.says, do: rankFailed.do,
	},
}
