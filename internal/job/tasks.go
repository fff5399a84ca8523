package job

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/hostlist"
	"launch/internal/launcher"
	"launch/internal/setting"
)

// Tasks says that launch was started several times on at least one node of the
// job, by srun or mpirun, and which of these processes this one is. The first
// of a node (Local 0) starts the node, the others follow it. The zero Tasks is
// once on each node.
type Tasks struct {
	Rank      int    `json:"rank"`            // of this task in the job
	Size      int    `json:"size"`            // tasks in the job
	Local     int    `json:"local"`           // this task's number on its node
	LocalSize int    `json:"local_size"`      // tasks on this node
	From      string `json:"from"`            // who says so: "SLURM_STEP_TASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE"
	Group     string `json:"group,omitempty"` // what the tasks of this node have in common, and no others; "": no variable tells
}

// tasks is what the starter of several processes says about them.
type tasks struct {
	Tasks
	rank    string // the variable of Rank
	by      string // "srun", "mpirun", "mpiexec"
	each    string // its line that starts one for each node
	nodes   int    // 0: it does not tell on how many nodes they are
	guessed bool   // nodes is by division
}

// mpi is an MPI's starter and the variables that it gives its processes. Seen:
// Open MPI 4.1.4 and 5.0.11, MPICH 5.0.2, Intel MPI 2021.19. None tells a
// process the number of its node.
type mpi struct {
	by, each                     string
	rank, size, local, localSize string
	nodes                        string   // nodes that have a process of this job; Open MPI 5 lacks it
	job                          []string // that differ between jobs
	daemon                       []string // that differ between jobs and nodes
}

func mpis() []mpi {
	return []mpi{{
		by: "mpirun", each: "mpirun --map-by ppr:1:node",
		rank: "OMPI_COMM_WORLD_RANK", size: "OMPI_COMM_WORLD_SIZE", local: "OMPI_COMM_WORLD_LOCAL_RANK", localSize: "OMPI_COMM_WORLD_LOCAL_SIZE",
		nodes: "OMPI_MCA_orte_num_nodes", job: []string{"PMIX_NAMESPACE"}, daemon: []string{"PMIX_NAMESPACE", "PMIX_SERVER_URI2"},
	}, {
		by: "mpiexec", each: "mpiexec -ppn 1",
		rank: "PMI_RANK", size: "PMI_SIZE", local: "MPI_LOCALRANKID", localSize: "MPI_LOCALNRANKS",
		job: []string{"I_MPI_HYDRA_UUID"}, daemon: []string{"I_MPI_HYDRA_UUID", "HYDRA_BSTRAP_NODE_ID"},
	}}
}

