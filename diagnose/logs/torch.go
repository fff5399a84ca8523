package logs

// torchCauses are errors of torch, Gloo, and launchers above them.
var torchCauses = []cause{
	{
		id: "log.launch-check", grade: decisive, words: []string{"launch: fail "},
		form: re(`launch: fail (?P<check>[a-z][\w.-]+)\s+(?P<what>\S.*)`),
		says: "launch's check {check} failed: {what}",
		do:   "do what the line \"fix\" below this line says",
	}, {
		id: "log.launch-error", grade: decisive, words: []string{"launch: error: "},
		form: re(`launch: error: (?P<what>\S.*)`),
		not:  []string{"terminated before", "interrupted"},
		says: "launch did not start the command, or ended it: {what}",
		do:   "do what the line \"hint\" below this line says",
	}, {
		id: "log.port-in-use", grade: decisive, but: "bind.any-port",
		words: []string{"Address already in use", "EADDRINUSE", "address already in use",
			"Failed to start the grpc server. The specified port", "another process is utilizing it"},
		form: opt(`specified port is (?P<port>\d+)|` +
			`bind to (?:\[[^\]]*\]|[\w.]+):(?P<port>\d+)|[Pp]ort:? \W?(?P<port>\d+)|0\.0\.0\.0[:,] ?(?P<port>\d+)`),
		not:  append([]string{"trying", "rying another", "retry", "nother port", "next port"}, fileAddresses...),
		says: "{who} cannot listen on its port[ ({port})]: another process on that host uses it",
		do:   "end the old run on that host, or give this run its own port (--master-port, --rdzv-endpoint HOST:PORT)",
		from: "pytorch/pytorch#73320",
	}, {
		id: "log.numeric-hostname", grade: decisive, words: []string{"network address of ("},
		form: re(`network address of \((?P<host>0\d+|\d{3,10}), ?\d+\)`),
		says: "the host name {host} has digits only, so the resolver takes it for an IPv4 address",
		do:   "give that host a name with a letter, or use its address as the endpoint",
	}, {
		id: "log.master-addr-wrong", grade: decisive,
		words: []string{
			"Using IP address of  for node", "--master_addr= ", "--master_addr=\"\"", "--address=:", "GCS at address :",
			"tcp://:", "--master-addr= ", "MASTER_ADDR=\"\"", "rdzv_endpoint=:",
			"rdzv-endpoint=:",
		},
		says: "the master's address is empty, so {who} has no host to connect to",
		do:   "set MASTER_ADDR (or --master-addr, --address) to the address of node 0 on every node",
		from: "deepspeedai/DeepSpeed#2631",
	}, {
		id: "log.master-addr-wrong", grade: decisive, words: []string{"MASTER_ADDR expected, but not set"},
		says: "{who} has no MASTER_ADDR in its environment, which a launcher sets: the program was started without one",
		do: "start it with torchrun, or with launch, which set MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE; without a " +
			"launcher set all four on every node",
		from: "torch rendezvous.py",
	}, {
		id: "log.env-missing", grade: decisive, words: []string{"expected, but not set"},
		form: re(`environment variable (?P<name>\w+) expected, but not set`),
		says: "{who} has no {name} in its environment: the launcher did not set it",
		do:   "start the program with torchrun or launch, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
	}, {
		id: "log.torch-without-cuda", grade: decisive,
		words: []string{"Torch not compiled with CUDA enabled"},
		says:  "the torch of {who} was built without CUDA",
		do:    "install a CUDA build of torch in that environment",
	}, {
		id: "log.backend-missing", grade: decisive, with: "os.without-nccl",
		words: []string{"Distributed package doesn't have NCCL"},
		says:  "the torch of {who} has no NCCL, since there is none for this system[, {fact}]",
		do: "use Gloo: init_process_group(\"gloo\"), or its variable in the trainer (PL_TORCH_DISTRIBUTED_BACKEND=gloo); " +
			"or run on Linux (on Windows: in WSL2)",
		from: "torch distributed_c10d.py",
	}, {
		id: "log.backend-missing", grade: decisive, words: []string{"Distributed package doesn't have "},
		form: re(`Distributed package doesn't have (?P<what>\w+)`),
		says: "the torch of {who} was built without {what}",
		do: "python -c 'import torch; print(torch.version.cuda, torch.distributed.is_nccl_available())': install a build " +
			"of torch that has {what} (for NCCL one for CUDA, on Linux), or choose another backend",
		from: "torch distributed_c10d.py",
	}, {
		id: "log.address-not-local", grade: family, words: []string{"Cannot assign requested address"},
		form: opt(`bind to (?P<addr>[\w.-]+|\[[^\]]*\]):\d+`),
		not:  []string{"NCCL WARN", "NCCL INFO"},
		says: "{who} listens on an address[ ({addr})] that its host does not have: MASTER_ADDR names another host, or " +
			"rank 0 runs on another node",
		do:   "compare MASTER_ADDR with ip -br addr on the node of rank 0",
		need: []string{"MASTER_ADDR, RANK and ip -br addr on each node"},
	}, {
		id: "log.address-not-local", grade: family, words: []string{"bind failed: Cannot assign requested address"},
		form: re(`NCCL WARN .*bind failed`),
		says: "NCCL of {who} is to listen on an address that its host does not have",
		do: "compare NCCL_COMM_ID, where it is set, with ip -br addr on that node: it must name the host of rank 0, and " +
			"NCCL's other addresses are of the interfaces in NCCL_SOCKET_IFNAME",
		need: []string{"env | grep NCCL_ and ip -br addr on that node, in the job's container"},
		from: "NVIDIA/nccl socket.cc",
	}, {
		id: "log.no-libuv", grade: decisive, words: []string{"use_libuv was requested but"},
		says: "the torch of {who} was built without libuv, which its store needs by default",
		do:   "set USE_LIBUV=0 on all nodes, or install a torch that has libuv",
	}, {
		id: "log.hostname-resolves-to-loopback", grade: decisive, job: true,
		words: []string{"connectFullMesh failed", "connect [127.", "connecting: SO_ERROR: "},
		form: re(
			`(?:refused|timed out|unreachable|[Ff]ailed).*remote=\[(?P<addr>127\.\d+\.\d+\.\d+|::1)\]|` +
				`connect \[(?P<addr>127\.\d+\.\d+\.\d+)\]:\d+: Connection refused`,
		),
		later: []string{", size="}, more: re(`\(?rank=(?P<rank>\d+), size=(?P<of>\d+)`),
		says: "Gloo's ranks advertise {addr}, a loopback address, so other nodes cannot connect to them[; rank {rank} of " +
			"{of} reports it]",
		do: "set GLOO_SOCKET_IFNAME to the interface that the nodes share, or fix the host's own name in /etc/hosts " +
			"(it must not be 127.x)",
		from: "pytorch/gloo, transport/tcp",
	}, {
		id: "log.hostname-resolves-to-loopback", grade: family, with: "gloo.loopback",
		words: []string{"connectFullMesh failed"},
		says:  "{who} cannot connect to another rank (Gloo): a host's own name has no address, so Gloo uses loopback there",
		do: "set GLOO_SOCKET_IFNAME to the interface that the nodes share, or give each host its own name in " +
			"/etc/hosts",
		need: []string{"getent hosts $(hostname) on each node"},
		from: "torch ProcessGroupGloo",
	}, {
		id: "log.hostname-resolves-to-loopback", grade: family,
		words: []string{"unsupported gloo device"},
		says:  "Gloo of {who} finds no address of this host by the host's own name",
		do: "set GLOO_SOCKET_IFNAME to the interface that the nodes share, or give the host its own name in " +
			"/etc/hosts",
		need: []string{"getent hosts $(hostname) on that node"},
		from: "torch ProcessGroupGloo",
	}, {
		id: "log.address-family", grade: decisive, words: []string{"ss1.ss_family == ss2.ss_family"},
		form: re(`ss_family\. ?(?P<a>\d+) vs (?P<b>\d+)`),
		test: func(v map[string]string) bool {
			for _, name := range []string{"a", "b"} {
				v[name] = map[string]string{"2": "IPv4", "10": "IPv6"}[v[name]]
			}
			return v["a"] != "" && v["b"] != ""
		},
		says: "Gloo of {who} has an address of {a}, and another rank one of {b}",
		do: "let the name of each node have addresses of one family on all nodes (getent ahosts $(hostname), /etc/hosts), " +
			"or set GLOO_SOCKET_IFNAME to an interface with an IPv4 address on each",
		from: "pytorch/gloo transport/tcp/address.cc",
	}, {
		id: "log.interface-not-found", grade: decisive,
		words: []string{"Unable to find address for: ", "Unable to find interface for"},
		form:  re(`Unable to find (?:address|interface) for: ?(?P<if>[\w.-]*)`),
		says:  "Gloo finds no interface[ {if}] on {where}",
		do:    "set GLOO_SOCKET_IFNAME to an interface that exists on that node, or unset it",
	}, {
		id: "log.collective-mismatch", grade: decisive, job: true,
		words: []string{
			"Detected mismatch between collectives on ranks", "Received data size doesn't match expected size",
			"Mismatched collective detected", "op.preamble.length <= op.nbytes",
		},
		form: opt(`ranks\. Rank (?P<a>\d+) is running collective: (?P<acoll>.*?),? but Rank (?P<b>\d+) ` +
			`is running collective: (?P<bcoll>.*)|calls at and around rank (?P<near>\d+)`),
		test: compared,
		says: "the ranks do not call the same collective, or not with the same size[: rank {a} and rank {b} differ]" +
			"[, at or around rank {near}][; {how}]",
		do: "compare what the named ranks call at this point; TORCH_DISTRIBUTED_DEBUG=DETAIL names the calls of all " +
			"ranks",
		from: "torch ProcessGroupWrapper",
	}, {
		id: "log.collective-mismatch", grade: family,
		words: []string{"Message truncated : received", "message truncated : receiving", "collective mismatch error"},
		form:  opt(`\bpeer (?P<peer>[\w.:-]+?)<\d+>`),
		says: "{who} received a message of another size[ from {peer}]: the ranks call different collectives, or have " +
			"another NCCL or other NCCL_* variables",
		do: "compare the calls and the tensor sizes of the ranks, and the line NCCL version and the NCCL_* variables of " +
			"all nodes",
		need: []string{"NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL of all ranks", "the NCCL version of each node"},
	}, {
		id: "log.shm-too-small", grade: decisive,
		words: []string{
			"unable to write to file </torch_",
			"is killed by signal: Bus error", "workers are out of shared memory", "insufficient shared memory (shm)",
			"unable to open shared memory object", "unable to mmap",
		},
		form: re(`(?:DataLoader|out of shared memory|insufficient shared memory|` +
			`(?:open shared memory object|mmap \d+ bytes|write to file).*(?:No space left|Cannot allocate))`),
		says: "/dev/shm is full on {where}: a DataLoader worker found no shared memory",
		do:   "raise /dev/shm (docker --shm-size=16g; in Kubernetes an emptyDir with medium: Memory on /dev/shm)",
		from: "pytorch/pytorch#5040",
	}, {
		id: "log.dataloader-killed", grade: family, words: []string{"is killed by signal: ", "exited unexpectedly"},
		form: re(`DataLoader worker \(pid(?:\(s\))? (?P<pid>[\d, ]+)\) (?:is killed by signal: (?P<sig>[^.]*)|exited unexp)`),
		not:  []string{"Bus error"},
		says: "a DataLoader worker of {who} was killed[ ({sig})]: memory of the host or a crash in the data set's code",
		do:   "look at dmesg on that host for the OOM killer, and run with num_workers=0 to see an error of the data set",
		need: []string{"dmesg of that host around this time"},
	}, {
		id: "log.monitored-barrier", grade: family, words: []string{"monitoredBarrier"},
		form: re(`[Rr]anks? (?P<ranks>\d+(?:, ?\d+)*) failed to pass monitoredBarrier|` +
			`received errors while waiting for send/recv from rank (?P<rank>\d+)`),
		says: "{who} did not reach the monitored barrier: slow, hung, or ended before",
		do:   "look at the output and the stack of that rank",
		need: []string{"the end of that rank's output", "its stack: py-spy dump --nonblocking --pid PID"},
	}, {
		id: "log.dns", grade: decisive, soft: true, words: []string{"cannot be retrieved (gai error: -"},
		form: re(`\[c10d\] The IPv\d network addresses of \((?P<host>\[[\da-fA-F:.%\w]+\]), `),
		says: "torch of {who} looks up {host} as a name: it takes an IPv6 address without brackets only",
		do: "write the address of MASTER_ADDR or init_method without brackets; where a framework adds them, use a name " +
			"that has that address",
		from: "torch socket.cpp, getaddrinfo(3)",
	}, {
		id: "log.dns", grade: family, soft: true, retried: true, words: []string{"cannot be retrieved (gai error: -"},
		form: re(`\[c10d\] The IPv\d network addresses of \((?P<host>[\w-]+-\d+\.[\w.-]+), .*gai error: -[1-48]`),
		says: "{who} finds no address for the name {host}: a pod of a headless service has one only once it runs; torch " +
			"tries again, so it is no failure where the job goes on after this line",
		do: "kubectl get pods,endpoints: does that pod run; a service with publishNotReadyAddresses: true has its name " +
			"from the start; subdomain of the pod and name of the service must be the same",
		need: []string{"does the job go on after it", "kubectl get pods -o wide, and endpoints of the service",
			"getent hosts {host} in another pod, now and right after a start"},
		from: "torch socket.cpp, kubernetes DNS",
	}, {
		id: "log.dns", grade: family, soft: true, words: []string{"cannot be retrieved (gai error: -"},
		form: re(`\[c10d\] The IPv\d network addresses of \((?P<host>[^,()]*), .*gai error: -[1-48]`),
		says: "{who} finds no address for the name {host}: it has no entry, or not yet; torch tries again, so it is no " +
			"failure where the job goes on after this line",
		do: "look the name up on that node: getent hosts {host}; give an address instead of the name, or wait for the " +
			"host and the name server before the start",
		need: []string{"getent hosts {host} on each node, now and right after a start", "does the job go on after it"},
		from: "torch socket.cpp",
	}, {
		id: "log.no-ipv6", grade: maybe, soft: true, words: []string{"errno: 97 - Address family not supported"},
		form: re(`client socket cannot be initialized to connect to \[(?P<host>localhost|ip6-localhost|::1)\]:(?P<port>\d+)`),
		says: "torch of {who} cannot use IPv6 on its host for {host} (port {port}): it tries IPv4 next, so good runs print " +
			"this, too",
		need: []string{"the rest of the output of all ranks",
			"a run with MASTER_ADDR=127.0.0.1 (one host), or an IPv4 address of rank 0's host"},
		from: "torch socket.cpp",
	}, {
		id: "log.dns", grade: family, soft: true,
		words: []string{
			"Name or service not known", "Temporary failure in name resolution", "cannot be retrieved (gai error: -",
			"Could not resolve hostname", "No address associated with hostname", "nodename nor servname provided",
			"Name does not resolve", "unable to get host address", "Unable to get host entry for",
		},
		form: opt(`get host (?:address|entry) for (?P<host>[\w.-]+)|` +
			`network addresses of \((?P<host>[^,()]*), |resolve hostname (?P<host>[^\s:]+)|` +
			`resolve '(?P<host>\w[\w.-]*)'|` +
			`for (?:host )?"?(?P<host>[\w-]+(?:\.[\w-]+)+)"?`),
		not:  []string{"gai error: -5", "gai error: -9", "[::]", "hostname of the client socket"},
		says: "{who} cannot resolve a name[ ({host})]: the name has no entry, or the name server did not have it yet",
		do: "look the name up on that node (getent hosts NAME); give an address instead of the name, or wait for the " +
			"name server before the start",
		need: []string{"getent hosts NAME on each node, now and right after a start"},
		from: "pytorch/pytorch#73682",
	}, {
		id: "log.hostfile-not-found", grade: decisive, quiet: true, soft: true,
		words: []string{"Unable to find hostfile, will proceed with training with local resources only"},
		says:  "the launcher found no hostfile, so it starts ranks on this node only",
		do:    "pass the hostfile: deepspeed --hostfile FILE",
		from:  "deepspeedai/DeepSpeed runner.py",
	}, {
		id: "log.launch-tool-missing", grade: decisive,
		words: []string{
			"hostname: invalid option -- 'I'", "hostname: unrecognized option", "pdsh: command not found",
			"mpirun: command not found", "mpiexec: command not found", "ssh: command not found", "srun: command not found",
			"pdsh: not found", "ssh: not found", "mpirun: not found", "torchrun: command not found",
			"torchrun: not found", "No such file or directory: 'mpirun'", "No such file or directory: 'pdsh'",
			"No such file or directory: 'ssh'", "No such file or directory: 'ninja'", "mpirun is not installed",
			"pdsh is not installed", "command not found: mpirun", "accelerate: command not found",
			"deepspeed: command not found", "python: command not found", "python3: command not found",
			"horovodrun: command not found",
		},
		form: re(`(?P<tool>hostname|pdsh|mpirun|mpiexec|ssh|srun|torchrun|ninja|accelerate|deepspeed|python3?|horovodrun)`),
		says: "the image of {who} lacks the program {tool}, or has one without an option that the launcher needs",
		do:   "install it in the image (for hostname: the Debian package hostname), or start in another way",
	},
}
