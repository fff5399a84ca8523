package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/finding"
	"launch/internal/setting"
)

// ompi4 is the environment of task rank of 4 that Open MPI 4.1.4 started by
// mpirun -H a:2,b:2 -np 4, of 49 variables those that are about the tasks.
func ompi4(rank int) []string {
	return []string{
		"OMPI_APP_CTX_NUM_PROCS=4", "OMPI_COMM_WORLD_SIZE=4", fmt.Sprintf("OMPI_COMM_WORLD_RANK=%d", rank),
		fmt.Sprintf("OMPI_COMM_WORLD_LOCAL_RANK=%d", rank%2), "OMPI_COMM_WORLD_LOCAL_SIZE=2",
		fmt.Sprintf("OMPI_COMM_WORLD_NODE_RANK=%d", rank%2), // its number on the node, over all jobs there
		"OMPI_MCA_orte_num_nodes=2", "OMPI_MCA_orte_node_regex=vm,a,b@0(3)", "OMPI_UNIVERSE_SIZE=6",
		"PMIX_NAMESPACE=1553334273", fmt.Sprintf("PMIX_RANK=%d", rank),
		fmt.Sprintf("PMIX_SERVER_URI2=1553334272.%d;tcp4://127.0.0.1:34513", rank/2+1),
	}
}

// ompi5 is the same of Open MPI 5.0.11, which does not report the number of nodes.
func ompi5(rank int) []string {
	return []string{
		"OMPI_COMM_WORLD_SIZE=4", fmt.Sprintf("OMPI_COMM_WORLD_RANK=%d", rank),
		fmt.Sprintf("OMPI_COMM_WORLD_LOCAL_RANK=%d", rank%2), "OMPI_COMM_WORLD_LOCAL_SIZE=2", "OMPI_UNIVERSE_SIZE=6",
		"PMIX_NAMESPACE=prterun-vm-13128@1", "PMIX_SERVER_URI2=prterun-vm-13128@0.1;tcp4://127.0.0.1:47237",
	}
}

// mpich is the same of MPICH 5.0.2, all of it.
func mpich(rank int) []string {
	return []string{
		"PMI_SIZE=4", fmt.Sprintf("PMI_RANK=%d", rank), "MPI_LOCALNRANKS=2", fmt.Sprintf("MPI_LOCALRANKID=%d", rank%2),
		"PMI_FD=11", "PMI_HOSTNAME=a",
	}
}

// but replaces or removes (NAME=) variables of an environment.
func but(env []string, changes ...string) []string {
	for _, kv := range changes {
		name, value, _ := strings.Cut(kv, "=")
		env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, name+"=") })
		if value != "" {
			env = append(env, kv)
		}
	}
	return env
}

// tasksStep is a step over n[1-3] with 2, 2 and 1 tasks, seen by the local'th
// of a node.
func tasksStep(node, local int) []string {
	return but(step("n[1-3]", node), "SLURM_STEP_NUM_NODES=3", "SLURM_STEP_TASKS_PER_NODE=2(x2),1",
		fmt.Sprintf("SLURM_PROCID=%d", 2*node+local), fmt.Sprintf("SLURM_LOCALID=%d", local))
}

func onH(f *Flags) { f.Store = flagged("--store", "h") }

