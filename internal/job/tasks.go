package job

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"launch/internal/finding"
	"launch/internal/hostlist"
	"launch/internal/setting"
)

// Tasks is this process's place among the tasks of the job, where srun or mpirun started launch
// several times on at least one node. The first task of a node (Local 0) starts the node, the
// others follow it. The zero Tasks is one task on each node.
type Tasks struct {
	Rank      int    `json:"rank"`            // of this task in the job
	Size      int    `json:"size"`            // tasks in the job
	Local     int    `json:"local"`           // this task's number on its node
	LocalSize int    `json:"local_size"`      // tasks on this node
	From      string `json:"from"`            // the source: "SLURM_STEP_TASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE"
	Group     string `json:"group,omitempty"` // what only the tasks of this node have in common; "": unknown
}

// tasks holds what the starter of several processes reports about them.
type tasks struct {
	Tasks
	rank    string // the variable of Rank
	by      string // "srun", "mpirun", "mpiexec"
	each    string // its line that starts one on each node
	nodes   int    // 0: unknown
	guessed bool   // nodes is a quotient
}

// mpi is an MPI's starter and the variables that it sets for its processes. Seen: Open MPI 4.1.4
// and 5.0.11, MPICH 5.0.2, Intel MPI 2021.19. None sets the number of the node.
type mpi struct {
	by, each                     string
	rank, size, local, localSize string
	nodes                        string   // nodes that have a process of this job; Open MPI 5 lacks it
	job                          []string // values that differ between jobs
	daemon                       []string // values that differ between jobs and nodes
	secret                       string   // 128 random bits that only the job's processes have; "": it gives none
}

// mpirunSecret holds 128 bits from /dev/urandom, which Open MPI 4 gives to the processes of a job
// (orte/util/pre_condition_transports.c). Open MPI 5 and MPICH have nothing like it.
const mpirunSecret = "OMPI_MCA_orte_precondition_transports"

func mpis() []mpi {
	return []mpi{{
		by: "mpirun", each: "mpirun --map-by ppr:1:node", rank: "OMPI_COMM_WORLD_RANK", size: "OMPI_COMM_WORLD_SIZE",
		local: "OMPI_COMM_WORLD_LOCAL_RANK", localSize: "OMPI_COMM_WORLD_LOCAL_SIZE", nodes: "OMPI_MCA_orte_num_nodes",
		job: []string{"PMIX_NAMESPACE"}, daemon: []string{"PMIX_NAMESPACE", "PMIX_SERVER_URI2"},
		secret: mpirunSecret,
	}, {
		by: "mpiexec", each: "mpiexec -ppn 1",
		rank: "PMI_RANK", size: "PMI_SIZE", local: "MPI_LOCALRANKID", localSize: "MPI_LOCALNRANKS",
		job: []string{"I_MPI_HYDRA_UUID"}, daemon: []string{"I_MPI_HYDRA_UUID", "HYDRA_BSTRAP_NODE_ID"},
	}}
}

// mpi reads the variables of the MPI that started this process. They go before the scheduler's, which
// may have started the MPI's daemon on this node. The only process of a job counts as started by hand.
func (r *resolver) mpi() (ok bool, err error) {
	if r.looking() && !(r.together() && r.in.Flags.Store.Set) { // mpirun names no node that could host a store
		r.looksAlone()
		return false, nil
	}
	for _, m := range mpis() {
		if r.own[m.rank] == "" || r.own[m.size] == "" || r.own[m.local] == "" || r.own[m.localSize] == "" {
			continue
		}
		t := tasks{rank: m.rank, by: m.by, each: m.each}
		t.From, t.Group = m.localSize, r.joined(m.daemon)
		to := map[string]*int{m.rank: &t.Rank, m.size: &t.Size, m.local: &t.Local, m.localSize: &t.LocalSize}
		if err := r.numbers(to); err != nil {
			return false, err
		}
		if err := t.check(r); err != nil {
			return false, err
		}
		if t.Size == 1 {
			return false, nil
		}
		r.tasks = t
		return true, r.mpiNodes(m)
	}
	return false, nil
}

