package job

import (
	"launch/internal/launcher"
)

// scheduler holds the claims of Kubernetes, Slurm or the MPI that started this process.
type scheduler struct {
	nodes, index, host, id claim
	role                   claim    // the group of nodes to which this one belongs, where it has several
	hosts                  []string // the node list, in index order
	secret                 claim    // what only the job's own processes know
	node                   string   // Slurm's name of this node
	port                   int      // of an embedded store of its own; 0: DefaultStorePort

	nowhere, fix string // why it names no store address, and what to do
	alone        string // why this process is no task of a job of several nodes
}

// scheduler reads the first of the schedulers and controllers that started this process.
func (r *resolver) scheduler() error {
	r.readPod()
	if ok, err := r.mpi(); ok || err != nil {
		return err
	}
	if r.own["SLURM_JOB_ID"] != "" && r.own[completionIndex] == "" {
		return r.slurm()
	}
	if r.job.Pod == nil {
		return nil
	}
	for _, controller := range []func() bool{r.leaderWorkerSet, r.indexedJob, r.masterAndWorkers, r.volcano,
		r.mpiJob, r.byHand, r.statefulSet, r.rayCluster} {
		if controller() {
			break
		}
	}
	return nil
}

// askedNodes returns the number of nodes that a person or an operator set; 0: none did.
func (r *resolver) askedNodes() int {
	claims := []claim{claim(r.in.Flags.NNodes), said(r.line.NNodes), r.ambient("PET_NNODES")}
	if r.line.Kind == launcher.Program {
		claims = append(claims, r.ambient("WORLD_SIZE"))
	}
	for _, c := range claims {
		if _, high, err := launcher.ParseNNodes(c.V); c.Set && err == nil {
			return high
		}
	}
	return 0
}
