// Package job resolves which node this is, how many nodes the job has, what is launched and which
// settings are already decided. Every value has its source. A flag or LAUNCH_* goes before the
// wrapped command line, then the scheduler, then the environment.
package job

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/setting"
)

// Vouch names the kind of source of this node's index.
type Vouch string

const (
	NoIndex   Vouch = ""          // ranks by arrival
	Typed     Vouch = "typed"     // a person typed it: two nodes with the same index are a mistake
	Scheduled Vouch = "scheduled" // a scheduler assigned it: the newest incarnation wins
)

// Store is the store address.
type Store struct {
	Endpoints []string `json:"endpoints"` // external: URLs; embedded: one host:port
	Embedded  bool     `json:"embedded"`
	Host      string   `json:"host,omitempty"` // embedded: the name or address as given
	Port      int      `json:"port,omitempty"` // embedded: launch's own, never torch's
	// Shared: the name is that of a Kubernetes Service, and may have the address of each pod: node 0 hosts the store.
	Shared bool `json:"shared,omitempty"`
}

// PodHostName is the Source of what follows from the host name of an Indexed Job's pod.
const PodHostName = "pod's host name"

// StoreAddress is the Source of an id that is the store's port: nodes with the
// same store address may have different command lines.
const StoreAddress = "store address"

// DefaultStorePort is where an embedded store listens unless --store names a port. It is outside
// Linux's default ephemeral range (32768-60999) and not one of torch's (29400, 29500).
const DefaultStorePort = 29377

// DefaultMasterPort is torch's own default master port (torch/distributed/run.py).
const DefaultMasterPort = 29500

// Job is this node's place in the job, and the job itself.
type Job struct {
	ID setting.Value[string] `json:"id"`
	// Secret is a value that the source of the job's id gave to its processes alone. Unset: there is none.
	Secret setting.Value[string] `json:"-"`
	Nodes  setting.Value[int]    `json:"nodes"`               // 1 (Derived) only where no source names a number
	Min    int                   `json:"min_nodes,omitempty"` // elastic: enough to start after the last call; 0: all
	Spares int                   `json:"spares,omitempty"`    // standby nodes allowed
	Index  setting.Value[int]    `json:"index"`
	Vouch  Vouch                 `json:"vouch,omitempty"`
	Store  setting.Value[Store]  `json:"store"`

	// Addr is this node's address for its peers: IP, CIDR or interface name. Unset: by the route to the store.
	Addr  setting.Value[string] `json:"addr"`
	Hosts []string              `json:"hosts,omitempty"` // the scheduler's node list, in index order
	Tasks Tasks                 `json:"tasks,omitzero"`  // this process among several tasks of a node
	// Role is this node's part in a job whose nodes run different lines. Unset: all nodes are alike.
	Role  setting.Value[string] `json:"role,omitzero"`
	After []After               `json:"after,omitempty"` // what this node waits for before its command starts
	// Pod is the Kubernetes pod that this node is; nil elsewhere.
	Pod *Pod `json:"pod,omitempty"`
	// Step is Slurm's name of this node, where the nodes are those of a Slurm step; else "".
	Step string `json:"step,omitempty"`

	// MasterPort is the port that the user wants for the job's own store. Unset: DefaultMasterPort.
	MasterPort setting.Value[int]    `json:"master_port"`
	NProc      setting.Value[string] `json:"nproc"` // processes per node as asked: "8", "auto", "gpu"
	// Wait is how many seconds the line lets torchrun wait for all nodes.
	Wait setting.Value[int] `json:"wait,omitzero"`
	Line launcher.Line      `json:"line"`

	// Single: one node, and the line asks for no other number. The line and the environment stay as they are.
	Single  bool              `json:"single,omitempty"`
	Decided []setting.Decided `json:"decided,omitempty"` // NCCL_*, GLOO_*, … already set, and where
	// of an mpirun line: openmpi4, openmpi5, openmpi, mpich, intel; "": unknown
	MPI string `json:"mpi,omitempty"`
	// libraries that the command names or its script imports: jax, nixl, …
	Uses []string `json:"uses,omitempty"`
	// Program is what was read of the Python program that the command runs; it is not run here.
	Program Program `json:"-"`
	// Windows are the files with Windows line ends (CR LF) that a shell reads: the script, and what it reads with "." or
	// source.
	Windows []string          `json:"-"`
	Notes   []finding.Finding `json:"notes,omitempty"` // values that lost by precedence, and warnings
}

// Several reports whether the job has more than one node, standby nodes included.
func (j Job) Several() bool { return j.Nodes.V+j.Spares > 1 }

// Flags are the explicit settings: flags and LAUNCH_*, each with its source. The zero field is unset.
type Flags struct {
	NNodes     setting.Value[string] // "4", or "2:4"
	Spares     int
	NodeRank   setting.Value[string]
	Store      setting.Value[string] // host, host:port, http(s)://a:2379[,b:2379]
	Job        setting.Value[string]
	Addr       setting.Value[string]
	MasterPort setting.Value[string]
	As         setting.Value[string] // "torchrun": the command is a script that calls torchrun
	Role       setting.Value[string]
	After      []string // ROLE:PORT
	KeepRdzv   bool
}

// Fixed reports whether the nodes are all that there will be: no node is added to a Slurm step, and none of
// its tasks is started again.
func (j Job) Fixed() bool { return j.Step != "" && j.Spares == 0 && j.Min == 0 }

// id names the job. An embedded store belongs to one job: without a job name its
// port is the name. So nodes that spell the host differently, or run different
// lines, join one job, and launch reports the difference. Many jobs share an etcd:
// there the name is a hash of what all nodes of the job share, endpoints and line.
func (r *resolver) id() {
	line, pet := said(r.line.RdzvID), r.petFor("PET_RDZV_ID")
	for _, c := range []*claim{&line, &pet} {
		if c.V == "none" { // torchrun's own default
			*c = claim{}
		}
	}
	r.job.ID = chooseText(r, "id", claim(r.in.Flags.Job), line, r.sched.id, pet)
	if r.job.ID.Set && r.job.ID.From == r.sched.id.From {
		r.job.Secret = setting.Value[string](r.sched.secret)
	}
	if r.job.ID.Set {
		return
	}
	if st := r.job.Store.V; st.Embedded {
		r.job.ID = derived("store-"+strconv.Itoa(st.Port), StoreAddress)
		return
	}
	words := append([]string{strings.Join(r.job.Store.V.Endpoints, ",")}, r.line.Everywhere()...)
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	r.job.ID = derived(hex.EncodeToString(sum[:5]), "store address and command")
}
