package logs

// pmixClient is how Open MPI reports that its client of PMIx has no server that it understands.
const pmixClient = `OPAL ERROR: (?:Unreachable|Error|Not found|Not initialized) in file \S*(?:pmix|ext)\w*_client\.c`

// mpiCauses are errors of Open MPI, PRRTE, PMIx, MPICH and Intel MPI.
var mpiCauses = []cause{
	{
		id: "log.mpi-spawn", grade: decisive, with: "mpi.spawn", words: []string{"already filled",
			"not enough slots available in the system"},
		says: "MPI has no free slot for the processes that {who} spawns (MPI_Comm_spawn): the allocation or the list of " +
			"hosts has as many slots as processes that run already",
		do: "OMPI_MCA_rmaps_base_oversubscribe=1 (Open MPI 5: PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe) " +
			"lets it " +
			"start them all the same; or ask for more slots (--ntasks, --host HOST:N), or unset SLURM_* where it was started " +
			"alone. mpirun -n N python -m mpi4py.futures and trtllm-llmapi-launch spawn none",
		from: "open-mpi/ompi orte rmaps",
	}, {
		id: "log.hostfile-slots", grade: decisive,
		words: []string{"not enough slots available in the system", "More processes requested than permitted"},
		says:  "the hosts have fewer slots than processes were asked for",
		do: "write HOST:N or slots=N for each host, N being how many processes it is to run (one for each GPU or core); " +
			"or ask for fewer processes",
		from: "open-mpi/ompi",
	}, {
		id: "log.wrong-interface", grade: decisive, words: []string{"connect() to ", "dest_addr="},
		form: re(`(?:connect\(\) to |dest_addr=)(?P<addr>172\.17\.\d+\.\d+|192\.168\.122\.\d+)(?::\d+)?\)? failed`),
		says: "MPI or UCX calls {addr}, an address of a bridge that each host has for itself",
		do: "leave these interfaces out: --mca btl_tcp_if_exclude lo,docker0,virbr0 (and oob_tcp_if_exclude), and for UCX " +
			"UCX_NET_DEVICES=NAME,…",
		from: "open-mpi/ompi",
	}, {
		id: "log.wrong-interface", grade: family, words: []string{"connect() to 169.254.", "dest_addr=169.254."},
		form: re(`(?:connect\(\) to |dest_addr=)(?P<addr>169\.254\.\d+\.\d+)(?::\d+)?\)? failed`),
		says: "MPI or UCX of {who} calls {addr}, a link-local address: the interface of the other host that has it is no " +
			"network of the hosts",
		do: "name the network that the hosts share: --mca btl_tcp_if_include SUBNET (and oob_tcp_if_include), and for UCX " +
			"UCX_NET_DEVICES=NAME",
		need: []string{"ip -br addr of both hosts"},
		from: "open-mpi/ompi btl_tcp",
	}, {
		id: "log.wrong-interface", grade: decisive, words: []string{"no endpoint matches the netmask"},
		form: re(`connect to (?P<addr>[\w.:-]+)\s.*matches the netmask (?P<mask>[\d./]+)`),
		says: "the rank at {addr} has no address in the network {mask}, to which MPI is limited",
		do:   "unset MPICH_NETMASK, or set it to the network of the addresses that the ranks have",
		from: "MS-MPI, ch3:sock",
	}, {
		id: "log.mpi-tcp", grade: open,
		words: []string{"Communication error with rank ", "using business card <"},
		form: re(`error with rank (?P<peer>\d+): ` +
			`(?P<why>Connection (?:refused|timed out)|No route.*|.*unreach.*)|` +
			`unable to connect to rank (?P<peer>\d+) using business card`),
		says: "{who} cannot connect to rank {peer}[: {why}]: a wrong address of its host, a firewall, or " +
			"it has ended",
		need: []string{"the output of rank {peer}: did it end before", "getent hosts NAME for that host on each node",
			"is TCP open between the hosts on all ports: launch check"},
		from: "pmodels/mpich ch3",
	}, {
		id: "log.mpi-tcp", grade: open,
		words: []string{"Open MPI failed to TCP connect", "unable to complete a TCP connection", "connect() to ",
			"unable to connect from", "HYDU_sock_connect", "HYD_sock_connect", "No route to host", "Network is unreachable"},
		later: []string{"Remote host:"}, more: re(`^\s*Remote host: +(?P<addr>[\w.-]+)`),
		form: re(`connect\(\) to (?P<addr>[\w.:]+) failed|` +
			`(?:[Ff]ailed to TCP|unable to|failed|HYD|No route|unreachable)`),
		not:  []string{"NCCL INFO", "retry"},
		says: "{who} cannot connect to another host[ ({addr})]: a firewall, a wrong interface, or that host has failed",
		need: []string{"the interfaces and routes of both hosts (ip -br addr, ip route)",
			"is TCP open between the hosts on all ports: launch check"},
	}, {
		id: "log.mpi-tcp", grade: open, words: []string{"lost communication with a remote daemon",
			"lost communication with its daemon"},
		later: []string{"hostname: ", "Remote daemon:"},
		form:  opt(`on node (?P<node>[\w.-]+)`),
		more:  re(`^\s*(?:hostname:|Remote daemon: .* on node) +(?P<node>[\w.-]+)`),
		says:  "mpirun has lost a daemon that ran: {where} or the daemon there has ended, or the network",
		need: []string{"the output and the kernel's log of that host",
			"was the job stopped there, by a person or a scheduler"},
	}, {
		id: "log.mpi-tcp", grade: open, with: "mpi.tcp", words: []string{"Local host:", "Remote daemon:"},
		form: re(`^\s*(?:Local host: +(?P<node>[\w.-]+)|Remote daemon: .* on node (?P<node>[\w.-]+))`),
		says: "{who} cannot connect to another host, or is lost",
		need: []string{"the output and the kernel's log of that host"},
	}, {
		id: "log.mpi-program-missing", grade: decisive, wraps: true,
		words: []string{"unable to find the specified executable", "could not find an executable",
			"unable to launch the specified application", "execvp error on file", "orted: command not found",
			"prted: command not found", "orted: No such file", "prted: No such file", "orted: Command not found",
			"pmi_proxy: No such file", "bstrap_proxy: No such file", "mpid: No such file", "mpid: command not found"},
		form: opt(`(?P<tool>orted|prted|\w+_proxy|mpid): (?:No|[Cc])|on file (?P<tool>\S+)`),
		not:  []string{"working directory"},
		says: "a program that MPI starts is missing on {where}[: {tool}]",
		do:   "install the same MPI and program at the same path on all nodes (mpirun --prefix DIR)",
	}, {
		id: "log.mpi-program-missing", grade: decisive, wraps: true, with: "mpi.program",
		words: []string{"Node:", "Local host:"},
		form:  re(`^\s*(?:Node|Local host): +(?P<node>[\w.-]+)`),
		says:  "a program that MPI starts is missing on {where}",
		do:    "install the same MPI and program at the same path on all nodes (mpirun --prefix DIR)",
	}, {
		id: "log.mpi-program-missing", grade: family, with: "ssh.not-found",
		words: []string{"unable to reliably start one or more daemons"},
		says:  "ssh reached a host, and its shell found no program to start (127): orted or prted is missing there",
		do: "install the same MPI at the same path on all hosts (mpirun --prefix DIR); ssh must reach the container, " +
			"not its host",
		need: []string{"ssh HOST which orted prted, with the port that the job uses"},
		from: "open-mpi/ompi",
	}, {
		id: "log.mpi-root", grade: decisive, words: []string{"detected an attempt to run as root"},
		says: "mpirun refuses to run as root",
		do:   "run as another user, or pass --allow-run-as-root",
	}, {
		id: "log.pmi-mismatch", grade: decisive,
		words: []string{
			"not built with SLURM's PMI",
			"OMPI was not built with SLURM",
			"PMI support",
			"not built with support for SLURM",
		},
		form: re(`not built`),
		says: "this MPI was built without the PMI that srun offers",
		do:   "choose another one (srun --mpi=list, srun --mpi=pmix), or start with mpirun",
	}, {
		id: "log.pmi-mismatch", grade: decisive,
		words: []string{"PMI2 initialized but returned bad values", "PMI2 failed to initialize, returning an error code"},
		says:  "MPI of {who} gets no size and rank by PMI2: srun was called without it, or its library does not fit",
		do:    "start it with srun --mpi=pmi2 (srun --mpi=list shows what there is), or with the mpirun of that MPI",
		from:  "open-mpi/ompi opal/mca/pmix/s2",
	}, {
		id: "log.pmi-mismatch", grade: family, with: "slurm.step", words: []string{"_client.c at line"}, form: re(pmixClient),
		says: "the MPI of {who} was started by Slurm (srun), and reaches no PMIx server that it understands: srun was " +
			"called without --mpi=pmix, or Slurm's PMIx is of another version than the one of this MPI",
		do: "srun --mpi=list shows what Slurm has: start with srun --mpi=pmix (or pmix_v3, pmix_v4: the version of this " +
			"MPI, " +
			"ompi_info | grep -i pmix), or with mpirun inside of the allocation; a program that is not started by srun must " +
			"not inherit SLURM_* and PMIX_*",
		need: []string{"srun --mpi=list, and scontrol show config | grep -i MpiDefault", "ompi_info | grep -i pmix"},
		from: "open-mpi/ompi opal/mca/pmix",
	}, {
		id: "log.pmi-mismatch", grade: family, quiet: true, soft: true, words: []string{"PMI server not found"},
		says: "Intel MPI of {who} finds no PMI server, so each process is a world of its own: srun was called without the " +
			"PMI library that Intel MPI is to use",
		do: "export I_MPI_PMI_LIBRARY=/usr/lib64/libpmi2.so (of this Slurm) and srun --mpi=pmi2, or start with mpirun; " +
			"for a single process the line means nothing",
		need: []string{"srun --mpi=list, and how it was started"},
		from: "Intel MPI",
	}, {
		id: "log.mpi-version-mismatch", grade: family, words: []string{"_client.c at line"}, form: re(pmixClient),
		says: "the MPI of {who} reaches no PMIx server that it understands: srun without --mpi=pmix, variables of a " +
			"Slurm job that it is no part of, or another version of PMIx in its launcher",
		do: "start it with the mpirun of the same MPI, or with srun --mpi=pmix (srun --mpi=list); in a container without a " +
			"launcher unset SLURM_* and PMIX_*",
		need: []string{"how it was started: mpirun, srun or alone", "ompi_info | grep -i pmix, and srun --mpi=list"},
		from: "open-mpi/ompi opal/mca/pmix",
	}, {
		id: "log.disk-full", grade: decisive, words: []string{"not enough space for "},
		form: re(`not enough space for (?P<file>/\S+)`),
		not:  []string{"/dev/shm"},
		says: "the file system of {file} on {where} is full, where MPI makes its shared memory",
		do: "free space there (df -h /tmp), or name another folder for MPI's session: TMPDIR, " +
			"--mca orte_tmpdir_base DIR",
		from: "open-mpi/ompi common_sm",
	}, {
		id: "log.parallel-sizes", grade: decisive,
		words: []string{"There is no domain decomposition for ", "contains a large prime factor"},
		form:  re(`no domain decomposition for (?P<n>\d+) ranks|number of ranks.* \((?P<n>\d+)\) contains a large prime`),
		says:  "GROMACS cannot divide the system among {n} ranks",
		do: "use fewer ranks, or a number with small factors, and more OpenMP threads for each (-ntomp); -dd and -npme set " +
			"the division",
		from: "gromacs domdec.cpp, domdec_setup.cpp",
	}, {
		id: "log.interface-not-found", grade: decisive, words: []string{"found for out-of-band communications"},
		says: "Open MPI of {who} finds no network interface for its daemons: the one that a parameter names is not there, " +
			"or all are left out",
		do: "compare oob_tcp_if_include and oob_tcp_if_exclude (env | grep OMPI_MCA_oob, the --mca options) with " +
			"ip -br addr on each node",
		from: "open-mpi/ompi",
	}, {
		id: "log.mpi-component", grade: decisive, soft: true,
		words: []string{"No components were able to be opened in the ", " cannot be selected"},
		form: re(`able to be opened in the (?P<frame>\w+) framework|` +
			`^\[(?P<node>[\w.-]+):\d+\] (?P<frame>PML) (?P<name>\w+) cannot be selected`),
		says: "Open MPI of {who} can use no component of its framework {frame}[: {name} cannot be selected]: it is not " +
			"installed there, lacks a library, or finds no device",
		do: "on that host: ompi_info | grep -i {frame}, and ldd of the component; unset the variable that names it " +
			"(OMPI_MCA_*, --mca), or install UCX or libfabric as on the other hosts",
		from: "open-mpi/ompi",
	}, {
		id: "log.pmix-store", grade: family, words: []string{"PMIX ERROR: "},
		form: re(`PMIX ERROR: (?P<why>[A-Z-]+) in file \S*(?:dstore|gds_(?:ds12|ds21|shmem))\w*\.c`),
		not:  []string{"gds_ds12_lock_pthread.c", "UNPACK"},
		says: "PMIx of {who} cannot use its key store in shared memory ({why})",
		do: "set PMIX_MCA_gds=hash on all hosts; look at the room and the rights of TMPDIR and /dev/shm, and at the " +
			"versions of PMIx in host and container",
		need: []string{"df -h of TMPDIR and /dev/shm on that host", "the versions of MPI and PMIx on all nodes"},
		from: "openpmix gds/dstore",
	}, {
		id: "log.shm-stale", grade: decisive, words: []string{"elete stale shared memory files",
			"Unable to allocate shared memory for intra-node messaging"},
		says: "{who} cannot make shared memory for the ranks of a host: files of an ended run are left in /dev/shm",
		do: "on {where} remove the files of ended jobs in /dev/shm (ls -l /dev/shm: vader_segment.*, psm*), and look at " +
			"its size: df -h /dev/shm",
		from: "libpsm2 am_reqrep_shmem.c",
	}, {
		id: "log.mpi-component", grade: decisive, quiet: true, soft: true,
		words: []string{"A requested component was not found, or was unable to be opened"},
		later: []string{"Host: ", "Framework: ", "Component: "},
		more:  re(`^\s*(?:Host: +(?P<node>[A-Za-z][\w.-]*)|Framework: +(?P<frame>\w+)|Component: +(?P<name>\w+))\s*$`),
		says:  "MPI or PMIx of {who} lacks a component that the environment asks for[: {name}, of the framework {frame}]",
		do: "install that component on that host, or unset the variable that names it (PMIX_MCA_*, OMPI_MCA_*); the lines " +
			"Framework and Component name it, and PMIX_MCA_psec=native goes without munge",
		from: "open-mpi/ompi",
	}, {
		id: "log.mpi-map", grade: decisive,
		words: []string{"A sequential map was requested, but not enough node entries", "Your job failed to map",
			"already filled", "number of processes requested exceeds the number of"},
		form: re(`sequential map|failed to map|All nodes which are allocated for this job are already filled|exceeds the`),
		says: "mpirun cannot place the processes on the hosts",
		do: "compare -np and --map-by with the hosts and their slots, and with a mapping in the " +
			"environment (OMPI_MCA_rmaps_*)",
		from: "open-mpi/ompi",
	}, {
		id: "log.mpi-hosts", grade: decisive,
		words: []string{"requested hosts are not included in the current allocation"},
		says:  "mpirun's list of hosts has one that the allocation does not have",
		do:    "use the names that the scheduler gives (scontrol show hostnames), or no list",
		from:  "open-mpi/ompi",
	}, {
		id: "log.mpi-binding", grade: decisive,
		words: []string{"would result in binding more", "attempted to bind to a", "Open MPI tried to bind a new process"},
		form:  re(`binding more|tried to bind|support binding`),
		says:  "mpirun cannot bind the processes: a host has fewer cores for them than asked for",
		do:    "use --bind-to none, or ask for as many cores as processes (--cpus-per-task, slots)",
		from:  "open-mpi/ompi",
	}, {
		id: "log.mpi-no-transport", grade: family,
		words: []string{"are unable to reach each other for"},
		later: []string{"is on host: ", "BTLs attempted: "},
		more: re(`Process 1 .* is on host: (?P<one>[\w.-]+)\s*$|Process 2 .* is on host: (?P<two>[\w.-]+)\s*$|` +
			`BTLs attempted: (?P<btls>.+)`),
		says: "two ranks of MPI[ on {one} and {two}] have no transport in common: the list of BTLs[ ({btls})] has none " +
			"between these hosts (within one host vader, sm or tcp), or an interface is excluded",
		do:   "add tcp or ucx: --mca btl self,vader,tcp or --mca pml ucx; compare btl_tcp_if_include with ip -br addr",
		need: []string{"the line \"BTLs attempted\" and the two lines before it", "OMPI_MCA_* of the environment"},
	}, {
		id: "log.mpi-version-mismatch", grade: family,
		words: []string{"Data unpack would read past end of buffer", "UNPACK-PMIX-VALUE", "UNPACK-INADEQUATE-SPACE",
			"OPAL ERROR: Unreachable in file pmix", "OPAL ERROR: Unreachable in file ext", "dstore/pmix_esh.c"},
		says: "processes of MPI do not understand each other: the hosts, or a container and its launcher, have different " +
			"versions of Open MPI, PMIx or hwloc",
		do:   "install the same MPI on all hosts, and let ssh find it: mpirun --prefix DIR; ssh HOST mpirun --version",
		need: []string{"ssh HOST which orted mpirun, and mpirun --version, for each host"},
		from: "horovod/horovod#368",
	}, {
		id: "log.mpi-callback", grade: family,
		words: []string{"(check for firewalls!)"},
		form:  re(`unable to connect to server (?P<host>[\w.-]+) at port (?P<port>\d+)`),
		says: "a daemon of MPI[ on {where}] cannot connect back to {host} port {port}: the name has another address there, " +
			"or a firewall is between",
		do: "compare getent hosts {host} on both hosts; open the ports of {host}, or name the interface: " +
			"mpiexec -iface NAME",
		need: []string{"getent hosts NAME on that host", "is TCP open between the hosts on all ports: launch check"},
		from: "pmodels/mpich hydra",
	}, {
		id: "log.mpi-folder", grade: decisive, words: []string{"unable to change wdir to "},
		form: re(`unable to change wdir to (?P<dir>\S+)(?: \((?P<why>[^)]+)\))?`),
		says: "the working folder {dir} of the job cannot be used on {where}[: {why}]",
		do:   "start in a folder that all hosts have at the same path (a shared file system), or name one: mpiexec -wdir DIR",
		from: "pmodels/mpich hydra",
	}, {
		id: "log.mpi-folder", grade: decisive,
		words: []string{"could not change to the specified working directory", "could not access"},
		form:  re(`working directory|executable`),
		says:  "mpirun cannot use a folder or file on a host: it is missing there, full or not permitted",
		do:    "put the program and its folder on a file system that all hosts mount; check /tmp, or set --tmpdir",
		from:  "open-mpi/ompi",
	}, {
		id: "log.mpi-folder", grade: decisive, words: []string{"call to mkdir was unable to create"},
		later: []string{"Directory: ", "Error: "},
		more:  re(`^\s*(?:Directory: +(?P<dir>\S+)|Error: +(?P<why>[A-Z].*?))\s*$`),
		says:  "MPI cannot make a folder on {where}[, {dir}][: {why}]",
		do: "ls -ld of that folder and of those above it, and df there. \"File exists\": a file, or a folder of " +
			"another user, has that name; remove it. Or name another folder: TMPDIR, --mca orte_tmpdir_base DIR",
		from: "open-mpi/ompi, openpmix help-util.txt",
	}, {
		id: "log.mpi-fabric", grade: family, words: []string{"hfi_userinit: "},
		form: re(`hfi_userinit: (?P<why>mmap of \w+|assign_context command failed.*)`),
		says: "{who} gets no context of the Omni-Path adapter ({why}): all are in use, or too little memory may be locked",
		do: "ulimit -l must say unlimited in the job's own shell; end other jobs of that node, or share contexts " +
			"(PSM2_MAX_CONTEXTS_PER_JOB, PSM2_SHAREDCONTEXTS)",
		need: []string{"ulimit -l as the job sees it", "the processes of that node that use the adapter (lsof /dev/hfi1*)"},
		from: "libpsm2 opa_proto.c",
	}, {
		id: "log.mpi-fabric", grade: family, words: []string{"fi_getinfo error: "},
		form: re(`\batl_ofi\w*\.cpp:.*fi_getinfo error: ret (?P<code>-?\d+), providers (?P<n>\d+)`),
		says: "oneCCL of {who} cannot open its network: libfabric finds {n} providers that fit (error {code})",
		do: "source oneCCL's setvars.sh, which sets FI_PROVIDER_PATH and LD_LIBRARY_PATH; then fi_info in the job's " +
			"environment " +
			"shows the providers: name one of them (FI_PROVIDER=tcp), or unset FI_PROVIDER. CCL_ATL_TRANSPORT=mpi uses MPI",
		need: []string{"fi_info, FI_PROVIDER and FI_PROVIDER_PATH of each node, as the job sees them"},
		from: "oneCCL atl_ofi_helper.cpp",
	}, {
		id: "log.mpi-fabric", grade: family,
		words: []string{"OFI addrinfo() failed", "OFI fi_getinfo() fail", "ofi fabric is not available", "fi_getinfo " +
			"error: "},
		says: "MPI of {who} cannot open its network (libfabric): the provider is missing or does not fit the hosts' " +
			"adapters",
		do:   "run fi_info in the job's environment, and choose a provider: FI_PROVIDER=tcp to see whether it starts",
		need: []string{"fi_info and FI_PROVIDER of each node"},
	}, {
		id: "log.ssh-failure", grade: family, words: []string{"to run bstrap_proxy on "},
		form: re(`run bstrap_proxy on (?P<node>[\w.-]+)\S* \(pid \d+, exit code 65280\)`), // 255 of ssh
		says: "Intel MPI cannot start its proxy on {where}: ssh ended with 255, so it did not get there",
		do: "ssh -o BatchMode=yes HOST true must work to every host, also to the own one; in a container without sshd, " +
			"for a single host: I_MPI_HYDRA_BOOTSTRAP=fork",
		need: []string{"ssh -v HOST true from the launching node"},
		from: "Intel MPI hydra",
	}, {
		id: "log.mpi-program-missing", grade: family, words: []string{"to run bstrap_proxy on "},
		form: re(`run bstrap_proxy on (?P<node>[\w.-]+)\S* \(pid \d+, exit code 32512\)`), // 127 of the shell
		says: "Intel MPI cannot start its proxy on {where}: the shell there does not find it (127)",
		do:   "install the same Intel MPI at the same path on all nodes",
		need: []string{"ssh HOST ls the folder of mpiexec.hydra"},
		from: "Intel MPI hydra",
	}, {
		id: "log.mpi-daemon", grade: open,
		words: []string{"Fatal error in internal_Init", "Fatal error in MPI_Init", "Fatal error in PMPI_Init"},
		says:  "MPI of {who} could not start; the last lines of its error stack name the step",
		need: []string{"the whole error stack", "mpichversion on all nodes, and its network library",
			"a run over TCP alone: FI_PROVIDER=tcp or UCX_TLS=tcp"},
		from: "pmodels/mpich",
	}, {
		id: "log.mpi-daemon", grade: open,
		words: []string{"unable to reliably start one or more daemons", "daemon on the following node",
			"unable to run proxy", "to run bstrap_proxy on ", "Launch proxy failed", "error setting up the boo",
			"does not know how to route a message to the specified daemon", "PMIX ERROR", "PMIX_ERR", "orte_init failed",
			"daemon has unexpectedly failed", "Fatal error in MPI_Init", "Fatal error in PMPI_Init", "in business card",
			"MPI_Init", "OPAL ERROR", "PMI2_Init failed", "ompi_mpi_init: "},
		form: re(`bstrap_proxy on (?P<node>[\w.-]+)|` +
			`[Uu]nable|ERROR|ERR_|failed|daemon on|fail|Fatal error|business card|specified daemon|error setting up`),
		not: []string{"ERROR: UNREACHABLE in file server/pmix_server.c", // at the end of any job that was aborted
			"gds_ds12_lock_pthread.c"}, // at the end of any job of Open MPI 4.0
		says: "MPI could not start on all nodes: ssh, a missing MPI on a node, or no way back to the first node",
		need: []string{"ssh HOST orted --version from the launching node",
			"the versions of MPI and PMIx on all nodes", "a run with --mca plm_base_verbose 10"},
	}, {
		id: "log.mpi-abort", grade: ended,
		words: []string{"MPI_ABORT was invoked on rank", "application called MPI_Abort"},
		form:  opt(`rank (?P<rank>\d+)|process (?P<rank>\d+)`),
		says:  "{who} aborted the job",
		need:  []string{"the output of that rank"},
	}, {
		id: "log.mpi-abort", grade: ended, words: []string{"*** An error occurred in "},
		form:  re(`\*\*\* An error occurred in (?P<call>[\w:]+)`),
		later: []string{"*** reported by process [", "*** MPI_ERR_"},
		more:  re(`reported by process \[\d+,(?P<rank>\d+)\]|\*\*\* (?P<err>MPI_ERR_\w+): (?P<why>.*)`),
		says:  "{who} aborted the job in {call}[: {err}, {why}]",
		need:  []string{"the output of that rank", "the stack of that rank at this call (a core file, or a debugger)"},
		from:  "open-mpi/ompi errhandler_predefined.c",
	},
}
