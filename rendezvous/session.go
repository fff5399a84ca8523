package rendezvous

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Config is what a node brings to the rendezvous.
type Config struct {
	Job  string
	Self Member        // ID may be empty: a random one is made
	TTL  time.Duration // of the lease; 0: LeaseTTL, and more for thousands of nodes
	// StartTimeout is how long after the go a node may take to start, and a
	// loss is told; 0: nobody looks.
	StartTimeout time.Duration
	// Hosted says that one of the nodes hosts the store: there is no world
	// without it.
	Hosted bool
	// Asks says that the store is an embedded one, and has to be this job's: each
	// registration asks, by Enter. Another job's ends the wait (*OtherStoreError).
	Asks bool
	// Reached, where set, is the address by which other nodes come to this one,
	// which knows its own (Self.Addr) no better than by a guess; the zero Addr
	// while none has come.
	Reached func() netip.Addr
	// LastCall is how long, where Min nodes are enough, the others may take
	// after the last one that came.
	LastCall time.Duration
	// FailFast ends the wait for a world where a node has said that it is not
	// fit, and the job cannot do without it.
	FailFast bool
	Events   func(Event) // may be nil; called from one goroutine at a time
}

// crowd is what the nodes of the job are to the store, as they come.
func (c Config) crowd() int { return crowd(c.Self.Size, !c.Asks) }

// Session is one node's membership: a lease and a key, kept up until Leave,
// through lost connections and a store that came back empty.
type Session struct {
	cfg  Config
	cli  *clientv3.Client
	k    keys
	stop context.CancelFunc
	done chan struct{}
	kick chan struct{} // Round has something to post, or a reducer

	mu        sync.Mutex
	changed   chan struct{} // closed at each change of what follows
	self      Member
	ep        Epoch
	epMod     int64 // mod revision of the epoch key; 0: absent
	leader    registered
	seat      *mvccpb.KeyValue  // the place of this node's key in the world that was sealed last, where the store told it
	results   map[string][]byte // by result key
	posts     map[string]*post  // by round, of the joined epoch
	joined    Epoch             // the epoch that Join returned last
	rank      int               // this node's in it
	stands    bool              // it does, as far as was told
	went      time.Time         // when this node read that it may start
	fatal     error
	up        bool              // registered, as far as is known
	dirty     bool              // the key of this node does not say yet what self says
	wasUp     bool              // ever
	doubt     int64             // revision before a first registration that may have become true; 0: none
	trouble   error             // why not up
	seen      *Attendance       // what the leader told last
	unfit     unfit             // who of the wait for this epoch is not fit, as the leader told it last
	final     bool              // it was the store's host, as it gave up
	left      map[string]Member // by key: who left while this node waits
	told      map[string]bool   // incarnations whose departure was told here
	rival     *Member           // who held this node's typed index when it was last seen
	witnessed string            // the nonce of the world that this node could have been part of
	unneeded  *SpareError       // that world went without it
	running   []string          // who of the last run was last seen to go on
	resigned  time.Time         // when this node last left the lead to others
	lost      bool              // and people were told
	status    *int              // of the command that has ended; nil: unknown
	lease     clientv3.LeaseID
	leases    []clientv3.LeaseID // of this life and of earlier ones that may hold this node's keys yet
	leadLease clientv3.LeaseID   // the lease that this node leads with
}

type post struct {
	value  []byte
	reduce Reduce
	sent   bool // in this life
	acked  bool // ever
}

// Enter registers this node with the store behind cli and keeps it registered
// until Leave or Abandon. It returns at once; Join waits.
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
	s := &Session{
		cfg: cfg, cli: cli, k: keysOf(cfg.Job), self: cfg.Self,
		done: make(chan struct{}), kick: make(chan struct{}, 1),
		changed: make(chan struct{}), results: map[string][]byte{}, left: map[string]Member{}, told: map[string]bool{}, posts: map[string]*post{},
	}
	ctx, s.stop = context.WithCancel(ctx)
	go s.run(ctx)
	return s
}

