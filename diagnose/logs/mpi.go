package logs

// mpiCauses are errors of Open MPI, PRRTE, PMIx, MPICH, Intel MPI and ssh.
var mpiCauses = []cause{
	{
		id: "log.hostfile-slots", grade: decisive,
		words: []string{"not enough slots available in the system", "More processes requested than permitted"},
		says:  "the hosts have fewer slots than processes were asked for",
		do:    "write HOST:N or slots=N for each host, N being its number of GPUs; or ask for fewer processes",
		from:  "open-mpi/ompi",
	}, {
		id: "log.ssh-failure", grade: decisive,
		words: []string{"Host key verification failed", "Permission denied (publickey", "non-zero exit status 255",
			"ssh exited with exit code 255", "REMOTE HOST IDENTIFICATION HAS CHANGED", "Permission denied, please try again",
			"ssh_exchange_identification: ", "kex_exchange_identification: "},
		form: re(
			`[Cc]ommand '\[?'?ssh (?:\S+ )*?(?P<node>[\w.-]+) hostname|ssh|^(?:\S*@)?(?P<node>[\w.-]+): (?:ssh|Permission)|` +
				`verification|Permission|IDENTIFICATION|identification`,
		),
		says: "ssh without a password does not work to {where}",
		do:   "set up ssh keys to every host of the job, the launching one included: ssh -o BatchMode=yes HOST true",
	}, {
		id: "log.ssh-unreachable", grade: family, words: []string{"ssh: connect to host"},
		form: re(`connect to host (?P<node>[\w.:-]+) port (?P<port>\d+): (?P<why>.*)`),
		says: "ssh cannot connect to {where} port {port}: {why}",
		do:   "check that the host runs, that sshd listens on that port, and that no firewall is between",
		need: []string{"ssh -v HOST true from the launching node"},
	}, {
		id: "log.wrong-interface", grade: decisive, words: []string{"connect() to "},
		form: re(`connect\(\) to (?P<addr>172\.17\.\d+\.\d+|192\.168\.122\.\d+):\d+ failed`),
		says: "MPI calls {addr}, an address of a bridge that each host has for itself",
		do:   "leave these interfaces out: --mca btl_tcp_if_exclude lo,docker0,virbr0 (and oob_tcp_if_exclude)",
		from: "open-mpi/ompi",
	}, {
		id: "log.mpi-tcp", grade: open,
		words: []string{"Open MPI failed to TCP connect", "unable to complete a TCP connection", "connect() to ",
			"unable to connect from", "HYDU_sock_connect", "HYD_sock_connect", "lost communication with a remote daemon",
			"ORTE has lost communication", "PRTE has lost communication", "No route to host", "Network is unreachable"},
		form: re(`(?:[Ff]ailed to TCP|unable to|failed|HYD|lost communication|No route|unreachable)`),
		not:  []string{"NCCL INFO", "retry"},
		says: "{who} cannot connect to another host: a firewall, a wrong interface, or that host has failed",
		need: []string{"the interfaces and routes of both hosts (ip -br addr, ip route)",
			"is TCP open between the hosts on all ports: launch check"},
	}, {
		id: "log.mpi-program-missing", grade: decisive,
		words: []string{"unable to find the specified executable", "could not find an executable",
			"unable to launch the specified application", "execvp error on file", "orted: command not found",
			"prted: command not found", "orted: No such file", "hydra_pmi_proxy: No such file"},
		form: opt(`(?P<tool>orted|prted|hydra_pmi_proxy)|on file (?P<tool>\S+)`),
		says: "a program that MPI starts is missing on a node[: {tool}]",
		do:   "install the same MPI and program at the same path on all nodes (mpirun --prefix DIR)",
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
		id: "log.mpi-daemon", grade: open,
		words: []string{"unable to reliably start one or more daemons", "daemon on the following node",
			"unable to run proxy", "PMIX ERROR", "PMIX_ERR", "orte_init failed", "MPI_Init", "OPAL ERROR",
			"PMI2_Init failed", "ompi_mpi_init: "},
		form: re(`unable|ERROR|ERR_|failed|daemon on|fail`),
		says: "MPI could not start on all nodes: ssh, a missing MPI on a node, or no way back to the first node",
		need: []string{"ssh HOST orted --version from the launching node",
			"the versions of MPI and PMIx on all nodes", "a run with --mca plm_base_verbose 10"},
	}, {
		id: "log.mpi-abort", grade: ended,
		words: []string{"MPI_ABORT was invoked on rank", "application called MPI_Abort", "*** An error occurred in MPI_"},
		form:  opt(`rank (?P<rank>\d+)|process (?P<rank>\d+)`),
		says:  "{who} aborted the job",
		need:  []string{"the output of that rank"},
	},
}

