package rendezvous

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"launch/rendezvous/protocol"
)

// gate is what the clients of an embedded store reach of etcd: reads below /launch/, leases, watches,
// and the writes that a node makes (protocol.Keys.Permits), within the bounds of the ledger. What it
// does not define is not served.
type gate struct {
	pb.UnimplementedKVServer
	pb.UnimplementedLeaseServer
	pb.UnimplementedWatchServer

	kv      pb.KVServer // etcd's own services
	leases  pb.LeaseServer
	watches pb.WatchServer

	job   string // "": any
	own   keys   // of that job
	known bool   // the clients have proved that they belong here, by TLS
	book  *ledger
	fence
}

// Bounds of one client. Of a start of 1,000 nodes the largest request has 76 KB and the largest value,
// a post, 0.8 KB.
const (
	maxRequest = 3 << 19  // bytes
	maxValue   = 64 << 10 // bytes, but for posts and results
	maxKey     = 2 << 10  // bytes
	maxTTL     = 600      // seconds
	maxWatches = 1024     // of one stream
	maxStreams = 1024     // of one connection
)

// writer is the address of the client that makes a request; the zero Addr is a process of this machine.
func writer(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return netip.Addr{}
	}
	if here(p.Addr, p.LocalAddr) {
		return netip.Addr{}
	}
	return host(p.Addr)
}

func host(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// refusal is the answer to a request that no node makes.
func refusal(format string, args ...any) error {
	return status.Errorf(codes.PermissionDenied, "launch's store refuses this: "+format, args...)
}

// below refuses what reads another key than launch's.
func below(key, end []byte) error {
	if n := max(len(key), len(end)); n > maxKey {
		return refusal("a key of %d bytes: at most %d", n, maxKey)
	}
	limit := append([]byte(protocol.Root[:len(protocol.Root)-1]), protocol.Root[len(protocol.Root)-1]+1)
	if bytes.HasPrefix(key, []byte(protocol.Root)) &&
		(len(end) == 0 || bytes.Compare(end, limit) <= 0 && (len(end) > 1 || end[0] != 0)) {
		return nil
	}
	return refusal("keys outside %s", protocol.Root)
}

func (g *gate) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := below(r.Key, r.RangeEnd); err != nil {
		return nil, err
	}
	return g.kv.Range(ctx, r)
}

func (g *gate) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	t, err := g.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: r}}}})
	if err != nil {
		return nil, err
	}
	if len(t.Responses) == 0 {
		return nil, errOtherJob
	}
	p := t.Responses[0].GetResponsePut()
	p.Header = t.Header
	return p, nil
}

func (g *gate) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	from := writer(ctx)
	err := g.permits(ctx, nil, r)
	if err == errOtherJob { // which asks whose store it is: nothing is written
		r = &pb.TxnRequest{Compare: r.Compare, Failure: r.Failure}
		err = g.permits(ctx, nil, r)
	}
	if err != nil {
		return nil, err
	}
	if reads(r) > 1 {
		return nil, refusal("to read more than once below a key")
	}
	size := written(r)
	if err := g.book.reserve(from, size); err != nil {
		return nil, err
	}
	defer g.book.free(from, size)
	t, err := g.commit(ctx, r)
	if err == nil {
		g.charge(from, r, t)
	}
	return t, err
}

// permits refuses a transaction that no node makes. The conditions of the outer one hold inside it.
func (g *gate) permits(ctx context.Context, outer []protocol.Cond, r *pb.TxnRequest) error {
	conds := slices.Clone(outer)
	for _, c := range r.Compare {
		if err := below(c.Key, c.RangeEnd); err != nil {
			return err
		}
		if l := c.GetLease(); l != 0 && !g.owns(writer(ctx), l) {
			return refusal("the lease of another node")
		}
		conds = append(conds, condition(c))
	}
	if err := g.permitsAll(ctx, conds, r.Success); err != nil {
		return err
	}
	return g.permitsAll(ctx, outer, r.Failure)
}

