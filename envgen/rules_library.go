package envgen

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/internal/setting"
)

// mpiRules returns the rules for the MPIs. mpirun carries a subnet to all nodes, not a name.
func mpiRules() []rule {
	hydra := func(mpi string) func(*view) bool { return func(v *view) bool { return v.Mpirun && v.MPI == mpi } }
	include := func(r rule, of func(mpi string) bool) rule {
		exclude := strings.Replace(r.name, "_include", "_exclude", 1)
		r.scope, r.want, r.agrees = setting.Job, byPeers((*view).wantSubnet), (*view).includes
		r.used = func(v *view) bool { return v.openMPI() && !v.has(exclude) && of(v.MPI) }
		r.alone = "uses every interface that is up except 127.0.0.1/8" + r.alone
		r.when, r.value = "one of them reaches no other machine, and all hosts are in one subnet", "that subnet"
		return r
	}
	return []rule{
		include(rule{name: "OMPI_MCA_btl_tcp_if_include", source: "Open MPI opal/mca/btl/tcp/btl_tcp_component.c"},
			func(string) bool { return true }),
		include(rule{name: "OMPI_MCA_oob_tcp_if_include", alone: " (up to 4)", head: true,
			source: "Open MPI 4.1 orte/mca/oob/tcp/oob_tcp_component.c"},
			func(mpi string) bool { return mpi != "openmpi5" }),
		include(rule{name: "PRTE_MCA_prte_if_include", alone: " (from 5)", head: true,
			source: "open-mpi/ompi#12508, docs/mca.rst"},
			func(mpi string) bool { return mpi == "openmpi5" }),
		{
			name:  "OMPI_MCA_opal_common_ucx_devices",
			scope: setting.Job, source: "Open MPI opal/mca/common/ucx/common_ucx.c",
			alone: "uses UCX on its own only for an HCA with a driver mlx*",
			when:  "the HCAs of the training fabric have another driver", value: "any",
			used: func(v *view) bool { return v.openMPI() && v.head() && !v.has("OMPI_MCA_pml") },
			want: (*view).wantUCXDevices,
		}, {
			name: "HYDRA_IFACE", scope: setting.Node, source: "MPICH src/pm/hydra/mpiexec/utils.c",
			alone: "gives the other nodes the host name",
			when:  "it resolves to loopback, or to an interface that does not lead to them", value: "NAME of the interface",
			used: hydra("mpich"), head: true, want: wantHost(setting.MPICH),
		}, {
			name: "I_MPI_HYDRA_IFACE", scope: setting.Node, source: "Intel MPI Library Developer Reference",
			alone: "does the same as MPICH", when: "as for MPICH", value: "NAME of the interface",
			used: hydra("intel"), head: true, want: wantHost(setting.IntelMPI),
		}}
}

// wantSubnet is for Open MPI, which uses every interface that is up except 127.0.0.1/8 (the default
// of btl_tcp_if_exclude), with or without carrier. Every host has to be in the subnet.
func (v *view) wantSubnet(_ fabric.Interface, addr netip.Prefix) want {
	outside := func(p netip.Addr) bool { return !addr.Contains(p.Unmap()) }
	switch {
	case !addr.Addr().Is4() || addr.IsSingleIP():
		return right(fmt.Sprintf("%s is not an IPv4 subnet", addr))
	case len(v.World.Peers) < v.World.Nodes || slices.ContainsFunc(v.World.Peers, outside):
		return right("not every host is known to be in " + addr.Masked().String())
	}
	up := slices.DeleteFunc(slices.Clone(v.Node.Interfaces), func(i fabric.Interface) bool {
		return !i.Up || !slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr().Is4() })
	})
	also := decoys(v, up)
	w := want{value: addr.Masked().String(),
		seen: ifSeen("interfaces that reach no other machine", also)}
	if len(also) > 0 {
		w.wrong = "Open MPI uses every interface that is up and would also try " + names(also)
	} else {
		w.not = "every interface here reaches other machines"
	}
	return w
}

// includes reports whether a list of Open MPI (names and CIDRs) selects the interface to the peers.
func (v *view) includes(value string) bool {
	via, _, ok := v.via()
	for word := range strings.SplitSeq(value, ",") {
		p, err := netip.ParsePrefix(word)
		if ok && (word == via.Name || err == nil && p.Contains(v.World.Addr.Unmap())) {
			return true
		}
	}
	return false
}

