// Package launcher parses and rewrites the command line after launch. Each wrapped launcher (torchrun,
// mpirun, a plain program) has one file with what its line asks for (Parse) and what it becomes in a
// known world (Command). The package runs nothing and reads no file; the environment is a parameter.
package launcher

import (
	"cmp"
	"strconv"

	"launch/internal/setting"
)

// Kind names a wrapped launcher.
type Kind string

const (
	Torchrun Kind = "torchrun" // torchrun, torch.distributed.run, torch.distributed.launch, ft_launcher
	Mpirun   Kind = "mpirun"   // mpirun, mpiexec, orterun, prterun of Open MPI; mpiexec.hydra of MPICH and Intel MPI
	// a launcher whose own options have the node's place in the job
	Accelerate Kind = "accelerate" // accelerate launch
	Lightning  Kind = "lightning"  // fabric run, lightning run model
	DeepSpeed  Kind = "deepspeed"  // deepspeed
	VLLM       Kind = "vllm"       // vllm serve
	SGLang     Kind = "sglang"     // sglang.launch_server, sglang serve
	Ray        Kind = "ray"        // ray start, ray symmetric-run
	Program    Kind = "program"    // anything else: one process per node, or one of a node's tasks
)

// Ask is one setting of the line, and the option that it is from ("torchrun
// --nnodes", "PET_NNODES"). The zero Ask is unset.
type Ask struct {
	Value string `json:"value"`
	From  string `json:"from"`
	Set   bool   `json:"set"`
}

// Option is one option on a line, or one assignment of an env(1) prefix. Name is
// torchrun's destination ("nnodes"), mpirun's name without dashes, or env's variable.
type Option struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"` // "" for a flag
	At    int    `json:"at"`              // index in Argv of its first argument
	Words int    `json:"words"`           // its number of arguments: 1 for --opt=v
}

// PrefixEnv is what env(1) prefixes do to the environment of the command.
type PrefixEnv struct {
	Clear bool     `json:"clear,omitempty"` // env -i: the variables of the plan do not get through either
	By    string   `json:"by,omitempty"`    // what clears it: "env -i", "sudo without -E"
	Unset []string `json:"unset,omitempty"` // env -u
	Set   []Option `json:"set,omitempty"`   // env NAME=VALUE
}

// Line is a parsed command line.
type Line struct {
	Kind Kind `json:"kind"`
	// Starter is a known launcher of several nodes other than torchrun and mpirun ("torchx run").
	Starter string `json:"starter,omitempty"`
	// Spawns is a library of the script that starts the processes of its node itself: "Lightning".
	Spawns string   `json:"spawns,omitempty"`
	JAX    bool     `json:"jax,omitempty"` // the script calls jax.distributed.initialize() without arguments
	FT     bool     `json:"ft,omitempty"`  // ft_launcher: torchrun with no rendezvous but c10d
	Argv   []string `json:"argv"`          // as typed, prefixes included; never modified

	// At is the index in Argv of the launcher after all prefixes: torchrun, or the module of python -m.
	At int `json:"at"`
	// Rest is the index in Argv of the script (torchrun) or program; len(Argv) if there is none.
	Rest int `json:"rest"`
	// Program is the index in Argv of what the prefixes start: torchrun, the Python before a module or a
	// script, mpirun, a plain program; the module if uv runs one (At).
	Program int `json:"program,omitempty"`
	// Script is the index in Argv of the file that torchrun or a Python after all prefixes runs; 0: none.
	Script int `json:"script,omitempty"`

	// the prefix programs before At ("numactl", "nsys profile", "python -m")
	Prefix  []string  `json:"prefix,omitempty"`
	Env     PrefixEnv `json:"env,omitzero"`      // what the env prefixes do
	Options []Option  `json:"options,omitempty"` // torchrun's or mpirun's own, in order
	Unknown []int     `json:"unknown,omitempty"` // index in Argv of each option of torchrun that launch does not know
	// Meant is the option that one of Unknown may be, by its index in Argv.
	Meant   map[int]string `json:"-"`
	AsTyped bool           `json:"-"`                // --as program
	Inside  bool           `json:"inside,omitempty"` // --as torchrun: a script calls torchrun; PET_* is the only channel
	// Sealed is the container that starts torchrun without the variables of launch, of which that takes its place.
	Sealed string   `json:"sealed,omitempty"`
	Starts []int    `json:"starts,omitempty"` // mpirun: index of the start of each section, which a lone ":" ends
	Notes  []string `json:"notes,omitempty"`  // what launch could not parse, one line each
	Hint   string   `json:"hint,omitempty"`   // what to type instead where there are several nodes

	// Torchrun.
	NNodes      Ask `json:"nnodes,omitzero"` // "4" or "1:4"
	NProc       Ask `json:"nproc,omitzero"`  // "8", "auto", "gpu", "cpu"
	NodeRank    Ask `json:"node_rank,omitzero"`
	Backend     Ask `json:"backend,omitzero"`  // static, c10d, etcd, …
	Endpoint    Ask `json:"endpoint,omitzero"` // host[:port]
	RdzvID      Ask `json:"rdzv_id,omitzero"`
	RdzvConf    Ask `json:"rdzv_conf,omitzero"` // k=v,k=v
	MasterAddr  Ask `json:"master_addr,omitzero"`
	MasterPort  Ask `json:"master_port,omitzero"`
	LocalAddr   Ask `json:"local_addr,omitzero"`
	MaxRestarts Ask `json:"max_restarts,omitzero"`
	Standalone  Ask `json:"standalone,omitzero"`

	// Mpirun.
	MPI      string   `json:"-"`                 // the parameter of Of; the job has it too
	GPUs     int      `json:"-"`                 // of this node, for a line to type; 0: not known
	NP       Ask      `json:"np,omitzero"`       // -np, the sum over the sections; accelerate --num_processes
	Hostfile Ask      `json:"hostfile,omitzero"` // path
	Hosts    []string `json:"hosts,omitempty"`   // from --host, without :slots
}

