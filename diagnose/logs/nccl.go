package logs

import "strings"

// hostOnly begins the names of interfaces that are no network between hosts.
const hostOnly = `(?:br-|veth|docker|virbr|cni|flannel|cali|lxc)`

// ncclCauses are errors of NCCL's start and of its plugins.
var ncclCauses = []cause{
	{
		id: "log.shm-too-small", grade: decisive,
		words: []string{
			"posix_fallocate failed", "vader_segment", "/dev/shm/nccl-", "space for /dev/shm", "shared memory segment",
		},
		form: re(`No space left on device|failed to extend /dev/shm|not enough space`),
		says: "/dev/shm is full on {where}: NCCL or MPI cannot create its shared memory segments",
		do:   "raise /dev/shm (docker --shm-size=16g; in Kubernetes an emptyDir with medium: Memory on /dev/shm)",
		from: "NVIDIA/nccl#342",
	}, {
		id: "log.shm-too-small", grade: family, but: "nccl.shm-cuda",
		words: []string{"Error while creating shared memory segment"},
		form:  re(`shared memory segment [^,]*$`), // newer ones add their reason
		says:  "NCCL of {who} cannot create shared memory: /dev/shm is full or too small on {where}, as a rule",
		do:    "raise /dev/shm (docker --shm-size=16g; in Kubernetes an emptyDir with medium: Memory on /dev/shm)",
		need:  []string{"df -h /dev/shm in the container while the job runs", "a run with NCCL_DEBUG=INFO"},
		from:  "NVIDIA/nccl shmutils.cc",
	}, {
		id: "log.ulimit-nofile", grade: decisive, words: []string{"Too many open files",
			"the maximal number of files that could be opened"}, // the latter by UCX
		not:  []string{"inotify"},
		says: "{who} has reached its limit of open files",
		do:   "raise the soft limit in the job's script: ulimit -n $(ulimit -Hn)",
	}, {
		id: "log.duplicate-gpu", grade: decisive, job: true, words: []string{"Duplicate GPU detected"},
		form: opt(`rank (?P<a>\d+) and rank (?P<b>\d+) both on CUDA device (?P<dev>\w+)`),
		says: "several ranks use the same GPU[: {all} share {dev}]",
		do: "choose the GPU by the local rank: torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])); with Horovod " +
			"torch.cuda.set_device(hvd.local_rank()). A host must have as many GPUs as ranks run on it",
		from: "NVIDIA/nccl init.cc",
	}, {
		id: "log.rank-duplicate", grade: decisive, words: []string{"has already checked in"},
		form: re(`rank (?P<rank>\d+) of (?P<of>\d+) ranks has already checked in`),
		says: "two processes have rank {rank} of {of}",
		do:   "give each process its own RANK; under Slurm each task must expand SLURM_PROCID itself",
		from: "NVIDIA/nccl bootstrap.cc",
	}, {
		id: "log.world-size-mismatch", grade: decisive,
		words: []string{"mismatch in rank count from procs", "mismatch in info from procs",
			"does not match torch world size"},
		form: opt(`procs,? (?:nranks )?(?P<a>\d+) ?(?::|vs) ?(?P<b>\d+)|` +
			`MPI world size (?P<a>\d+) does not match torch world size (?P<b>\d+)`),
		says: "the ranks do not agree on the number of ranks[ ({a} and {b})]",
		do:   "set the same WORLD_SIZE (nnodes, nproc-per-node) on all nodes",
		from: "NVIDIA/nccl bootstrap.cc",
	}, {
		id: "log.interface-not-found", grade: decisive,
		words: []string{"no socket interface found", "No interface found in the same subnet", "No socket interface found",
			"No usable listening interface", "no usable interface"},
		with: "nccl.ifname",
		says: "no interface of {who} fits NCCL_SOCKET_IFNAME",
		do:   "set NCCL_SOCKET_IFNAME to an interface that exists on every node, or unset it",
	}, {
		id: "log.interface-not-found", grade: family,
		words: []string{
			"no socket interface found", "No interface found in the same subnet", "No socket interface found",
		},
		says: "NCCL finds no usable network interface on {where}",
		do:   "bring an interface up, or set NCCL_SOCKET_IFNAME to one that exists on every node",
		need: []string{"ip -br addr on that node, in the job's container", "NCCL_SOCKET_IFNAME and /etc/nccl.conf there"},
	}, {
		id: "log.interface-or-version", grade: family, with: "nccl.ifname",
		words: []string{"is neither AF_INET"},
		says: "NCCL of {who} has no address to connect to: NCCL_SOCKET_IFNAME[ ({fact})] names an interface that a node " +
			"does not have, or the nodes load different NCCL versions",
		do:   "on each node: compare ip -br addr with NCCL_SOCKET_IFNAME, and the line NCCL version",
		need: []string{"ip -br addr of each node", "the NCCL version of each node (NCCL_DEBUG=VERSION)"},
		from: "NVIDIA/nccl#1837, NVIDIA/nccl#1267",
	}, {
		id: "log.wrong-interface", grade: decisive, with: "nccl.loopback",
		words: []string{"Connection refused", "Connection timed out", "connect timeout", "No route to host"},
		form: re(`(?:NCCL WARN|\] WARN|ncclSystemError|misc/socket|include/socket).*?` +
			`(?:[Cc]onnect(?:ing)? to (?P<addr>[\w.:%]+)<|$)`),
		test: func(v map[string]string) bool { return v["addr"] == "" || strings.HasPrefix(v["addr"], "127.") },
		says: "NCCL of {who} uses the loopback interface, which other nodes cannot reach",
		do:   "set NCCL_SOCKET_IFNAME to the interface that the nodes share (or ^lo,docker0)",
		from: "horovod/horovod#700",
	}, {
		id: "log.wrong-interface", grade: family, with: "nccl.host-only",
		words: []string{"connect returned", "transport/net.cc", "include/net.h", "onnection timed out", "o route to host",
			"onnection refused"},
		form: re(`NCCL INFO (?:include|transport|src)/\S+:\d+ -> [1-9]|NCCL WARN|\] WARN|connect returned`),
		says: "NCCL of {who} uses all interfaces, also bridges and veths, which are local to a host",
		do:   "set NCCL_SOCKET_IFNAME to the interface that the nodes share, on all nodes",
		need: []string{"the line NCCL INFO NET/Socket : Using of all nodes"},
		from: "NVIDIA/nccl#697",
	}, {
		id: "log.wrong-interface", grade: family, with: "nccl.link-local",
		words: []string{"Call to bind failed", "onnect to fe80:", "connect returned"},
		form:  re(`WARN|failed|returned`),
		says:  "the interface that NCCL of {who} chooses has only a link-local address (fe80::)",
		do:    "give that interface an address, or set NCCL_SOCKET_IFNAME to one that has an address on every node",
		need:  []string{"ip -br addr of that node, in the job's container"},
		from:  "NVIDIA/nccl#975",
	}, {
		id: "log.interface-not-found", grade: family, words: []string{"ocket creation failed"},
		form: re(`ocket creation failed.*Address family not supported`),
		says: "NCCL finds no usable network interface on {where}: it has no address of the family that NCCL wants",
		do: "give the container a network (docker --network host), or set NCCL_SOCKET_IFNAME and " +
			"NCCL_SOCKET_FAMILY to what it has",
		need: []string{"ip -br addr on that node, in the job's container"},
		from: "NVIDIA/nccl-tests#14",
	}, {
		id: "log.shm-unshared", grade: family, words: []string{"attaching to shared memory segment"},
		form: re(`No such file|error: 2\b|\(2\)`),
		not:  []string{"NCCL INFO"},
		says: "NCCL of {who} does not find the shared memory of another rank, which it takes for one of its own host, in " +
			"/dev/shm",
		do: "let the containers of a host share /dev/shm (docker --ipc=host), look at its size (df -h /dev/shm) and remove " +
			"segments of ended runs (/dev/shm/nccl-*), or set NCCL_SHM_DISABLE=1; where two hosts " +
			"have the same name and boot id, give each its own NCCL_HOSTID; where all ranks share /dev/shm, try another " +
			"release of NCCL",
		need: []string{"are the ranks of one host in one container", "the line NCCL version",
			"hostname and /proc/sys/kernel/random/boot_id of each node"},
		from: "NVIDIA/nccl shmutils.cc, utils.cc getHostHash",
	}, {
		id: "log.net-mismatch", grade: decisive, words: []string{"wrong type"},
		form: re(`wrong type (?:3 != 4|4 != 3)`), // ncclSocketTypeNetSocket, ncclSocketTypeNetIb
		says: "some ranks use InfiniBand or RoCE, and others plain sockets",
		do: "compare the lines NCCL INFO Using network of all nodes: where it is Socket, look for the HCAs, libibverbs " +
			"and NCCL_IB_DISABLE",
		from: "NVIDIA/nccl socket.h",
	}, {
		id: "log.wrong-interface", grade: family,
		words: []string{"onnect to 127.", "onnecting to 127.", "onnect to 172.17.", "onnecting to 172.17.",
			"onnect to 192.168.122.", "onnecting to 192.168.122.", "onnect to 169.254."},
		form: re(`[Cc]onnect(?:ing)? to (?P<addr>127\.[\d.]+|172\.17\.0\.\d+|192\.168\.122\.\d+|169\.254\.[\d.]+)` +
			`<\d+> (?:failed|timed out|returned)`),
		says: "NCCL of {who} calls {addr}, an address that is local to a host[ (of its interface {if})]",
		do: "set NCCL_SOCKET_IFNAME to the interface that the nodes share; a container in a network of its own (a bridge, " +
			"WSL) has no such interface: start it with the host's network (docker --network host)",
		need: []string{"the lines NCCL INFO Bootstrap of all ranks (NCCL_DEBUG=INFO)"},
	}, {
		id: "log.topology-file-malformed", grade: decisive,
		words: []string{
			"of node cpu not found", "Could not open XML topology file", "XML Parse error", "XML parse error",
		},
		form: re(`(?:Attribute (?P<attr>\w+) of node|XML)`),
		says: "the topology file that NCCL reads on {where} is incomplete or damaged",
		do: "unset NCCL_TOPO_FILE, also in /etc/nccl.conf, or correct that file; where the network plugin brings it (OFI " +
			"on AWS: a line NCCL_TOPO_FILE of NET/OFI), update the plugin",
	}, {
		id: "log.libfabric-version-mismatch", grade: decisive,
		words: []string{
			"version `FABRIC_", "FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES", "FI_OPT_EFA_WRITE_IN_ORDER",
		},
		form: re(`not found|Couldn't set|[Cc]ould not set|not supported`),
		says: "the OFI plugin of {who} was built for a newer libfabric than the one that it loads",
		do:   "install the libfabric that the plugin was built for, or a plugin for this libfabric; check LD_LIBRARY_PATH",
		from: "aws/aws-ofi-nccl",
	}, {
		id: "log.library-mismatch", grade: decisive, words: []string{"undefined symbol: nccl"},
		form: re(`undefined symbol: (?P<sym>nccl\w+)`),
		not:  []string{"NCCL INFO"}, // a symbol that NCCL only looks for
		says: "{who} loads an NCCL that is older than the one it was built for: {sym} is missing in it",
		do: "pip list | grep -i nccl: of several (nvidia-nccl-cu11, nvidia-nccl-cu12) remove all but the one that torch " +
			"asks for, and install that one again; else look for another libnccl.so in LD_LIBRARY_PATH, LD_PRELOAD and " +
			"/etc/ld.so.conf (ldd of libtorch_cuda.so)",
		from: "NVIDIA/nccl nccl.h",
	}, {
		id: "log.library-mismatch", grade: decisive,
		words: []string{"undefined symbol: nvml", "undefined symbol: __nv", "undefined symbol: cu",
			"undefined symbol: ibv_", "undefined symbol: fi_", "GLIBC_", "GLIBCXX_", "undefined symbol: ompi",
			"undefined symbol: ucp", "undefined symbol: MPI", "OPENSSL_", "CXXABI_", "LIBIBVERBS_", "IBVERBS_", "MLX5_"},
		form: re(`undefined symbol: (?P<sym>\w+)|version .(?P<sym>(?:GLIBC\w*|OPENSSL|CXXABI|IBVERBS\w*|MLX5)_[\d.]+\w*). ` +
			`not found`),
		not:  []string{"NCCL INFO", "(ignored)"}, // what NCCL only looks for, and a component that MPI leaves out
		says: "{who} loads a library of the wrong version: {sym} is missing",
		do:   "check LD_LIBRARY_PATH and LD_PRELOAD: the library must be the one that the program was built for",
	}, {
		id: "log.library-mismatch", grade: decisive, words: []string{"OpenSSL version mismatch. Built against"},
		form: re(`OpenSSL version mismatch\. Built against (?P<has>\w+), you have (?P<gets>\w+)`),
		says: "ssh of {who} was built for another OpenSSL ({has}) than the one that it loads ({gets}): the system's ssh " +
			"takes libcrypto from a conda environment or another folder of LD_LIBRARY_PATH",
		do: "call the launcher without that folder in LD_LIBRARY_PATH, or install an ssh that belongs to the environment " +
			"(conda install openssh); ssh -V must work in the same shell. Other lines of the launcher follow from this one",
		from: "openssh entropy.c",
	}, {
		id: "log.extension-mismatch", grade: decisive, words: []string{"undefined symbol: _ZN"},
		form: re(`(?P<lib>[\w.+-]+\.so[\w.]*): undefined symbol: _ZN`),
		says: "{who} loads {lib}, which was built for another version of torch or of the C++ library",
		do:   "install a build of that package for the torch in use (pip install --force-reinstall --no-build-isolation)",
		from: "axolotl-ai-cloud/axolotl#1157",
	}, {
		id: "log.library-mismatch", grade: decisive,
		words: []string{"symbol lookup error: ", "lazy binding failed", ": symbol not found", "Undefined symbol \""},
		form: re(`symbol lookup error: (?P<lib>\S+): undefined symbol: (?P<sym>\w+)|` +
			`ld\.so: (?P<lib>\S+): lazy binding failed|` +
			`relocating (?P<lib>\S+): (?P<sym>\w+): symbol not found|(?P<lib>\S+): Undefined symbol "(?P<sym>\w+)"`),
		says: "{lib} of {who} does not fit a library that it loads, or the system[: {sym} is missing]",
		do: "check LD_LIBRARY_PATH and LD_PRELOAD (ldd {lib}): the library must be the one that it was built for, " +
			"on all nodes",
		from: "glibc, musl and BSD ld.so",
	}, {
		id: "log.library-missing", grade: decisive, words: []string{"cannot open shared object file"},
		form: re(`(?:ImportError|OSError|error while loading shared libraries|` +
			`load library \S+ Error): (?P<lib>[\w./+-]+): cannot open`),
		// the driver's, which no package of a program has, and those that torch builds
		not:  []string{"libcuda.so", "torch_extensions/"},
		says: "{who} lacks the library {lib}",
		do:   "install it on that node or in the image, or add its directory to LD_LIBRARY_PATH",
	},
}

