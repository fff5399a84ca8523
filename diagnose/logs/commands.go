package logs

// commandCauses are command lines that mpirun or mpiexec does not accept, and parts of it that do not start.
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
			"gives have none in common",
		do: "name the hosts as the list or the scheduler does (scontrol show hostnames; with and without the domain), and " +
			"look at --nolocal",
		from: "open-mpi/ompi help-orte-rmaps-base.txt",
	}, {
		id: "log.mpi-program-missing", grade: family, words: []string{"Unable to start a daemon on the local node"},
		says: "MPI of {who} was started without mpirun, and finds no orted (prted) that it can start: it is not installed " +
			"there, or MPI was moved",
		do: "start the program by the mpirun of the same MPI, or by srun --mpi=pmix; for a program alone set OPAL_PREFIX " +
			"to " +
			"the folder of a moved MPI, and have orted in PATH",
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
	},
}
