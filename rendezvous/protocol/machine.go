// Package protocol is the agreement of the nodes as a state machine: the state of
// one node, the events that reach it, and the actions that follow. It reads no
// clock, starts no goroutine and knows no etcd; package rendezvous drives it.
//
// Rules is the table of all transitions. docs/rendezvous.md shows the same table
// and says why it cannot race; rendezvous/model has it in Promela.
//
// A node has two phases at a time: that of its session with the store (Down to
// Ended), and that of its user (Idle to Running). The session has at most one request
// under way; its answer is the event of the same kind as the request.
package protocol

import (
	"net/netip"
	"time"
)

// Kind names an event, an action, or both: a request and its answer.
type Kind uint8

// The requests of the session, in the order in which a session makes them.
const (
	Grant    Kind = iota + 1 // get a lease
	Register                 // create this node's key, and take the lead where it is free
	Replace                  // take over the key of another incarnation
	Contend                  // publish that a typed index is taken
	Await                    // wait for a change of the key that this node wants
	Depose                   // end the lead of a replaced incarnation
	Elect                    // take the lead where it is free
	Rebind                   // bind this node's lead to its new lease
	Describe                 // write this node's key again
	Survey                   // read the whole job, as its leader
	Reopen                   // open the next epoch
	Clear                    // delete the places of other worlds
	Seat                     // write the places of a world
	Seal                     // make the world true
	Resign                   // give the lead to a node of the world
	Reduce                   // compute the result of a round
	Decide                   // write the result of a round, the go included
	Finish                   // end a run for good
	Announce                 // publish which nodes have joined
	Warn                     // publish which nodes are late
	Post                     // post to a round

	// The requests of the user.
	ReadPlace    // read this node's place in a sealed world
	ReadFirst    // read the members that were first
	ReadRunning  // read which members of the last run are left
	ReadProgress // read which nodes have joined, as the time is up
	Withdraw     // take a post back, unless the result exists
	Farewell     // publish what was missing before the store ends

	// The other events of the session.
	Begin   // a life begins
	Control // changes of the control keys
	Own     // changes of this node's key
	Job     // changes of all keys of the job
	Woken   // a timer or the user asks for another pass
	Located // the node's address is known
	Host    // this node hosts the store from now on
	Fail    // a request failed or a watch ended: the life ends

	// The other events of the user.
	Join
	Look // something has changed
	Expire
	Round
	Say // post to a round without a result
	Result
	GiveUp
	Start
	Acked
	Exit   // the command has ended; others watch for it
	Exited // the command has ended; no other node waits
	Follow // wait for the end of the run
	Return
	Leave

	// The other actions.
	Notify       // give a Notice to people
	Wake         // send Woken after a time
	WatchControl // watch the control keys
	WatchJob     // watch all keys of the job; without a revision: no more
	Revoke       // give a lease back
	Halt         // end the session
	Linger       // leave the store up until others have read why
	Wait         // wait for a change, and no longer than a time
	Reply        // answer the user

	kinds
)

// Phase is what a session or its user does.
type Phase uint8

// The phases of a session, and of its user.
const (
	Down      Phase = iota // has no lease
	Entering               // registers
	Following              // is registered
	Leading                // is registered, leads, and has read the job
	Ended                  // has left, or was replaced or refused

	Idle    // waits for nothing
	Joining // waits for a world
	Inside  // takes part in rounds of a sealed world
	Running // has started

	phases
)

// Guard names a condition of a transaction.
type Guard string

// The guards; docs/rendezvous.md says which write has which.
const (
	FreeSlot     Guard = "free slot"     // the member's key does not exist
	SameHolder   Guard = "same holder"   // the member's key is unchanged since it was read
	FreeLead     Guard = "free lead"     // no node leads
	SameLead     Guard = "same lead"     // the leader's key is unchanged since it was read
	LeadCreate   Guard = "lead create"   // the leader's key has the create revision that this leader got
	LeadLease    Guard = "lead lease"    // the leader's key is bound to this leader's lease
	SameEpoch    Guard = "same epoch"    // the epoch is the version that this node read
	NoNewMember  Guard = "no new member" // no member's key is newer than the newest that the leader has seen
	NoQuit       Guard = "no quit"       // no node of the world has given up
	OwnLease     Guard = "own lease"     // the member's key is bound to this node's lease
	NoResult     Guard = "no result"     // the round has no result yet
	PlaceRemains Guard = "place remains" // the place still exists
)

