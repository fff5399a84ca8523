// Package record holds the one record that a start fills from left to right,
// each field written once, by one room. --dry-run --json prints it, and it is
// what a user sends who reports a problem.
package record

import (
	"launch/envgen"
	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/rendezvous"
)

// Start is one node's start of a job.
type Start struct {
	Job     job.Job           `json:"job"`
	Node    fabric.Node       `json:"node"`
	Local   finding.Report    `json:"local"`            // this node's checks
	World   *rendezvous.World `json:"world,omitempty"`  // nil: only the others can tell
	Peer    finding.Report    `json:"peer,omitempty"`   // what the nodes found out about each other
	Plan    envgen.Plan       `json:"plan,omitempty"`   // variables to set, with reasons
	Command launcher.Exec     `json:"command,omitzero"` // what is executed

	// Input is what the plan is made from, but for what the rendezvous tells.
	Input envgen.Input `json:"-"`
}
