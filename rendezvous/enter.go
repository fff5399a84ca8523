package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Of an etcd a node asks one thing after the other: its registration, what becomes
// of the control keys from there on, and, when a world is sealed, its place. A store
// of launch takes it all as one call, Enter: a stream that answers the registration,
// then says what a watch would, and each place before the seal that makes it true.
// The keys, the transaction and the messages are the same, etcd's own, so this is
// no protocol beside the one of docs/rendezvous.md; a store without the call is asked
// as any etcd is. It is a third of what a start costs a node and the store
// (docs/benchmarks.md).
const enterService, enterMethod = "launch.Store", "Enter"

// service is how gRPC knows the call.
func (s *Server) service() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{ServiceName: enterService, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: enterMethod, ServerStreams: true, Handler: s.enter}}}
}

// enter answers one node, until it or the store goes.
func (s *Server) enter(_ any, node grpc.ServerStream) error {
	ctx := node.Context()
	var txn pb.TxnRequest
	if err := node.RecvMsg(&txn); err != nil {
		return err
	}
	k, slot, ok := registers(&txn)
	if !ok {
		return status.Error(codes.InvalidArgument, "a registration begins with a member's key")
	}
	select {
	case <-s.up:
	case <-ctx.Done():
		return ctx.Err()
	}
	// Watched from before the transaction: etcd tells a watch that begins in the past
	// of it only every 100 ms (mvcc/watchable_store.go, watchResyncPeriod).
	watch := s.etcd.Server.Watchable().NewWatchStream()
	defer watch.Close()
	if _, err := watch.Watch(ctx, 0, []byte(k.control()), []byte(clientv3.GetPrefixRangeEnd(k.control())), 0); err != nil {
		return err
	}
	r, err := s.kv.Txn(ctx, &txn)
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
			if err := node.SendMsg(&pb.WatchResponse{Header: &pb.ResponseHeader{Revision: w.Revision}, Events: events}); err != nil {
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
	key, launchs := strings.CutPrefix(string(txn.Success[0].GetRequestPut().GetKey()), keysRoot)
	job, key, _ := strings.Cut(key, "/")
	slot, member := strings.CutPrefix(key, keys{}.members())
	return keys{keysRoot + job + "/"}, slot, launchs && member && slot != ""
}

// news are the events after a revision, and before a seal the place that it makes
// true.
func (s *Server) news(ctx context.Context, k keys, slot string, after int64, events []*mvccpb.Event) (out []*mvccpb.Event) {
	for _, e := range events {
		if e.Kv.ModRevision <= after {
			continue
		}
		var ep Epoch
		if string(e.Kv.Key) == k.epoch() && e.Type == mvccpb.PUT && json.Unmarshal(e.Kv.Value, &ep) == nil && ep.State == Sealed {
			r, err := s.kv.Range(ctx, &pb.RangeRequest{Key: []byte(k.world(ep.Nonce) + slot), Serializable: true})
			if err == nil && len(r.Kvs) > 0 { // else the node asks for it
				out = append(out, &mvccpb.Event{Type: mvccpb.PUT, Kv: r.Kvs[0]})
			}
		}
		out = append(out, e)
	}
	return out
}

// entrance is etcd's service for a node that registers by Enter. Of it only Txn is
// asked.
type entrance struct {
	pb.KVClient // for a store that does not know Enter
	s           *Session
	conn        *grpc.ClientConn
	life        context.Context
	stream      grpc.ClientStream // of the registration that succeeded; nil: there is none
}

// entrance is how this node registers in one life; nil: as with any etcd.
func (s *Session) entrance(life context.Context) (clientv3.KV, *entrance) {
	conn := s.cli.ActiveConnection()
	if !s.cfg.Asks || conn == nil {
		return s.cli, nil
	}
	e := &entrance{KVClient: pb.NewKVClient(conn), s: s, conn: conn, life: life}
	return clientv3.NewKVFromKVClient(e, s.cli), e
}

// Txn is the registration. Its stream lasts as long as the life.
func (e *entrance) Txn(ctx context.Context, txn *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	life, cancel := context.WithCancel(e.life)
	inTime := context.AfterFunc(ctx, cancel)
	r := new(pb.TxnResponse)
	stream, err := e.conn.NewStream(life, &grpc.StreamDesc{ServerStreams: true}, "/"+enterService+"/"+enterMethod)
	if err == nil {
		err = stream.SendMsg(txn)
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil || errors.Is(err, io.EOF) { // the end of a stream is explained by what is read from it
		err = stream.RecvMsg(r)
	}
	if !inTime() {
		err = ctx.Err()
	}
	switch {
	case status.Code(err) == codes.Unimplemented:
		cancel()
		return e.KVClient.Txn(ctx, txn, opts...)
	case err != nil || !r.Succeeded:
		cancel()
		return r, err
	}
	e.stream = stream
	return r, nil
}

// news are the changes of the control keys since the registration at rev, with this
// node's places; nil: they are to be watched. A stream that breaks goes on as a
// watch, which outlives the connection.
func (e *entrance) news(rev int64) clientv3.WatchChan {
	if e == nil || e.stream == nil {
		return nil
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
			tell(clientv3.WatchResponse{Header: w.Header, Events: events})
		}
		if e.life.Err() == nil {
			for r := range e.s.cli.Watch(clientv3.WithRequireLeader(e.life), e.s.k.control(), clientv3.WithPrefix(), clientv3.WithRev(rev+1)) {
				tell(r)
			}
		}
	}()
	return out
}
