// Package checks assembles the checks of all topics into one table.
package checks

import (
	"slices"

	"launch/preflight"
	"launch/preflight/command"
	"launch/preflight/gpu"
	"launch/preflight/hosts"
	"launch/preflight/network"
	"launch/preflight/peers"
	"launch/preflight/rdma"
	"launch/preflight/system"
)

// Table returns every check, in the order of the report.
func Table() preflight.Table {
	return preflight.Table{
		Node:  slices.Concat(command.Checks(), network.Checks(), gpu.Checks(), rdma.Checks(), system.Checks()),
		Peers: peers.Checks(), Rates: rates(), Hosts: hosts.Checks(),
	}
}

// rates returns the checks that bandwidth.Compare makes.
func rates() []preflight.Check {
	return []preflight.Check{{
		ID: "bench.port", Title: "each rail of each node is as fast as the same rail of other nodes",
		Doc: "A cable, a transceiver or a port lost lanes, or retries all the time. Every collective waits for the slowest " +
			"rail.",
	}, {
		ID: "bench.node", Title: "no node is slow on all its rails",
		Doc: "The rails of one node share its processor, memory, PCIe and settings.",
	}, {
		ID: "bench.way", Title: "no two nodes are slow only with each other",
		Doc: "Both are fast with others, so something between the two is slow, such as an uplink of their switches.",
	}, {
		ID: "bench.rail", Title: "no rail is slow on all nodes, and no group of nodes is slow with another",
		Doc: "A rail of all nodes shares its switches and their settings.",
	}, {
		ID: "bench.rate", Title: "each rail has the rate and width of the same rail on other nodes",
		Doc: "A link that trained at less than its maximum carries less. The check sends nothing.",
	}, {
		ID: "bench.measured", Title: "each rail could be measured",
		Doc: "A rail whose address is not reachable carries no data.",
	}, {
		ID: "bench.busy", Title: "no rail is in use",
		Doc: "launch bench does not measure a port that carries another job's traffic: that would disturb the job, and " +
			"mean little. If a job starts during the measurement, the port is not judged. --force measures and judges anyway.",
	}, {
		ID: "bench.gpu", Title: "each rail is as fast from GPU to GPU as from host to host",
		Doc: "NCCL sends from one GPU's memory into another's. The test uses the GPU next to the HCA; " +
			"--memory gpu uses the nearest one at any distance, --memory host leaves this test out.",
	}, {
		ID: "bench.history", Title: "no rail is slower than it usually was",
		Doc: "Only a comparison with the past shows a slow decline, or a loss on all rails at once: with the median of the " +
			"last 15 runs (--history).",
	}}
}
