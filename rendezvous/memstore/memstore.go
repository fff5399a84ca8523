// Package memstore is test support: an etcd v3 that lives in the memory of one
// process and can be broken on purpose. It answers at the level of etcd's
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

// Store is one etcd. What it holds is never changed in place: replies and events share it.
type Store struct {
	mu      sync.Mutex
	down    bool
	life    int // how often it returned empty; streams belong to one life
	rev     int64
	kvs     map[string]*mvccpb.KeyValue
	log     []change // of revisions 2, 3, …
	leases  map[int64]*lease
	streams map[*watchStream]bool
	links   []*Link
}

// change is what one revision did.
type change []*mvccpb.Event

// lease is a promise to delete its keys, unless it is renewed.
type lease struct {
	ttl   int64 // seconds
	ends  time.Time
	timer *time.Timer
	keys  map[string]bool
}

// firstRevision is that of an empty store; the first write gets the next one.
const firstRevision = 1

// New is an empty store that answers.
func New() *Store {
	s := &Store{streams: map[*watchStream]bool{}}
	s.empty()
	return s
}

func (s *Store) empty() {
	s.rev, s.kvs, s.log, s.leases = firstRevision, map[string]*mvccpb.KeyValue{}, nil, map[int64]*lease{}
}

// Stop makes the store vanish with all that it held: requests fail, streams
// break. It returns what it has been through, as History does.
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
		l.breakStreams()
	}
	return history
}

// History are all events of the store since it was empty.
func (s *Store) History() []*mvccpb.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.log...)
}

// Lease returns whether the store holds a lease; rev is its revision as it said
// so, and life how often it has returned empty.
func (s *Store) Lease(id clientv3.LeaseID) (held bool, life int, rev int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[int64(id)] != nil, s.life, s.rev
}

// Restart lets a stopped store answer again; it is empty.
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

// Client is a client of the store with a link of its own that nothing breaks.
func (s *Store) Client() *clientv3.Client { return s.Dial().Client() }

// errDown is what a client gets of a store whose process is gone.
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

// since are the changes from rev on, which may be in the future.
func (s *Store) since(rev int64) []change {
	const first = firstRevision + 1
	if rev > s.rev {
		return nil
	}
	return s.log[max(rev, first)-first:]
}

// newLeaseID is random as etcd's are: an id is not given twice, also not by a
// store that returned empty.
func newLeaseID() int64 { return rand.Int64N(1<<62) + 1 }
