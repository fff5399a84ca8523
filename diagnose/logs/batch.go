package logs

// What to do where a batch system ended a job.
const (
	moreTime   = "ask for more time, or write checkpoints and start again from the last one"
	moreMemory = "ask for more memory in the job's script, or use fewer DataLoader workers and less pinned memory"
)

// overMemory returns a row for the messages of a batch system that kills a job for its memory.
func overMemory(system, from string, words []string, form form) cause {
	return cause{id: "log.host-oom", grade: decisive, words: words, form: form,
		says: system + " ended the job on {where}, since it used more memory than it may[: {used}, limit {limit}]",
		do:   moreMemory, from: from}
}

// overTime returns a row for the messages of a batch system that ends a job at its time limit.
func overTime(system, from string, words []string, form form) cause {
	return cause{id: "log.batch-time", grade: decisive, words: words, form: form,
		says: system + " ended the job at its time limit[: {used}, limit {limit}]", do: moreTime, from: from}
}

// endedBy returns a row for other ends of jobs that a batch system reports.
func endedBy(system, record string, words []string, form form) cause {
	return cause{id: "log.batch-ended", grade: open, soft: true, words: words, form: form,
		says: system + " ended the job[: {why}]",
		need: []string{"who or what ended it: " + record, "the end of the job's own output"}}
}

// batchCauses are ends of jobs by PBS, Torque, LSF, Grid Engine, HTCondor and Kubernetes.
var batchCauses = []cause{
	overTime("PBS", "PBS mom_over_limit", []string{"PBS: job killed: ", "Job exceeded its "},
		re(`job killed: (?:walltime|cput) (?P<used>\S+) exceeded limit (?P<limit>\S+)|`+
			`^Job exceeded its (?:walltime|cpu time) limit`)),
	overMemory("PBS", "PBS mom_over_limit", []string{"PBS: job killed: ", "Job exceeded a memory resource limit"},
		re(`job killed: p?v?mem (?P<used>\S+) exceeded limit (?P<limit>\S+)|^Job exceeded a memory`)),
	endedBy("PBS", "tracejob JOB, or qstat -xf JOB", []string{"PBS: job killed: ", "PBS: job killed by "},
		re(`PBS: job killed:? (?P<why>.+)`)),
	overTime("LSF", "LSF bhist", []string{"TERM_RUNLIMIT: ", "TERM_CPULIMIT: ", "TERM_DEADLINE: "},
		re(`^TERM_(?:RUNLIMIT|CPULIMIT|DEADLINE): `)),
	overMemory("LSF", "LSF bhist", []string{"TERM_MEMLIMIT: ", "TERM_SWAP: "}, re(`^TERM_(?:MEMLIMIT|SWAP): `)),
	endedBy("LSF", "bhist -l JOB", []string{"TERM_"}, re(`^TERM_[A-Z_]+: (?P<why>.+)`)),
	overTime("Grid Engine", "sge msg_execd.h", []string{"exceeded hard wallclock time", "exceeds job hard limit \"h_"},
		re(`exceeded hard wallclock time|`+
			`hard limit "h_(?:cpu|rt)".*\((?P<used>[\d.]+\w*) > limit:(?P<limit>[\d.]+\w*)\)`)),
	overMemory("Grid Engine", "sge msg_execd.h", []string{"exceeds job hard limit \"h_"},
		re(`hard limit "h_(?:vmem|rss|data)".*\((?P<used>[\d.]+\w*) > limit:(?P<limit>[\d.]+\w*)\)`)),
	endedBy("Grid Engine", "qacct -j JOB", []string{"exceeds job hard limit \"h_", "qmaster enforced h_rt"},
		re(`(?P<why>hard limit "h_\w+"|qmaster enforced .+)`)),
	overMemory("YARN", "hadoop ContainersMonitorImpl", []string{"exceeding memory limits", "exceeding physical " +
		"memory limits",
		"beyond physical memory limits", "the 'PHYSICAL' memory limit"},
		re(`(?:memory limits?\.|usage:|memory limits?\. Current usage:) (?P<used>[\d.]+ ?[KMGT]?B) of (?P<limit>[\d.]+ `+
			`?[KMGT]?B)`+
			`|memory limits?`)),
	overTime("HTCondor", "condor job events", []string{"The job exceeded allowed "},
		re(`exceeded allowed (?:execute|job) duration of (?P<limit>\S+)`)),
	overMemory("HTCondor", "condor vanilla_proc.cpp", []string{"Job has gone over "},
		re(`(?:Error from (?:\S*@)?(?P<node>[\w.-]+): )?Job has gone over (?:cgroup )?memory limit of `+
			`(?P<limit>\d+ megabytes)(?:.*usage: (?P<used>\d+ megabytes))?`)),
	endedBy("HTCondor", "condor_history -l JOB, or condor_q -hold", []string{"Job was held.", "Job was aborted",
		"Job was evicted.", "via condor_rm"},
		re(`^\d{3} \(.*(?P<why>Job was (?:held|aborted|evicted).*)|(?P<why>via condor_rm.*)`)),
	overTime("Kubernetes", "kubernetes activeDeadlineSeconds", []string{"active longer than specified deadline",
		"active on the node longer than the specified deadline"}, nil),
}

// cancelCauses are ends of steps while the log shows that data are still being prepared.
var cancelCauses = []cause{{
	id: "log.slurm-cancelled", grade: ended, with: "data.prepared",
	words: []string{"*** JOB", "*** STEP", "CANCELLED AT"},
	form:  re(`CANCELLED`),
	test:  func(v map[string]string) bool { return v[latestFact] != "100" },
	later: []string{" task ", ": task "},
	more:  re(`srun: (?:debug|error): +(?:[\w.-]+: )?task (?P<task>\d+)(?::| done)`),
	says: "Slurm cancelled the job while a process was preparing its data ({latest} %), for which the others wait in a " +
		"collective up to the timeout of the process group (NCCL 10 minutes, else 30)[; task {task} ended first]",
	need: []string{"the output of the tasks that ended first: a timeout in a collective, or an error of their own",
		"how long the preparation takes: do it once before the job, or raise the timeout (init_process_group(timeout=…))",
		"who cancelled it: sacct -j JOB --format=State,ExitCode,Comment"},
	from: "slurm, slurmstepd",
}}

// slurmNotes are errors after which Slurm goes on.
var slurmNotes = []cause{
	{
		id: "log.end-noise", grade: harmless, words: []string{" task_prolog [", "TMPDIR", "xcpuinfo_hwloc_topo_load"},
		form: re(`\berror: (?:Could not run (?:slurm|user) task_prolog \[[^\]]*\]: |TMPDIR \[[^\]]*\] is not writeable\s*$|` +
			`Unable to create TMPDIR \[[^\]]*\]: |Setting TMPDIR to /tmp\s*$|` +
			`xcpuinfo_hwloc_topo_load: failed \(load will be required)`),
		says: "Slurm goes on after it",
		from: "slurm slurmstepd task.c, xcpuinfo.c",
	},
}
