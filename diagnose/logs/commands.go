package logs

// commandCauses are command lines that mpirun or mpiexec does not accept, and failures of its parts to start.
var commandCauses = []cause{
	{
		id: "log.hostfile-not-found", grade: decisive, words: []string{"unable to open the hostfile", "unable to open the " +
			"specified hostfile", "unable to open host file: ", "hostfile could not be found"},
		form: opt(`(?:host ?file|could not be found): *(?P<file>[\w./~-]+)`),
		says: "mpirun of {who} cannot open its list of hosts[, {file}]",
		do: "give it by its whole path, and look whether it is there and readable on the host where mpirun runs (ls -l); a " +
			"container sees only folders that are mounted",
		from: "open-mpi/ompi help-hostfile.txt, pmodels/mpich hydra args.c",
	}, {
		id: "log.launch-argument", grade: decisive, words: []string{"unrecognized argument "},
		form: re(`(?:match_arg|parse_args)\b.*unrecognized argument (?P<arg>[\w-]+)`),
		says: "mpiexec of {who} (MPICH or Intel MPI) does not know the argument -{arg}",
		do: "is this mpiexec the one that is expected (which mpiexec; mpiexec --version)? Options of Open MPI (--mca, " +
			"--map-by, -x) are no options of MPICH; mpiexec -h lists its own",
		from: "pmodels/mpich hydra args.c",
	}, {
		id: "log.launch-argument", grade: decisive, words: []string{"No executable was specified on the "},
		form: re(`specified on the (?P<tool>\w+) command line`),
		says: "{tool} of {who} got no program to start: an option before it took its name, or a variable is empty",
		do:   "print the command (echo, set -x) and look at the option before the program: each option with its value",
		from: "openpmix/prrte help-prterun.txt",
	}, {
		id: "log.mpi-hosts", grade: decisive, words: []string{"There are no allocated resources for the application"},
		says: "mpirun of {who} has no host left for the program: its list of hosts and what --host, -H or the scheduler " +
			"gives have no host in common",
		do: "name the hosts as the list or the scheduler does (scontrol show hostnames; with and without the domain), and " +
			"look at --nolocal",
		from: "open-mpi/ompi help-orte-rmaps-base.txt",
	}, {
		id: "log.mpi-program-missing", grade: family, words: []string{"Unable to start a daemon on the local node"},
		says: "MPI of {who} was started without mpirun, and finds no orted (prted) that it can start: it is not installed " +
			"there, or MPI was moved",
		do: "start the program by the mpirun of the same MPI, or by srun --mpi=pmix; for a program alone set OPAL_PREFIX " +
			"to the folder of a moved MPI, and have orted in PATH",
		need: []string{"which orted prted, and ldd of the program, in the job's shell or container"},
		from: "open-mpi/ompi ess_singleton_module.c",
	}, {
		id: "log.mpi-daemon", grade: open, words: []string{"listener thread failed to start"},
		form: re(`PMIx server's listener`),
		says: "the server of PMIx of {who} does not start its listener",
		need: []string{"TMPDIR of that host: its room, its rights and the length of its path",
			"ulimit -u and ulimit -n as the job sees them"},
		from: "openpmix help-pmix-server.txt",
	}, {
		id: "log.mpi-daemon", grade: ended, words: []string{"one of the processes terminated badly", "to downstream stdin"},
		form: re(`^\[(?:mpiexec|proxy)[^\]@]*@(?P<node>[\w.-]+)\] HYD`),
		says: "a part of mpiexec, for another host, ended: ssh did not get there, or its proxy failed",
		need: []string{"the lines before, of ssh and of the proxies", "ssh HOST true for each host, without a password",
			"mpiexec --version on each host: the same MPI"},
		from: "pmodels/mpich hydra bscu_wait.c",
	}, {
		id: "log.launch-tool-missing", grade: decisive, words: []string{"parameter \"plm_rsh_agent\" was set to a path",
			"parameter \"plm_ssh_agent\" was set to a path"},
		says: "mpirun of {who} finds no ssh and no rsh, by which it starts the other hosts",
		do: "install ssh in the image of the host where mpirun runs (openssh-client), or name the program that does it: " +
			"--mca plm_rsh_agent PATH",
		from: "open-mpi/ompi help-plm-rsh.txt",
	}, {
		id: "log.shm-too-small", grade: family, words: []string{"unable to allocate shared memory"},
		form: re(`MPI\w*_[Ss]hm\w*\b.*unable to allocate shared memory`),
		says: "MPI of {who} cannot make its shared memory: /dev/shm is full or too small on {where}, as a rule",
		do: "raise /dev/shm (docker --shm-size=16g; in Kubernetes an emptyDir with medium: Memory on /dev/shm), and remove " +
			"files of ended runs there",
		need: []string{"df -h /dev/shm in the container while the job runs"},
		from: "pmodels/mpich errnames.txt",
	}, {
		id: "log.pmi-mismatch", grade: family, words: []string{"PMI2_Job_GetId", "PMI2_Init failed"},
		form: re(`PMI2_(?:Job_GetId|Init)\b.*(?:failed|returned [1-9]\d*)`),
		says: "MPI of {who} gets no job by PMI2: srun was called without it, or its library does not fit this MPI",
		do:   "start it with srun --mpi=pmi2 (srun --mpi=list shows what there is), or with the mpirun of that MPI",
		need: []string{"srun --mpi=list, and ldd of the program"},
		from: "pmodels/mpich",
	}, {
		id: "log.mpi-daemon", grade: maybe, soft: true, words: []string{"ORTE_ERROR_LOG: ", "PRTE ERROR: "},
		form: re(`(?:ORTE_ERROR_LOG|PRTE ERROR): (?P<why>[A-Z].*?) in file (?P<file>\S+)`),
		says: "a part of mpirun on {where} reports: {why} ({file})",
		need: []string{"the lines before this one, and what the program wrote", "the versions of MPI on all hosts",
			"a run with --mca plm_base_verbose 10"},
		from: "open-mpi/ompi, openpmix/prrte",
	},
}