// ncclLast are errors that count where a program repeats them as the last one of NCCL.
var ncclLast = []cause{
	noPeerAccess("nccl.last-error", nil, "peer access is not supported between these two devices"),
	noPeerAccess("", re(`WARN failed to (?:open CUDA IPC handle|peer with device)\b.*(?P<err>\b217\b|peer access is not `+
		`supported)`), "to open CUDA IPC handle", "to peer with device"),
}

// noPeerAccess returns a row for GPUs of a host that do not reach each other's memory.
func noPeerAccess(with string, form form, words ...string) cause {
	return cause{id: "log.p2p-unsupported", grade: family, with: with, form: form, words: words,
		says: "NCCL of {who} cannot reach the memory of another GPU of the host: PCIe's access control, the IOMMU, a " +
			"VM, or GPUs that are hidden from the process",
		do: "set NCCL_P2P_DISABLE=1 for all ranks to go on, or let each process see all GPUs of the host " +
			"(CUDA_VISIBLE_DEVICES); nvidia-smi topo -p2p r shows which pairs work",
		need: []string{"nvidia-smi topo -p2p r of that node, and its kernel's log (IOMMU)",
			"CUDA_VISIBLE_DEVICES of each rank of that host"},
		from: "NVIDIA/nccl p2p.cc"}
}

