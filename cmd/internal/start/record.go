package start

import (
	"launch/envgen"
	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/mpirun"
	"launch/rendezvous"
)

// Record is what a start knows; each stage fills its fields. --dry-run --json prints it.
type Record struct {
	Job     job.Job           `json:"job"`
	Node    fabric.Node       `json:"node"`
	Local   finding.Report    `json:"local"`            // this node's checks
	Mpirun  mpirun.Run        `json:"mpirun,omitzero"`  // what an mpirun line asks of its hosts
	Hosts   finding.Report    `json:"hosts,omitempty"`  // the checks of these hosts
	World   *rendezvous.World `json:"world,omitempty"`  // nil before the rendezvous
	Peer    finding.Report    `json:"peer,omitempty"`   // the checks between the nodes
	Plan    envgen.Plan       `json:"plan,omitempty"`   // variables to set, with reasons
	Command launcher.Exec     `json:"command,omitzero"` // what is executed

	// Input is what the plan is computed from, except for the world.
	Input envgen.Input `json:"-"`
}
