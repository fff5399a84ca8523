package envgen

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/setting"
)

// libraryLint returns the rules for UCX, the MPIs, NVSHMEM and TensorFlow.
func libraryLint() []lintRule {
	return []lintRule{
		{id: "env.ucx-tls", names: []string{"UCX_TLS"}, look: lintUCXTLS,
			what: "a list without self, sm or the GPUs' transport, for a job that has GPUs"},
		{id: "env.ucx-devices", names: []string{"UCX_NET_DEVICES"}, look: lintUCXDevices,
			what: "it names a device that is missing or not ACTIVE"},
		{id: "env.ompi-include", names: []string{"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include",
			"PRTE_MCA_prte_if_include"}, look: lintInclude,
			what: "it selects no interface of this node, or is set together with an exclusion"},
		{id: "env.ompi-exclude", names: []string{"OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_oob_tcp_if_exclude"},
			look: lintExclude, what: "it replaces Open MPI's default exclusion of loopback"},
		{id: "env.ompi-obsolete", names: []string{"OMPI_MCA_btl_openib_*", "OMPI_MCA_oob_*", "OMPI_MCA_orte_*"},
			look: lintOMPIObsolete, what: "this Open MPI does not read it: openib from 4.0, orte and oob from 5.0"},
		{id: "env.ompi-ucx-off", names: []string{"OMPI_MCA_pml", "OMPI_MCA_osc"}, here: ucxOff,
			what: "UCX is excluded on a node with InfiniBand or RoCE, as by Debian's file",
			is:   "excludes UCX, but this node has InfiniBand or RoCE", breaks: "MPI uses TCP",
			fix: "export OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx   # takes precedence over files"},
		{id: "env.impi-fabrics", names: []string{"I_MPI_FABRICS"}, look: lintIntelFabrics,
			what: "it names a fabric that Intel MPI removed in 2019"},
		{id: "env.nvshmem-list", names: []string{"NVSHMEM_HCA_LIST", "NVSHMEM_HCA_PE_MAPPING"},
			what: "it is set without NVSHMEM_ENABLE_NIC_PE_MAPPING=1",
			here: func(v *view, d setting.Decided) bool {
				return d.Value != "" && !v.has("NVSHMEM_ENABLE_NIC_PE_MAPPING")
			},
			is: "has no effect without NVSHMEM_ENABLE_NIC_PE_MAPPING=1", breaks: "NVSHMEM uses every HCA",
			fix: "export NVSHMEM_ENABLE_NIC_PE_MAPPING=1"},
		{id: "env.tf-config", names: []string{"TF_CONFIG"}, look: lintTFConfig,
			what: "it is not JSON, its number of workers is not the number of nodes, or its index is out of range"},
	}
}

// lintUCXTLS finds missing transports: UCX uses only the transports of a list;
// without the GPUs' own transport it takes their pointers for the host's (UCX's FAQ).
func lintUCXTLS(v *view, d setting.Decided) finding.Finding {
	list := strings.Split(d.Value, ",")
	if d.Value == "" || d.Value == "all" || strings.HasPrefix(d.Value, "^") || slices.Contains(list, "all") {
		return none()
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(list, func(w string) bool {
			return slices.ContainsFunc(names, func(n string) bool { return w == n || strings.HasPrefix(w, n+"_") })
		})
	}
	gpus := "cuda"
	if v.Node.Software.HIP != "" {
		gpus = "rocm"
	}
	var lacks []string
	for _, need := range [][]string{{"self"}, {"sm", "shm", "posix", "sysv", "cma", "xpmem", "knem"}, {gpus}} {
		if !has(need...) {
			lacks = append(lacks, need[0])
		}
	}
	// Scripts of clouds set tcp alone on purpose, for an MPI that only starts processes.
	if len(lacks) == 0 || !v.gpus() || d.Value == "tcp" {
		return none()
	}
	return finding.Warnf("UCX_TLS=%s excludes %s", d.Value, strings.Join(lacks, ", ")).
		Breaking("UCX takes pointers of a GPU for the host's and dies, or copies over the network within the node").
		Do("%s", put(d, d.Value+","+strings.Join(lacks, ",")))
}

func lintUCXDevices(v *view, d setting.Decided) finding.Finding {
	if d.Value == "" || d.Value == "all" || strings.ContainsAny(d.Value, "^[*") || len(v.Node.Interfaces) == 0 {
		return none()
	}
	for word := range strings.SplitSeq(d.Value, ",") {
		name, port, hasPort := strings.Cut(word, ":")
		if _, ok := v.Node.Interface(name); ok {
			continue
		}
		i := slices.IndexFunc(v.Node.HCAs, func(h fabric.HCA) bool { return h.Name == name })
		why := "this node has no such device"
		if i >= 0 {
			active := slices.ContainsFunc(v.Node.HCAs[i].Ports, func(p fabric.Port) bool {
				return p.Active() && (!hasPort || p.Num == leadingInt(port, 10))
			})
			if active {
				continue
			}
			why = "it is not ACTIVE"
		}
		return finding.Warnf("UCX_NET_DEVICES=%s names %s: %s", d.Value, word, why).
			Breaking("UCX warns and uses another network or none")
	}
	return none()
}

