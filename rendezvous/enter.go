package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"launch/rendezvous/protocol"
)

// Of an etcd a node asks one thing after the other: a lease, its registration, what
// becomes of the control keys from there on, and, when a world is sealed, its place.
// A store of launch takes it all as one call, Enter: a stream of a lease's request
// and its answer, of registrations and theirs until one succeeds, and then of what a
// watch would say, each place before the seal that makes it true. The keys, the
// transactions and the messages are the same, etcd's own, in the same order, so this is
// no protocol beside the one of docs/rendezvous.md; a store without the call is asked
// as any etcd is. It saves a third of what a start costs a node and the store
// (docs/benchmarks.md).
const enterService, enterMethod = "launch.Store", "Enter"

// service is how gRPC knows the call.
func (s *Server) service() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{ServiceName: enterService, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: enterMethod, ClientStreams: true, ServerStreams: true, Handler: s.enter}}}
}

// enter answers one node, until it or the store goes.
func (s *Server) enter(_ any, node grpc.ServerStream) error {
	ctx := node.Context()
	select {
	case <-s.up:
	case <-ctx.Done():
		return ctx.Err()
	}
	var lease pb.LeaseGrantRequest
	if err := node.RecvMsg(&lease); err != nil {
		return err
	}
	g, err := s.leases.LeaseGrant(ctx, &lease)
	if err != nil {
		return err
	}
	if err := node.SendMsg(g); err != nil {
		return err
	}
	for {
		var txn pb.TxnRequest
		if err := node.RecvMsg(&txn); err != nil {
			return err
		}
		if err := s.admit(node, &txn); err != nil {
			return err
		}
	}
}