// looksAlone says once that a check which mpirun started on several nodes has no store: they do not meet.
func (r *resolver) looksAlone() {
	for _, m := range mpis() {
		size, local := r.own[m.size], r.own[m.localSize]
		if !r.together() || size == "" || local == "" || size == local || r.own[m.rank] != "0" {
			continue
		}
		r.note(finding.Warnf("%s started this on several nodes (%s=%s, %s=%s), and there is no --store: each checks itself "+
			"alone", m.by, m.size, size, m.localSize, local).Named("job.store").
			Do("%s … %s   # HOST: one of the nodes; they then call and compare each other", m.by, r.with("--store", "HOST")))
		return
	}
}

// mpiNodes finds the number of nodes that the tasks are on.
func (r *resolver) mpiNodes(m mpi) error {
	t := &r.tasks
	from := setting.Source{Tier: setting.Scheduler, Name: m.size + "/" + m.localSize}
	switch given := r.own[m.nodes]; {
	case t.Size == t.LocalSize:
		t.nodes = 1
	case given != "":
		if err := r.numbers(map[string]*int{m.nodes: &t.nodes}); err != nil {
			return err
		}
		from.Name = m.nodes
	case t.Size%t.LocalSize == 0 && !r.in.Flags.NNodes.Set: // a typed number goes before a guess
		t.nodes, t.guessed = t.Size/t.LocalSize, true
	}
	if t.nodes > 0 {
		r.sched.nodes = claim{strconv.Itoa(t.nodes), from, true}
	}
	if t.nodes == t.Size { // one on each
		r.sched.index = r.variable(m.rank)
	}
	if id := r.firstOf(m.job...); id.Set {
		r.sched.id, r.sched.secret = claim{"mpi-" + id.V, id.From, true}, r.variable(m.secret)
	}
	r.sched.fix = m.by + " … " + r.with("--store", "HOST") + "   # HOST: one of the nodes"
	return nil
}

// looking reports whether there is no command: nothing is started, so no other node is needed.
func (r *resolver) looking() bool { return len(r.in.Argv) == 0 }

// together reports whether this is a subcommand that the nodes of a job run together.
func (r *resolver) together() bool { return r.in.Subcommand == "check" || r.in.Subcommand == "bench" }

// joined returns the variables that are set, as one text.
func (r *resolver) joined(names []string) string {
	all := ""
	for _, name := range names {
		if v := r.own[name]; v != "" {
			all += name + "=" + v + " "
		}
	}
	return all
}

// numbers parses the counts and ranks that a starter sets.
func (r *resolver) numbers(to map[string]*int) error {
	for _, name := range slices.Sorted(maps.Keys(to)) {
		n, err := strconv.Atoi(r.own[name])
		if err != nil || n < 0 {
			return r.variable(name).refuse(r.without(name), "it is not an integer from 0")
		}
		*to[name] = n
	}
	return nil
}

// check refuses numbers that contradict each other.
func (t tasks) check(r *resolver) error {
	if t.LocalSize >= 1 && t.Size >= t.LocalSize && t.Rank < t.Size && t.Local < t.LocalSize && t.Local <= t.Rank {
		return nil
	}
	return contradiction(r.without(t.rank),
		"%s and %s contradict each other: task %d of %d, number %d of %d on this node",
		t.rank, t.From, t.Rank, t.Size, t.Local, t.LocalSize)
}

// slurmTasks reads the number of tasks of this step on each of its nodes.
func (r *resolver) slurmTasks() error {
	const perNode = "SLURM_STEP_TASKS_PER_NODE"
	per := r.variable(perNode)
	if !per.Set || r.looking() && !r.together() {
		return nil
	}
	t := tasks{rank: "SLURM_PROCID", by: "srun", each: "srun --ntasks-per-node=1"}
	counts, err := hostlist.Counts(per.V)
	if err != nil {
		return contradiction(t.each+" "+r.paste(), "%s: %v", perNode, err)
	}
	for _, n := range counts {
		t.Size += n
	}
	t.nodes = len(counts)
	if t.Size == t.nodes { // one on each
		return nil
	}
	node := 0
	to := map[string]*int{"SLURM_NODEID": &node, "SLURM_PROCID": &t.Rank, "SLURM_LOCALID": &t.Local}
	if err := r.numbers(to); err != nil {
		return err
	}
	if nodes := r.sched.nodes; node >= len(counts) || nodes.Set && nodes.V != strconv.Itoa(len(counts)) {
		return contradiction(r.without("SLURM_JOB_ID"), "%s has %d nodes, which contradicts SLURM_NODEID=%d and %s",
			per, len(counts), node, nodes)
	}
	t.LocalSize, t.From = counts[node], perNode
	t.Group = fmt.Sprintf("%s node %d", r.sched.id.V, node)
	r.tasks = t
	return t.check(r)
}

