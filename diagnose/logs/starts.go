package logs

import (
	"slices"
	"strconv"
	"strings"
)

// launcherVariables are the variables that launchers give each process.
const launcherVariables = `RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|MASTER_ADDR|MASTER_PORT|` +
	`SLURM_\w+|OMPI_COMM_WORLD_\w+|PMI_(?:RANK|SIZE)|PMIX_RANK|PADDLE_\w+|TF_CONFIG|XRT_\w+`

// startCauses are errors in how a job was started: without its launcher, from a terminal that was closed, with other
// sizes than there are devices or addresses.
var startCauses = []cause{
	{
		id: "log.env-missing", grade: decisive, words: []string{"KeyError: '", "' in the torch environment",
			": unbound variable", "Error: '"},
		form: re(`KeyError: '(?P<name>` + launcherVariables + `)'\s*$|` +
			`Could not find '(?P<name>\w+)' in the torch environment|` +
			`: (?P<name>` + launcherVariables + `): unbound variable`),
		says: "{who} has no {name} in its environment: it was started without the launcher that sets it",
		do: "start it with that launcher: torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, GROUP_RANK and MASTER_*, srun " +
			"SLURM_*, mpirun OMPI_* or PMI_*; what no launcher sets, as NODE_RANK, set in the job's script",
		from: "CPython os.environ",
	}, {
		id: "log.option-unknown", grade: decisive,
		words: []string{"verride 'local", "o such option: --local", "Unknown command line flag 'local", "'--local"},
		form: re(`(?:[Oo]verride '|override '|such option: --|command line flag '|` +
			`not used by the HfArgumentParser: .*'--)(?P<name>local[-_]rank)`),
		says: "the program does not know {name}, which torch.distributed.launch passes to it",
		do:   "start it with torchrun, which sets LOCAL_RANK in place of the option, or add the option to the program",
		from: "torch distributed/launch.py",
	}, {
		id: "log.device-index", grade: family, words: []string{"You requested gpu: ", "You requested GPUs: ",
			"But your machine only has: "},
		form: re(`You requested (?:gpu|GPUs?)s?: (?P<want>\[[^\]]*\])|But your machine only has: (?P<has>\[[^\]]*\])`),
		says: "{who} asks for GPUs that it does not see[: it asks for {want}][, it has {has}]",
		do: "compare the number of devices of the trainer with what the job was given: --gres or --gpus-per-node, " +
			"CUDA_VISIBLE_DEVICES, nvidia-smi -L",
		need: []string{"nvidia-smi -L and CUDA_VISIBLE_DEVICES as the job sees them"},
		from: "Lightning device_parser.py",
	}, {
		id: "log.device-index", grade: family, soft: true, but: "ray.node-asked", words: []string{"exceeds available GPUs ",
			"is larger than the number of available GPUs "},
		form: re(`(?:[Tt]ensor parallel|[Ww]orld) size \((?P<want>\d+)\) (?:exceeds|is larger than the number of) ` +
			`available GPUs \((?P<has>\d+)\)`),
		says: "{who} is to use {want} GPUs and sees {has}: the other nodes have not joined, or the parallel sizes are " +
			"too large",
		do: "let all nodes join first (ray status shows their GPUs) and name Ray as the executor, or lower " +
			"--tensor-parallel-size and --pipeline-parallel-size",
		need: []string{"ray status, and nvidia-smi -L of each node"},
		from: "vllm ray_utils.py, parallel.py",
	}, {
		id: "log.ray-resources", grade: family, soft: true, words: []string{"exceeds the total number of available "},
		form: re(`number of required (?P<what>\w+) exceeds the total number of available \w+ in the ` +
			`(?:placement group|cluster)`),
		says: "vLLM asks Ray for more {what} than its cluster has",
		do: "compare ray status with the product of the parallel sizes: a node has not joined, or has fewer GPUs than " +
			"expected",
		need: []string{"ray status"},
		from: "vllm ray_utils.py",
	}, {
		id: "log.tpu-addresses", grade: decisive, words: []string{"worker_addresses specified"},
		form: re(`worker_addresses specified\. Expected (?P<want>\d+) worker addresses, got (?P<has>\d+)`),
		says: "libtpu of {who} expects the addresses of {want} workers and gets {has}: a variable of another start is set",
		do: "unset TPU_PROCESS_ADDRESSES, TPU_PROCESS_BOUNDS, TPU_WORKER_HOSTNAMES and TPU_WORKER_ID, or set them for " +
			"all workers: env | grep TPU_",
		from: "libtpu",
	}, {
		id: "log.dns", grade: decisive, words: []string{"Could not resolve hostname "},
		form: re(`resolve hostname (?P<host>[\w.-]+):(?P<n>\d+):`),
		says: "ssh gets {host}:{n} as the name of a host: the launcher does not know the form HOST:SLOTS and passes it on",
		do: "is this mpirun the one that is expected (which mpirun; mpirun --version)? Write the hosts in its own form, as " +
			"in a hostfile: Open MPI HOST slots=N, MPICH HOST:N",
		from: "openssh, hydra, ORTE",
	}, {
		id: "log.hostfile-bad", grade: decisive, words: []string{"Could not resolve hostname "},
		form: re(`ssh: Could not resolve hostname (?P<host>|[\w.-]*[ ;='"].*?): (?:[A-Z]|nodename)`),
		says: "ssh gets no name of a host[, but a command: {host}]: the launcher has an empty name in its list of hosts",
		do: "look for empty lines, and for variables that are not set, in the hosts file or the list of hosts of the " +
			"launcher",
		from: "openssh",
	}, {
		id: "log.fork-openmp", grade: decisive, words: []string{"already using GNU OpenMP"},
		form: re(`fork\(\) called from a process already using GNU OpenMP`),
		says: "{who} uses OpenMP and then makes workers by fork(); GNU's OpenMP (libgomp) ends these",
		do: "start workers by spawn or forkserver (multiprocessing_context, set_start_method), or make them before the " +
			"first use of OpenMP; OMP_NUM_THREADS=1 avoids its threads",
		from: "torch, Intel OpenMP kmp_runtime",
	}, {
		id: "log.ssh-unreachable", grade: family, words: []string{"Failed to SSH to "},
		form: re(`Failed to SSH to (?P<node>[\w-]+(?:[.:][\w-]+)*)(?: after timeout (?P<secs>\d+))?`),
		says: "the launcher gets no connection by ssh to {where}[ within {secs} s]",
		do:   "check that the machine runs, that sshd listens, and that a firewall or security group lets port 22 through",
		need: []string{"ssh -v HOST true from the launching machine", "the console of that machine in its cloud"},
		from: "skypilot-org/skypilot provisioner.py",
	}, {
		id: "log.horovod-start", grade: waits, words: []string{". Please check connectivity between servers."},
		form: re(`Timed out waiting for (?P<what>[a-z][\w -]*)\. Please check connectivity between`),
		says: "Horovod's launcher gave up waiting for {what}, as {who} reports: the task service of a host did not " +
			"start, or the hosts do not reach each other by the addresses that it chose",
		need: []string{"the output of horovodrun --verbose: which host is missing, and what ssh printed there",
			"is TCP open between the hosts on all ports (launch check), and which interface do they share: " +
				"horovodrun --network-interface NAME",
			"is horovod installed for the same python on all hosts; --start-timeout, where only the start is slow"},
		from: "horovod runner/launch.py",
	}, {
		id: "log.horovod-start", grade: waits, words: []string{". Please check that you have enough resources to run all "},
		form: re(`Timed out waiting for (?P<what>[a-z][\w -]*)\. Please check that you have enough`),
		says: "Horovod gave up waiting for {what}, as {who} reports: the cluster (Spark, Ray) has not started all its " +
			"processes",
		need: []string{"the free executors, cores and GPUs of the cluster against num_proc",
			"the output of the tasks that run: do they reach the driver's address", "start_timeout, where the cluster is " +
				"slow"},
		from: "horovod spark/runner.py",
	}, {
		id: "log.setup-failed", grade: decisive, words: []string{"setup failed. Failed workers:"},
		form: re(`setup failed\. Failed workers: (?P<why>.*?)\. See`),
		says: "the setup commands of the job failed on some of its nodes: {why}",
		do: "read the lines of these workers before (their prefix has the pid and the address), and correct the " +
			"section setup",
		from: "skypilot-org/skypilot",
	}, {
		id: exitOther.id, grade: exitOther.grade, words: []string{"failed with return code list:"},
		form: re(`failed with return code list: \[(?P<codes>[\d, -]+)\]`),
		test: func(v map[string]string) bool {
			v["ranks"] = failedRanks(v["codes"])
			return v["ranks"] != ""
		},
		says: "the command of {who} failed (codes of all nodes: {codes}); its own error is not in these logs",
		need: exitOther.need,
		from: "skypilot-org/skypilot",
	}, {
		id: "log.rendezvous-addresses", grade: open, words: []string{" rendezvous addresses instead of "},
		form: re(`found (?P<has>\d+) rendezvous addresses instead of (?P<want>\d+) for container (?P<container>[\w-]+)`),
		says: "Determined got {has} addresses of a container where it expects {want}: the container has more networks or " +
			"published ports than expected",
		need: []string{"docker inspect {container}: its networks and ports", "the versions of Docker and of the agent",
			"the network mode of the tasks (task_container_defaults.network_mode)"},
		from: "determined-ai/determined rendezvous",
	}, {
		id: "log.store-unreachable", grade: open, with: "dlrover.master",
		words: []string{"socket.timeout", "TimeoutError", "ConnectionRefusedError", "socket.gaierror", "No route to host"},
		form:  re(`^(?:socket\.timeout|TimeoutError|ConnectionRefusedError|socket\.gaierror|OSError)\b`),
		says:  "DLRover's master does not answer {who}: it does not run yet, its address is wrong, or a firewall is between",
		need: []string{"does the pod of the master run (kubectl get pods), and what is its output",
			"DLROVER_MASTER_ADDR of this node, and nc -zv of that address and port"},
		from: "intelligent-machine-learning/dlrover elastic_run.py",
	}, {
		id: "log.grpc-peer", grade: open, soft: true, words: []string{"\"target_address\":\"ipv"},
		form: re(`"os_error":"(?P<why>[^"]+)".*"target_address":"ipv[46]:(?P<addr>[^"]+)"`),
		says: "{who} cannot connect to {addr} ({why})",
		need: []string{"does the process run that listens at {addr}, and what is its output", "ss -ltn on that host",
			"is that port reachable from here: nc -zv HOST PORT; http_proxy and no_proxy"},
		from: "gRPC tcp_client_posix.cc",
	}, {
		id: "log.hangup", grade: decisive, words: []string{"Received 1 death signal", "closing signal SIGHUP",
			"Received Signals.SIGHUP", "got signal: 1", ": Hangup", "(Hangup)"},
		form: re(`Received 1 death|signal SIGHUP|Signals\.SIGHUP|got signal: 1$|(?:: |exited on signal 1 \()Hangup`),
		says: "the launcher of {who} received SIGHUP: the terminal or the ssh session in which it ran was closed",
		do:   exitHangup.do,
		from: "torch elastic/agent/server/api.py",
	}, {
		id: "log.stopped", grade: cascade,
		words: []string{"Received 2 death signal", "closing signal SIGINT", "Received Signals.SIGINT"},
		says:  "{who} received SIGINT: Ctrl-C, or what started it ended it",
		need:  []string{"who or what stopped the job: a person, a script, or the scheduler"},
	},
}

// failedRanks returns the numbers of the nodes whose code is neither 0 nor SIGKILL's, as those have that another one
// failed; else all whose code is not 0.
func failedRanks(codes string) string {
	var own, all []string
	for n, code := range strings.Fields(strings.ReplaceAll(codes, ",", " ")) {
		if code == "0" {
			continue
		}
		all = append(all, strconv.Itoa(n))
		if !slices.Contains([]string{"137", "-9"}, code) {
			own = append(own, strconv.Itoa(n))
		}
	}
	if len(own) == 0 {
		own = all
	}
	return strings.Join(own, ", ")
}
