package rendezvous

import (
	"context"
	"net/netip"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// owns returns whether a lease may be used by this client. One that is not known is etcd's to refuse.
func (g *gate) owns(from netip.Addr, lease int64) bool {
	return g.known || g.book.owns(from, lease)
}

func (g *gate) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	from := writer(ctx)
	if r.TTL > maxTTL || r.ID != 0 { // a node leaves the number to the store
		return nil, status.Errorf(codes.InvalidArgument, "a lease of %d s (at most %d) with the number %d", r.TTL, maxTTL,
			r.ID)
	}
	if err := g.book.reserve(from, leaseSize); err != nil {
		return nil, err
	}
	defer g.book.free(from, leaseSize)
	l, err := g.leases.LeaseGrant(ctx, r)
	if err == nil {
		g.book.granted(from, l.ID)
	}
	return l, err
}

func (g *gate) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	if !g.owns(writer(ctx), r.ID) {
		return nil, refusal("the lease of another node")
	}
	return g.leases.LeaseRevoke(ctx, r)
}

func (g *gate) LeaseKeepAlive(s pb.Lease_LeaseKeepAliveServer) error {
	return g.leases.LeaseKeepAlive(&renewing{Lease_LeaseKeepAliveServer: s, g: g})
}

// renewing is a stream of renewals of this client's own leases.
type renewing struct {
	pb.Lease_LeaseKeepAliveServer
	g *gate
}

func (s *renewing) Recv() (*pb.LeaseKeepAliveRequest, error) {
	r, err := s.Lease_LeaseKeepAliveServer.Recv()
	if err == nil && !s.g.owns(writer(s.Context()), r.ID) {
		err = refusal("the lease of another node")
	}
	return r, err
}