// spread decides, once the number of nodes is known, whether a node has several
// tasks, and checks the numbers.
func (r *resolver) spread() error {
	t, nodes := r.tasks, r.job.Nodes
	if t.Size == 0 {
		return nil
	}
	if r.line.Kind.Torch() && t.LocalSize > 1 {
		return r.oneEach()
	}
	switch {
	case !nodes.Set:
		return contradiction(t.by+" … "+r.paste("--nnodes", "4", "--store", "HOST")+"   # HOST: one of the nodes",
			"%s started %d tasks, %d of them on this node (%s), but the number of nodes is not set",
			t.by, t.Size, t.LocalSize, t.From)
	case nodes.V == 1 && t.Size > t.LocalSize: // asked for: each node a world of its own
		if t.LocalSize == 1 {
			return nil
		}
		t.Rank, t.Size = t.Local, t.LocalSize
	case t.LocalSize == 1 && (t.nodes == t.Size || t.nodes == 0 && nodes.V >= t.Size): // one on each
		if t.nodes == 0 {
			r.sched.index = scheduled(strconv.Itoa(t.Rank), t.rank)
		}
		return nil
	case r.line.Kind.Torch():
		return r.oneEach()
	case nodes.V > t.Size-t.LocalSize+1, t.nodes != 0 && !t.guessed && nodes.V != t.nodes:
		return contradiction(fmt.Sprintf("drop %s, or start launch once on each node: %s", nodes.From.Name, t.each),
			"%d nodes (%s) contradict %s, which started %d tasks, %d of them on this node (%s)",
			nodes.V, nodes.From.Name, t.by, t.Size, t.LocalSize, t.From)
	}
	r.job.Tasks = t.Tasks
	return nil
}

// oneEach returns the error for several torchruns on a node: torchrun starts the
// processes of its node itself.
func (r *resolver) oneEach() error {
	t := r.tasks
	what := fmt.Sprintf("%s started %d tasks, %d of them on this node (%s=%[3]d)", t.by, t.Size, t.LocalSize, t.From)
	if t.by == "srun" {
		what = fmt.Sprintf("%s: srun started several tasks on a node", r.variable(t.From))
	}
	return contradiction(t.each+" "+r.paste(),
		"%s, but %s runs once per node: it starts its processes itself", what, r.line.Name())
}

// first resolves the index of a node with tasks. Task 0 listens at MASTER_ADDR, the address of node
// 0, so node 0 is the node with task 0. Only the first task of a node joins and needs an index.
func (r *resolver) first() error {
	t, index := r.job.Tasks, r.job.Index
	if t.Size == 0 {
		return nil
	}
	r.job.Single = false
	if zero := index.Set && index.V == 0; r.job.Several() && t.Local == 0 && zero != (t.Rank == 0) {
		r.reindex()
	}
	rank, world := r.ambient("RANK"), r.ambient("WORLD_SIZE")
	if rank.Set && rank.V != strconv.Itoa(t.Rank) || world.Set && world.V != strconv.Itoa(t.Size) {
		return contradiction("unset RANK WORLD_SIZE; "+r.tasks.by+" … "+r.paste(),
			"RANK=%s WORLD_SIZE=%s contradict %s: this is task %d of %d, and launch sets both itself",
			rank.V, world.V, r.tasks.by, t.Rank, t.Size)
	}
	return nil
}

func (r *resolver) reindex() {
	t, index := r.job.Tasks, r.job.Index
	if index.Set {
		f := finding.Warnf("%s=%d is ignored: node 0 must be the node with task 0 (%s), because MASTER_ADDR points there",
			index.From.Name, index.V, r.tasks.rank)
		if index.From.Tier >= setting.Scheduler {
			f.Status = finding.Skip
		}
		r.note(f.Named("job.index").See(r.tasks.rank, "%d", t.Rank))
	}
	r.job.Index, r.job.Vouch = setting.Value[int]{}, NoIndex
	if t.Rank == 0 {
		from := setting.Source{Tier: setting.Scheduler, Name: r.tasks.rank}
		r.job.Index, r.job.Vouch = setting.Value[int]{From: from, Set: true}, Scheduled
	}
}
