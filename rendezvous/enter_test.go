package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"launch/rendezvous/protocol"
)

// listening is a client of the store that reports each call, and each message
// of a stream, before it is made.
func listening(t *testing.T, s Store, unary, stream func(), message func(any)) *clientv3.Client {
	t.Helper()
	cfg, err := s.config()
	if err != nil {
		t.Fatal(err)
	}
	cfg.DialOptions = append(cfg.DialOptions,
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
			invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			unary()
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
			open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream()
			cs, err := open(ctx, desc, cc, method, opts...)
			return listened{cs, message}, err
		}))
	cli, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return cli
}

// listened is a stream that reports each message before it is sent.
type listened struct {
	grpc.ClientStream
	message func(any)
}

func (l listened) SendMsg(m any) error {
	l.message(m)
	return l.ClientStream.SendMsg(m)
}

// TestAStoreOfLaunchIsAskedOnce: of an etcd a node asks four times. The world is the
// same.
func TestAStoreOfLaunchIsAskedOnce(t *testing.T) {
	for _, tc := range []struct {
		name string
		asks bool
		keys *TLS
	}{{"enter", true, nil}, {"with a token", true, benchKeys()}, {"one by one", false, nil}} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := short(t, 15*time.Second)
			t.Setenv("TMPDIR", t.TempDir())
			srv, err := Serve(ctx, "j", []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, tc.keys)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(srv.Close)
			store := Store{Endpoints: srv.Endpoints(), TLS: tc.keys}
			b := &bench{t: t, job: "j", asks: tc.asks}
			a := b.enterBy(connect(t, store), Member{Index: -1, Size: 2, Host: "a"}) // it leads
			waitMembers(t, a, 1)
			var calls, opened atomic.Int64
			cli := listening(t, store, func() { calls.Add(1) }, func() { opened.Add(1) }, func(any) {})
			c := b.enterBy(cli, Member{Index: -1, Size: 2, Host: "b"})
			worlds(t, a.join(ctx), c.join(ctx))
			unary, streams := int64(0), int64(1)
			if !tc.asks {
				unary = 3 // a lease, the registration, its place
			}
			if calls.Load() != unary || opened.Load() != streams {
				t.Errorf("%d calls and %d streams, want %d and %d", calls.Load(), opened.Load(), unary, streams)
			}
		})
	}
}

// TestAStoreWithoutEnterIsAskedAsAnEtcd: an etcd does not know the call, nor does
// the store of a launch before it.
func TestAStoreWithoutEnterIsAskedAsAnEtcd(t *testing.T) {
	ctx := short(t, 15*time.Second)
	etcd := newExternal(t)
	b := &bench{t: t, store: etcd, job: "j", asks: true}
	cli := etcd.connect(t)
	defer cli.Close()
	if _, err := cli.Put(ctx, storeKey, encode(identity{Job: "j", Host: "h", PID: 7})); err != nil {
		t.Fatal(err)
	}
	worlds(t, b.enter(Member{Index: -1, Size: 2, Host: "a"}).join(ctx),
		b.enter(Member{Index: -1, Size: 2, Host: "b"}).join(ctx))
}

