package envgen

import (
	"testing"

	"launch/fabric/machine/machinetest"
)

// The plan, the lint and the explanation of the machine with the most devices.
func BenchmarkPlan(b *testing.B) {
	n := machinetest.Node(b, "oci-bm-gpu-h100")
	in := Input{Node: n, World: World{Nodes: 2, Addr: n.Route.Src},
		Torch: true}.paste("NCCL_ALGO=Ring NCCL_IB_GID_INDEX=3 NCCL_IB_HCA=mlx5", "environment")
	for b.Loop() {
		Make(in)
		Lint(in)
		Explain(in)
	}
}
