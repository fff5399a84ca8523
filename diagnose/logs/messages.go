package logs

// messageCauses are calls of MPI that fail by what the program asks for, and starts that MPI's launcher gives up.
var messageCauses = []cause{
	{
		id: "log.mpi-cma", grade: maybe, soft: true, warns: true, words: []string{"ead -1, expected ",
			"rite -1, expected "},
		form: re(`(?:ead|rite) -1, expected \d+, errno ?= ?(?P<code>1|13)\b`), // with 3 the other process has ended
		says: "Open MPI of {who} may not read the memory of another rank of its host (process_vm_readv, errno {code}), and " +
			"copies in another way, where it can: the container forbids it (--cap-add=SYS_PTRACE permits it, --mca " +
			"btl_vader_single_copy_mechanism none or, with Open MPI 5, --mca smsc ^cma goes without), or the ranks are in " +
			"different containers or of different users",
		need: []string{"does the job go on after it: the end of the output of all ranks",
			"cat /proc/sys/kernel/yama/ptrace_scope of that host, and are its ranks in one container"},
		from: "open-mpi/ompi btl_vader_get.c, smsc_cma_module.c",
	},
	{
		id: "log.mpi-truncated", grade: family, words: []string{" truncated; "},
		form: re(`(?:Message from rank (?P<peer>\d+) and tag (?P<tag>-?\d+)|[Mm]essage) truncated; (?P<has>\d+) bytes ` +
			`received but buffer size is (?P<room>\d+)`),
		says: "{who} got a message that is longer than its buffer ({has} bytes[ from rank {peer}] for {room}): the ranks " +
			"do not agree on its size, or it is another message than the one expected",
		do: truncatedDo, need: truncatedNeed, from: "pmodels/mpich",
	}, {
		id: "log.mpi-truncated", grade: family, wraps: true, words: []string{"MPI_ERR_TRUNCATE", ": Message truncated, " +
			"error"},
		form: opt(`Fatal error in P?(?P<call>MPI_\w+)`),
		says: "{who} got a message that is longer than its buffer[, in {call}]: the ranks do not agree on its size, or it " +
			"is another message than the one expected",
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
			"host, on a file system that is not mounted noexec, and built for its CPU",
		need: []string{"ls -l and file of it on that host"},
		from: "open-mpi/ompi odls_default",
	}, {
		id: "log.mpi-component", grade: decisive, soft: true, words: []string{"_base_open failed", "_base_select failed"},
		form: re(`^\s*(?P<lib>pmix|opal|orte|prte|ompi|mca)_(?P<frame>\w+?)_base_(?:open|select) failed\s*$`),
		says: "{lib} of {who} has no component for its framework {frame}: the one that the environment names is not " +
			"installed there, or MPI was moved after it was built",
		do: "unset the variable that names it (env | grep _MCA_), or install it on that host; a moved MPI needs " +
			"OPAL_PREFIX, and a moved PMIx PMIX_PREFIX",
		from: "open-mpi/ompi, openpmix",
	}, {
		id: "log.mpi-pml", grade: family, words: []string{" selected pml "},
		form: re(pmlForm + ` (?P<other>\w+)`),
		says: "the ranks of MPI choose different ways for their messages (PML): {own} on {where}, {other} on {host}",
		do: "name one for all ranks (mpirun --mca pml {own}, or OMPI_MCA_pml={own}); compare ompi_info | grep -i pml, " +
			"ucx_info -d and ibv_devinfo of both hosts: one has no such device, another build of MPI, or no room for UCX",
		need: []string{"a run with --mca pml_base_verbose 100: why each rank chooses", "ucx_info -d of both hosts"},
		from: "open-mpi/ompi pml_base_select.c",
	}, {
		id: "log.mpi-pml", grade: family, words: []string{" selected pml "},
		form: re(pmlForm + `\s*$`),
		says: "MPI on {where} chooses {own} for its messages (PML), and gets no choice from a rank on {host}: the " +
			"PMIx that the ranks use does not pass it on, or the ranks choose differently",
		do: "start it with the mpirun of the same MPI, or with srun --mpi=pmix where Slurm has the PMIx that this MPI " +
			"was built " +
			"for (ompi_info | grep -i pmix, srun --mpi=list); PMIX_MCA_gds=hash and --mca pml {own} on all hosts show which",
		need: []string{"a run with --mca pml_base_verbose 100", "the versions of MPI and PMIx on both hosts, and srun " +
			"--mpi=list"},
		from: "open-mpi/ompi pml_base_select.c",
	}, {
		id: "log.mpi-spawn", grade: family, words: []string{"MPI_ERR_SPAWN"},
		says: spawnSays, do: spawnDo, need: spawnNeed, from: "MPI standard, MPI_Comm_spawn",
	}, {
		id: "log.mpi-spawn", grade: family, with: "mpi.spawn", words: []string{"MPI_ERR_UNKNOWN", "MPI_ERR_INTERN",
			"MPI_ERR_OTHER"},
		form: re(`(?P<err>MPI_ERR_\w+)`),
		says: spawnSays, do: spawnDo, need: spawnNeed, from: "mpi4py futures/_lib.py",
	}, {
		id: "log.mpi-version-mismatch", grade: family, words: []string{"mpi/pmix: ERROR: Bad request from "},
		form: re(`pmixp_\w+\.c:.*Bad request from (?P<host>[\w.-]+): (?P<why>nspace .* asked for -\d+)`),
		says: "the PMIx plugin of Slurm gets a request that it does not know, from {host} ({why}): the program uses a " +
			"newer PMIx than Slurm, as a rule",
		do: "build MPI with the PMIx that Slurm was built with (srun --mpi=list, ompi_info | grep -i pmix), or start " +
			"with mpirun, or with srun --mpi=pmi2",
		need: []string{"the versions of PMIx of the program and of Slurm", "srun --mpi=list"},
		from: "slurm mpi/pmix pmixp_dmdx.c",
	}, {
		id: "log.mpi-version-mismatch", grade: family, words: []string{"description in business card"},
		form: re(`Missing (?P<what>\w+) or invalid host/port description in business card`),
		says: "MPI of {who} gets no address of another rank by PMI (no {what} in its \"business card\"): the MPI of the " +
			"program, as in a container, does not fit the launcher outside, or the ranks use different networks",
		do: "start it with the mpirun of the same MPI and version as in the program or container (ldd), or with srun " +
			"and the " +
			"PMI of that MPI (--mpi=pmi2 for MPICH and Intel MPI); FI_PROVIDER=tcp on all ranks shows whether the network is it",
		need: []string{"mpirun --version outside, and ldd of the program inside of the container",
			"srun --mpi=list, where Slurm starts it"},
		from: "pmodels/mpich errnames.txt",
	}, {
		id: "log.mpi-daemon", grade: ended, words: []string{"(!closed) failed", "assert (!closed)"},
		form: re(`\(!closed\)`),
		says: "mpiexec lost its proxy on a host: that host has no such working folder, does not start it, or ended it",
		need: []string{"for each host of the job that wrote nothing: ssh HOST ls of the working folder, and ssh HOST true",
			"mpiexec -verbose: which proxy connects, and which ends", "mpiexec --version on each host: the same MPI"},
		from: "pmodels/mpich hydra pmiserv_cb.c",
	},
}