// run lives one life after the other; every doubt (an unknown outcome, a lost
// lease, a closed watch) ends a life, and the next one begins by reading back.
func (s *Session) run(ctx context.Context) {
	defer close(s.done)
	pause := retries(s.cfg.crowd())
	for ctx.Err() == nil {
		began := time.Now()
		err := s.life(ctx)
		if ctx.Err() != nil {
			return
		}
		var dup *DuplicateError
		var sup *SupersededError
		var other *OtherStoreError
		if errors.As(err, &dup) || errors.As(err, &sup) || errors.As(err, &other) {
			s.mu.Lock()
			lease := s.lease
			s.mu.Unlock()
			_, _ = s.cli.Revoke(timeout(ctx), lease) // lead no longer; the key is another's already, or was never written
			s.update(func() { s.fatal, s.up = err, false })
			return
		}
		told := s.lost
		s.update(func() { s.up, s.trouble, s.lost = false, err, true })
		if !told && (!s.started() || s.me().Restarts > 0) { // once, until it is back
			s.emit(Event{Kind: Lost, Text: err.Error()})
		}
		if time.Since(began) > 2*retryMax {
			pause.Reset()
		}
		d := pause.NextBackOff()
		if s.settled() {
			d *= 20
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
}

// life is one lease: register, look, watch, lead where it falls to this node.
func (s *Session) life(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	way, g, err := s.entrance(ctx)
	if err != nil {
		return fmt.Errorf("get a lease: %w", reason(ctx, err))
	}
	s.update(func() { s.lease, s.leases = g.ID, append(s.leases, g.ID) }) // Leave gives it back, however far this life comes
	s.locate()
	rev, err := s.register(ctx, way.store(), g.ID)
	if err != nil {
		s.update(func() { s.doubt = cmp.Or(s.doubt, g.Revision) })
		return err
	}
	back := false
	s.update(func() {
		back, s.lost = s.lost, false
		s.up, s.wasUp, s.trouble = true, true, nil
		for _, p := range s.posts {
			p.sent = false
		}
	})
	if back && (!s.started() || s.me().Restarts > 0) {
		s.emit(Event{Kind: Back})
	}
	control, err := way.news(rev)
	if err != nil {
		return err
	}
	var alive <-chan *clientv3.LeaseKeepAliveResponse
	var own clientv3.WatchChan
	quieter := time.After(s.cfg.TTL/settle + spread(s.cfg.crowd()))
	var l *lead // nil: this node does not lead
	for {
		if err := s.campaign(ctx); err != nil {
			return err
		}
		if why := s.fell(); why != "" {
			s.emit(Event{Kind: Anew, Text: why})
		}
		s.locate()
		if err := s.describe(ctx); err != nil {
			return err
		}
		if !s.leads() {
			l = nil
		} else if l == nil {
			if l, err = s.takeOver(ctx); err != nil {
				return err
			}
		}
		if l != nil {
			if err := l.step(ctx); err != nil {
				return err
			}
		}
		if err := s.send(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-quieter:
			if alive, err = s.cli.KeepAlive(ctx, g.ID); err != nil {
				return fmt.Errorf("keep the lease: %w", reason(ctx, err))
			}
			if own, err = s.watch(ctx, s.k.member(s.me()), rev); err != nil {
				return err
			}
		case _, ok := <-alive:
			if !ok {
				return errors.New("the lease was lost")
			}
		case r, ok := <-control:
			if err := watched(r, ok); err != nil {
				return err
			}
			s.observe(r.Events)
		case r, ok := <-own:
			if err := watched(r, ok); err != nil {
				return err
			}
			if err := s.ownKey(r.Events); err != nil {
				return err
			}
		case r, ok := <-l.watch():
			if err := watched(r, ok); err != nil {
				return err
			}
			l.observe(r.Events)
		case <-s.kick:
		}
	}
}

// fell says, once, why the world that this node joined is no more.
func (s *Session) fell() (why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stands {
		why = s.broken(s.joined)
		s.stands = why == ""
	}
	return why
}

// broken says why a joined world is no more; "": it is, as far as is known. The
// caller holds mu.
func (s *Session) broken(joined Epoch) string {
	if s.ep.Nonce == joined.Nonce || s.ep.N == 0 && !s.up {
		return ""
	}
	return cmp.Or(s.ep.Why, "the store came back empty before the start")
}

// locate puts the address by which the others come in the place of this node's
// guess. A world is sealed of the members' keys as they are, by who registered
// first: another node, which has come then before this one registers; or this
// one, which looks again, and writes its key anew, before it leads on.
func (s *Session) locate() {
	if s.cfg.Reached == nil {
		return
	}
	if a := s.cfg.Reached(); a.IsValid() {
		s.cfg.Reached = nil
		s.update(func() { s.dirty = s.dirty || s.self.Addr != a; s.self.Addr = a })
	}
}

// watch watches what came after rev. Its begin is bounded, since etcd's client
// returns only when the store has answered: one that is lost just then is to be
// missed as at any other time.
func (s *Session) watch(ctx context.Context, key string, rev int64, opts ...clientv3.OpOption) (clientv3.WatchChan, error) {
	out := make(chan clientv3.WatchChan, 1)
	go func() { // it ends with the life at the latest
		out <- s.after(ctx, key, rev, opts...)
	}()
	select {
	case w := <-out:
		return w, nil
	case <-within(ctx, s.cfg.crowd()).Done():
		return nil, errors.New("watch the job: no answer")
	}
}

// after is what came after rev. It returns when the store has answered.
func (s *Session) after(ctx context.Context, key string, rev int64, opts ...clientv3.OpOption) clientv3.WatchChan {
	return s.cli.Watch(clientv3.WithRequireLeader(ctx), key, append(opts, clientv3.WithRev(rev+1))...)
}

func watched(r clientv3.WatchResponse, ok bool) error {
	if !ok {
		return errors.New("the watch was closed")
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("watch the job: %w", err)
	}
	return nil
}

func (s *Session) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Session) emit(e Event) {
	if s.cfg.Events != nil {
		e.Leader = s.leads()
		s.cfg.Events(e)
	}
}

func (s *Session) leads() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader.ID == s.self.ID
}

func (s *Session) started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined.Nonce != "" && s.ep.Nonce == s.joined.Nonce && s.ep.State == Started || s.self.Phase == PhaseStarted
}

// settled tells whether nobody waits for this node any more: all know that it
// has started, and nothing comes after that.
func (s *Session) settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ack := s.posts[ackRound]
	return ack != nil && ack.acked && s.self.Restarts == 0
}

// me is this node as it last described itself.
func (s *Session) me() Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.self
}

// replaced tells whether another's key of the revision is newer than this
// node's: it was registered before, or may have been and the other came since.
func (s *Session) replaced(by int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wasUp || s.doubt > 0 && by > s.doubt
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("rendezvous: " + err.Error()) // own types: cannot fail
	}
	return string(b)
}