func lintInclude(v *view, d setting.Decided) finding.Finding {
	exclude := strings.Replace(d.Name, "_include", "_exclude", 1)
	if other, ok := v.decided(exclude); ok && d.Value != "" && other.Value != "" {
		return finding.FailOr(v.Mpirun && strings.HasPrefix(d.Name, "OMPI_MCA_btl"), "%s and %s are both set (%s)",
			d.Name, exclude, other.From).
			Breaking("Open MPI allows only one of the two and ends with an error")
	}
	if d.Value == "" || !addressed(v.Node) {
		return none()
	}
	for word := range strings.SplitSeq(d.Value, ",") {
		if v.includesAny(word) {
			return none()
		}
	}
	return finding.Warnf("%s=%s selects no interface of this node", d.Name, d.Value).
		See("interfaces with an address", "%s", names(filter{}.interfaces(v.Node.Interfaces, ""))).
		Breaking("Open MPI has no network here").Do("%s, or set the CIDR of the network", drop(d))
}

// includesAny reports whether a name or a CIDR selects an interface.
func (v *view) includesAny(word string) bool {
	for _, i := range v.Node.Interfaces {
		for _, a := range i.Addrs {
			if p, err := netip.ParsePrefix(word); word == i.Name || err == nil && p.Contains(a.Addr()) {
				return true
			}
		}
	}
	return false
}

// lintExclude finds a list without loopback: a value replaces the default 127.0.0.1/8,sppp
// (btl_tcp_component.c), so Open MPI connects to its peers at 127.0.0.1.
func lintExclude(v *view, d setting.Decided) finding.Finding {
	if d.Value == "" {
		return none()
	}
	for word := range strings.SplitSeq(d.Value, ",") {
		i, ok := v.Node.Interface(word)
		if ok && i.Kind == "loopback" || word == "lo" || strings.HasPrefix(word, "127.") {
			return none()
		}
	}
	return finding.Warnf("%s=%s replaces Open MPI's default 127.0.0.1/8", d.Name, d.Value).
		Breaking("it connects to its peers at 127.0.0.1 and hangs").Do("%s", put(d, "127.0.0.1/8,"+d.Value))
}

func lintOMPIObsolete(v *view, d setting.Decided) finding.Finding {
	openib := strings.HasPrefix(d.Name, "OMPI_MCA_btl_openib_")
	if !openib && v.MPI != "openmpi5" {
		return none()
	}
	since, instead := "Open MPI 5 does not read it", drop(d)
	if openib {
		since = "Open MPI uses UCX for InfiniBand and RoCE since 4.0"
	}
	if d.Name == "OMPI_MCA_oob_tcp_if_include" {
		instead = "use PRTE_MCA_prte_if_include=" + d.Value + " instead"
	}
	return finding.Warnf("%s=%s has no effect: %s", d.Name, d.Value, since).Do("%s", instead)
}

func ucxOff(v *view, d setting.Decided) bool {
	list, not := strings.CutPrefix(d.Value, "^")
	return not && slices.Contains(strings.Split(list, ","), "ucx") && len(v.rails()) > 0 && v.openMPI()
}

func lintIntelFabrics(_ *view, d setting.Decided) finding.Finding {
	for word := range strings.SplitSeq(d.Value, ":") {
		if slices.Contains([]string{"dapl", "tmi", "ofa", "tcp"}, word) {
			return finding.Warnf("I_MPI_FABRICS=%s: Intel MPI removed %s in 2019", d.Value, word).
				Breaking("the program ends, or uses another fabric").Do("%s", put(d, "shm:ofi"))
		}
	}
	return none()
}

func lintTFConfig(v *view, d setting.Decided) finding.Finding {
	var c struct {
		Cluster map[string][]string `json:"cluster"`
		Task    struct {
			Type  string `json:"type"`
			Index any    `json:"index"`
		} `json:"task"`
	}
	f := finding.Warnf("TF_CONFIG is not valid JSON for TensorFlow")
	if d.Value == "" {
		return none()
	}
	if err := json.Unmarshal([]byte(d.Value), &c); err == nil {
		n, index := len(c.Cluster["worker"])+len(c.Cluster["chief"]), leadingInt(fmt.Sprint(c.Task.Index), 10)
		switch {
		case v.World.Nodes > 1 && n > 0 && n != v.World.Nodes:
			f = finding.Warnf("TF_CONFIG lists %d workers, but the job has %d nodes", n, v.World.Nodes)
		case c.Task.Type != "" && index >= len(c.Cluster[c.Task.Type]):
			f = finding.Warnf("TF_CONFIG has the index %d for this process, but %d entries in %q",
				index, len(c.Cluster[c.Task.Type]), c.Task.Type)
		default:
			return none()
		}
	}
	return f.Breaking("TensorFlow ends, or waits for workers that do not exist")
}
