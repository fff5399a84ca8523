package logs

// rayNodeWords are how Ray's head reports that it has lost a node; rayNode names it.
var rayNodeWords = []string{"RAY_NODE_REMOVED", "missed too many heartbeats", "RAYLET_MARKED_DEAD", "marked dead",
	"mistakenly been marked as dead"}

const rayNode = `and (?:address|ip): (?P<node>[\w.:-]+?)(?: and | has |\.?$)|` +
	`"custom_fields":\{"ip":"(?P<node>[\w.:-]+)"`

// rayClientWords are how Ray's client gives up.
var rayClientWords = []string{"Ray Client connection timed out", "ray client connection timeout"}

const (
	gcsSays = "{who} cannot connect to Ray's head (GCS)"
	gcsWhy  = ": it does not run, has another address or version, or a firewall or proxy is between"
)

var gcsNeed = []string{"does the head run (ray status there), and what is in gcs_server.out",
	"the same address and port on both sides: nc -zv HOST PORT from this node", "ray --version of both, and http_proxy"}

var sparkNeed = []string{"stderr of that executor: the folder work/APP/N of the worker, or yarn logs -applicationId " +
	"APP",
	"dmesg of that node: did the OOM killer end it; spark.executor.memoryOverhead is its memory outside of Java"}

