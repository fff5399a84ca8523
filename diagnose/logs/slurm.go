package logs

// transportErrors are reasons that say nothing of what was asked for.
var transportErrors = []string{"Socket timed out", "Zero Bytes", "redential", "Unable to contact", "Connection refused"}

// onNode is how srun names the node of a task that did not start.
const onNode = `failed on node (?P<node>[\w.-]+)`

// mungeTime returns a row for a time that Slurm writes after a credential of the wrong age.
func mungeTime(word, did string) cause {
	return cause{id: "log.munge", grade: family, soft: true, with: "munge.age", words: []string{word},
		form: re(word + `(?P<time>\w{3} \w{3} .+)`), says: "munge " + did + " the credential at {time}",
		do: "compare this time with the other one", from: "slurm, auth/munge"}
}

// schedulerCauses are errors with which Slurm, Kubernetes or a container engine refuse to start processes.
var schedulerCauses = []cause{
	{
		id: "log.slurm-network", grade: open, words: []string{"Task launch for "},
		form: re(onNode + `: (?P<why>Socket timed out on send/recv operation|Zero Bytes were transmitted or received)`),
		says: "Slurm gets no answer from its daemon (slurmd) on {where} to start a task: {why}",
		need: []string{"systemctl status slurmd munge of that node, its load and slurmd's log",
			"how many nodes start at once: MessageTimeout and TreeWidth of scontrol show config",
			"munge -n | ssh NODE unmunge between the controller and that node"},
		from: "slurm, srun",
	}, {
		id: "log.slurm-credential", grade: family, words: []string{"Credential data mismatch"},
		says: "a node cannot read Slurm's credential for the step: the versions of Slurm differ, as a rule",
		do:   "compare slurmd -V of that node with slurmctld -V, and install the same version of Slurm on all nodes",
		need: []string{"slurmctld -V, and slurmd -V of that node"},
		from: "slurm, cred/munge",
	}, {
		id: "log.slurm-credential", grade: decisive, words: []string{"Job credential expired", "Credential replayed"},
		form: opt(onNode),
		says: "Slurm's credential for the step is refused on {where}: the clocks of the nodes differ, or the start took " +
			"too long",
		do:   "compare date between the controller and that node; restart munge and slurmd",
		from: "slurm, slurmd",
	}, {
		id: "log.slurm-credential", grade: family, words: []string{"Invalid job credential"},
		form: opt(onNode),
		says: "Slurm's credential for the step is refused on {where}: munge's keys, the clocks or the versions of Slurm " +
			"differ",
		do: "compare date, slurmd -V and munge -n | ssh NODE unmunge between the controller and that node; restart " +
			"munge and slurmd",
		need: []string{"slurmd's log of that node: the line before says why", "slurmd -V and date of that node"},
		from: "slurm, slurmd",
	}, {
		id: "log.slurm-network", grade: open, wraps: true,
		words: []string{"Socket timed out on send/recv operation", "Zero Bytes were transmitted or received"},
		form:  opt(`\[\[?(?P<node>[\w.-]+)\]?:\d+\] failed: `),
		says:  "Slurm's programs do not reach each other, or do not trust each other[: {node} does not answer]",
		need: []string{"scontrol ping, and systemctl status slurmd munge of that node",
			"munge -n | ssh NODE unmunge between the controller and that node", "the slurmd's log of that node"},
		from: "slurm",
	}, {
		id: "log.slurm-step", grade: decisive,
		words: []string{"Unable to create step for job"},
		form:  re(`Unable to create step for job \S+: (?P<why>.+)`),
		not:   transportErrors,
		says:  "Slurm cannot start the step in its allocation: {why}",
		do:    "compare srun's options (nodes, tasks, --gres, --mem, --nodelist) with the allocation: scontrol show job",
		from:  "slurm, srun",
	}, {
		id: "log.slurm-config", grade: decisive, words: []string{"resolve_ctls_from_dns_srv: ",
			"fetch_config: DNS SRV", "_establish_config_source", "not establish a configuration source"},
		form: re(`_establish_config_source|fetch_config: DNS SRV|resolve_ctls_from_dns_srv|` +
			`^\w+: (?:error|fatal): .*configuration source`),
		says: "a program of Slurm finds no slurm.conf on {where}: neither a file, nor a controller to fetch it from (no " +
			"SRV record of DNS)",
		do: "copy the controller's slurm.conf to /etc/slurm of that node, or set SLURM_CONF or SLURM_CONF_SERVER; in a " +
			"container mount /etc/slurm and /run/munge",
		from: "slurm, slurm_conf.html configless",
	}, {
		id: "log.slurm-request", grade: decisive,
		words: []string{"Unable to allocate resources: ", "Batch job submission failed: ", "sbatch: error: "},
		form:  re(`^sbatch: error: (?P<why>[^B].+)|(?:allocate resources|submission failed): (?P<why>.+)`),
		not:   append([]string{"unge", "authentication error"}, transportErrors...),
		says:  "Slurm refuses the job: {why}",
		do: "compare the options of sbatch with scontrol show partition and sacctmgr show assoc user=$USER; for GPUs " +
			"(gres, --gpus) with what the nodes offer: sinfo -o \"%N %t %G\", and GresTypes of scontrol show config",
		from: "slurm, sbatch",
	}, {
		id: "log.slurm-launch", grade: decisive,
		words: []string{"CPU binding outside of job step allocation", "Unable to satisfy cpu bind request"},
		form:  opt(`failed on node (?P<node>[\w.-]+)`),
		says: "srun binds tasks to CPUs that the step does not have on {where}: as a rule the job was submitted from " +
			"within another job, whose SLURM_CPU_BIND* it has inherited",
		do: "unset SLURM_CPU_BIND SLURM_CPU_BIND_LIST SLURM_CPU_BIND_TYPE SLURM_CPU_BIND_VERBOSE before srun, or submit " +
			"from a login node; a list of --cpu-bind must name CPUs of the step (--cpu-bind=none goes without)",
		from: "slurm, task/affinity",
	}, {
		id: "log.slurm-spool", grade: decisive, words: []string{"slurm_script: No such file"},
		form: re(`execve\(\): (?P<dir>/\S*)/slurm_script: No such file`),
		says: "slurmd of {where} has lost the job's script, which it had written to {dir}: its spool folder was " +
			"cleaned, is full, or is on a file system that is gone",
		do: "leave that node out (--exclude); there look at df and the mount of SlurmdSpoolDir (scontrol show config), " +
			"which must not be a folder that a cleaner of /tmp empties, and restart slurmd",
		from: "slurm, slurmstepd",
	}, {
		id: "log.slurm-launch", grade: decisive, words: []string{"error: execve(): "},
		form: re(`execve\(\): (?P<file>\S+): (?P<why>Permission denied|Exec format error)`),
		says: "Slurm cannot execute {file} on {where}: {why}",
		do: "chmod +x {file}; it needs a first line such as #!/bin/bash, a file system that is not mounted noexec, and " +
			"for a binary the CPU that it was built for. Or start it by its interpreter: srun bash {file}",
		from: "slurm, slurmstepd",
	}, {
		id: "log.slurm-launch", grade: decisive, words: []string{"aunch failed: ", "Task launch for "},
		form: re(`(?:` + onNode + `|launch failed): (?P<why>Communication connection failure|Can't find an address.*|` +
			`Unable to contact \S+|Connection refused|No route to host)`),
		says: "Slurm does not reach its daemon (slurmd) on {where} to start a task: {why}",
		do: "on that node: systemctl status slurmd, and the firewall (SlurmdPort, 6818); scontrol show node and getent " +
			"hosts must give all nodes the same address for it. Leave it out until then (--exclude)",
		from: "slurm, srun",
	}, {
		id: "log.slurm-launch", grade: decisive,
		words: []string{"slurmstepd: error: execve()", "Task launch for ", "Application launch failed: ", " launch failed: "},
		form: re(`execve\(\): (?P<why>.+)|Application launch failed: (?P<why>.+)|task \d+ launch failed: (?P<why>.+)|` +
			`failed on node (?P<node>[\w.-]+): (?P<why>.+)`),
		not:  append([]string{"Unspecified error", "Plugin initialization failed"}, transportErrors...),
		says: "Slurm cannot start a task on {where}: {why}",
		do: "check that the program exists there, and that PATH is exported (--export), and that the options of tasks " +
			"and CPUs fit the node (scontrol show node)",
		from: "slurm, slurmstepd",
	}, {
		id: "log.slurm-launch", grade: decisive, wraps: true, words: []string{"Plugin initialization failed"},
		form: re(`launch failed: Plugin init|` + onNode + `: Plugin init`),
		says: "Slurm cannot start a task on {where}: a plugin of SPANK does not start there",
		do: "slurmd's log of that node has the plugin (spank: required plugin NAME) and its reason in the lines before; " +
			"correct it, or make it optional in plugstack.conf",
		from: "slurm, spank",
	}, {
		id: "log.container-start", grade: decisive, words: []string{"pyxis: couldn't mkdir ", "slurmd: couldn't mkdir "},
		form: re(`pyxis: (?:slurmd: )?couldn't mkdir (?P<dir>\S+): (?P<why>.+)`),
		says: "pyxis of {where} cannot make its folder {dir} ({why})",
		do: "on that node the folder above it must be there, of root (runtime_path of pyxis in plugstack.conf; /run is " +
			"empty after a boot): restart slurmd, with which pyxis makes it, or make it at boot (systemd-tmpfiles)",
		from: "NVIDIA/pyxis pyxis_slurmd.c, pyxis_slurmstepd.c",
	}, {
		id: "log.container-start", grade: decisive, words: []string{"pyxis: seccomp filter failed"},
		form: re(`seccomp filter failed: (?P<why>.+)`),
		says: "pyxis cannot set its filter of system calls on {where} ({why}): as a rule the kernel of that node is too " +
			"old for seccomp, or was built without it",
		do: "leave that node out, or update its kernel (uname -r; grep SECCOMP /boot/config-$(uname -r)); start without " +
			"the rights of root in the container (--no-container-remap-root), for which pyxis needs no filter",
		from: "NVIDIA/pyxis seccomp_filter.c",
	}, {
		id: "log.slurm-launch", grade: open, words: []string{"launch failed: Unspecified error"},
		form: opt(`failed on node (?P<node>[\w.-]+)`),
		says: "Slurm cannot start a task on {where}, and does not say why",
		need: []string{"slurmd's log of that node",
			"srun --mpi=list there, and a run with --mpi=none: is it the plugin for MPI"},
		from: "slurm, srun",
	}, {
		id: "log.slurm-pmix", grade: decisive,
		words: []string{"find the specified plugin name for mpi/", "annot find mpi plugin for mpi/"},
		form:  re(`plugin (?:name )?for (?P<plugin>mpi/\w+)`),
		says:  "Slurm on {where} has no plugin {plugin}: its file is not among Slurm's plugins",
		do: "choose one that srun --mpi=list shows (--mpi=pmi2), or start with mpirun; or install the package of " +
			"Slurm that has " +
			"mpi_pmix.so on all nodes (PluginDir of scontrol show config), or build Slurm with --with-pmix",
		from: "slurm, plugin_context_create",
	}, {
		id: "log.slurm-pmix", grade: decisive,
		words: []string{"can not load PMIx library", "load specified plugin name for mpi/"},
		form:  opt(`(?P<plugin>mpi/\w+)`),
		says:  "Slurm cannot load its plugin for MPI[, {plugin},] on {where}",
		do:    "install the PMIx library that this Slurm was built for on that node (srun --mpi=list), or choose --mpi=pmi2",
		from:  "slurm, mpi/pmix",
	}, {
		id: "log.slurm-pmix", grade: decisive, wraps: true, words: []string{"Cannot create context for mpi/"},
		form: opt(`(?P<plugin>mpi/\w+)`),
		says: "Slurm cannot load its plugin for MPI[, {plugin},] on {where}",
		do:   "install the PMIx library that this Slurm was built for on that node (srun --mpi=list), or choose --mpi=pmi2",
		from: "slurm, mpi/pmix",
	}, {
		id: "log.slurm-pmix-peers", grade: open,
		words: []string{"collective timeout seq=", "annot establish direct connection", "neighbor id: next "},
		form: re(`pmixp_\w+: (?P<node>[\w.-]+) \[\d+\].*(?:collective timeout|direct connection)|` +
			`neighbor id: next \d+:(?P<node>[\w.-]+)`),
		says: "the PMIx of Slurm did not hear from all nodes of the step: {who}",
		need: []string{"is TCP open on all ports between the slurmstepd of these nodes: launch check",
			"a run with SLURM_PMIX_DIRECT_CONN=false", "slurmd's log of these nodes"},
		from: "openpmix/openpmix#3098",
	}, {
		id: "log.slurm-address", grade: decisive,
		words: []string{"an't find address for host", "Unable to resolve \""},
		form: re(`[Cc]an't find address for host (?P<host>[\w.-]+)|` +
			`Unable to resolve "(?P<host>[\w.-]*[A-Za-z][\w.-]*)"(?:$|: (?:Unknown host|Name or service))`),
		says: "Slurm on {where} has no address for {host}",
		do:   "give {host} an address in DNS or /etc/hosts of all nodes, or NodeAddr in slurm.conf",
		from: "openpmix/openpmix#2786",
	}, {
		id: "log.munge", grade: family, soft: true, words: []string{"Expired credential", "Rewound credential"},
		says: "munge refuses a credential for its age: the clocks of the nodes differ[ by {apart}], as the lines ENCODED " +
			"and DECODED say",
		do:   "compare date on both nodes, and let chrony or ntpd set them; munge allows 5 minutes",
		need: []string{"date of both nodes, at the same time"},
		from: "slurm, auth/munge",
	}, {
		id: "log.munge", grade: decisive, soft: true, words: []string{"munge.socket"},
		form: re(`access "(?P<file>[^"]*munge\.socket[^"]*)": (?P<why>No such file or directory|Connection refused|` +
			`Permission denied)`),
		says: "munge does not answer on {where} ({file}: {why}): its daemon (munged) does not run there, or has another " +
			"socket",
		do: "on that node: systemctl enable --now munge, before slurmd (journalctl -u munge has the reason: the key, its " +
			"rights); in a container mount the folder of the socket; then restart slurmd",
		from: "munge, slurm auth/munge",
	}, mungeTime("ENCODED: ", "wrote"), mungeTime("DECODED: ", "read"), {
		id: "log.munge", grade: decisive, soft: true, wraps: true,
		words: []string{"Munge encode failed", "Munge decode failed", "munge.socket", "Invalid authentication credential",
			"If munged is up", "Protocol authentication error"},
		form: re(`[Mm]unge|authentication (?:credential|error)`),
		not:  []string{"(retrying", "Expired credential", "Rewound credential"},
		says: "Slurm's authentication (munge) does not work on {where}",
		do:   "look at systemctl status munge, the key and the clock of that node; in a container mount /run/munge",
		from: "slurm, auth/munge",
	}, {
		id: "log.slurm-controller", grade: decisive, soft: true, words: []string{"Unable to contact slurm controller ("},
		form: re(`Unable to contact slurm controller \((?P<why>(?:connect|send|receive|shutdown) failure)\)`),
		says: "Slurm's controller (slurmctld) does not answer {who} ({why}): it is down or restarts, or this node has no " +
			"way to it",
		do: "scontrol ping shows it: ask the administrators, or systemctl status slurmctld on its host; where it answers " +
			"on other nodes, look at the network of this one, and at SlurmctldHost in its slurm.conf",
		from: "slurm",
	}, {
		id: "log.slurm-controller", grade: decisive, soft: true,
		words: []string{"Unable to contact slurm controller", "Unable to confirm allocation for job",
			"slurm_load_jobs error: Unable"},
		says: "{who} cannot ask Slurm's controller for its allocation",
		do:   "run it on a node with a working slurm.conf, inside of the allocation; check SLURM_JOB_ID and scontrol ping",
		from: "slurm",
	}, {
		id: "log.slurm-busy", grade: family, soft: true, quiet: true,
		words: []string{"step creation temporarily disabled", "step creation still disabled"},
		form:  re(`Job (?P<job>\d+) step creation (?:temporarily|still) disabled`),
		says:  "the step waits for resources of its own job {job}: another step holds them",
		do:    "end the other step, or let both share: srun --overlap",
		need:  []string{"squeue --steps --job JOB"},
		from:  "slurm, srun",
	}, {
		id: "log.slurm-step", grade: decisive, words: []string{"are mutually exclusive"},
		form: re(`(?:srun|sbatch|salloc): fatal: (?P<why>(?:SLURM|SBATCH|SALLOC|--mem)\S*, .*mutually exclusive)`),
		says: "Slurm gets two requests for memory that contradict each other: {why}; as a rule one is of an outer job or " +
			"shell of Slurm, whose variables this one has inherited",
		do: "unset SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE before srun or sbatch, or submit from a login " +
			"node; within one job use only one of --mem, --mem-per-cpu and --mem-per-gpu (for srun also --mem=0)",
		from: "slurm, slurm_opt.c",
	}, {
		id: "log.slurm-gres", grade: decisive, words: []string{"gres.conf duplicate records for ", "gres.conf for "},
		form: re(`fatal: gres\.conf (?P<why>duplicate records for (?P<res>\w+))|` +
			`fatal: gres\.conf for (?P<res>\w+), (?P<why>some records have .*)`),
		says: "slurmd of {where} does not start: the records of {res} in gres.conf contradict each other ({why})",
		do: "in gres.conf give each record of {res} for that node a File= and a Type=; without these only one record is " +
			"permitted (AutoDetect=nvml needs no record); slurmd -G there shows what it reads; then systemctl restart slurmd",
		from: "slurm, gres.c",
	}, {
		id: "log.slurm-config", grade: decisive, words: []string{": fatal: "},
		form: re(`(?:slurm\w*(?:\[\d+\])?|srun|sbatch|salloc|squeue|sinfo|scontrol|sacct\w*): fatal: (?P<why>.+)`),
		says: "a program of Slurm does not start on {where}: {why}",
		do: "compare slurm.conf there with the controller's (names of nodes, SlurmctldHost); without a file the node needs " +
			"an SRV record of DNS or --conf-server",
		from: "slurm",
	}, {
		id: "log.container-start", grade: decisive, words: []string{"pyxis:     "},
		form: re(`pyxis: {4,}(?:\[ERROR\] |mkdir: |enroot-[\w-]+: |bash: )` +
			`(?P<why>.*(?:No such|denied|failed|cannot|not found).*)`),
		not:  []string{"Command not found: "},
		says: "the container engine of {where} fails: {why}",
		do: "look at the image (does it have the program that starts), at enroot.conf (folders that this user may " +
			"write), and at the folders to mount: they must exist on that node, and a mount of NFS may refuse root",
		from: "NVIDIA/pyxis",
	}, {
		id: "log.container-start", grade: decisive, words: []string{"FATAL:   "},
		form: re(`^FATAL: {2,}(?:container creation failed|[Ww]hile [\w ]+|could not open image \S+): (?P<why>.+)`),
		says: "apptainer or singularity cannot start the container on {where}: {why}",
		do: "on that node: is the image there and whole (apptainer inspect), is /dev/fuse there (modprobe fuse), do the " +
			"folders of --bind exist, and may users make user namespaces; a node of the same job that works shows what differs",
		from: "apptainer, singularity",
	}, {
		id: "log.container-start", grade: decisive, words: []string{"Error response from daemon: "},
		form: re(`Error response from daemon: (?P<why>.+)`),
		not: []string{"could not select device driver", "version mismatch", "No such container", "is not running",
			"running hook", "prestart hook"},
		says: "the container engine of {where} refuses: {why}",
		do:   "a device or folder that does not exist on the host, an image, or a setting of the daemon: do what it names",
		from: "moby",
	}, {
		id: "log.container-start", grade: decisive, words: []string{"[ERROR] Command not found: "},
		form: re(`Command not found: (?P<tool>[\w.-]+)`),
		says: "the container engine of {where} lacks the program {tool}",
		do:   "install {tool} on that node (nvidia-container-cli is of libnvidia-container-tools)",
		from: "NVIDIA/pyxis#101",
	}, {
		id: "log.container-start", grade: decisive, words: []string{"could not select device driver"},
		says: "the container engine of {where} cannot give a GPU: NVIDIA's container toolkit is missing, or not set up",
		do:   "install nvidia-container-toolkit there, run nvidia-ctk runtime configure --runtime=docker, restart docker",
		from: "moby daemon/devices.go",
	}, {
		id: "log.slurm-container", grade: decisive, words: []string{"container_g_join failed", "container_p_join: "},
		form: re(`container_g_join|open failed`),
		says: "Slurm's job_container plugin (tmpfs) does not work on {where}",
		do:   "look at slurmd's log of that node and at the folder of job_container.conf: mounted, writable, not cleaned",
		from: "slurm, job_container/tmpfs",
	}, {
		id: "log.container-start", grade: family,
		words: []string{"pyxis: container start failed", "pyxis: couldn't start container"},
		says:  "the container engine cannot start the container on {where}",
		do:    "look at the lines next to this one: the image's entrypoint, a mount, or NVIDIA's container toolkit",
		need:  []string{"enroot's log in the lines that follow"},
	}, {
		id: "log.container-start", grade: decisive, words: []string{"nvidia-container-cli: "},
		form: re(`nvidia-container-cli: (?P<why>.+)`),
		not:  []string{"version mismatch"},
		says: "NVIDIA's container toolkit cannot start the container on {where}: {why}",
		do:   "run nvidia-container-cli -k -d /dev/tty info on that node: the driver, a device or a library is missing",
	}, {
		id: "log.container-start", grade: decisive, wraps: true,
		words: []string{"OCI runtime create failed", "failed to create containerd task", "CreateContainerError",
			"RunContainerError"},
		not:  []string{"version mismatch", "running hook", "prestart hook"},
		says: "the container engine cannot start the container on {where}",
		do:   "look at the lines next to this one: the image's entrypoint, a mount, or NVIDIA's container toolkit",
	}, {
		id: "log.container-start", grade: family, quiet: true, wraps: true, words: []string{"running hook", "prestart hook"},
		form: re(`OCI runtime|containerd task|container process`),
		not:  []string{"version mismatch", "nvidia-container-cli: "},
		says: "the container engine of {where} cannot start the container: a hook fails, as of NVIDIA's container toolkit",
		do:   "look at the lines that follow, which are the hook's own, and run nvidia-smi on that node",
		need: []string{"the lines that follow", "nvidia-container-cli -k -d /dev/tty info on that node"},
		from: "runc",
	}, {
		id: "log.k8s-unschedulable", grade: decisive, soft: true,
		words: []string{"had untolerated taint", "didn't match Pod's node affinity", "didn't match node selector",
			"had taint {", "didn't find available persistent volumes", "unbound immediate PersistentVolumeClaims",
			"volume node affinity conflict"},
		not:  []string{"Insufficient"},
		says: "Kubernetes has no node that a pod may run on: taints, selectors or volumes exclude all",
		do: "compare the pod's nodeSelector and tolerations with kubectl get nodes --show-labels; look " +
			"at its volume claims",
	}, {
		id: "log.k8s-volume", grade: decisive, soft: true,
		words: []string{"Unable to attach or mount volumes", "MountVolume.SetUp failed", "MountVolume.MountDevice failed",
			"FailedAttachVolume", "MountVolume.NewMounter initialization failed"},
		form: opt(`volume "(?P<volume>[\w.-]+)"|unmounted volumes=\[(?P<volume>[\w., -]+)\]`),
		says: "Kubernetes cannot mount a volume[ ({volume})] into a pod",
		do: "kubectl describe pod, and kubectl get pvc,secret,configmap: the volume's source is missing " +
			"or in use elsewhere",
	}, {
		id: "log.k8s-sandbox", grade: decisive, soft: true,
		words: []string{"Failed to create pod sandbox", "FailedCreatePodSandBox"},
		form: re(`(?:failed to (?:setup|set up) network|error adding container to network|network plugin|\bCNI\b|\bcni\b)` +
			`[^:]*:? ?(?P<why>.*)`),
		says: "Kubernetes cannot make the network of a pod[: {why}]",
		do:   "look at the CNI plugins of that node (kubectl describe pod): no free address, or a plugin that does not run",
	}, {
		id: "log.k8s-sandbox", grade: decisive, soft: true, wraps: true,
		words: []string{"Failed to create pod sandbox", "FailedCreatePodSandBox"},
		says:  "Kubernetes cannot make the sandbox of a pod: its network, or the container engine of the node",
		do: "kubectl describe pod has the reason in the same event: the CNI plugins of that node (no free address, or a " +
			"plugin that does not run), a limit that is too low, or the container engine",
	}, {
		id: "log.k8s-refused", grade: decisive, words: []string{"is forbidden: "},
		form: re(`(?:pods?|jobs?)\S* .*is forbidden: (?P<why>.*)`),
		says: "Kubernetes refuses a pod: {why}",
		do:   "kubectl describe quota, and the policies of the namespace: ask for less, or have the quota raised",
	}, {
		id: "log.k8s-evicted", grade: decisive,
		words: []string{"The node was low on resource", "Pod ephemeral local storage usage exceeds", "node had condition: [",
			"Preempted by "},
		form: opt(`low on resource: (?P<what>[\w-]+)|had condition: \[(?P<what>Memory|PID)`),
		says: "Kubernetes has removed a pod[, {pod},] of the job from {where}[, which was low on {what}]",
		do:   "kubectl describe pod says which resource: raise its request, or give the pod a higher priority",
	}, {
		id: "log.k8s-restarts", grade: ended, soft: true,
		words: []string{"Back-off restarting failed container", "CrashLoopBackOff"},
		form:  opt(`failed container (?P<container>[\w.-]+)`),
		says:  "a container[ ({container})] of a pod ends again and again",
		need:  []string{"kubectl logs POD -c CONTAINER --previous", "kubectl describe pod: the last state of each container"},
	},
}
