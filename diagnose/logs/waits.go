package logs

import "slices"

// joinedForm is how launchers count what has joined a start, with joinedWords.
const joinedForm = `\b(?P<has>\d+)(?:/| of | out of )(?P<of>\d+) (?P<what>(?:node|worker|rank|process|pod|host)\w*) ` +
	`(?:(?:are|is|have|has) )?(?P<state>alive|[Rr]eady|registered|joined|connected)`

var joinedWords = []string{"odes alive", "odes are alive", "odes ready", "odes are ready", "odes joined",
	"odes have joined", "odes connected", "orkers alive", "orkers ready", "orkers are ready", "orkers connected",
	"orkers registered", "orkers joined", "orkers have joined", "anks joined", "anks have joined", "anks ready",
	"anks connected", "ods ready", "ods are ready", "osts ready", "osts connected", "rocesses joined",
	"rocesses ready", "rocesses connected"}

// rootForm is how torch reports that rank 0 of a group did not write the id with which NCCL starts.
const rootForm = `\[(?P<rank>\d+)\] is setting up NCCL communicator and ` +
	`retrieving ncclUniqueId from \[(?P<root>\d+)\].*(?i:timeout|timed out)`

var rootNeed = []string{"the output of rank {root}: what it did then, and its stack (py-spy dump)",
	"did it compile, load or prepare data longer than the timeout"}

// watchdogID is the cause of the lines with which torch ends a process after a collective that failed.
const watchdogID = "log.watchdog-ends"

// storeLostWords are how torchrun's agent reports that it can no longer use the store of its rendezvous.
var storeLostWords = []string{"failed to shutdown the rendezvous", "failed to send a keep-alive heartbeat to the"}

var storeNeed = []string{
	"on node 0: does a process listen on the port (ss -ltn), and is the host one of its own addresses (getent hosts " +
		"HOST, ip -br addr)? Else, as with NAT or the address of a container, torchrun opens the store on no node",
	"on the other nodes: is the port reachable (nc -zv HOST PORT), and to which address the name resolves",
	"the output of node 0",
}