// rayCauses are ends of Ray's and Dask's workers and daemons.
var rayCauses = []cause{
	{
		id: "log.host-oom", grade: decisive, words: []string{"node running low on memory", "killed due to memory pressure",
			"Memory on the node (IP: "},
		form: re(`node running low on memory|(?P<n>[1-9]\d*) Workers \(tasks / actors\) killed due to memory pressure` +
			`(?:.* IP: (?P<node>[\w.:-]+?)\))?|Memory on the node \(IP: (?P<node>[\w.:-]+?),` +
			`(?:.* was (?P<used>[\d.]+ ?[KMGT]i?B) ?/ ?(?P<all>[\d.]+ ?[KMGT]i?B))?`),
		says: "Ray's memory monitor ended[ {n}] workers, since the memory of the host, not of a GPU, is full on {where}" +
			"[: {used} of {all}]",
		do: "give that host more memory, or start fewer workers or tasks on it (num_cpus of a task, num_workers), with " +
			"less data in each; RAY_memory_usage_threshold is the limit. In a pod raise limits.memory",
		from: "ray common/memory_monitor.cc, node_manager.cc",
	}, {
		id: "log.ray-worker", grade: open, words: []string{" Workers crashed due to other reasons at node"},
		form: re(`, (?P<n>[1-9]\d*) Workers crashed due to other reasons at node \(ID: \w+, IP: (?P<node>[\w.:-]+?)\)`),
		says: "{n} workers of Ray on {where} crashed, for another reason than memory",
		need: []string{"the workers' own output there: /tmp/ray/session_latest/logs/worker-*.err",
			"dmesg of that node: did the OOM killer end them, or did they crash"},
		from: "ray node_manager.cc",
	}, {
		id: "log.ray-worker", grade: open, words: []string{"ActorDiedError: ", "RayActorError: ", "WorkerCrashedError: "},
		form: re(`(?:ActorDiedError|RayActorError): The actor died unexpectedly|` +
			`WorkerCrashedError: The worker died unexpectedly`),
		later: []string{"class_name: ", "pid: ", "ip: ", "Worker exit type: "},
		more: re(`^\s*(?:class_name: (?P<class>\w+)|pid: (?P<pid>\d+)|ip: (?P<node>[\d.]+)\s*$)|` +
			`Worker exit type: (?P<type>\w+)(?: Worker exit detail: (?P<why>[^.]+))?`),
		says: "the process of a worker of Ray[, {class},] on {where}[ (pid {pid})] ended[: {type}][, {why}]",
		need: []string{"dmesg of that node: did the OOM killer end it, or did it crash",
			"the worker's own output there: /tmp/ray/session_latest/logs/worker-*{pid}.err", "raylet.out of that node"},
		from: "ray core_worker, gcs_actor_manager.cc",
	}, {
		id: "log.ray-node", grade: open, with: "raylet.starved", words: markedDead,
		form: re(rayletEnds),
		says: "Ray's head took {where} for dead, and its daemon (raylet) ended: it had sent heartbeats late[ ({fact} ms)], " +
			"so the node had too little CPU or memory for it",
		need: []string{"load and free memory of that node at that time, and dmesg there",
			"ray status: do the tasks ask for all CPUs of the node (leave some to the raylet)"},
		from: "ray raylet/node_manager.cc",
	}, {
		id: "log.ray-node", grade: open, words: markedDead,
		form: re(rayletEnds),
		says: "Ray's head took {where} for dead, and its daemon (raylet) ended: its heartbeats did not arrive",
		need: []string{"load and free memory of that node at that time, and dmesg there",
			"the network between that node and the head", "gcs_server.out of the head"},
		from: "ray raylet/node_manager.cc",
	}, {
		id: "log.ray-node", grade: family, words: []string{"mistakenly been marked as dead"},
		form: opt(`"host_name":"(?P<node>[\w.-]+)"|\(raylet, ip=(?P<node>[\w.:-]+)\)`),
		says: "Ray's head took {where} for dead while its daemon (raylet) ran, which then ended: the head's questions for " +
			"its health got no answer, as it does not reach that daemon, or the node has too little CPU or memory for it",
		do: "the head must reach that node at the address and ports that it registered (ray list nodes): open them, and " +
			"fix them by ray start --node-ip-address and --node-manager-port where a firewall or NAT is between; else leave " +
			"the raylet some CPU and memory (num_cpus)",
		need: []string{"nc -zv NODE PORT from the head, with the port of the raylet of that node",
			"load and free memory of that node at that time, and dmesg there", "gcs_server.out of the head"},
		from: "ray raylet/node_manager.cc, gcs_health_check_manager.cc",
	}, {
		id: "log.ray-node", grade: open, with: "raylet.sigterm", words: rayNodeWords, form: opt(rayNode),
		says: "Ray's head has lost {who}, whose daemon (raylet) had received SIGTERM: ray stop, the end of its pod or job, " +
			"or a preemption",
		need: []string{"what ended it at that time: kubectl get events, sacct -j JOB, the console of the cloud",
			"raylet.out of that node"},
		from: "ray raylet/main.cc",
	}, {
		id: "log.ray-node", grade: open, words: []string{"[exit code=", "Ray subprocesses exited unexpectedly"},
		form: re(`^\s*(?P<proc>\w+) \[exit code=(?P<code>-?[1-9]\d*)\]|exited unexpectedly`),
		says: "a process of Ray[, {proc},] on {where} ended[ with exit code {code}], and Ray ended the others there",
		need: []string{"raylet.err, raylet.out and gcs_server.err in /tmp/ray/session_latest/logs of that node",
			"dmesg of that node: did the OOM killer end it"},
		from: "ray scripts.py",
	}, {
		id: "log.ray-raylet", grade: waits, soft: true, but: "ray.started",
		words: []string{"have not registered with GCS", "have not registered with Redis"},
		says: "{who} waits for Ray's daemon (raylet) of its own node, which has not registered with the head: it does " +
			"not run, has ended, or is known by another address",
		need: []string{"the output of ray start on that node, and raylet.out in /tmp/ray/session_latest/logs there",
			"ray list nodes: does the head show that node, with the address that this process looks for (--node-ip-address)",
			"is TCP open both ways between that node and the head: launch check"},
		from: "ray global_state_accessor.cc, services.py",
	}, {
		id: "log.store-unreachable", grade: open, soft: true, words: []string{"Failed to connect to GCS", "Unable to " +
			"connect to GCS"},
		form: re(`connect to GCS at (?:address )?(?P<host>[\w.-]+):(?P<port>\d+)`),
		says: "{who} cannot connect to Ray's head (GCS) at {host} port {port}: the head has another address or port (ray " +
			"start --address must name the one that ray start --head prints), does not run, or a firewall is between",
		need: gcsNeed, from: "ray gcs_rpc_client.h",
	}, {
		id: "log.store-unreachable", grade: open, soft: true, with: "ray.address", words: []string{"send request to " +
			"gcs, rec"},
		says: gcsSays + "[ at {fact}]" + gcsWhy, need: gcsNeed, from: "ray gcs_utils.py",
	}, {
		id: "log.store-unreachable", grade: open, soft: true, words: []string{"send request to gcs, rec"},
		says: gcsSays + gcsWhy, need: gcsNeed, from: "ray gcs_utils.py",
	}, {
		id: "log.grpc-peer", grade: open, soft: true, words: []string{"failed to connect to all addresses"},
		form: re(`details = "failed to connect to all addresses(?:; last error: \w+: ipv[46]:(?P<addr>[^ "]+?): ` +
			`(?P<why>[^"]+))?`),
		says: "{who} cannot connect to another process of the job by gRPC[: {addr}][, {why}]",
		need: []string{"which address it calls: its settings and the lines before", "does a process listen there (ss " +
			"-ltn), and what is its output", "is that port reachable from here: nc -zv HOST PORT; http_proxy and no_proxy"},
		from: "gRPC pick_first.cc",
	}, {
		id: "log.dask-worker", grade: maybe, soft: true,
		words: []string{"ailed to start worker process", "orker failed to start", "anny failed to start"},
		form:  re(`distributed\.nanny|\bdask\b`),
		says:  "a worker of Dask on {where} does not start, and its nanny tries again",
		need: []string{"the worker's own error: dask worker --no-nanny there, with the same options and environment",
			"--memory-limit and --local-directory: what is free there"},
		from: "dask/distributed nanny.py",
	}, {
		id: "log.spark-executor", grade: ended, soft: true, words: []string{"Lost executor "},
		form: re(`Lost executor (?P<ex>\S+) on (?P<node>[\w.:-]+?): (?P<why>[^.]+)`),
		says: "Spark lost its executor {ex} on {node}: {why}; its own error is not in these lines",
		need: sparkNeed, from: "apache/spark TaskSchedulerImpl",
	}, {
		id: "log.spark-executor", grade: ended, soft: true, words: []string{"Executor updated: ", "Executor app-"},
		form:  re(`app-\d+-\d+/(?P<ex>\d+)\b.*\b(?:exited with code|due to) (?P<code>[1-9]\d*)`),
		later: []string{"Granted executor ID "},
		more:  re(`Granted executor ID \S+ on hostPort (?P<next>[\w.-]+):`),
		says: "executor {ex} of Spark ended with exit code {code}[, and the next one is started on {next}]; its own error " +
			"is not in these lines",
		need: sparkNeed, from: "apache/spark StandaloneSchedulerBackend",
	}, {
		id: "log.host-oom", grade: family, soft: true, words: []string{"% memory budget"},
		form: re(`Worker(?: (?P<addr>\S+) \(pid=(?P<pid>\d+)\))? exceeded (?P<part>\d+)% memory budget`),
		says: "Dask ends and restarts workers[, {addr}], since they use more than {part} % of their memory budget",
		do: "give each worker more memory (--memory-limit), start fewer workers or threads a node, or make the tasks and " +
			"partitions smaller",
		need: []string{"the dashboard: the memory of each worker before", "--memory-limit and --nworkers of dask worker"},
		from: "dask/distributed worker_memory.py",
	},
}

var markedDead = []string{"node has beem marked as dead", "node has been marked as dead"}

const rayletEnds = `\bThis node has bee[mn] marked as dead`

// rayFacts are lines that these causes need.
var rayFacts = []cause{
	{id: "ray.gpus", grade: fact, words: []string{".0 GPU"}, form: re(`^\s*[\d.]+/(?P<v>\d+)(?:\.\d+)? GPU\b`)},
	{id: "ray.address", grade: fact, words: []string{"ray start "}, form: re(`--address[= ]['"]?(?P<v>[\w.-]+:\d+)`)},
	{id: "ray.started", grade: fact, words: []string{"Ray runtime started", "Connected to Ray cluster"},
		form: re(`(?P<v>Ray)`)},
}