const (
	ofiNone = "the OFI plugin of {who} finds no provider of libfabric that it can use: the container has no EFA " +
		"device, or a libfabric without its provider"
	ofiNoneDo = "fi_info -p efa must list the device in the job's container: give the container /dev/infiniband (docker " +
		"--device=/dev/infiniband/uverbs0, in Kubernetes vpc.amazonaws.com/efa), and install the EFA software in the image"
)

var ofiNoneNeed = []string{"fi_info -p efa and ls -l /dev/infiniband, in the job's container and on its host"}

// ncclOpen are errors of NCCL that have many causes.
var ncclOpen = []cause{
	{
		id: "log.peer-lost", grade: ended, words: []string{"Connection closed by remote peer ", "Call to recv from ",
			"Call to send to "},
		form: re(`(?P<self>[\w.-]+):\d+:\d+ .*WARN.*(?:Connection closed by remote peer |Call to (?:recv from|send to) )` +
			`(?P<peer>[\w.-]+?)(?:\.[a-z][\w.-]*)?<\d+>(?: failed : (?:Broken pipe|Connection reset))?`),
		not:  []string{"timed out", "refused"},
		test: func(v map[string]string) bool { return v["peer"] != v["self"] },
		says: "{who} lost the connection to a process on {peer}, which ended or closed it first",
		need: []string{"the output of the ranks on {peer}: the first error there is the cause"},
		from: "NVIDIA/nccl socket.cc",
	}, {
		id: "log.collective-mismatch", grade: family, words: []string{"Communicator ranks have different "},
		form: re(`Communicator ranks have different (?P<op>\w+) operation counts`),
		says: "{who} called another number of {op} than the other ranks of a communicator, as NCCL's RAS counts them",
		do: "look at the stacks of these ranks and of one other (py-spy dump): which collective does each wait in, and " +
			"which branch of the program leads there",
		need: []string{"a second report of ncclras some seconds later: do the counts still differ"},
		from: "NVIDIA/nccl ras/client_support.cc",
	}, {
		id: "log.collective-mismatch", grade: family, with: "ras.mismatch", words: []string{" managed by process "},
		form: re(`^\s*Rank (?P<rank>\d+) -- GPU \d+ managed by process \d+ on node (?P<node>[\w.:-]+)`),
		says: "{who} called another number of collectives than the other ranks",
		do:   "look at the stacks of these ranks and of one other (py-spy dump)",
		need: []string{"a second report of ncclras some seconds later"},
		from: "NVIDIA/nccl ras/client_support.cc",
	}, {
		id: "log.ranks-missing", grade: waits, words: []string{"considered dead (unreachable via the RAS network)"},
		form: opt(`(?P<n>\d+) job process`),
		says: "NCCL's RAS does not reach[ {n}] processes of the job: they ended, or their nodes failed",
		need: []string{"the output of the processes that the next lines name, and the kernel's log of their nodes"},
		from: "NVIDIA/nccl ras/client_support.cc",
	}, {
		id: "log.nccl-bootstrap", grade: open, soft: true, words: []string{"connect returned"},
		form: re(`connect returned (?P<why>[A-Z][\w ]*), retrying`),
		says: "{who} cannot connect to another rank in NCCL's start: {why}",
		need: []string{
			"the interface of each node in the lines NCCL INFO Bootstrap and NET/Socket (NCCL_DEBUG=INFO)",
			"is TCP open between the nodes on all ports: launch check",
		},
	}, {
		id: "log.nccl-bootstrap", grade: open,
		words: []string{"is neither AF_INET", "socketPollConnect", "socketStartConnect", "ncclSocketConnect",
			"Call to connect", "connect timeout", "Call to bind failed", "bootstrap", "socketTryAccept",
			"SocketTryAccept", "socket connect", "ncclSocketInit", "Connect to "},
		form: re(`^.*?[Cc]onnect(?:ing)? to (?P<peer>[\w.:%-]+)<(?P<port>\d+)> (?:failed|returned|timed)[ :]*(?:\d+ ?)?\(?` +
			`(?P<why>[A-Z][a-z]+(?: [a-z]+)+)?|is neither AF_INET|NCCL WARN|ncclSystemError|failed|timed out|Last error`),
		not:  []string{"NCCL INFO"},
		says: "{who} cannot connect to another rank in NCCL's start[, at {peer} port {port}][: {why}]",
		need: []string{
			"the output of the other ranks: did one end, or load another NCCL version",
			"the interface of each node in the lines NCCL INFO Bootstrap (NCCL_DEBUG=INFO)",
			"is TCP open between the nodes on all ports: launch check",
		},
	}, {
		id: "log.ofi", grade: family, words: []string{"libfabric provider not detected"},
		says: ofiNone, do: ofiNoneDo, need: ofiNoneNeed, from: "aws efa_installer.sh",
	}, {
		id: "log.ofi", grade: family, soft: true, quiet: true,
		words: []string{"find any optimal provider", "No eligible providers were found"},
		form:  re(`NET/OFI .*provider`), not: []string{"NCCL INFO", "NCCL TRACE"},
		says: ofiNone, do: ofiNoneDo, need: ofiNoneNeed, from: "aws/aws-ofi-nccl",
	}, {
		id: "log.ofi", grade: family, soft: true, but: "nccl.network", words: []string{"fi_getinfo() call failed"},
		form: re(`call failed: (?:No data available|-61\b)|\(-61\)`), not: []string{"NCCL INFO", "NCCL TRACE"},
		says: ofiNone, do: ofiNoneDo, need: ofiNoneNeed, from: "aws/aws-ofi-nccl",
	}, {
		id: "log.ofi", grade: open, words: []string{"completed with error. RC: "},
		form: re(`NET/OFI (?:Request|Operation) .*completed with error\. RC: (?P<code>-?\d+)\.(?: Flags: \d+\.)? ` +
			`Error: (?:(?P<prov>\d+) \()?(?P<why>[^().]+)`),
		not: []string{"NCCL INFO"},
		says: "a transfer of {who} over libfabric (the OFI plugin) failed: {why} (error {code}): the other end has " +
			"ended, or the network between both ends does not carry it",
		need: []string{"the output of the other ranks: did one end before",
			"which provider it uses (the line NET/OFI Selected provider is; fi_info)",
			"EFA: the security group must let all traffic through from and to itself",
			"Slingshot (cxi): cxi_stat and dmesg of both nodes, and do all ranks have the job's VNI (SLINGSHOT_VNIS)",
			"the versions of libfabric and the plugin on both nodes"},
		from: "aws/aws-ofi-nccl, libfabric prov/cxi, prov/efa",
	}, {
		id: "log.ofi", grade: waits, soft: true, words: []string{": provider efa output empty list"},
		says: "libfabric of {who} finds no EFA device that the process may use",
		need: []string{"fi_info -p efa in the container of each node", "ls -l /dev/infiniband in the container",
			"does the type of the instance have an EFA, and is it attached"},
		from: "libfabric fabric.c",
	}, {
		id: "log.ofi", grade: open, soft: true, but: "nccl.network",
		words: []string{"NET/OFI Failed to initialize ", "aws-ofi-nccl initialization failed"},
		says:  "the OFI plugin of {who} does not start: no EFA device or provider that it can use; NCCL may go on by sockets",
		need: []string{"the line NCCL INFO Using network of that rank: Socket is slow, and no failure",
			"fi_info -p efa in the container of each node", "ls -l /dev/infiniband in the container"},
		from: "aws/aws-ofi-nccl",
	}, {
		id: "log.ofi", grade: open, words: []string{"Unable to insert remote address"},
		says: "the OFI plugin of {who} cannot use the address of another host's EFA: the security group forbids it, or " +
			"libfabric there is another one",
		need: []string{"the security group: does it let all traffic through from and to itself, in and out",
			"fi_info --version in the container of each node", "are all hosts in one subnet and placement group"},
		from: "aws/aws-ofi-nccl",
	}, {
		id: "log.ofi", grade: open,
		words: []string{"fi_getinfo() call failed", "NET/OFI"},
		form:  re(`WARN|failed|error`),
		not:   []string{"NCCL INFO", "Failed to initialize ", "aws-ofi-nccl initialization failed"},
		says:  "the OFI plugin of {who} reports an error: the devices (EFA, Slingshot), what they permit, or libfabric",
		need: []string{"fi_info in the container of each node: does it list the provider of the network (efa, cxi, verbs)",
			"EFA: ls -l /dev/infiniband in the container; does the security group admit all traffic from and to itself",
			"Slingshot: cxi_stat, and SLINGSHOT_VNIS of a rank"},
	}, {
		id: "log.gpu-topology", grade: open, words: []string{"WARN Could not read node #",
			"to find reverse path from remNode"},
		form: opt(`Could not read node # ?(?P<n>\d+)`),
		says: "RCCL of {who} does not see all GPUs of the host as the kernel lists them[ (node {n} of KFD is not " +
			"readable)], and finds no way between some",
		need: []string{"ls -l /dev/kfd /dev/dri, and rocm-smi --showtopo, in the job's container and on the host: the " +
			"container may have a part of the GPUs only", "the folder class/kfd/kfd/topology/nodes of sysfs in the container",
			"ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES of each rank", "a run with NCCL_P2P_DISABLE=1"},
		from: "ROCm/rccl alt_rsmi.cc, graph/paths.cc",
	}, {
		id: "log.nccl-warn", grade: open, words: []string{"NCCL WARN"},
		not: []string{"Socket recv failed while polling", "Using ", "ignored", "Ignor", "NCCL_", "deprecated", "Cuda failure",
			"performance", "not supported", "falling back", "remote peer", "Connection reset", "Broken pipe", "Got completion",
			"MSCCL", "LL cutoff points not detected",
			"Missing", "disabled", "nvmlInit", "retcode 6", "Proxy Call to rank ", "NET/OFI ",
			"Failed to open libibverbs.so", "GID table change"},
		says: "NCCL of {who} warns: {error}",
		need: []string{"a run with NCCL_DEBUG=INFO, the output of all ranks"},
	},
}
