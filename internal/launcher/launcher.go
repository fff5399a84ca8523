// Package launcher understands the command line that stands behind launch:
// one file for each wrapped launcher (torchrun, mpirun, a plain program), with
// what its line asks for (Parse) and what it becomes once the world is known
// (Command) side by side. It runs nothing and reads no file; the environment
// arrives as a parameter.
package launcher

import (
	"strconv"

	"launch/internal/setting"
)

// Kind names a wrapped launcher.
type Kind string

const (
	Torchrun Kind = "torchrun" // torchrun, python -m torch.distributed.run, torch.distributed.launch
	Mpirun   Kind = "mpirun"   // mpirun, mpiexec, orterun, prterun of Open MPI; mpiexec.hydra of MPICH and Intel MPI
	Program  Kind = "program"  // anything else: one process per node, or one of a node's tasks
)

// Ask is one thing that the line says about the job, and the words that said
// it ("torchrun --nnodes", "PET_NNODES"). Set is false where nothing did.
type Ask struct {
	Value string `json:"value"`
	From  string `json:"from"`
	Set   bool   `json:"set"`
}

// Option is one option as it stands on a line, or one assignment of an env(1)
// prefix.
type Option struct {
	Name  string `json:"name"`            // torchrun's destination ("nnodes"), mpirun's name without dashes, env's variable
	Value string `json:"value,omitempty"` // "" for a flag
	At    int    `json:"at"`              // index in Argv of its first word
	Words int    `json:"words"`           // how many words it takes: 1 for --opt=v
}

// PrefixEnv is what env(1) prefixes do to the environment of the command.
type PrefixEnv struct {
	Clear bool     `json:"clear,omitempty"` // env -i: the plan's variables would not get through either
	Unset []string `json:"unset,omitempty"` // env -u
	Set   []Option `json:"set,omitempty"`   // env NAME=VALUE
}

// Line is a command line, understood. The zero Ask means "not said".
type Line struct {
	Kind Kind     `json:"kind"`
	Argv []string `json:"argv"` // as typed, prefixes included; never modified
	At   int      `json:"at"`   // index in Argv of the launcher's own word (torchrun, or the module behind python -m), behind every prefix
	Rest int      `json:"rest"` // index in Argv of the script (torchrun) or program; len(Argv) when there is none

	Program int `json:"program,omitempty"` // index in Argv of what the prefixes start: torchrun, the Python before a module or a script, mpirun, a plain program; the module where uv runs one (At)

	Script int `json:"script,omitempty"` // index in Argv of the file that torchrun or a Python behind every prefix is to run; 0: none is named

	Prefix  []string  `json:"prefix,omitempty"`  // the prefix programs found before At ("numactl", "nsys profile", "python -m")
	Env     PrefixEnv `json:"env,omitzero"`      // what the env prefixes among them do
	Options []Option  `json:"options,omitempty"` // torchrun's or mpirun's own, in order
	Unknown []int     `json:"unknown,omitempty"` // index in Argv of each word that looks like an option of torchrun's and is none that launch knows
	Inside  bool      `json:"inside,omitempty"`  // --as torchrun: a script that calls it; PET_* is the only channel
	Starts  []int     `json:"starts,omitempty"`  // mpirun: index of the first word of each section (sections end at a lone ":")
	Notes   []string  `json:"notes,omitempty"`   // what could not be understood, one line each

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
	MPI      string   `json:"-"`                 // whose it is, as Of was told; the job has it too
	NP       Ask      `json:"np,omitzero"`       // -np; the sum over the sections where each has one
	Hostfile Ask      `json:"hostfile,omitzero"` // path
	Hosts    []string `json:"hosts,omitempty"`   // from --host, without :slots
}

// Unknown replaces a value that only the rendezvous knows.
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

// World is the part of the agreed world that a command needs. In a dry run what only the rendezvous knows is Unknown.
type World struct {
	Job        string // the job's id
	RunID      string // of this epoch: unguessable, new for every start
	Nodes      Number // number of nodes
	NodeRank   Number // this node, 0-based
	MasterAddr string // an IP address of node rank 0
	MasterPort Number // held for the job's own store on node rank 0
	Addr       string // this node's address, as its peers use it
	Single     bool   // one node, and the line asks for no other number: leave line and environment as they are
	KeepRdzv   bool   // --keep-rdzv: keep torchrun's own rendezvous, with is_host, local_addr and read_timeout set right
	ViaEnv     bool   // PET_* is the only channel, as where the Line is Inside
	Task       Task   // of several on a node, this one; zero: the node has one process
}

// Task is the place of one process of several that were started on each node.
type Task struct{ Rank, Size, Local, LocalSize int }

// Change is one difference between the line as typed and as executed, with
// its reason; --dry-run prints them.
type Change struct {
	Old    string `json:"old,omitempty"` // as typed; "" when added
	New    string `json:"new,omitempty"` // as executed; "" when removed
	Reason string `json:"reason"`
}

// Exec is what is handed over: the argument vector and what the command's
// environment gains and loses against what launch inherited. The plan itself
// is not in Set: the caller merges it.
type Exec struct {
	Argv    []string      `json:"argv"`
	Set     []setting.Var `json:"set,omitempty"`     // identity and rendezvous variables, each with reason and source
	Unset   []setting.Var `json:"unset,omitempty"`   // variables that leave the command's environment, each with its reason and old value
	Changes []Change      `json:"changes,omitempty"` // of Argv
	Notes   []string      `json:"notes,omitempty"`   // one line each for the user: what was changed and where to read on
}
