// Package envgen computes the plan: from the facts of the node, its peers and the
// variables that are set already, the few variables that the libraries would get
// wrong on their own, each with its reason and evidence. It also lints the variables
// that are set already. It runs nothing and reads no file.
package envgen

import (
	"net/netip"

	"launch/fabric"
	"launch/internal/setting"
)

// World is the part of the agreed world that the plan needs.
type World struct {
	Nodes  int
	Rank   int
	Addr   netip.Addr     // this node's address, as its peers use it
	Peers  []netip.Addr   // the other nodes' addresses; empty before the rendezvous; of mpirun's hosts, those known
	Master netip.AddrPort // where the job's own store listens on node rank 0; invalid before the rendezvous
	Job    string         // the job's id
	Store  []string       // URLs of the job's etcd, if a program may use it without a key
	Hosts  []string       // the scheduler's hosts in the order of their ranks; empty without a scheduler
}

// Input is all that a plan depends on.
type Input struct {
	Node    fabric.Node
	World   World
	Decided []setting.Decided
	Torch   bool // the command is torchrun or a Python program: it may use Gloo and TensorPipe
	Mpirun  bool // the command is an MPI's mpirun on the head node: the plan has only constants of the job
	Script  bool // the command is, or is in, a shell script, which may set variables itself

	// MPI is the MPI of mpirun, or of this process: "openmpi", "openmpi4", "openmpi5", "mpich", "intel"; "" if
	// there is none or it is unknown.
	MPI string
	// Uses are libraries that the command names or its script imports: "jax", "tensorflow", "horovod", "nixl",
	// "nvshmem", "ucx".
	Uses []string

	// Files has the texts of those of Paths that exist, "" for a directory. nil: unknown, and no rule is about files.
	Files map[string]string
}

// Plan is the variables to set, in a stable order, and those that the user's own
// value replaces (Kept).
type Plan []setting.Var
