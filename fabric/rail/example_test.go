package rail_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"launch/fabric"
	"launch/fabric/machine"
	"launch/fabric/rail"
)

// Of interprets the facts of a node: which ports are the rails of its training fabric,
// and which GPUs each rail serves.
func ExampleOf() {
	text, err := os.ReadFile("../machine/machinetest/machines/h200-two-rails.txt")
	if err != nil {
		log.Fatal(err)
	}
	m, err := machine.Read(text)
	if err != nil {
		log.Fatal(err)
	}
	n := fabric.Detect(context.Background(), m.Roots(), fabric.Options{})
	f := rail.Of(n, n.Route.Src)
	fmt.Printf("%s: %s\n", f.Kind, f.Why)
	for _, r := range f.Rails {
		fmt.Printf("%s: %g Gb/s, GID %d, GPUs %v\n", f.Name(r), r.Rate, r.GID, r.GPUs)
	}
	for _, nic := range f.NICs {
		fmt.Printf("%s is %s\n", nic.Name, nic.Role)
	}
	// Output:
	// roce: 2 x Ethernet at 400 Gb/s, in 2 networks (whether they are routed to each other is unknown)
	// mlx5_0: 400 Gb/s, GID 3, GPUs [0000:24:00.0 0000:25:00.0]
	// mlx5_1: 400 Gb/s, GID 3, GPUs [0000:84:00.0 0000:85:00.0]
	// lo is loopback
	// ens1np0 is compute
	// ens2np0 is compute
	// ens3f0np0 is peer
	// mlx5_0 is compute
	// mlx5_1 is compute
	// mlx5_2 is management
}
