package memstore

import (
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// watch is one range that a stream follows.
type watch struct {
	id                    int64
	key, end              []byte
	from                  int64 // the next revision to look at; may be in the future
	prev, noPut, noDelete bool
}

// watchStream is one client's watches, which share a stream.
type watchStream struct {
	l       *Link
	life    int
	wake    chan struct{}
	watches []*watch
	next    int64
}

func (w *watchStream) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// watchServer is etcd's service Watch.
type watchServer struct {
	pb.UnimplementedWatchServer
	l *Link
}

func (v watchServer) Watch(stream pb.Watch_WatchServer) error {
	ctx, end := v.l.streamContext(stream.Context())
	defer end()
	if err := v.l.pass(ctx, 0); err != nil {
		return err
	}
	w := &watchStream{l: v.l, wake: make(chan struct{}, 1)}
	if err := v.l.s.follow(w); err != nil {
		return err
	}
	defer v.l.s.unfollow(w)
	in := newInbox(stream.Recv, w.nudge)
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return over(ctx)
		}
		_, delay := v.l.fate(nil)
		if err := v.l.pass(ctx, delay); err != nil {
			return err
		}
		requests, last := in.take()
		out, err := w.answer(requests)
		if err != nil {
			return err
		}
		for _, r := range out {
			if err := stream.Send(r); err != nil {
				return err
			}
		}
		if last != nil {
			return last
		}
	}
}

func (s *Store) follow(w *watchStream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown()
	}
	w.life = s.life
	s.streams[w] = true
	return nil
}

func (s *Store) unfollow(w *watchStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, w)
}

// answer carries out requests and collects the events since the last time.
func (w *watchStream) answer(requests []*pb.WatchRequest) ([]*pb.WatchResponse, error) {
	return locked(w.l.s, func() ([]*pb.WatchResponse, error) {
		s := w.l.s
		if w.life != s.life {
			return nil, errDown()
		}
		var out []*pb.WatchResponse
		for _, r := range requests {
			if c := r.GetCreateRequest(); c != nil {
				out = append(out, w.create(c))
			}
			if c := r.GetCancelRequest(); c != nil {
				w.watches = slices.DeleteFunc(w.watches, func(x *watch) bool { return x.id == c.WatchId })
				out = append(out, &pb.WatchResponse{Header: s.header(), WatchId: c.WatchId, Canceled: true})
			}
		}
		for _, x := range w.watches {
			out = append(out, s.pending(x)...)
		}
		return out, nil
	})
}

func (w *watchStream) create(c *pb.WatchCreateRequest) *pb.WatchResponse {
	s := w.l.s
	x := &watch{id: w.next, key: c.Key, end: c.RangeEnd, from: c.StartRevision, prev: c.PrevKv}
	if x.from == 0 {
		x.from = s.rev + 1
	}
	x.noPut = slices.Contains(c.Filters, pb.WatchCreateRequest_NOPUT)
	x.noDelete = slices.Contains(c.Filters, pb.WatchCreateRequest_NODELETE)
	w.next++
	w.watches = append(w.watches, x)
	return &pb.WatchResponse{Header: s.header(), WatchId: x.id, Created: true}
}

// pending returns the events that a watch has not had, one response for each revision
// as etcd sends them to a watch that is up to date.
func (s *Store) pending(x *watch) []*pb.WatchResponse {
	var out []*pb.WatchResponse
	for i, evs := range s.since(x.from) {
		rev := max(x.from, firstRevision+1) + int64(i)
		var mine []*mvccpb.Event
		for _, e := range evs {
			if !inside(string(e.Kv.Key), x.key, x.end) || x.noPut && e.Type == mvccpb.Event_PUT ||
				x.noDelete && e.Type == mvccpb.Event_DELETE {
				continue
			}
			if !x.prev {
				e = &mvccpb.Event{Type: e.Type, Kv: e.Kv}
			}
			mine = append(mine, e)
		}
		if len(mine) > 0 {
			out = append(out, &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: rev}, WatchId: x.id, Events: mine})
		}
	}
	x.from = max(x.from, s.rev+1)
	return out
}

// inbox takes a stream's messages off it at once: a client that waits until it
// is heard may be the one that has to hear first.
type inbox[T any] struct {
	mu    sync.Mutex
	items []T
	err   error
}

// newInbox reads until recv fails, and calls nudge for each message.
func newInbox[T any](recv func() (T, error), nudge func()) *inbox[T] {
	b := &inbox[T]{}
	go func() {
		for {
			m, err := recv()
			b.mu.Lock()
			if err != nil {
				b.err = err
			} else {
				b.items = append(b.items, m)
			}
			b.mu.Unlock()
			nudge()
			if err != nil {
				return
			}
		}
	}()
	return b
}

// take empties the box; the error follows its messages.
func (b *inbox[T]) take() ([]T, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = nil
	return items, b.err
}