// Each returns how many processes a node of a line to type has: one for each GPU of this node, or 8 as an example.
func (l Line) Each() int { return cmp.Or(l.GPUs, 8) }

// Unknown is the text for a value that only the rendezvous knows.
const Unknown = "<from rendezvous>"

// Number is a number that may not be known yet. The zero Number is unknown.
type Number struct {
	V     int  `json:"value"`
	Known bool `json:"known"`
}

// Known returns the Number that is n.
func Known(n int) Number { return Number{V: n, Known: true} }

// String returns the digits, or Unknown.
func (n Number) String() string {
	if !n.Known {
		return Unknown
	}
	return strconv.Itoa(n.V)
}

// World is the part of the agreed world that a command needs. In a dry run, values
// that only the rendezvous knows are Unknown.
type World struct {
	Job        string // the job's id
	RunID      string // of this epoch: unguessable, new for every start
	Nodes      Number
	NodeRank   Number // of this node, from 0
	MasterAddr string // an IP address of node rank 0
	MasterPort Number // reserved for the job's own store on node rank 0
	Addr       string // this node's address, as its peers use it
	Single     bool   // one node, and the line asks for no other number: the line and the environment stay as they are
	KeepRdzv   bool   // --keep-rdzv: torchrun's own rendezvous, with is_host, local_addr and read_timeout set right
	Several    bool   // the nodes have met: with roles, nodes that are not counted here, too
	Etcd       string // the endpoints of an etcd of the job, which needs no key; "": there is none
	Task       Task   // this process among several tasks of a node; zero: the node has one process
}

// Task is the place of one of several tasks on each node.
type Task struct{ Rank, Size, Local, LocalSize int }

// Change is one difference between the line as typed and as executed, with its reason, for --dry-run.
type Change struct {
	Old    string `json:"old,omitempty"` // as typed; "" when added
	New    string `json:"new,omitempty"` // as executed; "" when removed
	Reason string `json:"reason"`
}

// Exec is the argument vector to execute, and how the command's environment differs
// from the one that launch inherited. Set does not have the plan: the caller merges it.
type Exec struct {
	Argv    []string      `json:"argv"`
	Set     []setting.Var `json:"set,omitempty"`     // identity and rendezvous variables, each with reason and source
	Unset   []setting.Var `json:"unset,omitempty"`   // variables to remove, each with its reason and old value
	Changes []Change      `json:"changes,omitempty"` // of Argv
	// for the user, one line each: what was changed and where to read on
	Notes []string `json:"notes,omitempty"`
}
