package rendezvous

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"launch/rendezvous/protocol"
)

// Config has the settings of a node for the rendezvous.
type Config struct {
	Job  string
	Self Member        // ID may be empty: then Enter makes a random one
	TTL  time.Duration // of the lease; 0: LeaseTTL, and more for thousands of nodes
	// StartTimeout is how long after the go a node may take to start; 0: no limit.
	StartTimeout time.Duration
	// Hosted says that one of the nodes hosts the store: there is no world
	// without it.
	Hosted bool
	// OwnStore says that the store is an embedded one and must be this job's: each
	// registration checks it, by Enter. Another job's ends the wait (*OtherStoreError).
	OwnStore bool
	// Reached, where set, returns the address by which other nodes reach this one,
	// which can only guess its own (Self.Addr); the zero Addr while none has.
	Reached func() netip.Addr
	// LastCall is how long, where Min nodes are enough, the others may take
	// after the last one that joined.
	LastCall time.Duration
	// FailFast ends the wait for a world when a node has reported that it is not
	// fit, and the job cannot do without it.
	FailFast bool
	// Renews says that a node whose run may be over in a store that was started again is started again, too, as a
	// new one: it does not wait for another node that knows that the run goes on.
	Renews bool
	// Hangup, where set, is that of the Store: without it a node cannot know that its run goes on
	// in a store that was started again.
	Hangup *Hangup
	Events func(Event) // may be nil; called from one goroutine at a time
}

// crowd returns the load of the joining nodes on the store, in nodes.
func (c Config) crowd() int { return crowd(c.Self.Size, !c.OwnStore) }

// Session is one node's membership: a lease and a key, renewed until Leave,
// through lost connections and a store that returns empty. It drives the node's
// state: it makes the requests that the state asks for, and reports the answers.
type Session struct {
	cfg  Config
	cli  *clientv3.Client
	k    keys
	stop context.CancelFunc
	done chan struct{}
	kick chan struct{} // asks the state for another pass

	answered time.Time // when the store last granted or renewed the lease; for run alone

	mu       sync.Mutex
	node     *protocol.Node
	changed  chan struct{} // closed at each change of node
	reducers map[string]Reduce
}

// table returns the transitions of the protocol, the same for all sessions.
var table = sync.OnceValue(func() *protocol.Table { return protocol.TableOf(protocol.Rules()) })

// Enter registers this node with the store of cli and renews the registration
// until Leave. It returns at once; Join waits.
func Enter(ctx context.Context, cli *clientv3.Client, cfg Config) *Session {
	if cfg.TTL == 0 {
		cfg.TTL = leaseOf(cfg.crowd())
	}
	if cfg.Self.ID == "" {
		cfg.Self.ID = newID()
	}
	if cfg.Self.Phase == "" {
		cfg.Self.Phase = PhaseArrived
	}
	if cfg.Events == nil {
		cfg.Events = func(Event) {}
	}
	s := &Session{cfg: cfg, cli: cli, k: protocol.KeysOf(cfg.Job), done: make(chan struct{}), kick: make(chan struct{}, 1),
		changed: make(chan struct{}), reducers: map[string]Reduce{},
		node: protocol.New(protocol.Config{Job: cfg.Job, Self: cfg.Self, TTL: cfg.TTL, StartTimeout: cfg.StartTimeout,
			LastCall: cfg.LastCall, Hosted: cfg.Hosted, FailFast: cfg.FailFast, Renews: cfg.Renews,
			Seed: [2]uint64{rand.Uint64(), rand.Uint64()}}, table())}
	ctx, s.stop = context.WithCancel(ctx)
	go s.run(ctx)
	return s
}

// step gives an event to the state, and wakes all users of the state if asked to. It
// returns the actions, and a channel that is closed at the next such step.
func (s *Session) step(e event, wake bool) ([]action, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	actions := slices.Clone(s.node.Step(time.Now(), e))
	if wake {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return actions, s.changed
}

// state lets f read the state.
func (s *Session) state(f func(*protocol.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.node)
}

// me returns this node as it last described itself.
func (s *Session) me() (m Member) {
	s.state(func(n *protocol.Node) { m = n.Self() })
	return m
}

// joined returns the epoch that Join returned last.
func (s *Session) joined() (ep Epoch) {
	s.state(func(n *protocol.Node) { ep = n.Joined() })
	return ep
}

// nudge asks the state for another pass.
func (s *Session) nudge() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// wake asks the state for another pass after a time, or at once.
func (s *Session) wake(after time.Duration) {
	if after <= 0 {
		s.nudge()
		return
	}
	time.AfterFunc(after, s.nudge)
}

// newID returns a random identity.
func newID() string { return fmt.Sprintf("%016x", rand.Uint64()) }
