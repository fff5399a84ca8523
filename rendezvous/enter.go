package rendezvous

import (
	"context"
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
)

// A store of launch serves in one call, Enter, what a node asks an etcd for one by one
// (docs/rendezvous.md). It is a stream of etcd's messages: the request for a lease and
// its answer, then registrations and answers until one succeeds, then the events of the
// watch. It saves a third of the cost of a start (docs/benchmarks.md).
const enterService, enterMethod = "launch.Store", "Enter"

// service returns the description of the call for gRPC.
func (s *Server) service() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{ServiceName: enterService, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: enterMethod, ClientStreams: true, ServerStreams: true, Handler: s.enter}}}
}

// enter serves one node, until the node or the store ends.
func (s *Server) enter(_ any, node grpc.ServerStream) error {
	ctx := node.Context()
	var lease pb.LeaseGrantRequest
	if err := node.RecvMsg(&lease); err != nil {
		return err
	}
	g, err := s.gate.LeaseGrant(ctx, &lease)
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

// admit answers a registration. If that succeeds, it sends changes until the node
// ends; else it returns nil.
func (s *Server) admit(node grpc.ServerStream, txn *pb.TxnRequest) error {
	ctx := node.Context()
	k, slot, ok := registers(txn)
	if !ok {
		return status.Error(codes.InvalidArgument, "a registration begins with a member's key")
	}
	// The watch begins before the transaction: etcd serves a watch that begins in the
	// past only every 100 ms (mvcc/watchable_store.go, watchResyncPeriod).
	watch := s.etcd.Watchable().NewWatchStream()
	defer watch.Close()
	if _, err := watch.Watch(ctx, 0, []byte(k.Control), []byte(clientv3.GetPrefixRangeEnd(k.Control)), 0); err != nil {
		return err
	}
	r, err := s.gate.Txn(ctx, txn)
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
			events := s.changesOf(ctx, k, slot, r.Header.Revision, w.Events)
			if len(events) == 0 { // the registration reported it already
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

// registers returns the job and the slot of a registration: its first write is the
// member's key.
func registers(txn *pb.TxnRequest) (k keys, slot string, ok bool) {
	if len(txn.Success) == 0 {
		return keys{}, "", false
	}
	key := string(txn.Success[0].GetRequestPut().GetKey())
	k, _ = keysOf(key)
	slot, ok = strings.CutPrefix(key, k.Members)
	return k, slot, ok && slot != ""
}

// changesOf returns the events after a revision. Before a seal it adds this node's place.
func (s *Server) changesOf(
	ctx context.Context, k keys, slot string, after int64, events []*mvccpb.Event,
) (out []*mvccpb.Event) {
	for _, e := range events {
		if e.Kv.ModRevision <= after {
			continue
		}
		ep, ok := decoded[Epoch](e.Kv.Value)
		if string(e.Kv.Key) == k.Epoch && e.Type == mvccpb.PUT && ok && ep.State == Sealed {
			r, err := s.gate.kv.Range(ctx, &pb.RangeRequest{Key: []byte(k.World(ep.Nonce) + slot), Serializable: true})
			if err == nil && len(r.Kvs) > 0 { // else the node asks for it
				out = append(out, &mvccpb.Event{Type: mvccpb.PUT, Kv: r.Kvs[0]})
			}
		}
		out = append(out, e)
	}
	return out
}

// entrance registers one life with a store: by Enter, or by etcd's single calls.
type entrance struct {
	s           *Session
	pb.KVClient // etcd's service, of which a registration uses only Txn
	life        context.Context
	end         context.CancelFunc
	stream      grpc.ClientStream  // nil: the store does not know Enter
	control     clientv3.WatchChan // without Enter: of the control keys, from before the registration on
}

// entrance gets a lease.
func (s *Session) entrance(life context.Context) (*entrance, *clientv3.LeaseGrantResponse, error) {
	ctx, ttl := within(life, s.cfg.crowd()), int64(s.cfg.TTL/time.Second)
	if conn := s.cli.ActiveConnection(); s.cfg.OwnStore && conn != nil {
		e, g := &entrance{s: s}, new(pb.LeaseGrantResponse)
		e.life, e.end = context.WithCancel(life)
		if err := e.open(ctx, conn, &pb.LeaseGrantRequest{TTL: ttl}, g); status.Code(err) != codes.Unimplemented {
			return e, &clientv3.LeaseGrantResponse{ResponseHeader: g.Header, ID: clientv3.LeaseID(g.ID)}, err
		}
		e.end()
	}
	e := &entrance{s: s, life: life}
	g, err := s.cli.Grant(ctx, ttl)
	if err == nil { // before the registration, as in admit
		e.control, err = s.watch(life, s.k.Control, now, clientv3.WithPrefix())
	}
	return e, g, err
}

// open begins the stream with its first request, and waits like etcd's client.
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

// ask sends one message and receives its answer.
func (e *entrance) ask(request, answer any) error {
	err := e.stream.SendMsg(request)
	if err == nil || errors.Is(err, io.EOF) { // the reason is read from the stream
		err = e.stream.RecvMsg(answer)
	}
	if err == nil {
		err = sound(answer)
	}
	return err
}

// inTime runs do, and ends the stream, and with it do, when ctx ends.
func (e *entrance) inTime(ctx context.Context, do func() error) error {
	stop := context.AfterFunc(ctx, e.end)
	err := do()
	if !stop() {
		return ctx.Err()
	}
	return err
}

// store returns the service with which this node registers.
func (e *entrance) store() clientv3.KV {
	if e.stream == nil {
		return e.s.cli
	}
	return clientv3.NewKVFromKVClient(e, e.s.cli)
}

// Txn makes a registration.
func (e *entrance) Txn(ctx context.Context, txn *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	r := new(pb.TxnResponse)
	return r, e.inTime(ctx, func() error { return e.ask(txn, r) })
}

// changes returns the changes of the control keys after rev, with this node's places if
// they arrive by Enter. When the stream breaks, a watch continues it, which outlives
// the connection. It is called once: a second call would share the events with the first.
func (e *entrance) changes(rev int64) (clientv3.WatchChan, error) {
	if e.stream == nil {
		return since(e.life, e.control, rev), nil
	}
	out := make(chan clientv3.WatchResponse)
	send := func(r clientv3.WatchResponse) {
		select {
		case out <- r:
		case <-e.life.Done():
		}
	}
	go func() {
		defer close(out)
		for {
			var w pb.WatchResponse
			if e.stream.RecvMsg(&w) != nil || soundEvents(&w) != nil {
				break
			}
			events := make([]*clientv3.Event, len(w.Events))
			for i, ev := range w.Events {
				events[i], rev = (*clientv3.Event)(ev), ev.Kv.ModRevision
			}
			send(clientv3.WatchResponse{Events: events})
		}
		if e.life.Err() == nil {
			for r := range e.s.after(e.life, e.s.k.Control, rev, clientv3.WithPrefix()) {
				send(r)
			}
		}
	}()
	return out, nil
}