// admit answers a registration, and one that succeeds with the news until the node
// goes; nil: it did not.
func (s *Server) admit(node grpc.ServerStream, txn *pb.TxnRequest) error {
	ctx := node.Context()
	k, slot, ok := registers(txn)
	if !ok {
		return status.Error(codes.InvalidArgument, "a registration begins with a member's key")
	}
	// Watched from before the transaction: etcd tells a watch that begins in the past
	// of it only every 100 ms (mvcc/watchable_store.go, watchResyncPeriod).
	watch := s.etcd.Server.Watchable().NewWatchStream()
	defer watch.Close()
	if _, err := watch.Watch(ctx, 0, []byte(k.Control()), []byte(clientv3.GetPrefixRangeEnd(k.Control())), 0); err != nil {
		return err
	}
	r, err := s.kv.Txn(ctx, txn)
	if err != nil {
		return err
	}
	if err := node.SendMsg(r); err != nil || !r.Succeeded {
		return err
	}
	for {
		select {
		case w := <-watch.Chan():
			if w.CompactRevision > 0 {
				return rpctypes.ErrGRPCCompacted
			}
			events := s.news(ctx, k, slot, r.Header.Revision, w.Events)
			if len(events) == 0 { // the registration said it already
				continue
			}
			if err := node.SendMsg(&pb.WatchResponse{Events: events}); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// registers tells whose registration a transaction is: its first write is the
// member's key.
func registers(txn *pb.TxnRequest) (k keys, slot string, ok bool) {
	if len(txn.Success) == 0 {
		return keys{}, "", false
	}
	key, launchs := strings.CutPrefix(string(txn.Success[0].GetRequestPut().GetKey()), protocol.Root)
	job, key, _ := strings.Cut(key, "/")
	slot, member := strings.CutPrefix(key, keys{}.Members())
	return keys{Root: protocol.Root + job + "/"}, slot, launchs && member && slot != ""
}

// news are the events after a revision, and before a seal the place that it makes
// true.
func (s *Server) news(
	ctx context.Context, k keys, slot string, after int64, events []*mvccpb.Event,
) (out []*mvccpb.Event) {
	for _, e := range events {
		if e.Kv.ModRevision <= after {
			continue
		}
		var ep Epoch
		if string(e.Kv.Key) == k.Epoch() && e.Type == mvccpb.PUT && json.Unmarshal(e.Kv.Value, &ep) == nil &&
			ep.State == Sealed {
			r, err := s.kv.Range(ctx, &pb.RangeRequest{Key: []byte(k.World(ep.Nonce) + slot), Serializable: true})
			if err == nil && len(r.Kvs) > 0 { // else the node asks for it
				out = append(out, &mvccpb.Event{Type: mvccpb.PUT, Kv: r.Kvs[0]})
			}
		}
		out = append(out, e)
	}
	return out
}

// entrance is one life's way into a store: Enter, or etcd's calls one by one.
type entrance struct {
	s           *Session
	pb.KVClient // etcd's service, of which a registration asks Txn alone
	life        context.Context
	end         context.CancelFunc
	stream      grpc.ClientStream // nil: the store does not know Enter
}

// entrance gets a lease.
func (s *Session) entrance(life context.Context) (*entrance, *clientv3.LeaseGrantResponse, error) {
	ctx, ttl := within(life, s.cfg.crowd()), int64(s.cfg.TTL/time.Second)
	if conn := s.cli.ActiveConnection(); s.cfg.Asks && conn != nil {
		e, g := &entrance{s: s}, new(pb.LeaseGrantResponse)
		e.life, e.end = context.WithCancel(life)
		if err := e.open(ctx, conn, &pb.LeaseGrantRequest{TTL: ttl}, g); status.Code(err) != codes.Unimplemented {
			return e, &clientv3.LeaseGrantResponse{ResponseHeader: g.Header, ID: clientv3.LeaseID(g.ID)}, err
		}
		e.end()
	}
	g, err := s.cli.Grant(ctx, ttl)
	return &entrance{s: s, life: life}, g, err
}

// open begins the stream with its first request, as patiently as etcd's client is.
func (e *entrance) open(ctx context.Context, conn *grpc.ClientConn, request, answer any) error {
	return e.inTime(ctx, func() (err error) {
		e.stream, err = conn.NewStream(e.life, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			"/"+enterService+"/"+enterMethod,
			grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(math.MaxInt32))
		if err == nil {
			err = e.ask(request, answer)
		}
		return err
	})
}

// ask sends one message and waits for its answer.
func (e *entrance) ask(request, answer any) error {
	err := e.stream.SendMsg(request)
	if err == nil || errors.Is(err, io.EOF) { // why a stream has ended is read from it
		err = e.stream.RecvMsg(answer)
	}
	return err
}

// inTime ends the stream, and so what is done by it, when ctx ends.
func (e *entrance) inTime(ctx context.Context, do func() error) error {
	stop := context.AfterFunc(ctx, e.end)
	err := do()
	if !stop() {
		return ctx.Err()
	}
	return err
}

// store is where this node registers.
func (e *entrance) store() clientv3.KV {
	if e.stream == nil {
		return e.s.cli
	}
	return clientv3.NewKVFromKVClient(e, e.s.cli)
}

// Txn is a registration.
func (e *entrance) Txn(ctx context.Context, txn *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	r := new(pb.TxnResponse)
	return r, e.inTime(ctx, func() error { return e.ask(txn, r) })
}

// news are the changes of the control keys since the registration at rev; by Enter
// with this node's places. A stream that breaks goes on as a watch, which outlives
// the connection.
func (e *entrance) news(rev int64) (clientv3.WatchChan, error) {
	if e.stream == nil {
		return e.s.watch(e.life, e.s.k.Control(), rev, clientv3.WithPrefix())
	}
	out := make(chan clientv3.WatchResponse)
	tell := func(r clientv3.WatchResponse) {
		select {
		case out <- r:
		case <-e.life.Done():
		}
	}
	go func() {
		defer close(out)
		for {
			var w pb.WatchResponse
			if e.stream.RecvMsg(&w) != nil {
				break
			}
			events := make([]*clientv3.Event, len(w.Events))
			for i, ev := range w.Events {
				events[i], rev = (*clientv3.Event)(ev), ev.Kv.ModRevision
			}
			tell(clientv3.WatchResponse{Events: events})
		}
		if e.life.Err() == nil {
			for r := range e.s.after(e.life, e.s.k.Control(), rev, clientv3.WithPrefix()) {
				tell(r)
			}
		}
	}()
	return out, nil
}
