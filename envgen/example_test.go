package envgen_test

import (
	"context"
	"fmt"
	"os"

	"launch/envgen"
	"launch/fabric/machine"
)

// The plan of a machine with eight GPUs and eight RoCE ports, for a job of two nodes.
func Example() {
	text, err := os.ReadFile("../fabric/machine/machinetest/machines/h100-roce-8.txt")
	if err != nil {
		panic(err)
	}
	recorded, err := machine.Read(text)
	if err != nil {
		panic(err)
	}
	node := recorded.Detect(context.Background())
	world := envgen.World{Nodes: 2, Addr: node.Route.Src}
	for _, v := range envgen.Make(envgen.Input{Node: node, World: world, Torch: true}) {
		fmt.Printf("%s=%s\n", v.Name, v.Value)
		fmt.Println(" ", v.Reason)
	}
	// Output:
	// NCCL_SOCKET_IFNAME==eno8303
	//   NCCL would use gpu0rdma0, the first in its own order; the other nodes reach this node at 10.8.0.3 on eno8303
	// NCCL_IB_HCA==mlx5_0:1,mlx5_10:1,mlx5_11:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_9:1
	//   NCCL would also use mlx5_1:1; the training fabric is 8 x Ethernet at 400 Gb/s
}
