package launcher

import (
	"slices"
	"strconv"

	"launch/envgen"
)

// program hands a plain program its identity through the variables that
// torch's env:// initialization reads: one process per node.
func (l Line) program(w World) Exec {
	e := Exec{Argv: slices.Clone(l.Argv)}
	if w.Single {
		return e
	}
	rank, nodes := strconv.Itoa(w.NodeRank), strconv.Itoa(w.Nodes)
	const one = "one process per node"
	e.Set = []envgen.Var{
		identity("RANK", rank, envgen.Node, "this node's rank: "+one),
		identity("WORLD_SIZE", nodes, envgen.Job, "the number of nodes: "+one),
		identity("LOCAL_RANK", "0", envgen.Node, one),
		identity("LOCAL_WORLD_SIZE", "1", envgen.Node, one),
		identity("NODE_RANK", rank, envgen.Node, "this node's rank"),
		identity("MASTER_ADDR", w.MasterAddr, envgen.Job, "the address of node rank 0, so that no name has to resolve"),
		identity("MASTER_PORT", strconv.Itoa(w.MasterPort), envgen.Job, "held for this job on node rank 0"),
	}
	return e
}