func TestTasksOfSeveralNodes(t *testing.T) {
	const group = "PMIX_NAMESPACE=1553334273 PMIX_SERVER_URI2=1553334272.2;tcp4://127.0.0.1:34513 "
	none := setting.Value[int]{}
	for what, c := range map[string]struct {
		in    Input
		nodes setting.Value[int]
		index setting.Value[int]
		tasks Tasks
		id    string
	}{
		"Slurm's first": {on("n1", input("python t.py", tasksStep(0, 0)...)),
			setting.Value[int]{V: 3, From: setting.Source{Tier: setting.Scheduler, Name: "SLURM_STEP_NUM_NODES"},
				Set: true}, setting.Value[int]{V: 0, From: setting.Source{Tier: setting.Scheduler,
				Name: "SLURM_NODEID"}, Set: true},
			Tasks{0, 5, 0, 2, "SLURM_STEP_TASKS_PER_NODE", "slurm-7.0 node 0"}, "slurm-7.0"},
		"Slurm's second of the second": {on("n2", input("python t.py", tasksStep(1, 1)...)),
			setting.Value[int]{V: 3, From: setting.Source{Tier: setting.Scheduler, Name: "SLURM_STEP_NUM_NODES"},
				Set: true}, setting.Value[int]{V: 1, From: setting.Source{Tier: setting.Scheduler,
				Name: "SLURM_NODEID"}, Set: true},
			Tasks{3, 5, 1, 2, "SLURM_STEP_TASKS_PER_NODE", "slurm-7.0 node 1"}, "slurm-7.0"},
		"Slurm's only one of its node": {on("n3", input("python t.py", tasksStep(2, 0)...)),
			setting.Value[int]{V: 3, From: setting.Source{Tier: setting.Scheduler, Name: "SLURM_STEP_NUM_NODES"},
				Set: true}, setting.Value[int]{V: 2, From: setting.Source{Tier: setting.Scheduler,
				Name: "SLURM_NODEID"}, Set: true},
			Tasks{4, 5, 0, 1, "SLURM_STEP_TASKS_PER_NODE", "slurm-7.0 node 2"}, "slurm-7.0"},
		"Open MPI 4, the node of task 0": {input("python t.py", ompi4(0)...).with(onH),
			setting.Value[int]{V: 2, From: setting.Source{Tier: setting.Scheduler, Name: "OMPI_MCA_orte_num_nodes"},
				Set: true}, setting.Value[int]{V: 0, From: setting.Source{Tier: setting.Scheduler,
				Name: "OMPI_COMM_WORLD_RANK"}, Set: true},
			Tasks{0, 4, 0, 2, "OMPI_COMM_WORLD_LOCAL_SIZE", strings.Replace(group, ".2;", ".1;", 1)}, "mpi-1553334273"},
		"Open MPI 4, another node": {input("python t.py", ompi4(2)...).with(onH),
			setting.Value[int]{V: 2, From: setting.Source{Tier: setting.Scheduler, Name: "OMPI_MCA_orte_num_nodes"},
				Set: true}, none,
			Tasks{2, 4, 0, 2, "OMPI_COMM_WORLD_LOCAL_SIZE", group}, "mpi-1553334273"},
		"Open MPI 4, uneven": {input("python t.py", but(ompi4(3), "OMPI_COMM_WORLD_LOCAL_SIZE=1",
			"OMPI_COMM_WORLD_LOCAL_RANK=0")...).with(onH),
			setting.Value[int]{V: 2, From: setting.Source{Tier: setting.Scheduler, Name: "OMPI_MCA_orte_num_nodes"},
				Set: true}, none,
			Tasks{3, 4, 0, 1, "OMPI_COMM_WORLD_LOCAL_SIZE", group}, "mpi-1553334273"},
		"Open MPI 5": {input("python t.py", ompi5(0)...).with(onH),
			setting.Value[int]{V: 2, From: setting.Source{Tier: setting.Scheduler,
				Name: "OMPI_COMM_WORLD_SIZE/OMPI_COMM_WORLD_LOCAL_SIZE"}, Set: true}, setting.Value[int]{V: 0,
				From: setting.Source{Tier: setting.Scheduler, Name: "OMPI_COMM_WORLD_RANK"}, Set: true},
			Tasks{0, 4, 0, 2, "OMPI_COMM_WORLD_LOCAL_SIZE",
				"PMIX_NAMESPACE=prterun-vm-13128@1 PMIX_SERVER_URI2=prterun-vm-13128@0.1;tcp4://127.0.0.1:47237 "},
			"mpi-prterun-vm-13128@1"},
		"Open MPI 5, uneven, counted by hand": {input("python t.py", but(ompi5(0), "OMPI_COMM_WORLD_SIZE=3")...).
			with(onH).with(nnodes("2")),
			setting.Value[int]{V: 2, From: setting.Source{Tier: setting.Explicit, Name: "LAUNCH_NNODES"}, Set: true},
			setting.Value[int]{V: 0, From: setting.Source{Tier: setting.Scheduler, Name: "OMPI_COMM_WORLD_RANK"},
				Set: true},
			Tasks{0, 3, 0, 2, "OMPI_COMM_WORLD_LOCAL_SIZE",
				"PMIX_NAMESPACE=prterun-vm-13128@1 PMIX_SERVER_URI2=prterun-vm-13128@0.1;tcp4://127.0.0.1:47237 "},
			"mpi-prterun-vm-13128@1"},
		"MPICH": {input("python t.py", mpich(3)...).with(onH),
			setting.Value[int]{V: 2, From: setting.Source{Tier: setting.Scheduler, Name: "PMI_SIZE/MPI_LOCALNRANKS"},
				Set: true}, none,
			Tasks{3, 4, 1, 2, "MPI_LOCALNRANKS", ""}, ""},
	} {
		j := resolve(t, c.in)
		if diff := cmp.Diff(c.tasks, j.Tasks); diff != "" {
			t.Errorf("%s: tasks (-want +got):\n%s", what, diff)
		}
		if diff := cmp.Diff([]setting.Value[int]{c.nodes, c.index}, []setting.Value[int]{j.Nodes,
			j.Index}); diff != "" {
			t.Errorf("%s: nodes and index (-want +got):\n%s", what, diff)
		}
		if j.Single || c.id != "" && j.ID.V != c.id || len(j.Notes) != 0 {
			t.Errorf("%s: %+v", what, j)
		}
	}
}

