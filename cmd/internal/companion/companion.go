// Package companion is the small process that outlives execve in a job of several nodes. launch
// starts it before the join, in a session of its own. It holds this node's lease, the embedded
// store on the store host, and the port for the job's own store. It decides nothing, and ends
// within a second of the command.
//
// Client is launch's side; Main is the process. A check that hosts no store has its companion in its own
// process. launch calls the methods of the companion by JSON-RPC over a socket pair or pipe, which ends
// with the handoff.
package companion

import (
	"net/netip"
	"time"

	"launch/fabric/software"
	"launch/internal/secret"
	"launch/rendezvous"
)

// Name is the companion's name in the table of children.
const Name = "companion"

// Spec is what launch passes to the companion at its start.
type Spec struct {
	Job       string            `json:"job"`
	Self      rendezvous.Member `json:"self"` // the companion fills in Port, Peer and First
	Endpoints []string          `json:"endpoints"`
	Embedded  bool              `json:"embedded"`
	Access    rendezvous.Access `json:"access,omitzero"` // to an etcd that runs already
	Names     *Names            `json:"names,omitempty"` // of a pod: how to find the store's host again; nil: by Endpoints
	// Shared is the store's name where the nodes choose the host among its addresses; nil: it is decided already.
	Shared *Shared `json:"shared,omitempty"`
	// Serve is where to host the store; empty: another node does. If this job's own store has the
	// port already (a second node on one machine), the companion connects instead.
	Serve []netip.AddrPort `json:"serve,omitempty"`
	// Brief says that launch becomes no command. If it also hosts no store, the companion needs no process of its own.
	Brief bool `json:"-"`
	// Narrow says that there is room for few threads.
	Narrow bool `json:"-"`
	// Stalls says that at the limit of memory nothing is killed: a companion that finds no memory waits, too.
	Stalls bool `json:"-"`
	// Budget bounds the wait for a store that is lost, and First the wait for its first answer; 0: as Budget.
	Budget time.Duration `json:"budget"`
	First  time.Duration `json:"first,omitempty"`

	LastCall time.Duration `json:"last_call,omitempty"` // see rendezvous.Config
	// StartTimeout is how long after the go a node may take to start. FailFast ends the command when a
	// node has not, or is lost; NoWait ends the wait before the go if one node is unfit.
	StartTimeout time.Duration `json:"start_timeout,omitempty"`
	FailFast     bool          `json:"fail_fast,omitempty"`
	NoWait       bool          `json:"no_wait,omitempty"`
	Renews       bool          `json:"renews,omitempty"` // see rendezvous.Config
	// HangAfter is how long nothing may move on node rank 0 before it asks all nodes why; 0: never.
	HangAfter time.Duration `json:"hang_after,omitempty"`
	EndHung   bool          `json:"end_hung,omitempty"` // --on-hang end: launch waits for Hung
	Torchrun  bool          `json:"torchrun,omitempty"` // the command: its ranks are watched
	Spawns    bool          `json:"spawns,omitempty"`   // the command starts its ranks itself: they are watched, too
	JSON      bool          `json:"json,omitempty"`     // the form of what is printed after the handoff
	Mixed     bool          `json:"mixed,omitempty"`    // the lines of all nodes go to one log

	Port   int              `json:"port"`             // the wanted port for the job's own store
	Fixed  bool             `json:"fixed"`            // rank 0 takes no other port
	Low    int              `json:"low"`              // the range of the other ports
	High   int              `json:"high"`             //
	Listen netip.Addr       `json:"listen"`           // where the side channel listens
	Guess  bool             `json:"guess,omitempty"`  // Self.Addr is a guess: the store host uses what others connect to
	About  []byte           `json:"about,omitempty"`  // what the side channel answers about this node
	Ahead  *software.Import `json:"ahead,omitempty"`  // what to read during the wait; nil: nothing
	Token  secret.Token     `json:"secret,omitempty"` // of the nodes; never in the environment or an argument
	Munge  bool             `json:"munge,omitempty"`  // without a Token: the store's host makes one, and munge hides it
}

// Joining is a node that is about to join.
type Joining struct {
	Self  rendezvous.Member // as the other nodes see it: with its port and side channel
	Token secret.Token      // the nodes' secret; "": they have none
}

// The arguments and results of the calls. They are types without names of their
// own: of named types net/rpc takes only exported ones.
type (
	question = struct {
		ID     int // of a round
		Name   string
		Ranks  []int
		Value  []byte // what this node posts, or the result of the posts
		Start  bool   // with this result the world is started
		Budget time.Duration
	}
	answer = struct {
		Posts  [][]byte // of a round: they need a verdict
		Result []byte
		All    []rendezvous.Partner
	}
	none = struct{}
	// news is what the companion reports without a question. It may be empty.
	news = struct {
		Event   *rendezvous.Event
		Failure *fault // why the store hosted here, and so the companion, cannot continue
	}
)
