// Package setting has the types for a value and its source, for the variables that
// launch sets, and for those that are set already.
package setting

import "strings"

// Tier orders the sources of a value; a lower tier wins.
type Tier int

// The tiers.
const (
	Explicit  Tier = iota // a flag or LAUNCH_*
	Line                  // the wrapped command line
	Scheduler             // Indexed Job, Slurm
	Ambient               // PET_*, MASTER_ADDR, WORLD_SIZE, … in the environment
	Derived               // computed from the others
)

// Source names the flag, variable or file that set a value.
type Source struct {
	Tier Tier   `json:"tier"`
	Name string `json:"name"` // "--nnodes", "LAUNCH_NNODES", "torchrun --nnodes", "SLURM_NNODES", "MASTER_ADDR"
}

// Value is a value and its source. The zero Value is unset.
type Value[T any] struct {
	V    T      `json:"value"`
	From Source `json:"from"`
	Set  bool   `json:"set"`
}

// Seen is one piece of evidence: where it was read, and the value there.
type Seen struct {
	Where string `json:"where"` // a path, a call, a variable, a peer
	What  string `json:"what"`
}

// Scope is whether the value of a variable is a fact of one node, which launch never
// copies to another and so never passes by mpirun -x, or a constant of the job.
type Scope string

// The scopes.
const (
	Node Scope = "node"
	Job  Scope = "job"
)

// Var is one environment variable that launch sets. Each has a reason.
type Var struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Scope  Scope  `json:"scope"`
	Reason string `json:"reason"`           // what the library would do wrong without it
	Seen   []Seen `json:"seen,omitempty"`   // the evidence
	Source string `json:"source,omitempty"` // the rule's origin: a source file, an issue, a document
	User   string `json:"user,omitempty"`   // the user's own value, which wins; Value is then for comparison
	From   string `json:"from,omitempty"`   // where the user's value is set: "environment", "/etc/nccl.conf"
	Kept   bool   `json:"kept,omitempty"`   // the user's value wins
}

// Decided is a variable that the user has set already. In a list the first of a name is in force:
// the libraries' files do not replace the environment (NCCL src/misc/param.cc).
type Decided struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"` // "environment", "/etc/nccl.conf", "/root/.nccl.conf"
}

// The libraries whose variables launch sets or reads.
const (
	NCCL       = "NCCL"
	Gloo       = "Gloo"
	TensorPipe = "TensorPipe"
	UCX        = "UCX"
	Libfabric  = "libfabric"
	OpenMPI    = "Open MPI"
	MPICH      = "MPICH"
	IntelMPI   = "Intel MPI"
	NVSHMEM    = "NVSHMEM"
	NIXL       = "NIXL"
	JAX        = "JAX"
	TensorFlow = "TensorFlow"
	Torch      = "torch"
	Horovod    = "Horovod"
	Python     = "Python"

	noLibrary = "no library"
)

// Library returns the library that reads a variable, by the variable's name: "" for
// an unknown name, "no library" for one that people set although no library reads it.
func Library(name string) string {
	if library, ok := exactNames()[name]; ok {
		return library
	}
	for _, p := range prefixes() {
		if strings.HasPrefix(name, p[0]) {
			return p[1]
		}
	}
	return ""
}

func exactNames() map[string]string {
	return map[string]string{
		"TP_SOCKET_IFNAME": TensorPipe, "OMP_NUM_THREADS": Torch, "TORCH_DISTRIBUTED_DEBUG": Torch,
		"TORCH_DIST_INIT_BARRIER":   Torch,
		"TORCH_GLOO_LAZY_INIT":      Torch,
		"TF_CONFIG":                 TensorFlow,
		"PYTHONHASHSEED":            Python,
		"NCCL_ASYNC_ERROR_HANDLING": Torch, "NCCL_BLOCKING_WAIT": Torch,
		"HYDRA_IFACE": MPICH, "RDMAV_FORK_SAFE": "rdma-core", "IBV_FORK_SAFE": "rdma-core",
		"RX_QUEUE_LEN": noLibrary, "IB_RX_QUEUE_LEN": noLibrary, "coll_hcoll_enable": noLibrary,
		"JAX_COORDINATOR_ADDRESS": JAX, "JAX_LOCAL_DEVICE_IDS": JAX, "UCX_CONFIG_DIR": UCX,
	}
}

// prefixes returns prefixes of names with their library, a longer one first.
func prefixes() [][2]string {
	return [][2]string{
		{"NCCL_FASTRAK_", "GPUDirect-TCPXO"}, {"NCCL_GPUDIRECTTCPX_", "GPUDirect-TCPX"},
		{"NCCL_IBEXT_", "nccl-rdma-sharp-plugins"},
		{"NCCL_", NCCL}, {"RCCL_", "RCCL"}, {"OFI_NCCL_", "aws-ofi-nccl"}, {"NVSHMEM_", NVSHMEM}, {"NIXL_", NIXL},
		{"GLOO_", Gloo}, {"TORCH_NCCL_", Torch}, {"TORCH_FR_", Torch}, {"HOROVOD_", Horovod},
		{"UCX_", UCX}, {"FI_", Libfabric}, {"OMPI_MCA_", OpenMPI}, {"PRTE_MCA_", OpenMPI}, {"PMIX_MCA_", OpenMPI},
		{"I_MPI_", IntelMPI}, {"MPICH_", MPICH},
	}
}
