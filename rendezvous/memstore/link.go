package memstore

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Link is one client's way to the store, and where it breaks.
type Link struct {
	s *Store

	mu     sync.Mutex
	faults func(request any) (Fault, time.Duration)
	whole  chan struct{} // closed while the link is not cut
	breaks map[*context.CancelCauseFunc]bool
}

// Fault is what becomes of a request.
type Fault int

const (
	None      Fault = iota
	Refuse          // it never reaches the store; the client gets an error
	DropReply       // it is carried out; the client gets an error all the same
)

// Dial makes a new link.
func (s *Store) Dial() *Link {
	l := &Link{s: s, whole: make(chan struct{}), breaks: map[*context.CancelCauseFunc]bool{}}
	close(l.whole)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, l)
	return l
}

// Client is a client over this link. Inside a synctest bubble it must be made
// and closed there, and Bubbles called before.
func (l *Link) Client() *clientv3.Client {
	c := clientv3.NewCtxClient(context.Background())
	c.KV = clientv3.NewKVFromKVClient(l.KV(), c)
	c.Lease = clientv3.NewLeaseFromLeaseClient(adapter.LeaseServerToLeaseClient(leaseServer{l: l}), c, time.Second)
	c.Watcher = clientv3.NewWatchFromWatchClient(adapter.WatchServerToWatchClient(watchServer{l: l}), c)
	return c
}

// KV is the link as etcd's service KV, for a test that listens in.
func (l *Link) KV() pb.KVClient { return adapter.KvServerToKvClient(kvServer{l: l}) }

// SetFaults lets f choose what becomes of each request, a protobuf message, and how long it is on
// the way, there and back; nil: nothing. It is called for one request at a time. Of a watch's
// events only the delay is asked, with a nil request.
func (l *Link) SetFaults(f func(request any) (Fault, time.Duration)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = f
}

// Cut holds up all that is on the way, in both directions, until Heal: a
// partition that loses no packet for good, as with TCP.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.whole:
		l.whole = make(chan struct{})
	default:
	}
}

// Heal ends Cut.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.whole:
	default:
		close(l.whole)
	}
}

// Break ends the client's streams (watches, renewals), as when the connection
// is reset; the client opens new ones.
func (l *Link) Break() { l.breakStreams() }

func (l *Link) breakStreams() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for end := range l.breaks {
		(*end)(status.Error(codes.Unavailable, "the connection was reset"))
	}
	clear(l.breaks)
}

// streamContext ends with the stream's own or when the link's streams break.
func (l *Link) streamContext(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breaks[&cancel] = true
	return ctx, func() {
		cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.breaks, &cancel)
	}
}

func (l *Link) fate(request any) (Fault, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults == nil {
		return None, 0
	}
	return l.faults(request)
}

// pass is one way over the link.
func (l *Link) pass(ctx context.Context, d time.Duration) error {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return over(ctx)
		}
	}
	l.mu.Lock()
	whole := l.whole
	l.mu.Unlock()
	select {
	case <-whole:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return over(ctx)
	}
	return nil
}

// over says why a context ended, as gRPC would.
func over(ctx context.Context) error {
	err := context.Cause(ctx)
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.FromContextError(ctx.Err()).Err()
}

// carry takes a request to the store, lets it be done in one piece, and takes the reply back.
func carry[R any](ctx context.Context, l *Link, request any, do func() (R, error)) (R, error) {
	var none R
	fault, delay := l.fate(request)
	if err := l.pass(ctx, delay/2); err != nil {
		return none, err
	}
	if fault == Refuse {
		return none, status.Error(codes.Unavailable, "the request was lost")
	}
	out, err := locked(l.s, do)
	if err := l.pass(ctx, delay-delay/2); err != nil {
		return none, err
	}
	if fault == DropReply {
		return none, status.Error(codes.Unavailable, "the reply was lost")
	}
	return out, err
}

func locked[R any](s *Store, do func() (R, error)) (out R, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return out, errDown()
	}
	return do()
}
