package logs

// messageCauses are calls of MPI that fail by what the program asks for, and starts that MPI's launcher gives up.
var messageCauses = []cause{
	{
		id: "log.mpi-truncated", grade: family, words: []string{" truncated; "},
		form: re(`(?:Message from rank (?P<peer>\d+) and tag (?P<tag>-?\d+)|[Mm]essage) truncated; (?P<has>\d+) bytes ` +
			`received but buffer size is (?P<room>\d+)`),
		says: "{who} got a message that is longer than its buffer ({has} bytes[ from rank {peer}] for {room}): the ranks " +
			"do not " +
			"agree on its size, or it is another message than the one expected",
		do: truncatedDo, need: truncatedNeed, from: "pmodels/mpich",
	}, {
		id: "log.mpi-truncated", grade: family, wraps: true, words: []string{"MPI_ERR_TRUNCATE", ": Message truncated, " +
			"error"},
		form: opt(`Fatal error in P?(?P<call>MPI_\w+)`),
		says: "{who} got a message that is longer than its buffer[, in {call}]: the ranks do not agree on its size, or it " +
			"is " +
			"another message than the one expected",
		do: truncatedDo, need: truncatedNeed, from: "MPI standard, MPI_ERR_TRUNCATE",
	}, {
		id: "log.worlds-of-one", grade: family, soft: true,
		words: []string{"or more process", "or more MPI ", "or more ranks", "or more tasks", "must be run ", "must be " +
			"used with ",
			"must be started with ", "must be executed with ", "must run on ", "needs at least ", "at least two "},
		form: re(`(?i)\b(?:requires?|needs?|must (?:be (?:run|used|started|executed|launched)|run)(?: with| on| using)?) ` +
			`(?:at least |exactly |a minimum of |more than )?(?P<n>one|two|four|\d+)(?: or more)? (?:MPI )?` +
			`(?:process(?:es|ors?)?|ranks?|tasks)\b`),
		says: "{who} found fewer ranks than it needs ({n}): each process is a world of its own, or too few were started",
		do: "ask for more (-np, --ntasks); where enough were started, use the mpirun of the MPI that the program is linked " +
			"with (ldd), or srun with the right --mpi",
		need: []string{"ldd of the program, and mpirun --version", "the command line of the launcher"},
	}, {
		id: "log.not-executable", grade: family, with: "mpi.application", words: []string{"Error:    "},
		form: re(`^\s*Error: {4,}(?P<why>[A-Z].*)`),
		says: "mpirun cannot execute the program[ {fact}] on {where}: {why}",
		do: "give mpirun the path of the program: it must be a file, with the right to execute it (chmod +x), on each " +
			"host, " +
			"on a file system that is not mounted noexec, and built for its CPU",
		need: []string{"ls -l and file of it on that host"},
		from: "open-mpi/ompi odls_default",
	}, {
		id: "log.mpi-component", grade: decisive, soft: true, words: []string{"_base_open failed", "_base_select failed"},
		form: re(`^\s*(?P<lib>pmix|opal|orte|prte|ompi|mca)_(?P<frame>\w+?)_base_(?:open|select) failed\s*$`),
		says: "{lib} of {who} has no component for its framework {frame}: the one that the environment names is not " +
			"installed there, or MPI was moved after it was built",
		do: "unset the variable that names it (env | grep _MCA_), or install it on that host; a moved MPI needs " +
			"OPAL_PREFIX, " +
			"and a moved PMIx PMIX_PREFIX",
		from: "open-mpi/ompi, openpmix",
	}, {
		id: "log.mpi-daemon", grade: ended, words: []string{"(!closed) failed", "assert (!closed)"},
		form: re(`\(!closed\)`),
		says: "mpiexec lost its proxy on a host: that host has no such working folder, does not start it, or ended it",
		need: []string{"for each host of the job that wrote nothing: ssh HOST ls of the working folder, and ssh HOST true",
			"mpiexec -verbose: which proxy connects, and which ends", "mpiexec --version on each host: the same MPI"},
		from: "pmodels/mpich hydra pmiserv_cb.c",
	},
}

const truncatedDo = "compare the counts and types of the send and the receive in the program, and the input that " +
	"each rank " +
	"reads; a debugger or a build with checks shows the call"

var truncatedNeed = []string{"the stack of that rank at this call", "the sizes that both ranks compute"}