func (g *gate) permitsAll(ctx context.Context, conds []protocol.Cond, ops []*pb.RequestOp) error {
	for _, o := range ops {
		var err error
		switch {
		case o.GetRequestTxn() != nil:
			err = g.permits(ctx, conds, o.GetRequestTxn())
		case o.GetRequestRange() != nil:
			err = below(o.GetRequestRange().Key, o.GetRequestRange().RangeEnd)
		case o.GetRequestPut() != nil:
			err = g.permitsPut(ctx, conds, o.GetRequestPut())
		case o.GetRequestDeleteRange() != nil:
			d := o.GetRequestDeleteRange()
			op := protocol.Op{Do: protocol.Delete, Key: string(d.Key), Prefix: len(d.RangeEnd) > 0}
			var k keys
			if k, err = g.writes(d.Key, d.RangeEnd); err == nil {
				err = g.permitsOp(ctx, k, conds, op)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *gate) permitsPut(ctx context.Context, conds []protocol.Cond, p *pb.PutRequest) error {
	k, err := g.writes(p.Key, nil)
	op := protocol.Op{Do: protocol.Put, Key: string(p.Key), Lease: p.Lease, Value: p.Value}
	switch {
	case err != nil:
		return err
	case p.Lease != 0 && !g.owns(writer(ctx), p.Lease):
		return refusal("the lease of another node")
	case p.IgnoreLease || p.IgnoreValue:
		return refusal("a write of half a key")
	case len(p.Value) > maxValue && !k.Large(op.Key):
		return refusal("%d bytes for %q", len(p.Value), p.Key)
	case k.Speaks(conds, op.Key):
		op.Value = decode(k, &mvccpb.KeyValue{Key: p.Key, Value: p.Value}).Value
	}
	return g.permitsOp(ctx, k, conds, op)
}

func (g *gate) permitsOp(ctx context.Context, k keys, conds []protocol.Cond, op protocol.Op) error {
	if err := k.Permits(conds, []protocol.Op{op}); err != nil {
		return refusal("%v", err)
	}
	return g.entitled(ctx, k, conds, op)
}

// writes returns the job whose key, or keys below a prefix, are written.
func (g *gate) writes(key, end []byte) (keys, error) {
	if err := below(key, end); err != nil {
		return keys{}, err
	}
	k, ok := g.own, g.job != "" && strings.HasPrefix(string(key), g.own.Root)
	if !ok {
		if k, ok = keysOf(string(key)); ok && g.job != "" {
			return k, errOtherJob
		}
	}
	if !ok || len(end) > 0 && string(end) != prefixEnd(string(key)) {
		return k, refusal("a write of %q", key)
	}
	return k, nil
}

// errOtherJob refuses a write for a job that the store does not belong to.
var errOtherJob = refusal("a write for another job")

// keysOf returns the keys of the job that a key belongs to; false: of none.
func keysOf(key string) (keys, bool) {
	job, _, ok := strings.Cut(strings.TrimPrefix(key, protocol.Root), "/")
	return protocol.KeysBelow(protocol.Root + job + "/"), ok
}

func (g *gate) Watch(s pb.Watch_WatchServer) error {
	return g.watches.Watch(&watching{Watch_WatchServer: s})
}

// watching is a stream of watches below /launch/.
type watching struct {
	pb.Watch_WatchServer
	begun int
}

func (w *watching) Recv() (*pb.WatchRequest, error) {
	r, err := w.Watch_WatchServer.Recv()
	if c := r.GetCreateRequest(); err == nil && c != nil {
		if w.begun++; w.begun > maxWatches {
			return nil, status.Errorf(codes.ResourceExhausted, "more than %d watches", maxWatches)
		}
		err = below(c.Key, c.RangeEnd)
	}
	return r, err
}

// survivors are the options of a server that no request ends: a panic is that request's answer.
func survivors() []grpc.ServerOption {
	answer := func(err *error) {
		if p := recover(); p != nil {
			*err = status.Errorf(codes.Internal, "launch's store cannot carry this out: %v", p)
		}
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, do grpc.UnaryHandler) (_ any,
			err error) {
			defer answer(&err)
			return do(ctx, r)
		}),
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo,
			do grpc.StreamHandler) (err error) {
			defer answer(&err)
			return do(srv, s)
		}),
	}
}

// register serves what is behind the gate.
func (g *gate) register(s *grpc.Server) {
	pb.RegisterKVServer(s, g)
	pb.RegisterLeaseServer(s, g)
	pb.RegisterWatchServer(s, g)
}

// condition returns a comparison as the protocol has it. One that the protocol does not have is about no key.
func condition(c *pb.Compare) protocol.Cond {
	out := protocol.Cond{Key: string(c.Key), Prefix: len(c.RangeEnd) > 0}
	if out.Prefix && string(c.RangeEnd) != prefixEnd(out.Key) {
		return protocol.Cond{}
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		out.Is = '='
	case pb.Compare_LESS:
		out.Is = '<'
	case pb.Compare_GREATER:
		out.Is = '>'
	}
	switch c.Target {
	case pb.Compare_CREATE:
		out.Of, out.Rev = protocol.Create, c.GetCreateRevision()
	case pb.Compare_MOD:
		out.Of, out.Rev = protocol.Mod, c.GetModRevision()
	case pb.Compare_LEASE:
		out.Of, out.Rev = protocol.Lease, c.GetLease()
	default: // of a value: the store's own key
		return protocol.Cond{}
	}
	return out
}

// reads returns how often a transaction reads more than one key.
func reads(r *pb.TxnRequest) (n int) {
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, o := range ops {
			if t := o.GetRequestTxn(); t != nil {
				n += reads(t)
			}
			if len(o.GetRequestRange().GetRangeEnd()) > 0 {
				n++
			}
		}
	}
	return n
}

// written returns how many bytes a transaction may write.
func written(r *pb.TxnRequest) (n int) {
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, o := range ops {
			if t := o.GetRequestTxn(); t != nil {
				n += written(t)
			}
			n += size(o.GetRequestPut())
		}
	}
	return n
}

// charge enters what a transaction has written.
func (g *gate) charge(from netip.Addr, r *pb.TxnRequest, t *pb.TxnResponse) {
	ops := r.Success
	if !t.Succeeded {
		ops = r.Failure
	}
	for i, o := range ops {
		if p := o.GetRequestPut(); p != nil {
			g.book.charge(from, string(p.Key), size(p))
		} else if nested := o.GetRequestTxn(); nested != nil {
			g.charge(from, nested, t.Responses[i].GetResponseTxn())
		}
	}
}

// size is what a key costs the store, in bytes.
func size(p *pb.PutRequest) int {
	if p == nil {
		return 0
	}
	const each = 256 // of the index and of the history
	return each + len(p.Key) + len(p.Value)
}

// prefixEnd returns the end of the keys below a prefix, which ends in a byte below 0xff.
func prefixEnd(prefix string) string {
	last := len(prefix) - 1
	return prefix[:last] + string(rune(prefix[last]+1))
}

// megabytes writes a size for people.
func megabytes(n int) string { return fmt.Sprintf("%d MB", n>>20) }
