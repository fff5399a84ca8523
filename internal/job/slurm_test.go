package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/finding"
	"launch/internal/setting"
)

// step is the environment of a task of an srun step over hosts.
func step(hosts string, node int) []string {
	return []string{
		"SLURM_JOB_ID=7", "SLURM_JOB_NUM_NODES=9", "SLURM_JOB_NODELIST=n[1-9]", "SLURM_STEP_ID=0",
		"SLURM_STEP_NODELIST=" + hosts, "SLURM_STEP_NUM_NODES=4", "SLURM_STEP_TASKS_PER_NODE=1(x4)",
		fmt.Sprintf("SLURM_NODEID=%d", node), fmt.Sprintf("SLURM_PROCID=%d", node), "SLURM_LOCALID=0",
	}
}

func on(host string, in Input) Input { in.Hostname = host; return in }

func TestSlurmStepIsAJob(t *testing.T) {
	j := resolve(t, on("n7.cluster", input("torchrun t.py", step("n[3,5,7,9]", 2)...)))
	if j.Nodes.V != 4 || j.Index.V != 2 || j.Vouch != Scheduled || j.ID.V != "slurm-7.0" ||
		j.Store.V.Endpoints[0] != "n3:25427" {
		t.Errorf("%+v", j)
	}
	if diff := cmp.Diff([]string{"n3", "n5", "n7", "n9"}, j.Hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
}

func TestStaleSlurmVariablesDoNotMakeAJob(t *testing.T) {
	without := func(name string) []string {
		var env []string
		for _, kv := range step("n[1-4]", 0) {
			if !strings.HasPrefix(kv, name+"=") {
				env = append(env, kv)
			}
		}
		return env
	}
	for what, env := range map[string][]string{
		"salloc's shell":         {"SLURM_JOB_ID=7", "SLURM_NNODES=4", "SLURM_JOB_NODELIST=n[1-4]"},
		"batch script":           {"SLURM_JOB_ID=7", "SLURM_NNODES=4", "SLURM_NODEID=0", "SLURM_PROCID=0"},
		"no task":                without("SLURM_PROCID"),
		"interactive step":       append(without("SLURM_STEP_ID"), "SLURM_STEP_ID=4294967290"),
		"terminal of srun --pty": append(step("n[1-4]", 0), "SLURM_PTY_PORT=4711"),
		"another host":           step("m[1-4]", 0),
		"no list of nodes":       {"SLURM_JOB_ID=7", "SLURM_NNODES=4", "SLURM_STEP_ID=0", "SLURM_NODEID=0", "SLURM_PROCID=0"},
		"those of another node":  append(step("n[1-4]", 1), "SLURMD_NODENAME=n2"),
	} {
		bad := refused(t, on("n1", input("torchrun t.py", env...)), 78, "would start one node", "Slurm job 7 has ")
		if bad.Fix != "srun --ntasks-per-node=1 launch torchrun t.py\n"+
			"launch --nnodes 1 torchrun t.py   # for this node alone" {
			t.Errorf("%s: fix %q", what, bad.Fix)
		}
		one := on("n1", input("torchrun t.py", env...)).with(nnodes("1"))
		if j := resolve(t, one); j.Nodes.V != 1 || len(j.Notes) != 0 {
			t.Errorf("%s: one node that was typed: %d nodes, notes %v", what, j.Nodes.V, j.Notes)
		}
		typed := on("n1", input("torchrun --nnodes 2 t.py", env...)).
			with(func(f *Flags) { f.Store = flagged("--store", "h") })
		if j := resolve(t, typed); j.Nodes.V != 2 || j.Store.V.Port != DefaultStorePort || len(j.Notes) != 0 {
			t.Errorf("%s: a number that was typed: %d nodes, notes %v", what, j.Nodes.V, j.Notes)
		}
		look := on("n1", input("", env...))
		look.Subcommand, look.Argv = "check", nil
		if j := resolve(t, look); j.Nodes.V != 1 || noted(j, "job.slurm", "looks at one node") != finding.Warn {
			t.Errorf("%s: a check: %d nodes, notes %v", what, j.Nodes.V, j.Notes)
		}
		np1 := append([]string{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_LOCAL_RANK=0",
			"OMPI_COMM_WORLD_LOCAL_SIZE=1"}, env...)
		if j := resolve(t, on("n1", input("./a.out", np1...))); j.Nodes.V != 1 {
			t.Errorf("%s: mpirun -np 1: %d nodes", what, j.Nodes.V)
		}
		bad = refused(t, on("n1", input("torchrun --nnodes 4 t.py", env...)), 78, "4 nodes", "no store address")
		if !strings.HasPrefix(bad.Fix, "srun --ntasks-per-node=1 launch torchrun") {
			t.Errorf("%s: fix %q", what, bad.Fix)
		}
	}
}

func TestSlurmNodeNameMayDifferFromTheHostName(t *testing.T) {
	env := append(step("n[1-4]", 1), "SLURMD_NODENAME=n2")
	if j := resolve(t, on("container-17", input("torchrun t.py", env...))); j.Nodes.V != 4 || j.Index.V != 1 {
		t.Errorf("%+v", j)
	}
}

func TestAJobLargerThanTheStepIsNotTheStepsJob(t *testing.T) {
	env := append(step("n1", 0), "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_TASKS_PER_NODE=1")
	j := resolve(t, on("n1", input("torchrun --nnodes 2 --rdzv-endpoint h:1 t.py", env...)))
	if j.Index.Set || j.ID.From.Tier == setting.Scheduler || len(j.Hosts) != 0 || noted(j, "job.nodes",
		"SLURM_STEP_NUM_NODES=1") != finding.Warn {
		t.Errorf("%+v", j)
	}
}

func TestSlurmContradictionsAreRefused(t *testing.T) {
	const list = "SLURM_STEP_NODELIST="
	refused(t, on("n1", input("torchrun t.py", append(step("", 0), list+"n[1-")...)), 78, "SLURM_STEP_NODELIST",
		"column 2")
	refused(t, on("n1", input("torchrun t.py", append(step("", 0), list+"n[1-3]")...)), 78, "SLURM_STEP_NUM_NODES=4",
		"3 nodes")
	refused(t, on("n1", input("torchrun t.py", append(step("n[1-4]", 0), "SLURM_STEP_TASKS_PER_NODE=2(x3),1")...)),
		78, "SLURM_STEP_TASKS_PER_NODE=2(x3),1", "once per node")
	refused(t, on("n1", input("torchrun --nnodes 2 t.py", step("n[1-4]", 3)...)), 78, "node rank 3 (SLURM_NODEID)",
		"2 nodes (torchrun --nnodes)")
}

// stepOf is the first task of a step of two nodes, with more variables.
func stepOf(job, number int, more ...string) Input {
	return on("n1", input("./a.out", append(more, fmt.Sprint("SLURM_JOB_ID=", job), fmt.Sprint("SLURM_STEP_ID=", number),
		"SLURM_STEP_NODELIST=n[1-2]", "SLURM_STEP_TASKS_PER_NODE=1(x2)", "SLURM_NODEID=0", "SLURM_PROCID=0",
		"SLURM_LOCALID=0")...))
}

// Steps of a job and tasks of an array can share their first node, so no two that may run together share a port.
func TestStepsAndArrayTasksHaveTheirOwnPort(t *testing.T) {
	const jobs, steps = 60, 60
	seen := map[int]string{}
	for job := range jobs {
		for number := range steps {
			s, what := resolve(t, stepOf(67108860+job, number)).Store.V, fmt.Sprintf("%d.%d", job, number)
			if s.Port < firstStepPort || s.Port >= DefaultStorePort {
				t.Fatalf("%s: port %d", what, s.Port)
			}
			if other := seen[s.Port]; other != "" {
				t.Fatalf("%s and %s have port %d", other, what, s.Port)
			}
			seen[s.Port] = what
		}
	}
	line := stepOf(9, 2)
	line.Argv = strings.Fields("torchrun --nnodes 2 --rdzv-endpoint n1:29500 t.py")
	if s := resolve(t, line).Store.V; s.Port != stepPort("9", "2") {
		t.Errorf("an endpoint of torchrun's: %+v", s)
	}
	typed := stepOf(9, 2).with(func(f *Flags) { f.Store = flagged("--store", "n2") })
	if s := resolve(t, typed).Store.V; s.Port != DefaultStorePort { // perhaps of a `launch store`
		t.Errorf("--store: %+v", s)
	}
}

// No node is added to a step, so an unfit one is not waited for, unless there are others to take its place.
func TestTheNodesOfAStepAreFixed(t *testing.T) {
	j := resolve(t, stepOf(9, 0, "SLURMD_NODENAME=n1"))
	if j.Step != "n1" || !j.Fixed() {
		t.Errorf("a step: %q, %v", j.Step, j.Fixed())
	}
	spare := stepOf(9, 0, "SLURMD_NODENAME=n1").with(func(f *Flags) { f.Spares = 1 })
	if j := resolve(t, spare); j.Fixed() {
		t.Errorf("with a standby node: %+v", j)
	}
	larger := stepOf(9, 0).with(nnodes("3")).with(func(f *Flags) { f.Store = flagged("--store", "h") })
	if j := resolve(t, larger); j.Step != "" {
		t.Errorf("a job that is larger than the step: %+v", j)
	}
}

// A requeued job has the number of its first run, and an etcd may still have that run's keys.
func TestARequeuedJobIsAnotherJob(t *testing.T) {
	for count, want := range map[string]string{"": "slurm-9.0", "0": "slurm-9.0", "2": "slurm-9.0.2"} {
		if j := resolve(t, stepOf(9, 0, "SLURM_RESTART_COUNT="+count)); j.ID.V != want {
			t.Errorf("restart count %q: job %s; want %s", count, j.ID.V, want)
		}
	}
}

func TestMpirunTakesTheAllocation(t *testing.T) {
	env := []string{"SLURM_JOB_ID=7", "SLURM_NNODES=3", "SLURM_JOB_NODELIST=n[1-2],m"}
	if diff := cmp.Diff([]string{"n1", "n2", "m"}, resolve(t, input("mpirun ./a.out", env...)).Hosts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"m"}, resolve(t, input("mpirun -H m ./a.out", env...)).Hosts); diff != "" {
		t.Errorf("with -H (-want +got):\n%s", diff)
	}
}