// hostCauses are errors of Slurm, Kubernetes and the host.
var hostCauses = []cause{
	{
		id: "log.host-oom", grade: decisive,
		words: []string{
			"OOMKilled",
			"oom-kill event",
			"oom_kill event",
			"Out of memory: Killed process",
			"Out of memory: Kill process",
			"Memory cgroup out of memory",
			"Out Of Memory",
			"OOM Killed",
			"exceeded memory limit",
		},
		form: opt(`srun: error: (?P<node>[\w.-]+): tasks? (?P<rank>\d+)`),
		not:  []string{"CUDA", "GPU"},
		says: "the kernel killed a process on {where}, since the host or the container ran out of memory",
		do:   "give the job more memory (--mem, limits.memory), or use fewer DataLoader workers and less pinned memory",
	}, {
		id: "log.disk-full", grade: decisive, words: []string{"No space left on device", "Disk quota exceeded"},
		not:  []string{"shared memory", "/dev/shm", "posix_fallocate", "torch_"},
		says: "a disk of {where} is full",
		do:   "free space, or write elsewhere: df -h on that node",
	}, {
		id: "log.no-gpu-slots", grade: decisive,
		words: []string{"Insufficient nvidia.com/gpu", "Insufficient cpu", "Insufficient memory"},
		says:  "Kubernetes has no node with enough free resources for a pod",
		do:    "kubectl describe pod shows which resource is missing",
	}, {
		id: "log.image-pull", grade: decisive, words: []string{"ErrImagePull", "ImagePullBackOff"},
		says: "a node cannot pull the image of {who}",
		do:   "check the image's name and the pull secret: kubectl describe pod",
	}, {
		id: "log.slurm-time", grade: decisive, words: []string{"DUE TO TIME LIMIT", "DUE to TIME LIMIT"},
		says: "Slurm ended the job at its time limit",
		do:   "ask for more time (--time)",
	}, {
		id: "log.slurm-node", grade: decisive, words: []string{"DUE TO NODE FAILURE", "NODE FAILURE"},
		form: re(`NODE FAILURE`),
		says: "Slurm ended the job, since a node failed",
		do:   "look at sinfo -R and leave that node out (--exclude)",
	}, {
		id: "log.slurm-cancelled", grade: ended, words: []string{"*** JOB", "*** STEP", "CANCELLED AT", "PREEMPTION"},
		form: re(`CANCELLED`),
		says: "Slurm cancelled the job",
		need: []string{"who cancelled it: sacct -j JOB --format=State,ExitCode,Comment"},
	}, {
		id: "log.k8s-api", grade: open, words: []string{"dial tcp "},
		form: re(`dial tcp \S+ (?P<why>.*)`),
		not:  []string{"retry", "seen "},
		says: "{who} cannot connect: {why}",
		need: []string{"does the pod have a sidecar (Istio) that starts later", "the network policies of the namespace"},
	}, {
		id: "log.name-lookup", grade: open, words: []string{"*** Can't find "},
		says: "a look-up of a name failed on {where}, which may be the tool's fault",
		need: []string{"the same look-up by getent hosts in another image"},
	},
}
