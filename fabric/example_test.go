package fabric_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"launch/fabric"
	"launch/fabric/machine"
)

// recorded reads a machine from its description.
func recorded() *machine.Machine {
	text, err := os.ReadFile("machine/machinetest/machines/h200-two-rails.txt")
	if err != nil {
		log.Fatal(err)
	}
	m, err := machine.Read(text)
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// Detect reads the facts of this node from fabric.Live(). Here it replays a recorded
// machine.
func ExampleDetect() {
	n := fabric.Detect(context.Background(), recorded().Roots(), fabric.Options{})
	fmt.Printf("%s: %d GPUs, Linux %s\n", n.Hostname, len(n.Cards), n.Kernel)
	for _, h := range n.HCAs {
		for _, p := range h.Ports {
			fmt.Printf("%s port %d: %s at %g Gb/s, interface %s, active %t\n",
				h.Name, p.Num, p.LinkLayer, p.Rate, p.Netdev, p.Active())
		}
	}
	// Output:
	// h200-2: 4 GPUs, Linux 5.15.0-119-generic
	// mlx5_0 port 1: Ethernet at 400 Gb/s, interface ens1np0, active true
	// mlx5_1 port 1: Ethernet at 400 Gb/s, interface ens2np0, active true
	// mlx5_2 port 1: Ethernet at 25 Gb/s, interface ens3f0np0, active true
}

// Distance is how far two devices are from each other, in the terms of
// nvidia-smi topo -m.
func ExampleNode_Distance() {
	n := fabric.Detect(context.Background(), recorded().Roots(), fabric.Options{})
	for _, c := range n.Cards {
		fmt.Println(c.PCI, n.Distance(c.PCI, n.HCAs[0].PCI))
	}
	// Output:
	// 0000:24:00.0 PIX
	// 0000:25:00.0 PIX
	// 0000:84:00.0 SYS
	// 0000:85:00.0 SYS
}
