package envgen

import (
	"encoding/json"
	"net"
	"strconv"
	"strings"

	"launch/internal/setting"
)

// frameworkRules returns the rules for libraries with their own variable for an address of the job.
func frameworkRules() []rule {
	const program = "the command or its script names it"
	return []rule{{
		name: "NIXL_ETCD_ENDPOINTS", scope: setting.Job, source: "ai-dynamo/nixl src/core/nixl_listener.cpp",
		alone: "has no etcd (nixlbench: one on its own node)",
		when:  program + ", and the store is an etcd that needs no key", value: "that etcd",
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
		name: "TF_CONFIG", scope: setting.Node,
		source: "TensorFlow tf.distribute.cluster_resolver.TFConfigClusterResolver",
		alone:  "trains on each node separately", when: program + ", and a scheduler lists the hosts",
		value: "the hosts as workers, and this node's rank",
		used:  func(v *view) bool { return v.uses("tensorflow", "TF_CONFIG") && !v.Mpirun }, want: (*view).wantTFConfig,
	}}
}

func (v *view) wantEtcd() want {
	if len(v.World.Store) == 0 {
		return right("the job's store is unknown, or uses TLS with launch's own key")
	}
	value := strings.Join(v.World.Store, ",")
	return want{value: value, wrong: "NIXL would find no etcd, or nixlbench one on its own node",
		because: "it is the store of this job",
		seen:    saw("the store of this job", value)}
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
	return want{value: value, wrong: "JAX finds the coordinator on its own only under Slurm, Open MPI and on TPUs",
		because: "it is node rank 0; call jax.distributed.initialize with " +
			"num_processes=int(os.environ[\"WORLD_SIZE\"]) and process_id=int(os.environ[\"RANK\"]), for which JAX " +
			"has no variables",
		seen: saw("rendezvous", value)}
}

// wantTFConfig is for TensorFlow, which needs the address of every node. Only a
// scheduler lists them.
func (v *view) wantTFConfig() want {
	port := int(v.World.Master.Port())
	if !v.World.Master.IsValid() || port == 0 {
		return right("the ranks of the nodes are known only at the start")
	}
	if len(v.World.Hosts) != v.World.Nodes {
		return right("it needs the address of every node: a node only learns that of rank 0, and no scheduler lists " +
			"the others. MASTER_ADDR, RANK and WORLD_SIZE are set")
	}
	type task struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	var workers []string
	for _, h := range v.World.Hosts {
		workers = append(workers, net.JoinHostPort(h, strconv.Itoa(port)))
	}
	b, err := json.Marshal(struct {
		Cluster map[string][]string `json:"cluster"`
		Task    task                `json:"task"`
	}{map[string][]string{"worker": workers}, task{"worker", v.World.Rank}})
	if err != nil {
		return right(err.Error())
	}
	return want{value: string(b), wrong: "TensorFlow would train on each node separately",
		because: "the scheduler lists the hosts",
		seen:    saw("the scheduler's hosts", strings.Join(v.World.Hosts, ", "))}
}
