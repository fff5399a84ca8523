package logs

import "strconv"

// jobCauses are faults of what a job was started with or finds on its nodes: a checkpoint, the id of the rendezvous,
// files of a cache, a driver, a queue.
var jobCauses = []cause{
	{
		id: "log.jax-barrier", grade: family, with: "jax.local-coordinator", words: []string{"Barrier timed out",
			"CoordinationService/RegisterTask", "CoordinationService/Barrier"},
		form: re(`(?:DEADLINE_EXCEEDED|UNAVAILABLE|timed out|RPC|rpc)`),
		says: "process 0[ of {fact}] waited for the others in vain, and its coordinator is at localhost: they were not " +
			"started, or run on other hosts, where localhost is another machine",
		do: "start all processes, each with its own process_id; over several hosts give all the address of process 0's " +
			"host (coordinator_address=\"HOST:PORT\"); for a single process leave out jax.distributed.initialize",
		need: []string{"which processes were started, on which hosts: ps -ef"},
		from: "jax-ml/jax distributed.py",
	}, {
		id: "log.checkpoint-sizes", grade: decisive, words: []string{"checkpoint for MP="},
		form: re(`checkpoint for MP=(?P<has>[1-9]\d*) but world size is (?P<want>\d+)`),
		says: "the checkpoint of {who} is split for model parallel size {has}, and the world size is {want}",
		do: "start as many ranks as the checkpoint has parts (torchrun --nproc-per-node {has}), or take a model whose " +
			"checkpoint has as many parts as there are ranks",
		from: "meta-llama/llama generation.py",
	}, {
		id: rankFailed.id, grade: rankFailed.grade, words: []string{"checkpoint for MP=0 "},
		says: rankFailed.says,
		do:   "give the folder that has the parts of the checkpoint (--ckpt_dir, *.pth): the folder here has no part",
	}, {
		id: "log.checkpoint-sizes", grade: family, words: []string{"heckpoint was saved ", "heckpoint saved ",
			"heckpoint was written ", "heckpoint was trained ", "heckpoint was created ", "heckpoint is sharded ",
			"heckpoint was sharded ", "heckpoint is split "},
		form: re(`(?i)checkpoint\b.{0,30}\b(?:saved|written|trained|sharded|split|created)\b.{0,20}?` +
			`\b(?:with|for|by|on|into)\b.{0,30}?(?P<has>\d+)\b` +
			`.{0,20}\b(?:but|while|and the current|current)\b.{0,50}?\b(?P<want>\d+)\b`),
		test: func(v map[string]string) bool { return v["has"] != v["want"] },
		not:  []string{"step", "epoch", "iteration", "version"},
		says: "the checkpoint was written for other sizes ({has}) than the job has that loads it ({want}): {error}",
		do:   "start with as many ranks and the same parallel sizes as before, or convert the checkpoint",
		need: []string{"the parallel sizes of the run that wrote it, and of this one"},
	}, {
		id: "log.tf-late-strategy", grade: decisive,
		words: []string{"Collective ops must be configured at program startup"},
		says:  "{who} makes its strategy (MultiWorkerMirroredStrategy) after other calls of TensorFlow, which is too late",
		do: "make the strategy first in the program, before any other operation, dataset or list of devices; set TF_CONFIG " +
			"before it",
		from: "tensorflow context.py",
	}, {
		id: "log.dataset-empty", grade: family, with: "megatron.no-samples", words: []string{"AssertionError"},
		form: re(`^AssertionError:?\s*$`),
		says: "a part of the data set of {who} has no samples: its share of the split, or the steps asked for, is 0",
		do: "give the part that is used samples (--split 949,50,1, --eval-iters), or leave that part out; is the data set " +
			"large enough for the sequence length",
		need: []string{"--split, --eval-iters, --train-iters and --seq-length, and the number of documents"},
		from: "Megatron core/datasets",
	}, {
		id: "log.cache-race", grade: family, words: []string{"No such file or directory: '/"},
		form: re(`FileNotFoundError: .*: '(?P<file>/[^']*(?:index[-_]cache|[-_](?:doc|document|sample|shuffle|dataset)[-_]` +
			`(?:sample_)?idx\.npy|_indexmap_|/cache-[0-9a-f]{8,}[^']*\.arrow)[^']*)'`),
		says: "{who} does not find {file}, a file of a cache that one rank builds: it was built on another node's own " +
			"disk, or is not finished",
		do: "ls -l {file} on each node: put the cache on a file system that all nodes share (Megatron: --data-cache-path), " +
			"or let one rank of each node build it, and the others wait in a barrier",
		need: []string{"ls -l of that file, and df of its folder, on each node"},
		from: "Megatron gpt_dataset.py, Hugging Face datasets",
	}, {
		id: rankFailed.id, grade: rankFailed.grade, words: []string{"No such file or directory: '"},
		form: re(`FileNotFoundError: .*: '(?P<file>/[^']+)'`),
		says: rankFailed.says,
		do: "ls -l {file} on each node, as the job sees it: where only some nodes have it, share its folder or copy it; " +
			"where one rank writes it, let the others wait",
	}, {
		id: "log.rdzv-id-missing", grade: family, with: "torch.random-run-id", words: []string{"RendezvousTimeoutError",
			"RendezvousClosedError"},
		says: "no --rdzv-id was given to torchrun, so it took a random one: each node waits in a rendezvous of its own",
		do:   "give torchrun the same --rdzv-id on all nodes (torchrun --rdzv-id JOB …), and the same --rdzv-endpoint",
		need: []string{"the command line of torchrun on each node (nnodes, rdzv-id, rdzv-backend, rdzv-endpoint)"},
		from: "torch elastic launcher/api.py",
	}, {
		id: "log.numeric-hostname", grade: decisive, words: []string{"address for: ", "interface for: ", "[0.0.", "to 0.0."},
		form: re(`(?:(?:address|interface) for: ?\[?|remote=\[|onnect(?:ing)? (?:to )?\[?)` +
			`(?P<addr>0\.0\.(?P<high>\d{1,3})\.(?P<low>\d{1,3}))\b`),
		test: func(v map[string]string) bool {
			n := number(v["high"])<<8 + number(v["low"])
			v["host"] = strconv.Itoa(n)
			return n > 0
		},
		says: "the host name of {who} is a number ({host}), so the resolver takes it for the address {addr}, which no " +
			"interface has",
		do: "give that host a name with a letter (docker --hostname, hostnamectl), or the ranks an interface: " +
			"GLOO_SOCKET_IFNAME, and the address of a node in place of its name",
		from: "pytorch/gloo device.cc, inet_aton(3)",
	}, {
		id: "log.driver-missing", grade: decisive, words: []string{"Driver Not Loaded", "driver not loaded"},
		form: re(`(?i)NVML:? .*driver not loaded|nvml error: driver not loaded|driver not loaded.*nvml`),
		says: "{where} has no NVIDIA driver that is loaded, and the container or the program asks for GPUs there",
		do: "start the job on nodes with GPUs (nodeSelector, affinity, nvidia.com/gpu in the limits; not " +
			"NVIDIA_VISIBLE_DEVICES=all in an image without a limit), or load the driver there: nvidia-smi",
		from: "NVML, NVML_ERROR_DRIVER_NOT_LOADED",
	}, {
		id: "log.k8s-queue", grade: family, soft: true, words: []string{"queue resource quota insufficient",
			"does not fit in queue", "exceeds queue quota", "xceeds the quota of queue", "queue quota exceeded"},
		form: re(`(?P<why>(?:queue resource quota insufficient|Request '[^']*' does not fit in queue|` +
			`exceeds (?:the )?queue|exceeds the quota of queue|queue quota exceeded).*)`),
		says: "the quota of the job's queue does not admit it, so its pods are not placed, or not even made: {why}",
		do: "compare the capability of the queue, with all kinds of resources that it names (kubectl describe queue), with " +
			"what the job asks for: raise it, ask for less, or end other jobs of the queue",
		need: []string{"kubectl describe queue and podgroup: the quota, and what is used of it"},
		from: "volcano-sh/volcano capacity.go, apache/yunikorn-core",
	}, {
		id: "log.k8s-master-missing", grade: family, soft: true, words: []string{"failed container init-"},
		form: re(`failed container (?P<container>init-(?:pytorch|mpi|master)\w*)(?: in pod (?P<pod>[a-z0-9][\w.-]*?)_)?`),
		says: "the container {container} of a worker's pod[, {pod},] ends again and again: it waits for the name of the " +
			"master, which does not run or has no service",
		do: "look at the master first: kubectl get pods,services of the job, and kubectl describe of the master's pod; " +
			"does the name resolve in the worker's namespace",
		need: []string{"kubectl logs {pod} -c {container} --previous", "kubectl get pods,services: the master of the job"},
		from: "kubeflow/training-operator initcontainer.go",
	}, {
		id: "log.k8s-restarts", grade: ended, soft: true, words: []string{"Back-off restarting failed container"},
		form: re(`failed container (?P<container>[\w.-]+) in pod (?P<pod>[a-z0-9][\w.-]*?)_`),
		says: "the container {container} of the pod {pod} ends again and again",
		need: []string{"kubectl logs {pod} -c {container} --previous", "kubectl describe pod {pod}: the last state of each " +
			"container"},
		from: "kubernetes kubelet",
	},
}

// jobFacts are lines that these causes need.
var jobFacts = []cause{
	{id: "jax.local-coordinator", grade: fact, frame: true, words: []string{"coordinator_address="},
		form: re(`coordinator_address=['"](?:localhost|127\.0\.0\.1)\b.*num_processes=(?P<v>[2-9]|\d{2,})\b.*` +
			`process_id=0\b`)},
	{id: "megatron.no-samples", grade: fact, frame: true, words: []string{"assert num_samples > 0",
		"assert len(indices) > 0", "assert indexed_indices.size > 0"}},
	{id: "torch.random-run-id", grade: fact, words: []string{"generated a random run_id"}, form: re(`(?P<v>run_id)`)},
}
