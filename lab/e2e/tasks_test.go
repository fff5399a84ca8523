package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"launch/lab/programs"
)

// Two nodes of two tasks each, as srun -N 2 -n 4 starts them: launch knows only
// Slurm's variables.
func TestTasksOfAStepTrain(t *testing.T) {
	c := withTorch(t, 2, programs.AnyTorch(t))
	argv := []string{tools.launch, "--join-timeout", joinTimeout, "python3", trainPy(t), "--steps", steps}
	var nodes []*node
	for _, task := range []struct{ host, local int }{{0, 1}, {1, 1}, {1, 0}, {0, 0}} {
		rank := 2*task.host + task.local
		n := c.startBare(task.host, argv, fmt.Sprintf("SLURM_JOB_ID=%d", os.Getpid()), "SLURM_STEP_ID=0",
			"SLURM_STEP_NODELIST=host[0-1]", "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_TASKS_PER_NODE=2(x2)",
			fmt.Sprintf("SLURM_NODEID=%d", task.host), fmt.Sprintf("SLURMD_NODENAME=host%d", task.host),
			fmt.Sprintf("SLURM_PROCID=%d", rank), fmt.Sprintf("SLURM_LOCALID=%d", task.local))
		n.name = fmt.Sprintf("rank %d of 4 on node %d", rank, task.host)
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		n.exits(0)
		if !strings.Contains(n.out.String(), n.name+"\n") {
			t.Errorf("%s did not run", n.name)
		}
	}
	fell(t, nodes...)
	for _, n := range nodes[:2] {
		if s := n.err.String(); strings.Contains(s, "launch:") {
			t.Errorf("a task that follows the first one prints %q", s)
		}
	}
}
