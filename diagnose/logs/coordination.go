package logs

// gangNeed is what shows which task of a gang ended first.
var gangNeed = []string{"which task ended first, and why: the events of the scheduler or the cloud (preemption, " +
	"lost node)",
	"the output of that task, as a rule of the one with the coordinator (process 0)"}

// coordinationCauses are errors of the services by which the processes of JAX and TensorFlow know each other, and of
// gRPC, which carries them.
var coordinationCauses = []cause{
	{
		id: "log.port-in-use", grade: decisive, but: "bind.any-port", words: []string{"No address added out of total"},
		form: re(`resolved for '(?:ipv\d:)?[^']*?:(?P<port>\d+)'.*ddress already in use`),
		says: "{who} cannot listen on its port {port} (gRPC): another process on that host uses it",
		do: "end the old run on that host (ss -ltnp shows who listens), or give this run its own port; for JAX the port of " +
			"coordinator_address, on all processes",
		from: "gRPC chttp2_server.cc",
	}, {
		id: "log.port-in-use", grade: family, words: []string{"No address added out of total", "Failed to bind to address ",
			"Could not start gRPC server"},
		form: re(`resolved(?: for '(?:ipv\d:)?[^']*?:(?P<port>\d+)')?|` +
			`Failed to bind to address \S*?:(?P<port>\d+)\b|Could not start gRPC server`),
		not: []string{"unix:", "EPERM", "EACCES", "rying another", "next port"},
		says: "{who} cannot listen on its port[ {port}] (gRPC): as a rule another process on that host uses it, of another " +
			"job or of an earlier run",
		do: "end that process (ss -ltnp shows who listens), or give this run its own port; for JAX the port of " +
			"coordinator_address, on all processes",
		need: []string{"ss -ltnp on that host: who listens there"},
		from: "gRPC chttp2_server.cc, tensorflow grpc_server_lib.cc",
	}, {
		id: "log.task-restarted", grade: family, words: []string{"tried to connect with a different incarnation"},
		form: re(`(?:^|[\s:/])(?P<rank>\d+) unexpectedly tried to connect with a different incarnation`),
		says: "{who} (process numbers of JAX or TensorFlow) joined the coordinator a second time as a new process, " +
			"while the session of the first one still ran",
		do: "restart all processes together with a new coordinator, not single ones (a pod's restartPolicy, a task's " +
			"retries); where all began at the same time, two jobs share the address of one coordinator: give each its own port",
		need: []string{"why the first of these processes ended: its output, or a preemption of its machine",
			"which processes of which jobs run on the coordinator's host"},
		from: "openxla/xla coordination_service.cc",
	}, {
		id: "log.peer-lost", grade: waits, with: "jax.unhealthy", words: []string{"/job:"},
		form: re(`^\s*/job:(?P<job>\w+)/replica:\d+/task:(?P<ranks>\d+)`),
		says: "{who} (its task number in {job}) sent no more heartbeats: it failed, was preempted, or its node or network " +
			"did",
		need: gangNeed, from: "openxla/xla coordination_service.cc",
	}, {
		id: "log.task-missing", grade: family, soft: true, words: []string{"Master init: Unavailable", "Master init: " +
			"UNAVAILABLE", "Master init: DeadlineExceeded", "Master init: DEADLINE_EXCEEDED"},
		form: re(`Master init: (?P<why>.+)`),
		says: "TensorFlow of {who} cannot reach a task of its cluster ({why}): that one is not started yet, has ended, " +
			"or has another address than the cluster's list",
		do: "start all tasks (worker, ps, chief), each with the same list of addresses (TF_CONFIG, ClusterSpec), and " +
			"let the first ones wait for the others; nc -zv HOST PORT from this host for each address",
		need: []string{"which tasks run, and where they listen (ss -ltn there)", "TF_CONFIG or ClusterSpec of each task"},
		from: "tensorflow distributed_runtime/master.cc",
	}, {
		id: "log.task-missing", grade: open, soft: true, with: "grpc.unreachable", words: []string{"remote target /job:"},
		form: re(`remote target /job:(?P<job>\w+)/replica:\d+/task:(?P<task>\d+)`),
		says: "TensorFlow of {who} cannot connect to task {task} of the job {job}",
		need: []string{"does that task run, and listen at its address of TF_CONFIG (ss -ltn there)",
			"nc -zv HOST PORT from this host: a firewall, NAT, or a port of a container that is not open",
			"TF_CONFIG of both tasks: the same addresses, by which each host reaches the others"},
		from: "tensorflow grpc_util, parameter_server_strategy_v2.py",
	}, {
		id: "log.task-missing", grade: open, soft: true, with: "grpc.deadline", words: []string{"remote target /job:"},
		form: re(`remote target /job:(?P<job>\w+)/replica:\d+/task:(?P<task>\d+)`),
		says: "task {task} of the job {job} did not answer TensorFlow of {who} in time: it is not up, hangs, has ended, " +
			"or is not reachable",
		need: []string{"the output of that task: does it run, and what does it do",
			"nc -zv HOST PORT from this host to its address of TF_CONFIG"},
		from: "tensorflow grpc_util",
	}, {
		id: "log.grpc-peer", grade: open, soft: true, words: []string{"UNAVAILABLE: ", "Unavailable: ", "UnavailableError: ",
			"Failed to connect to channel", "failed to connect to all addresses"},
		form: re(`(?:UNAVAILABLE|Unavailable|UnavailableError): (?:ipv[46]:(?P<addr>\S+?): )?(?P<why>failed to connect ` +
			`to all ` +
			`addresses|OS Error|Connect(?:ion)? .*|connections to all backends failing.*|Trying to connect .*|` +
			`Name resolution failure|DNS resolution failed.*|.*[Cc]onnection refused.*|Endpoint read failed|` +
			`empty address list.*)|E\d{4} .*Failed to connect to channel|` +
			`failed to connect to all addresses; last error: \w+: ipv[46]:(?P<addr>\S+?): (?P<why>.*?)"?$`),
		not:  []string{"CoordinationService"},
		says: "{who} cannot connect to another process of the job by gRPC[: {addr}][, {why}]",
		need: []string{"which address it calls: its settings and the lines before",
			"does a process listen there (ss -ltn), and what is its output",
			"is that port reachable from here: nc -zv HOST PORT; http_proxy and no_proxy"},
		from: "gRPC, absl status",
	}, {
		id: "log.gang", grade: open, with: "gang.preempted", words: []string{"oscheduled sibling ", "COSCHED_FAILED",
			"Socket closed\", grpc_status"},
		says: "{who} was ended, or lost its connection, after another task of its gang ended; the scheduler has preempted " +
			"tasks there[ ({fact} times)]",
		need: gangNeed, from: "iris, gRPC",
	}, {
		id: "log.gang", grade: cascade, words: []string{"oscheduled sibling ", "COSCHED_FAILED"},
		says: "{who} was ended by the scheduler, since another task of its gang failed",
		need: gangNeed, from: "iris",
	},
}

// coordinationFacts are lines that these causes need.
var coordinationFacts = []cause{
	{id: "grpc.deadline", grade: fact, words: []string{"Deadline Exceeded", "DEADLINE_EXCEEDED", "DeadlineExceeded"},
		form: re(`(?P<v>(?i)deadline)`)},
	{id: "jax.unhealthy", grade: fact, words: []string{"stopped sending heartbeats"}, form: re(`(?P<v>heartbeats)`)},
	{id: "gang.preempted", grade: fact, words: []string{"preemption_count", "preemptions="},
		form: re(`preemption(?:_count|s)\s*[=:]\s*(?P<v>[1-9]\d*)`)},
}