// Target is what a condition compares.
type Target uint8

// The targets of a condition.
const (
	Create Target = iota
	Mod
	Lease
)

// Cond is one condition of a transaction: the target of Key relates to Rev as Is
// says ('=', '<' or '>'). With Prefix it holds for each key below Key.
type Cond struct {
	Guard  Guard
	Of     Target
	Key    string
	Is     byte
	Rev    int64
	Prefix bool
}

// Verb is what an operation does.
type Verb uint8

// The verbs of an operation.
const (
	Get Verb = iota
	Put
	Delete
	Nest // a transaction inside a transaction
)

// Op is one operation of a transaction.
type Op struct {
	Do     Verb
	Key    string
	Prefix bool
	Limit  int  // Get: the largest number of keys; 0: all
	Oldest bool // Get: in order of creation
	Value  any  // Put: a value of this package, or bytes
	Lease  int64
	If     []Cond
	Then   []Op
}

// KV is a key as the store reports it. Value has the key's type: Member, Epoch,
// Place, Report, Lateness, Note or bytes; nil where it is not readable.
type KV struct {
	Key         string
	Value       any
	Create, Mod int64
	Gone        bool
}

// Action is one thing that the driver does. An action with Then is a transaction.
type Action struct {
	Kind Kind
	What string // a verb phrase for errors
	If   []Cond
	Then []Op
	Else []Op

	Crowd bool // all nodes ask this at once: it takes longer
	Try   bool // its failure is an answer, and does not end the life
	Last  bool // it follows the end of the user's time

	Key    string
	Rev    int64
	Lease  int64
	After  time.Duration
	Notice *Notice
	Name   string // of a round
	Posts  [][]byte
	Unfit  bool // Linger: until others know why this node is unfit

	World *World // Reply
	Value []byte
	Fate  *Fate
	Err   error
	Size  int // Reply: the nodes whose acknowledgements the store host awaits

	epoch   Epoch
	edits   int
	post    *post
	missing *MissingError
	surplus bool // ReadRunning: all places of the run were taken while this node waited for one
}

// Event is one thing that happens to a node. With Ask it is the answer to that
// request.
type Event struct {
	Kind    Kind
	Ask     *Action
	OK      bool // the conditions held
	Took    bool // and those of the nested transaction
	Dead    bool // Register: the holder is a dead process of this machine
	Rev     int64
	KVs     []KV
	Err     error
	Fatal   bool          // Fail: a new life would end like this one
	Silence time.Duration // Fail: since the store last answered
	Ended   bool          // Fail: the other end closed the connection, or refused one, while the lease held
	Closed  bool          // Fail: the store is a job's own, and has done so at any time since it last answered

	Lease   int64
	Addr    netip.Addr
	Name    string // of a round
	Value   []byte
	Reduces bool // Round: this node can reduce it
	Start   bool // Reduce: with this result the world starts; Follow: this is the first look
	Budget  time.Duration
	Member  *Member // Return
	Status  int
	Text    string
}

// Step takes in one event and returns the actions that follow, a request last. They are
// valid until the next Step. The same state and event always give the same actions.
func (n *Node) Step(now time.Time, e Event) []Action {
	n.now, n.out, n.asked = now, n.out[:0], false
	do := n.table[e.Kind][n.phase]
	if do == nil {
		do = n.table[e.Kind][n.user]
	}
	if do != nil {
		do(n, e)
	}
	return n.out
}

func (n *Node) do(a Action) { n.out = append(n.out, a) }

// ask makes a request.
func (n *Node) ask(a Action) {
	n.asked = true
	n.do(a)
}

func (n *Node) notify(e Notice) {
	e.Leader = n.Leads()
	n.do(Action{Kind: Notify, Notice: &e})
}

func (n *Node) wake(after time.Duration) { n.do(Action{Kind: Wake, After: after}) }