// TestAnEtcdIsWatchedFromBeforeTheRegistration: also what a compaction has removed since
// is shown, and nothing that is older than the registration.
func TestAnEtcdIsWatchedFromBeforeTheRegistration(t *testing.T) {
	ctx := short(t, 10*time.Second)
	cli := newExternal(t).connect(t)
	defer cli.Close()
	s := &Session{cli: cli, cfg: Config{TTL: testTTL}, k: protocol.KeysOf("j")}
	way, _, err := s.entrance(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var revs []int64
	for _, v := range []string{"registered", "next", "last"} {
		r, err := cli.Put(ctx, s.k.Epoch, v)
		if err != nil {
			t.Fatal(err)
		}
		revs = append(revs, r.Header.Revision)
	}
	if _, err := cli.Compact(ctx, revs[2]); err != nil {
		t.Fatal(err)
	}
	control, err := way.changes(revs[0])
	if err != nil {
		t.Fatal(err)
	}
	for seen := []int64{}; len(seen) < 2; {
		r, ok := <-control
		if err := watched(r, ok); err != nil {
			t.Fatal(err)
		}
		for _, e := range r.Events {
			if seen = append(seen, e.Kv.ModRevision); e.Kv.ModRevision != revs[len(seen)] {
				t.Fatalf("revisions %v, want %v", seen, revs[1:])
			}
		}
	}
}

// TestEnterTakesNothingButARegistration: what is no registration changes nothing.
func TestEnterTakesNothingButARegistration(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	srv := serveHere(t)
	cli := (&embedded{srv}).connect(t)
	defer cli.Close()
	for _, key := range []string{"", "x", protocol.Root, "/launch/j/m/", "/launch/j/c/epoch", "/other/j/m/a-1"} {
		ctx := short(t, 5*time.Second)
		way, _, err := (&Session{cli: cli, cfg: Config{OwnStore: true, TTL: testTTL}}).entrance(ctx)
		if err != nil {
			t.Fatal(err)
		}
		txn := way.store().Txn(ctx)
		if key != "" {
			txn = txn.Then(clientv3.OpPut(key, "v"))
		}
		if _, err := txn.Commit(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: %v, want %s", key, err, codes.InvalidArgument)
		}
	}
	r, err := cli.Get(t.Context(), protocol.Root, clientv3.WithPrefix())
	if err != nil || len(r.Kvs) != 1 { // whose store it is
		t.Errorf("the store holds %v (%v)", r.Kvs, err)
	}
}

// TestEnterWhoseAnswerIsLost: the registration is carried out, and the node does not
// know. Its next life takes the key for its own, unless a newer process has it.
func TestEnterWhoseAnswerIsLost(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		t.Run(fmt.Sprintf("replaced=%v", replaced), func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			srv := serveHere(t)
			b := &bench{t: t, store: &embedded{srv}, job: "j", asks: true}
			way := relayTo(t, srv.Endpoints()[0])
			deafen := sync.OnceFunc(way.deafen)
			registers := func(m any) {
				if _, ok := m.(*pb.TxnRequest); ok {
					deafen()
				}
			}
			self := func(host string) Member { return Member{Index: 0, Vouch: Scheduled, Size: 2, Host: host} }
			old := b.enterBy(listening(t, Store{Endpoints: []string{way.addr}}, func() {}, func() {}, registers), self("old"))
			other := b.enter(Member{Index: 1, Vouch: Scheduled, Size: 2, Host: "other"})
			waitMembers(t, other, 2)
			if e := old.known(); e.N != 0 || old.registered() {
				t.Fatalf("it has heard that it is registered: %+v", e)
			}
			if replaced {
				b.enter(self("newest"))
				until(t, "newest in its place", func() bool {
					ms, err := Members(t.Context(), other.cli, "j")
					return err == nil && slices.ContainsFunc(ms, func(m Member) bool { return m.Host == "newest" })
				})
			}
			way.cut()
			ctx := short(t, 15*time.Second)
			ours, theirs := old.join(ctx), other.join(ctx)
			if !replaced {
				worlds(t, ours, theirs)
				return
			}
			var sup *SupersededError
			if j := <-ours; !errors.As(j.err, &sup) || sup.Newer.Host != "newest" {
				t.Errorf("got %+v, %v, want that newest has taken its place", j.w, j.err)
			}
		})
	}
}

// TestAConnectionThatBreaksIsNoLoss: the node stays what it is, and hears what it
// missed.
func TestAConnectionThatBreaksIsNoLoss(t *testing.T) {
	for _, asks := range []bool{true, false} {
		t.Run(fmt.Sprintf("asks=%v", asks), func(t *testing.T) {
			ctx := short(t, 15*time.Second)
			t.Setenv("TMPDIR", t.TempDir())
			srv := serveHere(t)
			b := &bench{t: t, store: &embedded{srv}, job: "j", asks: asks}
			way := relayTo(t, srv.Endpoints()[0])
			self := func(host string) Member { return Member{Index: -1, Size: 3, Host: host} }
			leader := b.enter(self("leader"))
			leader.sees(t, 1)
			a := b.enterBy(connect(t, Store{Endpoints: []string{way.addr}}), self("a"))
			ours, first := a.join(ctx), leader.join(ctx)
			until(t, "registered", a.registered)
			way.cut()
			worlds(t, ours, first, b.enter(self("last")).join(ctx))
			a.mu.Lock()
			defer a.mu.Unlock()
			if i := slices.IndexFunc(a.events, func(e Event) bool { return e.Kind == Lost }); i >= 0 {
				t.Errorf("notified that it was lost: %s", a.events[i].Text)
			}
		})
	}
}

// registered returns whether the node knows that it is.
func (n *node) registered() (up bool) {
	n.state(func(n *protocol.Node) { up = n.Up() })
	return up
}

// relay is a way to a store that can lose the answers.
type relay struct {
	addr string

	mu    sync.Mutex
	deaf  bool
	conns []net.Conn
}

func relayTo(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: l.Addr().String()}
	t.Cleanup(func() { l.Close(); r.cut() })
	go func() {
		for {
			node, err := l.Accept()
			if err != nil {
				return
			}
			store, err := net.Dial("tcp", to)
			if err != nil {
				node.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, node, store)
			r.mu.Unlock()
			go func() { _, _ = io.Copy(store, node) }()
			go func() { _, _ = io.Copy(ear{r, node}, store) }()
		}
	}()
	return r
}

// ear is where a relay's answers go.
type ear struct {
	r    *relay
	node net.Conn
}

func (e ear) Write(b []byte) (int, error) {
	e.r.mu.Lock()
	deaf := e.r.deaf
	e.r.mu.Unlock()
	if deaf {
		return len(b), nil
	}
	return e.node.Write(b)
}

// deafen loses all answers from now on.
func (r *relay) deafen() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deaf = true
}

// cut ends the connections; those that follow are whole.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns, r.deaf = nil, false
}
