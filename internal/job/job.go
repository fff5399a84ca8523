// Package job finds out who this node is, how many nodes there are, what is
// being launched and which settings are already decided. Every value knows
// where it came from; nothing is guessed silently. Explicit beats ambient: a
// flag or LAUNCH_* beats the wrapped command line, which beats the scheduler,
// which beats what merely stands in the environment.
package job

import (
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/setting"
)

// Vouch says who stands for this node's index.
type Vouch string

const (
	NoIndex   Vouch = ""          // ranks by arrival
	Typed     Vouch = "typed"     // a person typed it: two of the same are a mistake
	Scheduled Vouch = "scheduled" // a scheduler gave it: the newest incarnation wins
)

// Store is the meeting point.
type Store struct {
	Endpoints []string `json:"endpoints"` // external: URLs; embedded: one host:port
	Embedded  bool     `json:"embedded"`
	Host      string   `json:"host,omitempty"` // embedded: the name or address as given
	Port      int      `json:"port,omitempty"` // embedded: launch's own, never torch's
}

// PodHostName is the Source of what the host name of an Indexed Job's pod tells.
const PodHostName = "pod's host name"

// MeetingPoint is the Source of an id that is the store's port: who meets there
// need not have typed the same line.
const MeetingPoint = "meeting point"

// DefaultStorePort is where an embedded store listens unless --store names a
// port. It is outside Linux's default ephemeral range (32768-60999) and not
// one of torch's (29400, 29500).
const DefaultStorePort = 29377

// DefaultMasterPort is torch's own default master port
// (torch/distributed/run.py).
const DefaultMasterPort = 29500

// Job is who this node is and what the job is, resolved.
type Job struct {
	ID         setting.Value[string] `json:"id"`
	Nodes      setting.Value[int]    `json:"nodes"`               // number of nodes; 1 (Derived) only where no source spoke of several
	Min        int                   `json:"min_nodes,omitempty"` // elastic: so many are enough after the last call; 0: all
	Spares     int                   `json:"spares,omitempty"`    // so many nodes more may wait for a place
	Index      setting.Value[int]    `json:"index"`
	Vouch      Vouch                 `json:"vouch,omitempty"`
	Store      setting.Value[Store]  `json:"store"`
	Addr       setting.Value[string] `json:"addr"`            // this node's address for its peers: IP, CIDR or interface name; unset: by the route to the store
	Hosts      []string              `json:"hosts,omitempty"` // the scheduler's node list, in index order
	Tasks      Tasks                 `json:"tasks,omitzero"`  // of several on a node, this one
	MasterPort setting.Value[int]    `json:"master_port"`     // the port that the user wants for the job's own store; unset: DefaultMasterPort
	NProc      setting.Value[string] `json:"nproc"`           // processes per node as asked: "8", "auto", "gpu"
	Line       launcher.Line         `json:"line"`
	Single     bool                  `json:"single,omitempty"`  // one node, and the line asks for no other number: leave line and environment alone
	Decided    []setting.Decided     `json:"decided,omitempty"` // NCCL_*, GLOO_*, … already set, and where
	MPI        string                `json:"mpi,omitempty"`     // of an mpirun line: openmpi4, openmpi5, openmpi, mpich, intel; "": not known
	Uses       []string              `json:"uses,omitempty"`    // libraries that the command names or its script imports: jax, nixl, …
	Notes      []finding.Finding     `json:"notes,omitempty"`   // losers of a precedence, and warnings
}

// Several tells whether this is a job of more than one node, spare ones
// included.
func (j Job) Several() bool { return j.Nodes.V+j.Spares > 1 }

// Flags are the explicit settings: flags and LAUNCH_*, each with its source.
// An unset field was not given.
type Flags struct {
	NNodes     setting.Value[string] // "4", or "2:4"
	Spares     int
	NodeRank   setting.Value[string]
	Store      setting.Value[string] // host, host:port, http(s)://a:2379[,b:2379]
	Job        setting.Value[string]
	Addr       setting.Value[string]
	MasterPort setting.Value[string]
	As         setting.Value[string] // "torchrun": the command is a script that calls it inside
	KeepRdzv   bool
}