func (v *view) wantUCXDevices() want {
	rails := v.rails()
	i := slices.IndexFunc(rails, func(p hcaPort) bool { return strings.HasPrefix(p.hca.Driver, "mlx") })
	switch {
	case len(rails) == 0:
		return right("there is no InfiniBand or RoCE here")
	case i >= 0:
		return right("the driver of " + rails[i].hca.Name + " is " + rails[i].hca.Driver)
	case rails[0].hca.Driver == "":
		return right("the driver of " + rails[0].hca.Name + " is unknown")
	}
	p := rails[0]
	return want{value: "any", wrong: "Open MPI would not use UCX for " + p.hca.Name + ", but TCP",
		because: v.railWords(), seen: []finding.Seen{
			finding.Seen{Where: "/sys/class/infiniband/" + p.hca.Name + "/device/driver", What: p.hca.Driver}}}
}

// nvshmemRules returns the rules for NVSHMEM, which makes NCCL's choices under its own names.
func nvshmemRules() []rule {
	const source = "NVSHMEM src/modules/transport/common/env_defs.h"
	const boot = "NVSHMEM src/modules/bootstrap/common/env_defs.h"
	used := func(v *view) bool { return v.nvshmem() && v.gpus() && v.head() }
	out := []rule{{
		name: "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", scope: setting.Node, source: boot,
		alone: "takes the first interface, like NCCL before 2.28.3", when: "as for NCCL_SOCKET_IFNAME",
		value: "=NAME of the interface", used: used, want: byPeers((*view).wantNVSHMEMIf), agrees: ncclAgrees,
	}, {
		name: "NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY", scope: setting.Job, source: boot, alone: "uses IPv4",
		when: "the nodes reach each other by IPv6", value: "AF_INET6", used: used, want: byPeers((*view).wantNVSHMEMFamily),
	}, {
		name: "NVSHMEM_REMOTE_TRANSPORT", scope: setting.Job, source: "NVSHMEM src/include/host/env/env_defs.h",
		alone: "uses InfiniBand verbs (ibrc)", when: "the fabric is EFA or Slingshot", value: "libfabric",
		used: used, want: (*view).wantTransport,
	}, {
		name: "NVSHMEM_LIBFABRIC_PROVIDER", scope: setting.Job, source: source, alone: "uses the provider cxi",
		when: "the fabric is EFA", value: "efa", used: used, want: (*view).wantNVSHMEMProvider,
	}, {
		name: "NVSHMEM_HCA_LIST", scope: setting.Node, source: source,
		alone: "uses every ACTIVE port", when: "as for NCCL_IB_HCA", value: "HCA:PORT,… of the training fabric",
		used: used, want: (*view).wantHCAList,
	}, {
		name: "NVSHMEM_ENABLE_NIC_PE_MAPPING", scope: setting.Job, source: "NVSHMEM src/include/host/env/env_defs.h",
		alone: "ignores NVSHMEM_HCA_LIST", when: "that is set", value: "1", used: used, want: (*view).wantMapping,
	}, {
		name: "NVSHMEM_HCA_PREFIX", scope: setting.Node, source: source,
		alone: "takes only HCAs with mlx5 in their names, for IBGDA",
		when:  "NVSHMEM_IB_ENABLE_IBGDA is set and the HCAs are renamed", value: "the prefix of their names",
		used: used, want: (*view).wantHCAPrefix,
	}}
	return append(out, gidVars("NVSHMEM_IB_", setting.NVSHMEM, source, used,
		func(v *view) gidPlan { return v.gid("NVSHMEM_IB_", true) })...)
}

func (v *view) wantNVSHMEMIf(via fabric.Interface, _ netip.Prefix) want {
	via = v.entry(via)
	got := ncclAlone(v, true)
	w := want{value: "=" + via.Name,
		seen: ifSeen("interfaces that NVSHMEM finds, in its order", got)}
	if len(got) == 0 || !v.leads(got[0], via) { // only its bootstrap uses TCP
		w.wrong = setting.NVSHMEM + " " + ncclWrong(v, got, via)
	}
	return w
}

func (v *view) wantNVSHMEMFamily(_ fabric.Interface, addr netip.Prefix) want {
	if addr.Addr().Is4() {
		return right("the nodes reach each other by IPv4")
	}
	return want{value: "AF_INET6", wrong: "NVSHMEM would look for an IPv4 address",
		seen: saw("this node's address", addr.String())}
}

