// Package checks assembles the checks of all topics into the one table that a
// start, a report and the documentation use.
package checks

import (
	"slices"

	"launch/preflight"
	"launch/preflight/command"
	"launch/preflight/gpu"
	"launch/preflight/network"
	"launch/preflight/peers"
	"launch/preflight/rdma"
	"launch/preflight/system"
)

// Table returns every check, in the order of the report.
func Table() preflight.Table {
	return preflight.Table{
		Node:  slices.Concat(command.Checks(), network.Checks(), gpu.Checks(), rdma.Checks(), system.Checks()),
		Peers: peers.Checks(), Rates: rates(),
	}
}
