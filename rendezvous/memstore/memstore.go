// Package memstore is an etcd v3 in the memory of one process, for tests, which can
// break it on purpose. It answers at the level of etcd's
// protobuf services, and its clients are real ones (clientv3) that call it
// without a connection, so what runs above them is what runs in production.
//
// All that takes time is made of timers and channels: inside a testing/synctest
// bubble a lease of ten seconds runs out at once, and exactly then.
package memstore

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Store is one etcd. It never changes a value in place: replies and events share
// the values.
type Store struct {
	mu      sync.Mutex
	down    bool
	life    int // how often it restarted empty; streams belong to one life
	rev     int64
	kvs     map[string]*mvccpb.KeyValue
	log     []change // of revisions 2, 3, …
	leases  map[int64]*lease
	streams map[*watchStream]bool
	links   []*Link
}

// change has the events of one revision.
type change []*mvccpb.Event

// lease deletes its keys at its end, unless it is renewed.
type lease struct {
	ttl   int64 // seconds
	ends  time.Time
	timer *time.Timer
	keys  map[string]bool
}

// firstRevision is the revision of an empty store; the first write gets the next one.
const firstRevision = 1

// New returns an empty store that answers.
func New() *Store {
	s := &Store{streams: map[*watchStream]bool{}}
	s.empty()
	return s
}

// empty deletes all data.
func (s *Store) empty() {
	s.rev, s.kvs, s.log, s.leases = firstRevision, map[string]*mvccpb.KeyValue{}, nil, map[int64]*lease{}
}

// Stop ends the store and deletes its data: requests fail, streams break. It
// returns its History.
func (s *Store) Stop() []*mvccpb.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	history := slices.Concat(s.log...)
	for _, l := range s.leases {
		l.timer.Stop()
	}
	s.empty()
	s.down = true
	s.life++
	for w := range s.streams {
		w.nudge()
	}
	for _, l := range s.links {
		l.Break()
	}
	return history
}

// History returns all events of the store since it was empty.
func (s *Store) History() []*mvccpb.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.log...)
}

// Lease returns whether the store holds a lease, how often it restarted empty, and
// its revision.
func (s *Store) Lease(id clientv3.LeaseID) (held bool, life int, rev int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[int64(id)] != nil, s.life, s.rev
}

// Restart starts a stopped store again, empty.
func (s *Store) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
}

// Expire ends a lease now, as if its time had run out.
func (s *Store) Expire(id clientv3.LeaseID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(int64(id))
}

// Client returns a client with a link of its own that does not break.
func (s *Store) Client() *clientv3.Client { return s.Dial().Client() }

// errDown returns the error of a request to a stopped store.
func errDown() error {
	return status.Error(codes.Unavailable, "the store is down: connection refused")
}

func (s *Store) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: s.rev} }

// commit makes the events one revision and sends it to the watches. The caller holds
// mu and has applied them to kvs.
func (s *Store) commit(evs change) {
	if len(evs) == 0 {
		return
	}
	s.rev++
	s.log = append(s.log, evs)
	for w := range s.streams {
		w.nudge()
	}
}

// since returns the changes from rev on, which may be in the future.
func (s *Store) since(rev int64) []change {
	const first = firstRevision + 1
	if rev > s.rev {
		return nil
	}
	return s.log[max(rev, first)-first:]
}

// newLeaseID returns a random id, as etcd does: a store that restarted empty does
// not repeat one.
func newLeaseID() int64 { return rand.Int64N(1<<62) + 1 }