func TestTasksOfOneNode(t *testing.T) {
	for what, in := range map[string]Input{
		"Slurm": on("n1", input("python t.py", but(step("n1", 0), "SLURM_STEP_NUM_NODES=1",
			"SLURM_STEP_TASKS_PER_NODE=2")...)),
		"Open MPI 4": input("python t.py", but(ompi4(0), "OMPI_COMM_WORLD_SIZE=2",
			"OMPI_MCA_orte_num_nodes=1")...),
		"Open MPI 5":              input("python t.py", but(ompi5(0), "OMPI_COMM_WORLD_SIZE=2")...),
		"MPICH":                   input("python t.py", but(mpich(0), "PMI_SIZE=2")...),
		"one of several, by hand": input("python t.py", ompi4(2)...).with(nnodes("1")),
	} {
		j := resolve(t, in)
		if j.Nodes.V != 1 || j.Tasks.Size != 2 || j.Tasks.LocalSize != 2 || j.Tasks.Rank != 0 || j.Single {
			t.Errorf("%s: %+v", what, j)
		}
	}
	j := resolve(t, input("python t.py", ompi4(2)...).with(nnodes("1")))
	if noted(j, "job.nodes", "OMPI_MCA_orte_num_nodes=2 is not used") != finding.Warn {
		t.Errorf("the loser is not noted: %v", j.Notes)
	}
}

