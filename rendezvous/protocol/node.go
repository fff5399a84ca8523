package protocol

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Times of the protocol, each with its reason.
const (
	// TypedGrace is how long a typed index waits, after the lease, for the holder
	// to vanish before the error names both.
	TypedGrace = 2 * time.Second
	// RetryMax bounds the pause between two tries at a store that does not
	// answer: a node notices a late store within a second.
	RetryMax = time.Second
	// resignPause is how long a leader that is not part of the sealed world
	// leaves the lead to the nodes of that world.
	resignPause = time.Second
	// progressEvery bounds how often the leader publishes the attendance: what all
	// nodes read costs N each time. It is 1 ms a node up to this.
	progressEvery = 10 * time.Second
	// LastCalls bounds how long nodes that join one after the other delay a start for which
	// enough nodes have joined, in last calls.
	LastCalls = 6
	// NoteGrace is how long a new leader withholds a note that it found: a note of
	// the last run is obsolete once the node itself joins, within seconds.
	NoteGrace = 2 * time.Second
	// few bounds the lists that all nodes read.
	few = 16
)

// AckRound is the round in which every node confirms that it has read the go.
const AckRound = "started"

// Config is what a node's state depends on and never changes.
type Config struct {
	Job          string
	Self         Member
	TTL          time.Duration // of the lease
	StartTimeout time.Duration // how long a node may take to start; 0: no limit
	LastCall     time.Duration // how long to wait for more than the least number of nodes
	Hosted       bool          // no world without the store host
	FailFast     bool          // an unfit node ends the wait
	Renews       bool          // a node whose run may be over ends at once, and is started again as a new one
	Seed         [2]uint64     // of the nonces
}

// Node is the state of one node. Only Step changes it.
type Node struct {
	cfg   Config
	table *Table
	k     Keys
	dice  *rand.PCG
	now   time.Time
	out   []Action
	asked bool

	phase, user Phase
	turn        int      // what this pass does next
	unsent      []string // the rounds to which this pass posts

	self        Member
	edits, said int // changes of self, and how many of them its key has
	lease       int64
	leases      []int64   // of this life and of earlier ones that may still hold this node's keys
	leadLease   int64     // the lease that this node leads with
	wasUp       bool      // it was registered before
	doubt       int64     // revision before a first registration that may have become true; 0: none
	doubtful    int64     // revision before the registration that this life tries
	closing     bool      // the store host has said that the store ends with its command
	sawEnd      bool      // it saw the end of the last store, in which its run could not end without it
	emptied     time.Time // when it first saw that the store does not know its run
	trouble     error     // why it is not registered
	lost        bool      // and people know
	fatal       error
	holder      Member    // the holder of the key that this node wants
	holderMod   int64     // the revision of that key
	contended   time.Time // when this life first saw a live holder of its typed index
	rival       *Member   // the holder of this node's typed index, as last seen
	leader      registered
	resignedAt  time.Time // when this node last left the lead to others
	lead        *lead     // nil: this node does not lead, or has not read the job yet
	ep          Epoch
	epMod       int64             // mod revision of the epoch key; 0: absent
	seat        *KV               // this node's place in the world that was sealed last, where the store sent it
	results     map[string][]byte // by result key
	seen        *Attendance       // the last one that the leader published
	final       bool              // it is the last one of the store host, which gave up
	unfit       unfit
	left        map[string]Member // by key: the nodes that left while this one waits
	reported    map[string]bool   // the departures and notes that people know
	witnessed   string            // the nonce of the world that this node could have been part of
	unneeded    *SpareError       // that world went without it
	stands      string            // the run that this node stood by for last
	joined      Epoch             // the epoch that Join returned last
	rank        int               // this node's in it
	intact      bool              // it exists, as far as is known
	posts       map[string]*post  // by round, of the joined epoch
	outside     string            // the nonce of a world that this node has no place in
	surplus     string            // the same, until it is told that all places were taken
	until       time.Time         // the end of the user's wait; zero: none
	budget      time.Duration
	running     []string // the nodes of the last run that were last seen
	over        bool     // the store has shown since that this run is over
	closed      bool     // the store of that run has ended
	status      *int     // of the command that has ended; nil: unknown
}

// post is what this node posts to a round.
type post struct {
	value   []byte
	reduces bool
	sent    bool // in this life
	acked   bool // ever
}

// registered is a member with the revision at which its key was created.
type registered struct {
	Member
	create, mod int64
	seen        time.Time // when the leader first saw it wait, by the leader's clock
}

// New returns the state of a node that has not begun.
func New(cfg Config, table *Table) *Node {
	return &Node{
		cfg: cfg, table: table, k: KeysOf(cfg.Job), dice: rand.NewPCG(cfg.Seed[0], cfg.Seed[1]), user: Idle, self: cfg.Self,
		results: map[string][]byte{}, left: map[string]Member{}, reported: map[string]bool{}, posts: map[string]*post{},
	}
}

// Self returns this node as it last described itself.
func (n *Node) Self() Member { return n.self }

// Leads returns whether this node leads, as far as it knows.
func (n *Node) Leads() bool { return n.leader.ID == n.self.ID }

// Epoch returns the epoch as this node last saw it.
func (n *Node) Epoch() Epoch { return n.ep }

