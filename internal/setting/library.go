package setting

import "strings"

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
		"TF_CONFIG":                 TensorFlow,
		"NCCL_ASYNC_ERROR_HANDLING": Torch, "NCCL_BLOCKING_WAIT": Torch,
		"HYDRA_IFACE": MPICH, "RDMAV_FORK_SAFE": "rdma-core", "IBV_FORK_SAFE": "rdma-core",
		"RX_QUEUE_LEN": noLibrary, "IB_RX_QUEUE_LEN": noLibrary, "coll_hcoll_enable": noLibrary,
		"JAX_COORDINATOR_ADDRESS": JAX, "UCX_CONFIG_DIR": UCX,
	}
}

// prefixes returns prefixes of names with their library, a longer one first.
func prefixes() [][2]string {
	return [][2]string{
		{"NCCL_FASTRAK_", "GPUDirect-TCPXO"}, {"NCCL_GPUDIRECTTCPX_", "GPUDirect-TCPX"}, {"NCCL_IBEXT_",
			"nccl-rdma-sharp-plugins"},
		{"NCCL_", NCCL}, {"RCCL_", "RCCL"}, {"OFI_NCCL_", "aws-ofi-nccl"}, {"NVSHMEM_", NVSHMEM}, {"NIXL_", NIXL},
		{"GLOO_", Gloo}, {"TORCH_NCCL_", Torch}, {"TORCH_FR_", Torch}, {"HOROVOD_", Horovod},
		{"UCX_", UCX}, {"FI_", Libfabric}, {"OMPI_MCA_", OpenMPI}, {"PRTE_MCA_", OpenMPI}, {"PMIX_MCA_", OpenMPI},
		{"I_MPI_", IntelMPI}, {"MPICH_", MPICH},
	}
}