func TestOneTaskForEachNodeIsANode(t *testing.T) {
	each := but(ompi4(1), "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=1", "OMPI_COMM_WORLD_LOCAL_RANK=0")
	for what, env := range map[string][]string{
		"counted":              each,
		"computed":             but(each, "OMPI_MCA_orte_num_nodes="),
		"MPICH":                but(mpich(1), "PMI_SIZE=2", "MPI_LOCALNRANKS=1", "MPI_LOCALRANKID=0"),
		"beyond a scheduler's": append(slices.Clone(each), step("n[1-4]", 3)...), // of the MPI's own daemon
	} {
		for _, line := range []string{"python t.py", "torchrun t.py"} {
			j := resolve(t, input(line, env...).with(onH))
			if j.Nodes.V != 2 || j.Index.V != 1 || j.Vouch != Scheduled || j.Tasks != (Tasks{}) {
				t.Errorf("%s, %s: %+v", what, line, j)
			}
		}
	}
	j := resolve(t, input("python t.py", but(each, "OMPI_MCA_orte_num_nodes=")...).with(onH).with(nnodes("2")))
	if j.Index.V != 1 || j.Vouch != Scheduled || j.Tasks != (Tasks{}) {
		t.Errorf("counted by hand: %+v", j)
	}
	bad := refused(t, input("python t.py", each...), 78, "2 nodes (OMPI_MCA_orte_num_nodes)", "no store address")
	if !strings.HasPrefix(bad.Fix, "mpirun … launch --store HOST python t.py") {
		t.Errorf("fix %q", bad.Fix)
	}
	look := Input{Subcommand: "check", Env: each}
	if j := resolve(t, look); j.Nodes.V != 1 {
		t.Errorf("launch check needs no other node: %+v", j)
	}
	first := Input{Subcommand: "check", Env: but(each, "OMPI_COMM_WORLD_RANK=0")}
	if j := resolve(t, first); noted(j, "job.store", "each checks itself") != finding.Warn {
		t.Errorf("launch check of all nodes without a store: %v", j.Notes)
	}
	if j := resolve(t, look); len(j.Notes) > 0 {
		t.Errorf("not on rank 0: %v", j.Notes)
	}
	if j := resolve(t, look.with(onH)); j.Nodes.V != 2 || j.Index.V != 1 {
		t.Errorf("launch check of all nodes: %+v", j)
	}
	if j := resolve(t, Input{Subcommand: "env", Env: each}.with(onH).with(nnodes("1"))); j.Tasks != (Tasks{}) {
		t.Errorf("launch env: %+v", j)
	}
	step := Input{Subcommand: "check", Env: tasksStep(0, 0), Hostname: "n1"}
	if j := resolve(t, step); j.Nodes.V != 3 || j.Tasks.Size != 5 || j.Tasks.LocalSize != 2 {
		t.Errorf("launch check in a step: %+v", j)
	}
	step.Subcommand = "env"
	if j := resolve(t, step); j.Nodes.V != 3 || j.Tasks != (Tasks{}) {
		t.Errorf("launch env in a step: %+v", j)
	}
}

func TestOneProcessOfAnMPIIsStartedAsByHand(t *testing.T) {
	one := but(ompi4(0), "OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_LOCAL_SIZE=1", "OMPI_MCA_orte_num_nodes=1")
	if j := resolve(t, input("python t.py", one...)); !j.Single || j.Tasks != (Tasks{}) ||
		j.Nodes.From.Tier != setting.Derived {
		t.Errorf("%+v", j)
	}
	if j := resolve(t, input("mpirun -np 2 ./x", ompi4(0)...)); !j.Single || j.Tasks != (Tasks{}) {
		t.Errorf("mpirun below mpirun: %+v", j)
	}
}

func TestTasksAreNoTorchruns(t *testing.T) {
	for _, c := range []struct {
		in        Input
		want, fix string
	}{
		{input("torchrun t.py", ompi4(1)...),
			"mpirun started 4 tasks, 2 of them on this node (OMPI_COMM_WORLD_LOCAL_SIZE=2)",
			"mpirun --map-by ppr:1:node launch torchrun t.py"},
		{input("torchrun t.py", but(ompi4(0), "OMPI_COMM_WORLD_SIZE=2", "OMPI_MCA_orte_num_nodes=1")...),
			"2 of them on this node", "mpirun --map-by ppr:1:node launch torchrun t.py"},
		{input("./run.sh", mpich(0)...).with(func(f *Flags) { f.As = flagged("--as", "torchrun") }),
			"mpiexec started", "mpiexec -ppn 1 launch --as torchrun ./run.sh"},
		{on("n3", input("torchrun t.py", tasksStep(2, 0)...)), "SLURM_STEP_TASKS_PER_NODE=2(x2),1",
			"srun --ntasks-per-node=1 launch torchrun t.py"},
	} {
		bad := refused(t, c.in, 78, c.want, "torchrun runs once per node")
		if bad.Fix != c.fix {
			t.Errorf("fix %q, want %q", bad.Fix, c.fix)
		}
	}
}

