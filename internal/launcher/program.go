package launcher

import (
	"slices"
	"strconv"

	"launch/internal/setting"
)

// program sets a plain program's identity in the variables that torch's env://
// initialization reads: one process per node, or one per task.
func (l Line) program(w World) Exec {
	e := Exec{Argv: slices.Clone(l.Argv)}
	if w.Single {
		return e
	}
	const one, task = "one process per node", "as srun or mpirun numbers its tasks"
	t, rank, size := w.Task, Known(w.Task.Rank), Known(w.Task.Size)
	whyRank, whySize, whyLocal := task, "the number of tasks", task
	if t.Size == 0 {
		t.LocalSize, rank, size = 1, w.NodeRank, w.Nodes
		whyRank, whySize, whyLocal = "this node's rank: "+one, "the number of nodes: "+one, one
	}
	e.Set = []setting.Var{
		identity("RANK", rank.String(), setting.Node, whyRank),
		identity("WORLD_SIZE", size.String(), setting.Job, whySize),
		identity("LOCAL_RANK", strconv.Itoa(t.Local), setting.Node, whyLocal),
		identity("LOCAL_WORLD_SIZE", strconv.Itoa(t.LocalSize), setting.Node, whyLocal),
		identity("NODE_RANK", w.NodeRank.String(), setting.Node, "this node's rank"),
		identity("MASTER_ADDR", w.MasterAddr, setting.Job,
			"the address of node rank 0, so that no name has to resolve"),
		identity("MASTER_PORT", w.MasterPort.String(), setting.Job, "reserved for this job on node rank 0"),
	}
	return e
}
