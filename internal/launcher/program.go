package launcher

import (
	"slices"
	"strconv"

	"launch/internal/setting"
)

// program hands a plain program its identity through the variables that
// torch's env:// initialization reads: one process per node, or as many as
// there are tasks.
func (l Line) program(w World) Exec {
	e := Exec{Argv: slices.Clone(l.Argv)}
	if w.Single {
		return e
	}
	const one, task = "one process per node", "as srun or mpirun numbers its tasks"
	t, rank, size, local := w.Task, "this node's rank: "+one, "the number of nodes: "+one, one
	if t.Size == 0 {
		t = Task{Rank: w.NodeRank, Size: w.Nodes, LocalSize: 1}
	} else {
		rank, size, local = task, "the number of tasks", task
	}
	e.Set = []setting.Var{
		identity("RANK", strconv.Itoa(t.Rank), setting.Node, rank),
		identity("WORLD_SIZE", strconv.Itoa(t.Size), setting.Job, size),
		identity("LOCAL_RANK", strconv.Itoa(t.Local), setting.Node, local),
		identity("LOCAL_WORLD_SIZE", strconv.Itoa(t.LocalSize), setting.Node, local),
		identity("NODE_RANK", strconv.Itoa(w.NodeRank), setting.Node, "this node's rank"),
		identity("MASTER_ADDR", w.MasterAddr, setting.Job, "the address of node rank 0, so that no name has to resolve"),
		identity("MASTER_PORT", strconv.Itoa(w.MasterPort), setting.Job, "held for this job on node rank 0"),
	}
	return e
}