const (
	spawnSays = "MPI cannot start further processes from {who} (MPI_Comm_spawn)"
	spawnDo   = "start all ranks at once, so that none is spawned: mpirun -n N python -m mpi4py.futures, " +
		"TensorRT-LLM by " +
		"trtllm-llmapi-launch or mpirun -n 1; below srun unset SLURM_* and PMI*. With Open MPI the hosts need free " +
		"slots (--host HOST:N); a run with another version of it shows whether that is it"
)

var spawnNeed = []string{"mpirun --version and how the program was started (mpirun, srun, alone)",
	"env | grep -E 'OMPI|PMIX|SLURM' of that process", "the lines of MPI before this one"}

// pmlForm is how Open MPI reports that another rank has chosen another PML.
const pmlForm = `^(?:\S*: )?(?:\[(?P<node>[A-Za-z][\w.-]*?)(?::\d+)?\] )?.*\] selected pml (?P<own>\w+), ` +
	`but peer \[\S* on (?P<host>\S+) selected pml`

// messageFacts are calls that these causes need.
var messageFacts = []cause{
	{id: "mpi.spawn", grade: fact, frame: true, words: []string{".Spawn("}},
	{id: "mpi.spawn", grade: fact, words: []string{".Spawn(", "MpiPoolSession", "MPIPoolExecutor",
		"spawn MPI processes", "MPI_Comm_spawn"}},
}

const truncatedDo = "compare the counts and types of the send and the receive in the program, and the input that " +
	"each rank reads; a debugger or a build with checks shows the call"

var truncatedNeed = []string{"the stack of that rank at this call", "the sizes that both ranks compute"}
