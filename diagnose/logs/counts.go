package logs

import "strings"

const worldDo = "start as many processes as the model or the engine was made for (mpirun -n N, torchrun " +
	"--nproc-per-node N, trtllm-llmapi-launch), or build or configure it for the number that runs. Where each process " +
	"counts 1, the launcher's variables do not reach them, or it is called without a launcher"

// A number that another one must divide: with its name before it, or without.
const notDivisible = `(?:(?P<of>[A-Za-z][\w -]*?)[ =:]*\(?)?\b(?P<n>\d+)\)? (?:is not|isn't|not|must be|should be|` +
	`needs to be|has to be) (?:evenly )?divisible by (?P<by>[a-z][\w -]*?)?[ =:]*\(?(?P<m>\d+)\b`

// countCauses are numbers of processes, ranks and parts of a model that do not fit each other.
var countCauses = []cause{
	{
		id: "log.world-size-mismatch", grade: decisive, words: []string{"does not match torch "},
		form: re(`MPI (?P<what>world size|rank) (?P<a>\d+) does not match torch (?:world size|rank) (?P<b>\d+)`),
		says: "in one process MPI says {what} {a}, and torch {b}: it was started by mpirun, and torch took its numbers " +
			"from somewhere else",
		do: "give torch the numbers of MPI: RANK=$OMPI_COMM_WORLD_RANK, WORLD_SIZE=$OMPI_COMM_WORLD_SIZE, " +
			"LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK and one MASTER_ADDR, before init_process_group; or let one launcher " +
			"do all (deepspeed, torchrun, launch mpirun)",
		from: "DeepSpeed comm.py",
	}, {
		id: "log.world-size-mismatch", grade: family, words: []string{"orld size", "orld_size", "WORLD_SIZE", "mpi_size",
			"MPI size"},
		form: re(`(?P<what>(?:\w+ )?(?i:world[ _]size|mpi[ _]size))[ =:]*\(?(?P<a>\d+)\)? ?(?:!=|does not (?:match|equal)|` +
			`doesn't match|is not equal to|differs from|is different from|but (?:expected|got)|mismatch\w*|vs\.?) ?` +
			`(?:the )?(?P<other>[A-Za-z_][\w -]*?)?[ =:]*\(?(?P<b>\d+)\b`),
		test: func(v map[string]string) bool { return v["a"] != v["b"] },
		not:  []string{"heckpoint", "INFO", " * ", "batch"},
		says: "the number of processes does not fit what {who} expects: {what} {a}, and {b}[ ({other})]",
		do:   worldDo, need: []string{"the command line that started the processes", "the sizes that the model or engine " +
			"was built for"},
		from: "TensorRT-LLM, vllm",
	}, {
		id: "log.world-size-mismatch", grade: family, words: []string{"umber of processes ", "umber of ranks ",
			"umber of workers ", "umber of GPUs ", "umber of devices ", "default world size "},
		form: re(`(?P<what>[Nn]umber of (?:processes|ranks|workers|GPUs|devices)) \(?(?P<a>\d+)\)? (?:does not match|` +
			`doesn't match|is not equal to|!=|must (?:be equal to|match|equal)) (?:the )?(?P<other>[A-Za-z_][\w -]*?)?[ =:]*` +
			`\(?(?P<b>\d+)\b|default (?P<what>world size) (?P<a>\d+), but found (?P<b>\d+) (?P<other>ranks)`),
		test: func(v map[string]string) bool { return v["a"] != v["b"] },
		not:  []string{"heckpoint", "INFO", " * ", "batch"},
		says: "the number of processes does not fit what {who} expects: {what} {a}, and {b}[ ({other})]",
		do:   worldDo, need: []string{"the command line that started the processes", "the sizes that the model or engine " +
			"was built for"},
		from: "torch device_mesh.py, TensorRT-LLM",
	}, {
		id: "log.parallel-sizes", grade: decisive, words: []string{"!= WORLD_SIZE(", "MPI worldSize is expected to be equal"},
		form: re(`(?:dims: )?(?P<product>[\w() *]+?) != WORLD_SIZE\((?P<b>\d+)\)|worldSize is expected to be equal to ` +
			`(?P<product>\S+)`),
		says: "the product of the parallel sizes of {who} ({product}) is not the number of processes[, {b}]",
		do: "start as many processes as that product (all nodes together), or change a parallel size so that the " +
			"product is the number of processes",
		from: "torchtitan parallel_dims.py, TensorRT-LLM executorImpl.cpp",
	}, {
		id: "log.parallel-sizes", grade: decisive, words: []string{"divisible by "},
		form: re(`(?P<of>[A-Za-z][\w -]*?)[ =:]*\(?\b(?P<n>\d+)\)? (?:is not|must be|should be) divisible by ` +
			`(?P<by>[a-z][\w -]*?)[ =:]*\(?(?P<m>\d+)\)? (?:times|\*|x) (?:the )?(?P<with>[a-z][\w -]*?)[ =:]*\(?(?P<k>\d+)`),
		says: "the {of} of {who}, {n}, is no multiple of the {by} x the {with} ({m} x {k})",
		do: "choose a {of} that is a multiple of {m} x {k}: the number of processes divides it, so a node more or less " +
			"changes it",
		from: "Megatron num_microbatches_calculator.py",
	}, {
		id: "log.device-index", grade: family, words: []string{"requested but only "},
		form: re(`(?P<want>\d+) (?:GPUs? |devices? )?requested but only (?P<has>\d+)`),
		says: "{who} asks for {want} GPUs, and its host shows {has}",
		do: "ask for as many as nvidia-smi -L shows to the job (-g of nccl-tests is for each process: with one process for " +
			"each GPU it is 1), or give the job more: --gres, --gpus, CUDA_VISIBLE_DEVICES",
		need: []string{"nvidia-smi -L and CUDA_VISIBLE_DEVICES as the job sees them"},
		from: "NVIDIA/nccl-tests common.cu",
	}, {
		id: "log.parallel-sizes", grade: family, with: "parallel.groups", words: []string{"divisible by "},
		form: re(notDivisible), test: uneven,
		says: "the number of processes[, {of}] {n} of {who} is no multiple of {m}[, the {by}], the size of a parallel " +
			"group [ (in {latest})]",
		do: "start a multiple of {m} processes, or lower that parallel size (expert, tensor, pipeline, sequence): their " +
			"product must divide the number of processes. Are all nodes in the job?",
		need: []string{"the parallel sizes, and the number of processes that were started"},
		from: "DeepSpeed utils/groups.py, Megatron parallel_state.py",
	}, {
		id: "log.parallel-sizes", grade: family, words: []string{"divisible by "}, form: re(notDivisible), test: uneven,
		not:  []string{"arning", "WARN", "INFO", "rounding", "padding", "padded", "will be"},
		says: "two sizes of {who} do not fit: {n}[, the {of},] is no multiple of {m}[, the {by}]",
		do: "compare {n} and {m} with the number of processes, the parallel sizes (tensor, pipeline, expert, sequence), " +
			"the batch sizes and the model's heads and layers: change one so that it divides the other",
		need: []string{"the parallel sizes and batch sizes, and the number of processes that were started"},
		from: "Megatron, DeepSpeed, vllm",
	},
}

// uneven says whether a number does not divide the other, and leaves the name of an exception out of their names.
func uneven(v map[string]string) bool {
	if strings.HasSuffix(v["of"], "Error") || strings.HasSuffix(v["of"], "Exception") {
		v["of"] = ""
	}
	n, m := number(v["n"]), number(v["m"])
	return m > 0 && n%m != 0
}

// groupForm are functions that divide the processes into groups.
const groupForm = `(?P<v>\w*(?:create_\w*parallel|initialize_\w*parallel\w*|` +
	`init_device_mesh|create_groups|initialize_mesh))\(`

var groupWords = []string{"_parallel(", "initialize_model_parallel", "init_device_mesh", "create_groups",
	"initialize_mesh"}

// countFacts are frames with such a function, also of tracebacks whose head the log does not have.
var countFacts = []cause{
	{id: "parallel.groups", grade: fact, frame: true, words: groupWords, form: re(groupForm)},
	{id: "parallel.groups", grade: fact, words: groupWords, form: re(`^\s{2,}.*?` + groupForm)},
}