// torchWaits are the ends of waits: the ranks that report them are not the ones at fault.
var torchWaits = []cause{
	{
		id: "log.rank-missing", grade: waits, words: []string{"/default_pg/0//"},
		form: re(`wait timeout after (?P<ms>\d+)ms, keys: /default_pg/0//\w+//0/(?P<missing>\d+)`),
		says: "{who} gave up waiting for rank {missing}",
		need: []string{"the output of the rank that is missing", "launch doctor on its node while the job hangs"},
	}, {
		id: "log.clients-missing", grade: waits, words: []string{"waiting for clients."},
		form: re(`Timed out after (?P<secs>\d+) seconds waiting for clients\. (?P<joined>\d+)/(?P<of>\d+) clients joined`),
		says: "{joined} of {of} ranks joined the store within {secs} s; the log does not say which ranks are missing" +
			"[, and no line of {absent} is in it]",
		need: []string{"which ranks have written nothing, or nothing after their start", "the output of all nodes"},
	}, {
		id: "log.rank-range", grade: decisive, words: []string{"worker_count="},
		form: re(`for rank: (?P<rank>\d+),.*world_size=(?P<of>\d+)`),
		test: func(v map[string]string) bool { return number(v["rank"]) >= number(v["of"]) },
		says: "rank {rank} is not below the world size {of}: the launcher starts more ranks than the script expects",
		do:   "compare nnodes, nproc-per-node and WORLD_SIZE with the world size that the script sets itself",
		from: "torch distributed_c10d.py",
	}, {
		id: "log.rank-range", grade: family, with: "env.no-rank-0", but: "env.others",
		words: []string{"client socket has timed out", "client socket has failed to connect to any", "connect() timed out"},
		says:  "RANK is not 0 where WORLD_SIZE is 1: no process is rank 0, which would open the store",
		do:    "set WORLD_SIZE to the number of ranks, or RANK=0 for a single process",
		need:  []string{"RANK, WORLD_SIZE, MASTER_ADDR of each process"},
		from:  "torch distributed_c10d.py",
	}, {
		id: "log.rank-duplicate", grade: family, words: []string{"worker_count="},
		form: re(`world_size=(?P<of>\d+), worker_count=(?P<joined>\d+)`),
		test: func(v map[string]string) bool { return number(v["joined"]) > number(v["of"]) },
		says: "{joined} processes have met in the store for {of} ranks: the job was started twice, or the store is an old " +
			"one",
		do: "end the old processes and give each run its own port, rendezvous id or init file; start each rank once " +
			"(under Slurm: one torchrun a node)",
		need: []string{"which processes of the job run on each node: ps -ef"},
		from: "torch distributed_c10d.py",
	}, {
		id: "log.store-timeout", grade: waits, with: "program.prepares", words: []string{"retrieving ncclUniqueId from ["},
		form: re(rootForm),
		says: "{who} gave up waiting for rank {root} to open NCCL's start (ncclUniqueId); the log shows that a data set " +
			"was still being prepared",
		need: append([]string{"prepare the data once before the job, or wait longer: init_process_group(timeout=…), " +
			"ddp_timeout of transformers"}, rootNeed...),
		from: "torch ProcessGroupNCCL",
	}, {
		id: "log.store-timeout", grade: waits, words: []string{"retrieving ncclUniqueId from ["},
		form: re(rootForm),
		says: "{who} gave up waiting for rank {root} to open NCCL's start (ncclUniqueId): rank {root} is slow, hangs, or " +
			"has ended",
		need: rootNeed,
		from: "torch ProcessGroupNCCL",
	}, {
		id: "log.store-timeout", grade: waits,
		words: []string{
			"wait timeout after", "DistStoreError", "Socket Timeout", "store based barrier", "Timed out initializing",
			"RendezvousTimeoutError", "failed to get value from store", "to retrieve ncclUniqueId", "StoreTimeoutError",
		},
		form: opt(`(?:\b(?:on|for) rank: (?P<rank>\d+).*)?world_size=(?P<of>\d+), worker_count=(?P<joined>\d+)`),
		says: "{who} gave up waiting for other ranks in the store[: {joined} of {of} had joined][; no line of {absent} is " +
			"in these logs]",
		need: []string{
			"the output of all nodes from the start: which ranks never joined, or ended before",
			"the command line of torchrun on each node (nnodes, node rank, rendezvous id)",
		},
	}, {
		id: "log.store-timeout", grade: waits, soft: true, words: []string{"waitForInput: "},
		form: re(`remote=\[?(?:::ffff:)?(?P<host>[\w.:-]+?)\]?:(?P<port>\d+)(?:<\d+>)?\) timed out after (?P<ms>\d+)ms`),
		says: "{who} waited {ms} ms in the store at {host} port {port} for another rank, which did not join or did not " +
			"write its part",
		need: []string{"the output of all nodes from the start: which ranks never joined, or ended before",
			"what the ranks do before: one may still load or compile"},
		from: "torch socket.cpp",
	}, {
		id: "log.rendezvous-etcd", grade: family, words: []string{"etcd.Etcd"},
		form: re(`etcd\.Etcd(?:KeyNotFound|ConnectionFailed|Exception|WatchTimedOut|ClusterIdChanged)\b ?: *(?P<why>.+)`),
		says: "the rendezvous of {who} in etcd fails[ (endpoint {fact})]: {why}",
		do: "etcd's old interface (etcd, etcd-v2) needs an etcd that serves API v2 (--enable-v2, before 3.6), with the " +
			"keys of this run only; --rdzv-backend c10d works without etcd",
		need: []string{"etcdctl of that endpoint: does it answer, and was it started anew", "the command line of torchrun " +
			"on each node: the same endpoint and rendezvous id"},
		from: "torch etcd_rendezvous.py, etcd_store.py",
	}, {
		id: "log.store-unreachable", grade: open, soft: true,
		words: []string{
			"client socket has timed out", "client socket has failed to connect",
			"failed to connect/validate to host", "failed to connect to any network address",
			"connect() timed out", "Failed to connect to GCS", "Failed to connect to Redis",
			"connection to redis", "Unable to connect to GCS",
		},
		form: opt(`connect to (?:\[::ffff:)?\(?(?P<host>[\w.-]+)\]?(?:, |:)(?P<port>\d+)|` +
			`GCS at (?:address )?(?P<host>[\w.-]+):(?P<port>\d+)`),
		not: []string{"errno: 97", "retrying (try="},
		says: "{who} cannot connect to the store[ at {host} port {port}]: no store listens there, the address is " +
			"another host's, or a firewall drops the connection",
		need: storeNeed,
		from: "pytorch/pytorch#79388",
	}, {
		id: "log.store-unreachable", grade: open, soft: true, but: "store.lost",
		words: []string{"RendezvousConnectionError", "The connection to the C10d store has failed"},
		not:   storeLostWords,
		says: "{who} cannot connect to the store: no store listens there, the address is another host's, or a firewall " +
			"drops the connection",
		need: append(storeNeed[:len(storeNeed):len(storeNeed)],
			"on each node: getent hosts HOST for the host names of all nodes, by which torchrun's nodes call each other "+
				"(or give each its address: --local-addr)"),
		from: "torch c10d_rendezvous_backend.py",
	}, {
		id: "log.peer-lost", grade: cascade, soft: true, words: storeLostWords,
		says: "the launcher (torchrun) of {who} lost the store, to which it had been connected: the node with the store " +
			"ended first",
		need: []string{"the output of the node that the rendezvous endpoint names, and of the other nodes: which ended " +
			"first"},
		from: "torch dynamic_rendezvous.py",
	}, {
		id: "log.collective-timeout", grade: waits,
		words: []string{
			"Watchdog caught collective operation timeout", "Timeout at NCCL work", "Timeout at collective",
			"for recv operation to complete", "for send operation to complete", "operation timed out",
			"Waiting for rendezvous timed out", "Watchdog caught collective", "Missing ranks",
			"watchdog hang", "heartbeat monitor",
		},
		form: opt(`\[Rank (?P<rank>\d+)\]`),
		says: "{who} waited for a collective that did not complete",
		need: []string{
			"the output of all ranks: one may have ended, or be in another collective",
			"a flight recorder dump (TORCH_FR_BUFFER_SIZE=2000, TORCH_FR_DUMP_ON_TIMEOUT=1), or the stacks of all ranks",
			"how long each rank needs to reach this collective; it may only be slow",
		},
		from: "torch ProcessGroupNCCL",
	}, {
		id: "log.collective-timeout", grade: waits, words: []string{"dump signal due to a collective timeout from"},
		form: re(`timeout from\s+(?:global )?rank (?P<ranks>\d+)`),
		says: "{who} waited for a collective that did not complete, and asked the other ranks for their dumps",
		need: []string{"the output of that rank: it names the collective and its sequence number",
			"the flight recorder dumps of all ranks, which launch doctor --log reads, too",
			"the output of all ranks: did one end before"},
		from: "torch ProcessGroupNCCL",
	}, {
		id: "log.collective-timeout", grade: waits, soft: true, words: []string{"seconds and may be stuck. Expected"},
		form: opt(`for (?P<secs>\d+) seconds and may be stuck`),
		says: "{who} waits for the other devices in a collective of XLA[, for {secs} s]",
		need: []string{"the output of all processes: one may have ended, or be in another program"},
		from: "openxla/xla rendezvous.cc",
	}, {
		id: "log.jax-barrier", grade: waits, words: []string{"Barrier timed out"},
		says: "{who} did not reach a barrier of JAX's start in time",
		need: []string{"the output of these processes from the start: were they started, with which process_id and address",
			"on each of them: is the coordinator's port reachable (nc -zv HOST PORT)"},
		from: "jax-ml/jax distributed.py",
	}, {
		id: "log.jax-barrier", grade: waits, words: []string{"/job:jax_worker/"},
		form: re(`^\s*/job:jax_worker/replica:\d+/task:(?P<rank>\d+)`),
		says: "{who} did not reach a barrier of JAX's start in time",
		need: []string{"the output of these processes"},
	}, {
		id: "log.task-missing", grade: waits, soft: true, words: []string{"CreateSession still waiting for response"},
		form: re(`/job:(?P<job>\w+)/replica:\d+/task:(?P<rank>\d+)`),
		says: "TensorFlow waits for tasks of job {job}, by their numbers: {who}",
		need: []string{"the output of these tasks: do they run, with the same list of addresses (TF_CONFIG)",
			"is the port of each task reachable from the others: nc -zv HOST PORT"},
	}, {
		id: "log.ranks-missing", grade: waits, words: []string{"there are other ranks that didn't"},
		says: "{who} waited for other ranks, which have failed or are slow",
		need: []string{"the output of the other ranks"},
		from: "sglang model_runner.py",
	}, {
		id: "log.horovod-stall", grade: ended, soft: true,
		words: []string{"were submitted to be reduced, gathered or broadcasted by subset of ranks"},
		says:  "Horovod waits for ranks that have not begun the same collectives",
		need: []string{"the lines with [missing ranks: or [ready ranks: that follow",
			"do all ranks call the same collectives: an if on hvd.rank(), a broadcast before training"},
		from: "horovod stall_inspector.cc",
	}, {
		id: "log.clients-missing", grade: waits, words: []string{"Did you run your code on all TPU hosts"},
		says: "{who} waited for the other hosts of the TPU slice",
		need: []string{"was the program started on all of them: gcloud compute tpus tpu-vm ssh --worker=all"},
	}, {
		id: "log.jax-coordinator", grade: ended,
		words: []string{"CoordinationService/RegisterTask", "CoordinationService/Barrier",
			"Connecting to coordination service", "onnect to coordination service"},
		form: re(`(?:DEADLINE_EXCEEDED|UNAVAILABLE|RPC|rpc)`),
		says: "{who} cannot register with JAX's coordinator (process 0)",
		need: []string{"does process 0 run, and listen at the coordinator's address: ss -ltnp there",
			"is that port reachable from this host: nc -zv HOST PORT", "http_proxy and no_proxy of this host"},
		from: "jax-ml/jax distributed.py",
	}, {
		id: "log.ranks-missing", grade: waits, soft: true,
		words: joinedWords,
		form:  re(joinedForm), but: "all.joined",
		test: func(v map[string]string) bool { return number(v["has"]) < number(v["of"]) },
		says: "{has} of {of} {what} are {state}: the start waits for the others",
		need: []string{"were the others started: kubectl get pods, squeue, ray status",
			"the output of those that are missing", "can they reach the first one: its address, port and firewall"},
	}, {
		id: "log.ray-node", grade: open,
		words: rayNodeWords, form: opt(rayNode),
		says: "Ray's head has lost {who}: it ended, stood still, or the network between them failed",
		need: []string{"raylet.out and dmesg of that node: memory, CPU, suspend",
			"is TCP open both ways between it and the head"},
		from: "ray gcs_health_check_manager.cc",
	}, {
		id: "log.ray-node", grade: open, words: []string{"Raylet is terminated"},
		form: re(`Raylet is terminated(?:: ip=(?P<node>[\w.:-]+?),)?.*ermination is unexpected`),
		says: "Ray's daemon (raylet) on {where} ended unexpectedly, and with it the work of that node",
		need: []string{"raylet.out and raylet.err in /tmp/ray/session_latest/logs of that node",
			"dmesg of that node: did the OOM killer end it"},
		from: "ray dashboard/agent.py",
	}, {
		id: "log.wrapper", grade: ended, soft: true, words: []string{"A worker died or was killed while executing a task"},
		form: opt(`Worker ID: (?P<id>\w+).*Worker IP address: (?P<node>[\w.:-]+) .*Worker PID: (?P<pid>\d+)`),
		says: "Ray reports that a worker died on {where}[, pid {pid}]; its own error is not in these logs",
		need: []string{"dmesg of that host: did the OOM killer end process {pid}",
			"worker-{id}*.err in /tmp/ray/session_latest/logs of that host"},
		from: "ray core_worker.cc",
	}, {
		id: "log.ranks-missing", grade: waits, soft: true, words: []string{"[missing ranks: "},
		form: re(`\[missing ranks: (?P<ranks>[\d, ]+)\]`),
		says: "Horovod waits for {who}: a collective that the other ranks have begun",
		need: []string{"the output and the stack of these ranks: py-spy dump --nonblocking --pid PID",
			"do all ranks call the same collectives: an if on hvd.rank(), a broadcast before training"},
		from: "horovod stall_inspector.cc",
	}, {
		id: "log.ranks-missing", grade: waits, soft: true, with: "horovod.stalled",
		words: []string{"orovod", "llreduce", "llgather", "roadcast"},
		form:  re(`^(?:(?P<rank>\d+)!?: )?\[[\w./]*(?:[Hh]orovod|[Aa]llreduce|[Aa]llgather|[Bb]roadcast)`),
		says:  "Horovod waits for {who}: a collective that the other ranks have begun",
		need: []string{"the output and the stack of these ranks: py-spy dump --nonblocking --pid PID",
			"do all ranks call the same collectives: an if on hvd.rank(), a broadcast before training"},
		from: "horovod stall_inspector.cc",
	}, {
		id: "log.ranks-missing", grade: waits, soft: true, words: []string{"[ready ranks: "},
		form: re(`\[ready ranks: (?P<ready>[\d, ]+)\]`),
		test: func(v map[string]string) bool {
			v["ranks"] = absent(v["ready"])
			few := len(numbers(v["ranks"]))
			return few > 0 && few < len(numbers(v["ready"]))
		},
		says: "Horovod waits for {who}: a collective for which the ranks {ready} are ready",
		need: []string{"the output and the stack of these ranks: py-spy dump --nonblocking --pid PID",
			"do all ranks call the same collectives: an if on hvd.rank(), a broadcast before training"},
		from: "horovod operations.cc",
	}, {
		id: "log.horovod-stall", grade: waits, soft: true, words: []string{"[ready ranks: "},
		form: re(`(?P<all>\[ready ranks: .*)`), test: readyApart,
		says: "{who} waited in other collectives of Horovod than the ranks {ready}: they took different ways through the " +
			"program",
		need: []string{"do all ranks call the same collectives: an if on hvd.rank(), or data of different length",
			"the output and the stack of these ranks: py-spy dump --nonblocking --pid PID"},
		from: "horovod operations.cc",
	}, {
		id: "log.horovod-stall", grade: waits, soft: true, words: []string{"[ready ranks: "},
		form: re(`\[ready ranks: (?P<ready>[\d, ]+)\]`),
		says: "Horovod waits for the ranks that are not ready: {ready} are",
		need: []string{"the output of the other ranks", "do all ranks call the same collectives"},
		from: "horovod operations.cc",
	}, {
		id: "log.store-address", grade: family, soft: true,
		words: []string{"Unable to connect to GCS at 127.", "Failed to connect to GCS at address 127."},
		form:  re(`GCS at (?:address )?(?P<host>127\.[\d.]+):(?P<port>\d+)`),
		says:  "{who} looks for Ray's head at {host}, which is this host itself, and none listens there",
		do: "on the other nodes give the head's own address: ray start --address=HEAD:{port}; on the head: " +
			"ray start --head",
		need: []string{"ray status on the head"},
	}, {
		id: "log.store-address", grade: family, with: "ray.client", soft: true, words: rayClientWords,
		says: "Ray's client of {who} gets no answer: ray:// is for the client's port of the head (10001), and the address " +
			"has another one",
		do:   "on a node of the cluster use the head's address without ray:// (HOST:6379); from elsewhere ray://HOST:10001",
		need: []string{"ss -ltn on the head: does it listen on the client's port"},
		from: "ray util/client/worker.py",
	}, {
		id: "log.store-unreachable", grade: open, soft: true, words: rayClientWords,
		says: "Ray's client of {who} gets no answer from the head: no server for clients listens there, or a firewall is " +
			"between",
		need: []string{"ss -ltn on the head: does it listen on the client's port (10001)",
			"nc -zv HOST 10001 from this host"},
		from: "ray util/client/worker.py",
	},
}

var readyList = re(`\[ready ranks: ([\d, ]+)\]`)

// readyApart says whether a line has two lists of ranks that wait for different collectives, with no rank in common,
// and names the shorter one.
func readyApart(v map[string]string) bool {
	lists := readyList().FindAllStringSubmatch(v["all"], maxFacts)
	for _, l := range lists {
		few, many := numbers(lists[0][1]), numbers(l[1])
		if slices.ContainsFunc(few, func(rank int) bool { return slices.Contains(many, rank) }) {
			continue
		}
		v["ranks"], v["ready"] = lists[0][1], l[1]
		if len(few) > len(many) {
			v["ranks"], v["ready"] = v["ready"], v["ranks"]
		}
		return true
	}
	return false
}
