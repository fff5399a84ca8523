// Package envgen is the plan: a pure function from what the node has, who the
// peers are and what is already decided to the few variables that the
// libraries would get wrong by themselves, each with its reason and evidence;
// and the lint of what is already set. It runs nothing and reads no file.
package envgen

import (
	"net/netip"

	"launch/fabric"
	"launch/internal/setting"
)

// World is the small part of the agreed world that the plan needs.
type World struct {
	Nodes  int
	Rank   int
	Addr   netip.Addr     // this node's address, as its peers use it
	Peers  []netip.Addr   // the other nodes' addresses; empty until the rendezvous; for mpirun, those hosts of its list whose address is known
	Master netip.AddrPort // where node rank 0's own store will listen; not valid until the rendezvous
	Job    string         // the job's id
	Store  []string       // URLs of the etcd that the nodes met in, where a program may use it without a key
	Hosts  []string       // the scheduler's hosts in the order of their ranks; empty where there is no scheduler
}

// Input is everything a plan is computed from.
type Input struct {
	Node    fabric.Node
	World   World
	Decided []setting.Decided
	Torch   bool     // the command is torchrun or a Python program: Gloo and TensorPipe may be used
	Mpirun  bool     // the command is an MPI's mpirun on the head: only job constants are planned
	MPI     string   // the MPI of mpirun, or that started this process: "openmpi", "openmpi4", "openmpi5", "mpich", "intel"; "" none, or not known
	Script  bool     // the command is a shell script, or stands in one: what that sets itself is not seen
	Uses    []string // libraries that the command names or its script imports: "jax", "tensorflow", "horovod", "nixl", "nvshmem", "ucx"

	// Files holds what stands in those of Paths that exist, a directory being
	// "". nil: nobody looked, so that no rule speaks of files.
	Files map[string]string
}

// Plan is the variables to set, in a stable order, and those not set because
// the user's own value won (Kept).
type Plan []setting.Var
