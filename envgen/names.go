package envgen

import (
	"path"
	"slices"
	"strings"
)

// Library is the library that reads a variable, by its name; "" for one that
// is none of those that launch knows. A name that no library reads although
// people set it counts as "nobody".
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
		"TP_SOCKET_IFNAME": tpLib, "OMP_NUM_THREADS": torchLib, "TORCH_DISTRIBUTED_DEBUG": torchLib, "TF_CONFIG": tfLib,
		"NCCL_ASYNC_ERROR_HANDLING": torchLib, "NCCL_BLOCKING_WAIT": torchLib,
		"HYDRA_IFACE": mpichLib, "RDMAV_FORK_SAFE": "rdma-core", "IBV_FORK_SAFE": "rdma-core",
		"RX_QUEUE_LEN": nobody, "IB_RX_QUEUE_LEN": nobody, "coll_hcoll_enable": nobody,
		"JAX_COORDINATOR_ADDRESS": jaxLib, "UCX_CONFIG_DIR": ucxLib,
	}
}

const nobody = "nobody"

// prefixes are the beginnings of names, a longer one before a shorter.
func prefixes() [][2]string {
	return [][2]string{
		{"NCCL_FASTRAK_", "GPUDirect-TCPXO"}, {"NCCL_GPUDIRECTTCPX_", "GPUDirect-TCPX"}, {"NCCL_IBEXT_", "nccl-rdma-sharp-plugins"},
		{"NCCL_", ncclLib}, {"RCCL_", "RCCL"}, {"OFI_NCCL_", "aws-ofi-nccl"}, {"NVSHMEM_", nvshmemLib}, {"NIXL_", nixlLib},
		{"GLOO_", glooLib}, {"TORCH_NCCL_", torchLib}, {"TORCH_FR_", torchLib}, {"HOROVOD_", horovodLib},
		{"UCX_", ucxLib}, {"FI_", fabricLib}, {"OMPI_MCA_", ompiLib}, {"PRTE_MCA_", ompiLib}, {"PMIX_MCA_", ompiLib},
		{"I_MPI_", intelLib}, {"MPICH_", mpichLib},
	}
}

// Variable is a name that a rule may set or the lint looks at.
type Variable struct {
	Name    string // a pattern of path.Match where a rule of the lint is for several
	Library string
	Sets    bool // a plan may hold it
	Gone    bool // the lint says that no library reads it
	span    span
}

// For tells whether a plan may hold it with that version of NCCL, "2.27.5".
func (v Variable) For(nccl string) bool { return v.Sets && v.span.holds(parseVersion(nccl)) }

// Variables are all of them, by name, so that they can be looked for in the
// libraries themselves.
func Variables() []Variable {
	all := map[string]Variable{}
	for _, u := range unsets() {
		all[u.name] = Variable{Name: u.name, Library: u.library}
	}
	for _, r := range lintRules() {
		for _, n := range r.names {
			all[n] = Variable{Name: n, Library: Library(n), Gone: all[n].Gone || r.gone}
		}
	}
	for _, r := range rules() {
		all[r.name] = Variable{Name: r.name, Library: r.library, Sets: true, span: r.span}
	}
	var out []Variable
	for _, v := range all {
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// ReadByMpirun tells whether mpirun itself reads a variable of the plan, so that
// it has to be in its own environment: Open MPI's daemons are not told by -x.
func ReadByMpirun(name string) bool {
	return slices.ContainsFunc(rules(), func(r rule) bool { return r.head && r.name == name })
}

// constants are the variables that have to be the same on all nodes; * as in
// path.Match. A difference makes ranks disagree about messages, or hang.
func constants() []string {
	return []string{
		"NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_IB_DISABLE", "NCCL_SOCKET_FAMILY", "NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE", "NCCL_*_CHUNKSIZE",
		"NCCL_M??_NCHANNELS", "NCCL_M??_CTAS", "NCCL_CROSS_NIC", "NCCL_PXN_*", "NCCL_P2P_*", "NCCL_SHM_DISABLE", "NCCL_MNNVL_ENABLE",
		"NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE", "NCCL_COLLNET_ENABLE", "NCCL_SOCKET_MAGIC", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ROCE_VERSION_NUM",
		"NCCL_IB_TC", "NCCL_IB_SL", "UCX_TLS", "FI_PROVIDER", "OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl",
		"NVSHMEM_REMOTE_TRANSPORT", "NVSHMEM_LIBFABRIC_PROVIDER", "NIXL_ETCD_*",
	}
}

// Constants are the settings that have to be the same on all nodes, as they
// will be in force here: what is decided, also in files, and else what the plan
// sets. For the nodes to compare.
func Constants(p Plan, decided []Decided) map[string]string {
	out := map[string]string{}
	for _, d := range decided {
		if _, ok := out[d.Name]; !ok && isConstant(d.Name) {
			out[d.Name] = d.Value
		}
	}
	for _, v := range p {
		if v.Scope == Job && !v.Kept {
			out[v.Name] = v.Value
		}
	}
	return out
}

func isConstant(name string) bool {
	return slices.ContainsFunc(constants(), func(pattern string) bool { return matches(pattern, name) })
}

// matches tells whether a pattern of ours takes a name; ours are well-formed.
func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}
