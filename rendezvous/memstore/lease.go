package memstore

import (
	"context"
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

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

// renew resets the time of a lease and returns it; 0: no such lease.
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

// overdue ends a lease whose time has run out. The time may have changed after its
// timer fired.
func (s *Store) overdue(id int64, l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[id] == l && !time.Now().Before(l.ends) {
		s.end(id)
	}
}

// leaseServer implements etcd's service Lease.
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
