// Package record holds the record of a start. The stages of the start fill it in order, each field once. --dry-run
// --json prints it, and a report of a problem includes it.
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
	World   *rendezvous.World `json:"world,omitempty"`  // nil: only the other nodes determine it
	Peer    finding.Report    `json:"peer,omitempty"`   // findings between the nodes
	Plan    envgen.Plan       `json:"plan,omitempty"`   // variables to set, with reasons
	Command launcher.Exec     `json:"command,omitzero"` // what is executed

	// Input is the input of the plan, without the world.
	Input envgen.Input `json:"-"`
}