func TestTheNodeOfTaskZeroIsNodeZero(t *testing.T) {
	for what, c := range map[string]struct {
		in    Input
		index setting.Value[int]
		note  finding.Status
	}{
		"Slurm's order differs": {on("n2", input("python t.py", but(tasksStep(1, 0), "SLURM_PROCID=0")...)),
			setting.Value[int]{V: 0, From: setting.Source{Tier: setting.Scheduler, Name: "SLURM_PROCID"}, Set: true},
			finding.Skip},
		"and the other one": {on("n1", input("python t.py", but(tasksStep(0, 0), "SLURM_PROCID=2")...)),
			setting.Value[int]{}, finding.Skip},
		"typed": {input("python t.py", ompi4(0)...).with(onH).
			with(func(f *Flags) { f.NodeRank = flagged("--node-rank", "1") }), setting.Value[int]{V: 0,
			From: setting.Source{Tier: setting.Scheduler, Name: "OMPI_COMM_WORLD_RANK"}, Set: true}, finding.Warn},
		"typed, and right": {input("python t.py", ompi4(2)...).with(onH).
			with(func(f *Flags) { f.NodeRank = flagged("--node-rank", "1") }), setting.Value[int]{V: 1,
			From: setting.Source{Tier: setting.Explicit, Name: "--node-rank"}, Set: true}, ""},
	} {
		j := resolve(t, c.in)
		if diff := cmp.Diff(c.index, j.Index); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if got := noted(j, "job.index", "is ignored"); got != c.note {
			t.Errorf("%s: note %q, want %q: %v", what, got, c.note, j.Notes)
		}
	}
}

func TestTasksThatCannotBeAreRefused(t *testing.T) {
	refused(t, input("python t.py", ompi4(0)...).with(onH).with(nnodes("4")), 78,
		"4 nodes (LAUNCH_NNODES) contradict mpirun", "4 tasks, 2 of them on this node")
	refused(t, input("python t.py", but(ompi4(0), "OMPI_COMM_WORLD_SIZE=2", "OMPI_MCA_orte_num_nodes=1")...).
		with(onH).with(nnodes("2")), 78, "2 nodes (LAUNCH_NNODES) contradict mpirun")
	refused(t, input("python t.py", but(ompi5(0), "OMPI_COMM_WORLD_SIZE=3")...), 78,
		"3 tasks, 2 of them on this node", "the number of nodes is not set")
	refused(t, input("python t.py", but(ompi4(0), "OMPI_COMM_WORLD_RANK=x")...), 78, "OMPI_COMM_WORLD_RANK=x")
	refused(t, input("python t.py", but(ompi4(0), "OMPI_COMM_WORLD_RANK=4")...), 78, "task 4 of 4")
	refused(t, input("python t.py", but(ompi4(0), "OMPI_MCA_orte_num_nodes=x")...), 78, "OMPI_MCA_orte_num_nodes=x")
	refused(t, input("python t.py", append(ompi4(1), "WORLD_SIZE=2")...).with(onH), 78, "WORLD_SIZE=2", "task 1 of 4")
	refused(t, on("n1", input("python t.py", but(tasksStep(0, 0), "SLURM_STEP_TASKS_PER_NODE=2(x2")...)), 78,
		"SLURM_STEP_TASKS_PER_NODE")
	refused(t, on("n1", input("python t.py", but(tasksStep(0, 0), "SLURM_STEP_TASKS_PER_NODE=2(x2)")...)), 78,
		"SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NUM_NODES=3")
	refused(t, on("n1", input("python t.py", but(tasksStep(0, 0), "SLURM_LOCALID=")...)), 78, "SLURM_LOCALID")
	// The tasks are known all the same: only the first of a node says it all.
	if j, err := Resolve(input("python t.py", ompi4(1)...)); err == nil || j.Tasks.Local != 1 {
		t.Errorf("%v, %+v", err, j.Tasks)
	}
}

func TestRankOfATaskIsNotANodes(t *testing.T) {
	j := resolve(t, input("python t.py", append(ompi4(3), "RANK=3", "WORLD_SIZE=4", "MASTER_PORT=29777")...).with(onH))
	if j.Nodes.V != 2 || j.Index.Set || len(j.Notes) != 0 || j.MasterPort.V != 29777 {
		t.Errorf("%+v", j)
	}
	j = resolve(t, input("python t.py", append(but(mpich(1), "PMI_SIZE=2"), "MASTER_PORT=29777")...))
	if j.MasterPort.V != 29777 {
		t.Errorf("one node: %+v", j.MasterPort)
	}
}