// Joined returns the epoch that Join returned last.
func (n *Node) Joined() Epoch { return n.joined }

// Up returns whether this node is registered, as far as it knows.
func (n *Node) Up() bool { return n.phase == Following || n.phase == Leading }

// Lease returns the lease of this life.
func (n *Node) Lease() int64 { return n.lease }

// Leases returns all leases that may hold keys of this node.
func (n *Node) Leases() []int64 { return n.leases }

// Known returns the result of a round of the joined world.
func (n *Node) Known(name string) ([]byte, bool) {
	v, ok := n.results[n.k.Result(n.joined.N, name)]
	return v, ok
}

// Wrote returns whether this leader made a revision: its watch then repeats what
// it knows.
func (n *Node) Wrote(rev int64) bool { return n.lead != nil && n.lead.mine[rev] }

// Settled returns whether all know that this node has started, and nothing
// follows: then it matters little how soon a lost store is asked again.
func (n *Node) Settled() bool {
	ack := n.posts[AckRound]
	return ack != nil && ack.acked && n.self.Restarts == 0
}

// goes returns whether this node has read the go.
func (n *Node) goes() bool {
	return n.joined.Nonce != "" && n.ep.Nonce == n.joined.Nonce && n.ep.State == Started || n.self.Phase == PhaseStarted
}

// locate replaces this node's guess of its address by the one that other nodes
// reach. A leader is located before it seals.
func (n *Node) locate(e Event) {
	if n.self.Addr != e.Addr || n.self.Guess {
		n.self.Addr, n.self.Guess = e.Addr, false
		n.edits++
	}
}

// host makes this node the one that hosts the store.
func (n *Node) host(Event) {
	n.self.First = true
	n.edits++
}

// broken returns why the joined world no longer exists; "": it does, as far as is
// known.
func (n *Node) broken() string {
	if n.ep.Nonce == n.joined.Nonce || n.ep.N == 0 && !n.Up() {
		return ""
	}
	return cmp.Or(n.ep.Why, "the store restarted empty before the start")
}

// fail ends a life. Each doubt (an unknown outcome, a lost lease, a closed watch)
// does; the next life begins by reading back what became true.
func (n *Node) fail(e Event) {
	if e.Fatal {
		n.halt(e.Err)
		return
	}
	if n.phase == Entering { // its registration may have become true
		n.doubt = cmp.Or(n.doubt, n.doubtful)
	}
	if n.Up() {
		n.sawEnd = e.Ended && n.needed()
	}
	n.phase, n.lead, n.trouble = Down, nil, e.Err
	if !n.lost && (!n.goes() || n.self.Restarts > 0) { // once, until it is back
		out := Notice{Kind: Lost, Text: e.Err.Error()}
		if e.Closed {
			out.Have = n.running
		}
		n.notify(out)
	}
	n.lost, n.closed = true, e.Closed
	if n.cfg.Hosted && n.user == Running && !n.closing && e.Silence >= n.cfg.TTL {
		n.warn(Gone, n.joined.Nonce, "the node that hosts the store, or the network to it, was lost")
	}
}

// needed returns whether the run of this node goes on for as long as the store, which knows the run,
// counts the node as present. After the end of its command, or in the last attempt, it may end.
func (n *Node) needed() bool {
	switch ep := n.ep; {
	case ep.Run != n.joined.Run || ep.State == Over || ep.State != Open && ep.Nonce != n.joined.Nonce:
		return false
	case n.self.Phase == PhaseStarted:
		return n.joined.Restart < n.joined.Restarts
	}
	return n.self.Phase == PhaseArrived && n.self.Run != "" && !n.self.extra()
}

// halt ends the session: another process has this node's place.
func (n *Node) halt(err error) {
	n.phase, n.lead, n.fatal = Ended, nil, err
	n.do(Action{Kind: Revoke, Lease: n.lease}) // it leads no longer; the key is another's already, or was never written
	n.do(Action{Kind: Halt, Err: err})
}

// end returns the error that ends a wait for good; nil: none yet.
func (n *Node) end() error {
	switch u := n.unfit; {
	case n.fatal != nil:
		return n.fatal
	case n.unneeded != nil:
		return n.unneeded
	case n.cfg.FailFast && !n.self.extra() && n.ep.State == Open && u.epoch == n.ep.N && len(u.notes) > 0:
		return &UnfitError{u.notes, u.more}
	}
	return nil
}

// lastKnown returns what this node waited for when the store was lost, which
// explains more than the loss.
func (n *Node) lastKnown(err error) error {
	switch {
	case n.final:
		return &MissingError{Attendance: *n.seen}
	case n.rival != nil:
		return &DuplicateError{Self: n.self, Holder: *n.rival}
	case len(n.running) > 0 && (n.closed || !n.over):
		return &MissingError{Attendance: Attendance{Want: n.self.Size, Min: n.self.Min}, Running: some(n.running),
			Ended: n.closed}
	case !n.Up() && n.seen != nil && slices.ContainsFunc(n.seen.Unfit, func(note Note) bool { return note.First }):
		return &MissingError{Attendance: *n.seen} // the host has said why it does not host the store
	case !n.Up() && n.trouble != nil:
		err = n.trouble
	}
	if errors.Is(err, ErrFull) {
		return ErrFull
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}