// fabricSeen returns the kind of the fabric as evidence.
func (v *view) fabricSeen() []finding.Seen {
	return saw("the fabric of this node", string(v.fab.Kind)+": "+v.fab.Why)
}

func (v *view) wantTransport() want {
	if !v.needsPlugin() {
		return right("the fabric is " + string(v.fab.Kind))
	}
	return want{value: "libfabric", wrong: "NVSHMEM would look for InfiniBand verbs",
		because: "the fabric is " + string(v.fab.Kind), seen: v.fabricSeen()}
}

func (v *view) wantNVSHMEMProvider() want {
	if v.fab.Kind != rail.EFA {
		return right("the fabric is " + string(v.fab.Kind))
	}
	return want{value: "efa", wrong: "NVSHMEM would ask libfabric for cxi",
		because: "the fabric is EFA", seen: v.fabricSeen()}
}

func (v *view) wantHCAList() want {
	if v.has("NVSHMEM_HCA_PE_MAPPING") {
		return right("NVSHMEM_HCA_PE_MAPPING is set, which is more specific")
	}
	return wantHCA(setting.NVSHMEM, "")(v)
}

func (v *view) wantMapping() want {
	w := v.wantHCAList()
	if v.has("NVSHMEM_HCA_LIST") || w.wrong == "" {
		return right("launch sets no NVSHMEM_HCA_LIST")
	}
	w.value, w.wrong = "1", "NVSHMEM would ignore NVSHMEM_HCA_LIST"
	return w
}

func (v *view) wantHCAPrefix() want {
	rails := v.rails()
	if leadingInt(v.value("NVSHMEM_IB_ENABLE_IBGDA"), 0) == 0 || len(rails) == 0 {
		return right("NVSHMEM_IB_ENABLE_IBGDA is not set, or there is no InfiniBand or RoCE")
	}
	if slices.ContainsFunc(rails, func(p hcaPort) bool { return strings.Contains(p.hca.Name, "mlx5") }) {
		return right("the HCAs have mlx5 in their names")
	}
	common := rails[0].hca.Name
	for _, p := range rails {
		for !strings.HasPrefix(p.hca.Name, common) {
			common = common[:len(common)-1]
		}
	}
	common = strings.TrimRight(common, "0123456789")
	if common == "" {
		return right("the names of the HCAs have no common prefix")
	}
	return want{value: common, wrong: "NVSHMEM would skip every HCA without mlx5 in its name",
		because: "the HCAs are " + portList(rails),
		seen:    []finding.Seen{finding.Seen{Where: "/sys/class/infiniband", What: portList(rails)}}}
}

// frameworkRules returns the rules for libraries with their own variable for an address of the job.
func frameworkRules() []rule {
	const program = "the command or its script names it"
	return []rule{{
		name: "NIXL_ETCD_ENDPOINTS", scope: setting.Job, source: "ai-dynamo/nixl src/core/nixl_listener.cpp",
		alone: "has no etcd (nixlbench: one on its own node)",
		when:  program + ", and --store names an etcd that needs no key", value: "that etcd",
		used: (*view).nixl, want: (*view).wantEtcd,
	}, {
		name: "NIXL_ETCD_NAMESPACE", scope: setting.Job, source: "ai-dynamo/nixl src/core/nixl_listener.cpp",
		alone: "writes the keys of all jobs under /nixl/agents", when: "as for NIXL_ETCD_ENDPOINTS",
		value: "/nixl/agents/JOB", used: (*view).nixl, want: (*view).wantNamespace,
	}, {
		name: "JAX_COORDINATOR_ADDRESS", scope: setting.Job, source: "jax-ml/jax jax/_src/distributed.py",
		alone: "finds the coordinator on its own only under Slurm, Open MPI and on TPUs",
		when:  program, value: "ADDRESS:PORT of node rank 0",
		used: func(v *view) bool { return v.uses("jax", "JAX_COORDINATOR_") && !v.Mpirun },
		want: (*view).wantCoordinator,
	}, {
		name: "JAX_LOCAL_DEVICE_IDS", scope: setting.Node, source: "jax-ml/jax jax/_src/distributed.py",
		alone: "takes one GPU for a process that Slurm has numbered, or is numbered like that",
		when:  "the script calls jax.distributed.initialize() without arguments, once on each node",
		value: "all GPUs of the node; 0 without a GPU",
		used:  func(v *view) bool { return v.uses("jax.distributed.initialize()") && !v.Mpirun }, want: (*view).wantDevices,
	}, {
		name: "TF_CONFIG", scope: setting.Node,
		source: "TensorFlow tf.distribute.cluster_resolver.TFConfigClusterResolver",
		alone:  "trains on each node separately", when: program + ", and each node has one process",
		value: "the addresses of all nodes as workers, each with the port of node rank 0, and this node's rank",
		used:  func(v *view) bool { return v.uses("tensorflow", "TF_CONFIG") && !v.Mpirun }, want: (*view).wantTFConfig,
	}}
}

