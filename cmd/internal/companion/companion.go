// Package companion is the small process beside the command of a job of
// several nodes. It is started before the join, in its own session, and holds
// what must outlive execve: this node's lease, the embedded store on its host,
// the port for the job's own store. It decides nothing, and ends within a
// second of the command.
//
// Client is the side of launch; Main is the process. They speak JSON, one
// value a line, over a socket pair that ends with the handoff.
package companion

import (
	"net/netip"
	"time"

	"launch/rendezvous"
)

// Name is the companion's name in the table of children.
const Name = "companion"

// Spec is what the companion is told at its start.
type Spec struct {
	Job       string            `json:"job"`
	Self      rendezvous.Member `json:"self"` // Port, Peer and First are filled in by the companion
	Endpoints []string          `json:"endpoints"`
	Embedded  bool              `json:"embedded"`
	Access    rendezvous.Access `json:"access,omitzero"` // to an etcd that runs already
	// Serve is where to host the store; empty: another node does. Where the
	// port is taken by this job's own store (a second node on one machine),
	// the companion connects instead.
	Serve []netip.AddrPort `json:"serve,omitempty"`
	// Budget bounds the wait for the store to answer.
	Budget time.Duration `json:"budget"`

	LastCall time.Duration `json:"last_call,omitempty"` // see rendezvous.Config
	// StartTimeout is how long after the go a loss is told, and who has not
	// started; FailFast ends the command then, and before that the wait for nodes
	// of which one is not fit.
	StartTimeout time.Duration `json:"start_timeout,omitempty"`
	FailFast     bool          `json:"fail_fast,omitempty"`
	JSON         bool          `json:"json,omitempty"` // what is said after the handoff

	Port   int        `json:"port"`             // the wanted port for the job's own store
	Fixed  bool       `json:"fixed"`            // no other will do on rank 0
	Low    int        `json:"low"`              // else one of this range
	High   int        `json:"high"`             //
	Listen netip.Addr `json:"listen"`           // where the side channel listens
	Guess  bool       `json:"guess,omitempty"`  // Self.Addr is one: the address counts by which the others come to the store here
	About  []byte     `json:"about,omitempty"`  // what it says of this node to those that call
	Secret string     `json:"secret,omitempty"` // LAUNCH_TOKEN, never in an environment or argument
}

// order is what launch asks of the companion.
type order struct {
	Op     string             `json:"op"` // start, join, everyone, posted, round, reduced, go, handoff, ended, fate, return, leave
	Spec   *Spec              `json:"spec,omitempty"`
	Name   string             `json:"name,omitempty"`
	Value  []byte             `json:"value,omitempty"`
	Ranks  []int              `json:"ranks,omitempty"`
	Start  bool               `json:"start,omitempty"`
	Why    string             `json:"why,omitempty"`
	Budget time.Duration      `json:"budget,omitempty"`
	Status int                `json:"status,omitempty"`
	Master *rendezvous.Member `json:"master,omitempty"`
}

// failed is the report that the store hosted here cannot go on, and so neither
// can the companion.
const failed = "failed"

// report is what the companion answers or tells.
type report struct {
	Op     string               `json:"op"` // event, reduce, listening, failed, or the op that it answers
	Event  *rendezvous.Event    `json:"event,omitempty"`
	Self   *rendezvous.Member   `json:"self,omitempty"`
	World  *rendezvous.World    `json:"world,omitempty"`
	All    []rendezvous.Partner `json:"all,omitempty"`
	Posts  [][]byte             `json:"posts,omitempty"`
	Result []byte               `json:"result,omitempty"`
	Fate   *rendezvous.Fate     `json:"fate,omitempty"`
	Fault  *fault               `json:"fault,omitempty"`
}