// mpi reads what the MPI says whose process this is. It goes before the
// scheduler, which may have started the MPI's daemon on this node. The only
// process of its job is started as if by hand.
func (r *resolver) mpi() (ok bool, err error) {
	if r.looking() {
		return false, nil
	}
	for _, m := range mpis() {
		if r.own[m.rank] == "" || r.own[m.size] == "" || r.own[m.local] == "" || r.own[m.localSize] == "" {
			continue
		}
		t := tasks{rank: m.rank, by: m.by, each: m.each}
		t.From, t.Group = m.localSize, r.joined(m.daemon)
		if err := r.numbers(map[string]*int{m.rank: &t.Rank, m.size: &t.Size, m.local: &t.Local, m.localSize: &t.LocalSize}); err != nil {
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

// mpiNodes finds out on how many nodes the tasks are.
func (r *resolver) mpiNodes(m mpi) error {
	t := &r.tasks
	from := setting.Source{Tier: setting.Scheduler, Name: m.size + "/" + m.localSize}
	switch told := r.own[m.nodes]; {
	case t.Size == t.LocalSize:
		t.nodes = 1
	case told != "":
		if err := r.numbers(map[string]*int{m.nodes: &t.nodes}); err != nil {
			return err
		}
		from.Name = m.nodes
	case t.Size%t.LocalSize == 0 && !r.in.Flags.NNodes.Set: // who gives a number knows better
		t.nodes, t.guessed = t.Size/t.LocalSize, true
	}
	if t.nodes > 0 {
		r.sched.nodes = claim{strconv.Itoa(t.nodes), from, true}
	}
	if t.nodes == t.Size { // one on each
		r.sched.index = r.variable(m.rank)
	}
	if id := r.firstOf(m.job...); id.set {
		r.sched.id = claim{"mpi-" + id.raw, id.from, true}
	}
	r.sched.fix = m.by + " … " + r.with("--store", "HOST") + "   # HOST: one of the nodes"
	return nil
}

// looking tells that there is no command: nothing is started, and who only looks
// at a node needs no other.
func (r *resolver) looking() bool { return len(r.in.Argv) == 0 }

// joined is the values of variables, "" where none is set.
func (r *resolver) joined(names []string) string {
	all := ""
	for _, name := range names {
		if v := r.own[name]; v != "" {
			all += name + "=" + v + " "
		}
	}
	return all
}

// numbers reads counts and ranks that a starter gives.
func (r *resolver) numbers(to map[string]*int) error {
	for _, name := range slices.Sorted(maps.Keys(to)) {
		n, err := strconv.Atoi(r.own[name])
		if err != nil || n < 0 {
			return r.variable(name).refuse("env -u "+name+" "+r.paste("--nnodes", "4", "--store", "HOST"), "it is not a number from 0 on")
		}
		*to[name] = n
	}
	return nil
}

// check refuses numbers that do not fit together.
func (t tasks) check(r *resolver) error {
	if t.LocalSize >= 1 && t.Size >= t.LocalSize && t.Rank < t.Size && t.Local < t.LocalSize && t.Local <= t.Rank {
		return nil
	}
	return &exit.Error{
		Code: exit.Config,
		What: fmt.Sprintf("%s and %s contradict each other: task %d of %d, number %d of %d on this node", t.rank, t.From, t.Rank, t.Size, t.Local, t.LocalSize),
		Fix:  "env -u " + t.rank + " " + r.paste("--nnodes", "4", "--store", "HOST"),
	}
}

// slurmTasks reads how many tasks of this step each of its nodes has.
func (r *resolver) slurmTasks() error {
	const perNode = "SLURM_STEP_TASKS_PER_NODE"
	per := r.variable(perNode)
	if !per.set || r.looking() {
		return nil
	}
	t := tasks{rank: "SLURM_PROCID", by: "srun", each: "srun --ntasks-per-node=1"}
	counts, err := hostlist.Counts(per.raw)
	if err != nil {
		return &exit.Error{Code: exit.Config, What: fmt.Sprintf("%s: %v", perNode, err), Fix: t.each + " " + r.paste()}
	}
	for _, n := range counts {
		t.Size += n
	}
	t.nodes = len(counts)
	if t.Size == t.nodes { // one on each
		return nil
	}
	node := 0
	if err := r.numbers(map[string]*int{"SLURM_NODEID": &node, "SLURM_PROCID": &t.Rank, "SLURM_LOCALID": &t.Local}); err != nil {
		return err
	}
	if nodes := r.sched.nodes; node >= len(counts) || nodes.set && nodes.raw != strconv.Itoa(len(counts)) {
		return &exit.Error{
			Code: exit.Config,
			What: fmt.Sprintf("%s is about %d nodes, which contradicts SLURM_NODEID=%d and %s", per, len(counts), node, nodes),
			Fix:  "env -u SLURM_JOB_ID " + r.paste("--nnodes", "4", "--store", "HOST"),
		}
	}
	t.LocalSize, t.From = counts[node], perNode
	t.Group = fmt.Sprintf("%s node %d", r.sched.id.raw, node)
	r.tasks = t
	return t.check(r)
}

// spread settles, now that the number of nodes is known, whether a node has
// several tasks, and whether the numbers can be.
func (r *resolver) spread() error {
	t, nodes := r.tasks, r.job.Nodes
	if t.Size == 0 {
		return nil
	}
	if r.line.Kind == launcher.Torchrun && t.LocalSize > 1 {
		return r.oneEach()
	}
	switch {
	case !nodes.Set:
		return &exit.Error{
			Code: exit.Config,
			What: fmt.Sprintf("%s started %d tasks, %d of them on this node (%s), but nobody says on how many nodes", t.by, t.Size, t.LocalSize, t.From),
			Fix:  t.by + " … " + r.paste("--nnodes", "4", "--store", "HOST") + "   # HOST: one of the nodes",
		}
	case nodes.V == 1 && t.Size > t.LocalSize: // asked for: each node a world of its own
		if t.LocalSize == 1 {
			return nil
		}
		t.Rank, t.Size = t.Local, t.LocalSize
	case t.LocalSize == 1 && (t.nodes == t.Size || t.nodes == 0 && nodes.V >= t.Size): // one on each
		if t.nodes == 0 {
			r.sched.index = claim{strconv.Itoa(t.Rank), setting.Source{Tier: setting.Scheduler, Name: t.rank}, true}
		}
		return nil
	case r.line.Kind == launcher.Torchrun:
		return r.oneEach()
	case nodes.V > t.Size-t.LocalSize+1, t.nodes != 0 && !t.guessed && nodes.V != t.nodes:
		return &exit.Error{
			Code: exit.Config,
			What: fmt.Sprintf("%d nodes (%s) contradict %s, which started %d tasks, %d of them on this node (%s)", nodes.V, nodes.From.Name, t.by, t.Size, t.LocalSize, t.From),
			Fix:  fmt.Sprintf("drop %s, or start launch once on each node: %s", nodes.From.Name, t.each),
		}
	}
	r.job.Tasks = t.Tasks
	return nil
}

// oneEach refuses to start torchrun several times on a node: it starts the
// processes of its node itself.
func (r *resolver) oneEach() error {
	t := r.tasks
	what := fmt.Sprintf("%s started %d tasks, %d of them on this node (%s=%d)", t.by, t.Size, t.LocalSize, t.From, t.LocalSize)
	if t.by == "srun" {
		what = fmt.Sprintf("%s: srun started several tasks on a node", r.variable(t.From))
	}
	return &exit.Error{
		Code: exit.Config,
		What: what + ", but torchrun is started once per node: it starts its processes itself",
		Fix:  t.each + " " + r.paste(),
	}
}

// first settles the index of a node with tasks. MASTER_ADDR is the address of
// node 0 and task 0 listens there, so node 0 is the one that has task 0. Only a
// node's first task joins and needs an index.
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
	if rank.set && rank.raw != strconv.Itoa(t.Rank) || world.set && world.raw != strconv.Itoa(t.Size) {
		return &exit.Error{
			Code: exit.Config,
			What: fmt.Sprintf("RANK=%s WORLD_SIZE=%s contradict %s: this is task %d of %d, and launch sets both itself", rank.raw, world.raw, r.tasks.by, t.Rank, t.Size),
			Fix:  "unset RANK WORLD_SIZE; " + r.tasks.by + " … " + r.paste(),
		}
	}
	return nil
}

func (r *resolver) reindex() {
	t, index := r.job.Tasks, r.job.Index
	if index.Set {
		f := finding.Warnf("%s=%d is not used: node 0 is the one with task 0 (%s), whose address is MASTER_ADDR", index.From.Name, index.V, r.tasks.rank)
		if index.From.Tier >= setting.Scheduler {
			f.Status = finding.Skip
		}
		r.note(f.Named("job.index").See(r.tasks.rank, "%d", t.Rank))
	}
	r.job.Index, r.job.Vouch = setting.Value[int]{}, NoIndex
	if t.Rank == 0 {
		r.job.Index, r.job.Vouch = setting.Value[int]{From: setting.Source{Tier: setting.Scheduler, Name: r.tasks.rank}, Set: true}, Scheduled
	}
}