func (v *view) wantEtcd() want {
	if len(v.World.Store) == 0 {
		return right("the job's store is unknown, is launch's own, or needs a key")
	}
	value := strings.Join(v.World.Store, ",")
	return want{value: value, wrong: "NIXL would find no etcd, or nixlbench one on its own node",
		because: "it is the store of this job", seen: saw("the store of this job", value)}
}

func (v *view) wantNamespace() want {
	w := v.wantEtcd()
	if w.wrong == "" || v.has("NIXL_ETCD_ENDPOINTS") {
		return right("launch sets no NIXL_ETCD_ENDPOINTS")
	}
	w.value, w.wrong, w.because = "/nixl/agents/"+v.World.Job,
		"NIXL would share its keys with other jobs in that etcd", "this is job "+v.World.Job
	return w
}

func (v *view) wantCoordinator() want {
	if !v.World.Master.IsValid() || v.World.Master.Port() == 0 {
		return right("the address of node rank 0 is known only at the start")
	}
	value := v.World.Master.String()
	because := "it is node rank 0; call jax.distributed.initialize() without arguments in the script itself, or with " +
		"num_processes=int(os.environ[\"WORLD_SIZE\"]) and process_id=int(os.environ[\"RANK\"]), for which JAX has no " +
		"variables"
	switch {
	case !v.uses("jax.distributed.initialize()"):
	case v.wantDevices().wrong != "", v.has("JAX_LOCAL_DEVICE_IDS"):
		because = "it is node rank 0"
	default: // launch sets no numbers, since JAX would then take one GPU
		because = "it is node rank 0; where neither Slurm nor Open MPI 4 numbers the processes, the script has to: " +
			"jax.distributed.initialize(num_processes=int(os.environ[\"WORLD_SIZE\"]), " +
			"process_id=int(os.environ[\"RANK\"]))"
	}
	return want{value: value, wrong: "JAX finds the coordinator on its own only under Slurm, Open MPI and on TPUs",
		because: because, seen: saw("rendezvous", value)}
}

func (v *view) wantDevices() want {
	value := "0"
	switch n := v.Devices; {
	case n > 0:
		for i := range n - 1 {
			value += "," + strconv.Itoa(i+1)
		}
	case v.Tasks:
		return right("the node has several processes, and JAX takes one GPU for each")
	case v.gpuCount() != 0:
		return right("the number of GPUs that the process may use is unknown")
	}
	return want{value: value, wrong: "JAX would take one GPU of this node",
		because: "one process has all of them", seen: saw("GPUs for the process", strconv.Itoa(v.Devices))}
}

// wantTFConfig is for TensorFlow, which needs the address of every node.
func (v *view) wantTFConfig() want {
	port := v.World.Master.Port()
	switch {
	case v.Tasks:
		return right("the node has several processes, and TF_CONFIG lists one for each node")
	case !v.World.Master.IsValid() || port == 0 || len(v.World.All) != v.World.Nodes:
		return right("the addresses of the nodes are known only at the start")
	}
	type task struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	workers := finding.Map(v.World.All, func(a netip.Addr) string { return netip.AddrPortFrom(a, port).String() })
	b, err := json.Marshal(struct {
		Cluster map[string][]string `json:"cluster"`
		Task    task                `json:"task"`
	}{map[string][]string{"worker": workers}, task{"worker", v.World.Rank}})
	if err != nil {
		return right(err.Error())
	}
	return want{value: string(b), wrong: "TensorFlow would train on each node separately",
		because: "these are the nodes of the job", seen: saw("rendezvous", strings.Join(workers, ", "))}
}
