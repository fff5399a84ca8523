package job

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"launch/internal/finding"
	"launch/internal/launcher"
)

// leaderWorkerSet reads the pod of a LeaderWorkerSet: each of its groups is a job. The variables are in all
// versions but LWS_WORKER_INDEX; a worker's name is that of its leader and its index.
// Source: pkg/utils/pod/pod_utils.go of kubernetes-sigs/lws.
func (r *resolver) leaderWorkerSet() bool {
	leader := r.variable("LWS_LEADER_ADDRESS")
	if !leader.Set {
		return false
	}
	p := r.job.Pod
	name := short(leader.V)
	r.sched.nodes, r.sched.index = r.variable("LWS_GROUP_SIZE"), r.variable("LWS_WORKER_INDEX")
	if !r.sched.index.Set {
		if rest, ok := strings.CutPrefix(p.Name, name+"-"); ok {
			r.sched.index = scheduled(rest, PodHostName)
		} else if p.Name == name {
			r.sched.index = scheduled("0", PodHostName)
		}
	}
	r.sched.role = schedulersRole("worker", r.sched.index.From.Name)
	if r.sched.index.V == "0" {
		r.sched.role.V = "leader"
	}
	r.sched.host, r.sched.id = leader, leader
	if set, _, ok := (&Pod{Name: name}).numbered(); ok {
		p.Owner, p.Selector = "leaderworkerset/"+set, "leaderworkerset.sigs.k8s.io/name="+set
	}
	return true
}

// masterAndWorkers reads the pod of an operator that counts nodes in RANK: Kubeflow's PyTorchJob, and Volcano's
// plugin pytorch. The three of MASTER_ADDR, RANK and the host name agree in no other pod.
// Source: pkg/controller.v1/pytorch/envvar.go of kubeflow/training-operator; since its version 1.7 WORLD_SIZE counts
// processes, and PET_NNODES nodes.
func (r *resolver) masterAndWorkers() bool {
	addr, rank := r.variable("MASTER_ADDR"), r.variable("RANK")
	base, ok := strings.CutSuffix(short(addr.V), "-master-0")
	n, err := strconv.Atoi(rank.V)
	if !ok || err != nil || n < 0 {
		return false
	}
	p := r.job.Pod
	if want := fmt.Sprintf("%s-worker-%d", base, n-1); p.Name != want && (n > 0 || p.Name != short(addr.V)) {
		return false
	}
	r.sched.nodes, r.sched.index = r.firstOf("PET_NNODES", "WORLD_SIZE"), rank
	r.sched.host, r.sched.id = addr, scheduled(base, "MASTER_ADDR")
	r.sched.role = schedulersRole("worker", rank.From.Name)
	if n == 0 {
		r.sched.role.V = "master"
	}
	if r.own["PET_NNODES"] != "" {
		p.Owner, p.Selector = "pytorchjob/"+base, "training.kubeflow.org/job-name="+base
	}
	return true
}

// statefulSet reads a numbered pod whose name others can resolve: of a StatefulSet, or one that a person named.
// Only the name says so: what a person set goes before it.
func (r *resolver) statefulSet() bool {
	p := r.job.Pod
	base, number, ok := p.numbered()
	if !ok || p.Service == "" || r.firstOf("PET_NODE_RANK", "NODE_RANK", "RANK").Set {
		return false
	}
	switch n := r.askedNodes(); {
	case n == 0 && number != "0" && r.line.Kind.Torch() && !r.looking() && !r.line.Standalone.Set:
		r.note(finding.Warnf("pod %s starts one node of its own", p.Name).Named("job.nodes").
			Breaking("each of the pods trains alone, if they were meant to train together").
			Do("if they are one job, in the container's env: {name: LAUNCH_NNODES, value: \"4\"}   # the number of pods"))
		return false
	case n < 2:
		return false
	}
	if c, ok := r.samePods(); ok && p.elsewhere(c.V, base+"-0") {
		return false
	}
	r.sched.index = scheduled(number, PodHostName)
	r.sched.host = scheduled(p.sibling(base+"-0"), PodHostName)
	r.sched.id = scheduled(p.sibling(base), PodHostName)
	return true
}

// mpiJob reads the launcher pod of Kubeflow's MPIJob, which reaches its workers by mpirun alone.
// Source: pkg/controller/mpi_job_controller.go of kubeflow/mpi-operator.
func (r *resolver) mpiJob() bool {
	file := r.firstOf("OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE")
	if r.own["K_MPI_JOB_ROLE"] != "launcher" || !file.Set || !r.line.Kind.Torch() {
		return false
	}
	if hosts := r.hostfile(file.V); len(hosts) > 1 {
		each := "mpirun --map-by ppr:1:node "
		if file.From.Name != "OMPI_MCA_orte_default_hostfile" {
			each = "mpiexec -ppn 1 "
		}
		r.sched.alone = fmt.Sprintf("this pod is the launcher of an MPIJob with %d workers", len(hosts))
		r.sched.fix = each + r.paste("--store", hosts[0])
	}
	return true
}

// byHand reads RANK, WORLD_SIZE and MASTER_ADDR that a person put into the pod: torchrun reads none of them, and
// would start one node.
func (r *resolver) byHand() bool {
	size, rank, addr := r.ambient("WORLD_SIZE"), r.ambient("RANK"), r.ambient("MASTER_ADDR")
	n, err := strconv.Atoi(size.V)
	if !r.line.Kind.Torch() || err != nil || n < 2 || !rank.Set || !addr.Set || addr.V == "localhost" {
		return false
	}
	if a, err := netip.ParseAddr(addr.V); err == nil && a.IsLoopback() {
		return false
	}
	r.sched.alone = fmt.Sprintf("%s, %s and %s are of several nodes, but %s reads none of them", rank, size, addr,
		r.line.Name())
	r.sched.fix = r.paste("--nnodes", size.V, "--node-rank", rank.V, "--store", addr.V) +
		"   # WORLD_SIZE is the number of pods here, and RANK this pod's"
	return false
}

// rayCluster reads a pod of KubeRay, where Ray starts the processes on the other pods.
// Source: ray-operator/controllers/ray/common/pod.go of ray-project/kuberay.
func (r *resolver) rayCluster() bool {
	head := r.variable("FQ_RAY_IP")
	if !head.Set || r.line.Kind == launcher.Ray {
		return false
	}
	r.sched.nowhere = "in a RayCluster, Ray starts the processes on the other pods, and not this command"
	r.sched.fix = r.paste("--store", head.V) + "   # if this line runs in the head's pod too, and in all others"
	return true
}
