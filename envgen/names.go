package envgen

import (
	"maps"
	"path"
	"slices"
	"strings"

	"launch/internal/setting"
)

// Variable is a name that a plan may set or that the lint checks.
type Variable struct {
	Name    string // a pattern of path.Match if a lint rule is for several
	Library string
	Sets    bool // a plan may have it
	Gone    bool // the lint reports that no library reads it
	span    span
}

// For reports whether a plan may have it with a version of NCCL, "2.27.5".
func (v Variable) For(nccl string) bool { return v.Sets && v.span.holds(parseVersion(nccl)) }

// Variables returns all variables by name, to search the libraries for them.
func Variables() []Variable {
	all := map[string]Variable{}
	for _, u := range unsets() {
		all[u.name] = Variable{Name: u.name, Library: setting.Library(u.name)}
	}
	for _, r := range lintRules() {
		for _, n := range r.names {
			all[n] = Variable{Name: n, Library: setting.Library(n), Gone: all[n].Gone || r.gone}
		}
	}
	for _, r := range rules() {
		all[r.name] = Variable{Name: r.name, Library: r.library, Sets: true, span: r.span}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
}

// ReadByMpirun reports whether mpirun itself reads a variable of the plan, so that its
// own environment needs it: Open MPI's daemons do not see -x.
func ReadByMpirun(name string) bool {
	return slices.ContainsFunc(rules(), func(r rule) bool { return r.head && r.name == name })
}

// constants returns the variables that have to be equal on all nodes, as patterns of
// path.Match. With a difference ranks disagree about messages, or hang.
func constants() []string {
	return []string{
		"NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_IB_DISABLE", "NCCL_SOCKET_FAMILY", "NCCL_ALGO", "NCCL_PROTO",
		"NCCL_BUFFSIZE", "NCCL_*_CHUNKSIZE", "NCCL_M??_NCHANNELS", "NCCL_M??_CTAS", "NCCL_CROSS_NIC", "NCCL_PXN_*",
		"NCCL_P2P_*", "NCCL_SHM_DISABLE", "NCCL_MNNVL_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE",
		"NCCL_COLLNET_ENABLE", "NCCL_SOCKET_MAGIC", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ROCE_VERSION_NUM",
		"NCCL_IB_TC", "NCCL_IB_SL", "UCX_TLS", "FI_PROVIDER", "OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl",
		"NVSHMEM_REMOTE_TRANSPORT", "NVSHMEM_LIBFABRIC_PROVIDER", "NIXL_ETCD_*",
	}
}

// Constants returns the settings in force here that have to be equal on all nodes,
// from the environment, files and the plan. The nodes compare them.
func Constants(p Plan, decided []setting.Decided) map[string]string {
	out := map[string]string{}
	for _, d := range decided {
		if _, ok := out[d.Name]; !ok && isConstant(d.Name) {
			out[d.Name] = d.Value
		}
	}
	for _, v := range p {
		if v.Scope == setting.Job && !v.Kept {
			out[v.Name] = v.Value
		}
	}
	return out
}

func isConstant(name string) bool {
	return slices.ContainsFunc(constants(), func(pattern string) bool { return matches(pattern, name) })
}

// matches reports whether a well-formed pattern matches a name.
func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}
