// Package checks assembles the checks of all topics into the tables that a start,
// a report and the documentation use.
package checks

import (
	"context"
	"slices"

	"launch/internal/finding"
	"launch/preflight"
	"launch/preflight/bandwidth"
	"launch/preflight/command"
	"launch/preflight/gpu"
	"launch/preflight/network"
	"launch/preflight/peers"
	"launch/preflight/rdma"
	"launch/preflight/system"
)

// Node returns the checks of one node, in the order of the report.
func Node() []preflight.Check {
	return slices.Concat(command.Checks(), network.Checks(), gpu.Checks(), rdma.Checks(), system.Checks())
}

// Named returns the checks whose IDs --skip and --only accept: those of one node
// and those between nodes.
func Named() []preflight.Check { return slices.Concat(Node(), peers.Checks()) }

// All returns every check.
func All() []preflight.Check { return slices.Concat(Named(), bandwidth.Checks()) }

// Local runs the checks of this node.
func Local(ctx context.Context, in preflight.Input, opt preflight.Options) (finding.Report, error) {
	return preflight.Run(ctx, Named(), in, opt)
}

// Title returns the title of a check, or "" for an unknown ID.
func Title(id string) string {
	for _, c := range All() {
		if c.ID == id {
			return c.Title
		}
	}
	return ""
}
