// Package memstore is test support: an etcd v3 that lives in the memory of one process and can be
// broken on purpose. It answers at the level of etcd's protobuf services, and its clients are real ones
// (clientv3) that call it without a connection, so what runs above them is what runs in production.
//
// All that takes time is made of timers and channels: inside a testing/synctest
// bubble a lease of ten seconds runs out at once, and exactly then.
package memstore

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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

// end deletes a lease and, in one revision, its keys. The caller holds mu.
func (s *Store) end(id int64) bool {
	l := s.leases[id]
	if l == nil {
		return false
	}
	l.timer.Stop()
	w := &write{s: s}
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		w.drop(s.kvs[key])
	}
	delete(s.leases, id)
	s.commit(w.evs)
	return true
}

// renew gives a lease its whole time again, and returns that; 0: there is none.
func (s *Store) renew(id int64) int64 {
	l := s.leases[id]
	if l == nil {
		return 0
	}
	d := time.Duration(l.ttl) * time.Second
	l.ends = time.Now().Add(d)
	l.timer.Reset(d)
	return l.ttl
}

// overdue ends a lease at its time, which may have been moved while its timer was already on the way.
func (s *Store) overdue(id int64, l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[id] == l && !time.Now().Before(l.ends) {
		s.end(id)
	}
}

// leaseServer is etcd's service Lease.
type leaseServer struct {
	pb.UnimplementedLeaseServer
	l *Link
}

func (g leaseServer) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return carry(ctx, g.l, r, func() (*pb.LeaseGrantResponse, error) {
		s, id := g.l.s, r.ID
		if id == 0 {
			id = newLeaseID()
		}
		if s.leases[id] != nil {
			return nil, rpctypes.ErrGRPCLeaseExist
		}
		l := &lease{ttl: max(r.TTL, 1), keys: map[string]bool{}}
		d := time.Duration(l.ttl) * time.Second
		l.ends = time.Now().Add(d)
		l.timer = time.AfterFunc(d, func() { s.overdue(id, l) })
		s.leases[id] = l
		return &pb.LeaseGrantResponse{Header: s.header(), ID: id, TTL: l.ttl}, nil
	})
}

func (g leaseServer) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	return carry(ctx, g.l, r, func() (*pb.LeaseRevokeResponse, error) {
		if !g.l.s.end(r.ID) {
			return nil, rpctypes.ErrGRPCLeaseNotFound
		}
		return &pb.LeaseRevokeResponse{Header: g.l.s.header()}, nil
	})
}

func (g leaseServer) LeaseTimeToLive(
	ctx context.Context, r *pb.LeaseTimeToLiveRequest,
) (*pb.LeaseTimeToLiveResponse, error) {
	return carry(ctx, g.l, r, func() (*pb.LeaseTimeToLiveResponse, error) {
		out := &pb.LeaseTimeToLiveResponse{Header: g.l.s.header(), ID: r.ID, TTL: -1}
		if l := g.l.s.leases[r.ID]; l != nil {
			out.TTL, out.GrantedTTL = int64(time.Until(l.ends)/time.Second), l.ttl
			for _, key := range slices.Sorted(maps.Keys(l.keys)) {
				if r.Keys {
					out.Keys = append(out.Keys, []byte(key))
				}
			}
		}
		return out, nil
	})
}

func (g leaseServer) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	ctx, end := g.l.streamContext(stream.Context())
	defer end()
	wake := make(chan struct{}, 1)
	in := newInbox(stream.Recv, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	for {
		select {
		case <-wake:
		case <-ctx.Done():
			return over(ctx)
		}
		requests, last := in.take()
		for _, r := range requests {
			out, err := carry(ctx, g.l, r, func() (*pb.LeaseKeepAliveResponse, error) {
				return &pb.LeaseKeepAliveResponse{Header: g.l.s.header(), ID: r.ID, TTL: g.l.s.renew(r.ID)}, nil
			})
			if err != nil {
				return err
			}
			if err := stream.Send(out); err != nil {
				return err
			}
		}
		if last != nil {
			return last
		}
	}
}

// valCtxCh is a channel of clientv3 that never closes, made when the process starts. Each watch
// leaves a goroutine that waits for it, and a goroutine that waits for a channel from outside a
// synctest bubble stops the bubble's clock from moving.
//
//go:linkname valCtxCh go.etcd.io/etcd/client/v3.valCtxCh
var valCtxCh chan struct{}

// Bubbles lets clientv3's watches run inside testing/synctest. A nil channel never closes either,
// and needs no goroutine (package context). Call it from TestMain, before there is any client.
func Bubbles() { valCtxCh = nil }
