package logs

import "net/netip"

// clusterCauses are faults of the cluster, and ends that a scheduler of a cluster wants.
var clusterCauses = []cause{
	{
		id: "log.slurm-credential", grade: decisive, words: []string{"Error generating job credential"},
		says: "Slurm's controller cannot make the credential of the step: its munge or its signing key does not work",
		do: "on the controller: systemctl status munge, munge -n | unmunge, and the key that slurm.conf names " +
			"(CredType, slurm.key); slurmctld's log has the reason",
		from: "slurm, slurmctld",
	}, {
		id: "log.slurm-prolog", grade: decisive, words: []string{"rolog fail", "rolog hung", "rolog error"},
		form: re(`(?:failed on node (?P<node>[\w.-]+): )?\b(?:(?:Job )?[Pp]rolog (?:failed|failure|hung|error))` +
			`(?:.*on node (?P<node>[\w.-]+))?`),
		not:  []string{"ask_prolog", "ask prolog"},
		says: "Slurm's prolog failed on {where}: a fault of the node or the cluster, not of the job",
		do:   "leave that node out (--exclude), and report it: slurmd's log there has the prolog's output (sinfo -R)",
		from: "slurm, slurmd",
	}, {
		id: "log.slurm-preempted", grade: decisive, again: true, words: []string{"DUE TO PREEMPTION", "DUE to PREEMPTION"},
		says: "Slurm ended the job to give its nodes to another one (preemption)",
		do:   "no fault of the program: submit it with --requeue, write checkpoints, or use a QOS that is not preempted",
		from: "slurm, slurmstepd",
	}, {
		id: "log.preempted", grade: family, again: true, words: []string{"pot interruption notice", "pot Interruption Notice",
			"nstance was preempted", "nstance is being preempted", "VM was preempted", "node was preempted",
			"TASK_STATE_PREEMPTED", "Metadata Service says termination is imminent",
			"node is being preempted"},
		says: "the machine or the job of {who} was preempted: the cloud or the scheduler took it back",
		do: "no fault of the program: write checkpoints and let it start again, or use machines or a priority that are not " +
			"preempted; the errors of the other processes follow from it",
		need: []string{"the events of the cloud or the scheduler at that time"},
		from: "AWS EC2 spot, GCE preemptible",
	}, {
		id: "log.preempted", grade: family, again: true, words: []string{"ower key pressed"},
		says: "the machine {where} was shut down from outside, by its power key: of a virtual machine by its cloud, as a " +
			"rule (preemption, maintenance, a person)",
		do: "no fault of the program: look at the events of the cloud at that time; write checkpoints and let it start " +
			"again, or use machines that are not preempted",
		need: []string{"the events of the cloud or the hypervisor at that time"},
		from: "systemd-logind",
	}, {
		id: "log.slurm-requeued", grade: decisive, again: true, words: []string{"DUE TO JOB REQUEUE", "DUE to JOB REQUEUE"},
		says: "Slurm ended the job to put it into the queue again (requeue): it was preempted, asked for that itself, or " +
			"an operator did",
		do: "no fault of the program: let it start from its last checkpoint; sacct -j JOB --duplicates shows the runs " +
			"before",
		from: "slurm, slurmstepd",
	}, {
		id: "log.slurm-unkillable", grade: open, words: []string{"DUE TO JOB NOT ENDING WITH SIGNALS"},
		form: re(`STEPD TERMINATED ON (?P<node>[\w.-]+) `),
		says: "processes of the job on {where} could not be killed when Slurm ended it (they wait in the kernel, as a rule " +
			"for storage or a GPU), and Slurm drains the node",
		need: []string{"ps -eo pid,stat,wchan:30,cmd | grep ' D' and dmesg of that node: what they wait for",
			"why the job was to end: sacct -j JOB --format=State,ExitCode,Comment"},
		from: "slurm, slurmstepd",
	}, {
		id: "log.slurm-cancelled", grade: open, words: []string{" DUE TO ", " DUE to "},
		form: re(`CANCELLED AT \S+ DUE (?:TO|to) (?P<why>[A-Z][A-Z ]*[A-Z])`),
		says: "Slurm ended the job: {why}",
		need: []string{"sacct -j JOB --format=State,ExitCode,Reason,Comment", "scontrol show job JOB"},
		from: "slurm, slurmstepd",
	}, {
		id: "log.slurm-preempted", grade: family, again: true, soft: true, words: []string{": this job is preempted"},
		form: re(`Caught signal (?P<sig>\w+) on (?P<node>[\w.-]+): this job is preempted`),
		says: "the job was preempted on {where} (Slurm sent {sig}), and submitit puts it into the queue again",
		do: "no fault of the program: it starts from its last checkpoint; the number of restarts is limited " +
			"(slurm_max_num_timeout)",
		need: []string{"sacct -j JOB --duplicates --format=State,Start,End"},
		from: "facebookincubator/submitit job_environment.py",
	}, {
		id: "log.batch-time", grade: family, again: true, soft: true, words: []string{": this job is timed-out"},
		form: re(`Caught signal (?P<sig>\w+) on (?P<node>[\w.-]+): this job is timed-out`),
		says: "the job has reached its time limit on {where}, and submitit puts it into the queue again",
		do:   moreTime, need: []string{"sacct -j JOB --duplicates --format=State,Start,End"},
		from: "facebookincubator/submitit job_environment.py",
	}, {
		id: "log.slurm-address", grade: open, soft: true, words: []string{"Unable to resolve \""},
		form: re(`Unable to resolve "(?P<host>[^"]+)": (?P<why>.+)`),
		test: func(v map[string]string) bool {
			_, err := netip.ParseAddr(v["host"])
			return err == nil || v["why"] != "Unknown host" && v["why"] != "Name or service not known"
		},
		says: "the resolver of {where} itself failed for {host} ({why}): a fault of that node, which may pass",
		need: []string{"getent hosts {host} on that node, several times",
			"nsswitch.conf, nscd or sssd, and the name servers of that node (resolv.conf)",
			"ulimit -n and free memory of the daemon there"},
		from: "slurm, xgetaddrinfo",
	}, {
		id: "log.k8s-volume", grade: decisive, soft: true, words: []string{"MountVolume.NodeAffinity check failed"},
		form: re(`(?:kubelet, (?P<node>[\w.-]+) .*)?NodeAffinity check failed for volume "(?P<volume>[\w.-]+)"`),
		says: "the volume {volume} belongs to another node or zone than {where}, where the pod was put",
		do: "kubectl get pv {volume} -o yaml shows its node affinity: let the scheduler choose the node (no nodeName, " +
			"volumeBindingMode: WaitForFirstConsumer), or use a volume that all nodes mount",
		from: "kubernetes, kubelet operation_generator.go",
	}, {
		id: "log.k8s-queue", grade: waits, soft: true, words: []string{"insufficient unused quota"},
		form: re(`(?P<why>insufficient unused quota .*)`),
		says: "Kueue does not admit the job yet, since other jobs use the quota: {why}",
		need: []string{"kubectl get workloads -A, and kubectl describe clusterqueue: who uses the quota"},
		from: "kubernetes-sigs/kueue flavorassigner.go",
	}, {
		id: "log.k8s-queue", grade: decisive, soft: true,
		words: []string{"couldn't assign flavors to pod set", "ClusterQueue ", "LocalQueue "},
		form: re(`couldn't assign flavors to pod set (?P<set>[\w.-]+): (?P<why>.*)|` +
			`(?P<why>(?:ClusterQueue|LocalQueue) \S+ (?:doesn't exist|is inactive).*)`),
		not:  []string{"insufficient unused quota"},
		says: "Kueue does not admit the job: {why}",
		do: "kubectl describe clusterqueue: it must list each resource that the pods ask for, with enough quota and " +
			"flavors that fit; or ask for less",
		from: "kubernetes-sigs/kueue flavorassigner.go",
	}, {
		id: "log.k8s-gang", grade: waits, soft: true,
		words: []string{"tasks in gang unschedulable", "cannot find enough sibling pods"},
		form:  re(`(?P<why>\d+/\d+ tasks in gang unschedulable.*|cannot find enough sibling pods.*)`),
		says:  "the scheduler does not place the pods of the job, which start together or not at all: {why}",
		need: []string{"kubectl describe pod and podgroup: what one pod lacks", "the log of the scheduler of such groups",
			"does the scheduler's version fit this Kubernetes"},
		from: "volcano-sh/volcano, scheduler-plugins coscheduling",
	}, {
		id: "log.k8s-refused", grade: decisive, words: []string{"failed calling webhook "},
		form: re(`failed calling webhook "?(?P<hook>[\w./-]+)"?:? (?P<why>.*)`),
		says: "Kubernetes cannot ask the admission webhook {hook}, which must agree to each pod: {why}",
		do: "kubectl get pods of the namespace of that webhook's service: does it run, is it reachable from the API " +
			"server, is its certificate valid",
		from: "kubernetes apiserver",
	}, {
		id: "log.k8s-kind", grade: family, soft: true, words: []string{"could not find the requested resource (",
			"no matches for kind "},
		form: re(`find the requested resource \((?:post|put|patch) (?P<kind>[\w.-]+)\)|` +
			`no matches for kind "(?P<kind>\w+)" in version "(?P<version>[^"]+)"`),
		says: "Kubernetes here has no kind {kind}[ of version {version}]: what defines it (its CRD, with its " +
			"operator) is not " +
			"installed, or is of another version",
		do: "kubectl api-resources | grep -i NAME shows whether there is one, and of which version: install the " +
			"operator that " +
			"has it (PodGroup: Volcano, or scheduler-plugins), or choose the scheduler or version that is there",
		need: []string{"kubectl get crd, and kubectl api-resources", "the version of the operator that asks for it, " +
			"and its settings (as --gang-scheduler-name)"},
		from: "kubernetes apimachinery errors.go",
	}, {
		id: "log.k8s-refused", grade: decisive, words: []string{"admission webhook "},
		form: re(`admission webhook "?(?P<hook>[\w./-]+)"? denied the request: ?(?P<why>.*)`),
		says: "the admission webhook {hook} of the cluster refuses a pod: {why}",
		do: "do what its message asks for; where it does not concern this job, look at the log of the controller that " +
			"owns {hook}: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
		from: "kubernetes apiserver",
	}, {
		id: "log.k8s-refused", grade: decisive, words: []string{"is forbidden: User "},
		form: re(`is forbidden: (?P<why>User \S+ cannot .*)`),
		says: "an account of Kubernetes lacks a right: {why}",
		do:   "give the account a Role and a RoleBinding for it: kubectl auth can-i VERB RESOURCE --as ACCOUNT",
		from: "kubernetes apiserver, RBAC",
	}, {
		id: "log.k8s-refused", grade: decisive, words: []string{"violates PodSecurity", "security context constraint"},
		form: re(`is forbidden: (?P<why>violates PodSecurity.*|unable to validate against any security context.*)`),
		says: "Kubernetes refuses a pod for its rights: {why}",
		do: "leave out what it names (privileged, hostNetwork, hostPath, IPC_LOCK), or have the namespace allow it " +
			"(pod-security.kubernetes.io/enforce, an SCC)",
		from: "kubernetes apiserver, PodSecurity",
	},
}
