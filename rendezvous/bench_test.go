package rendezvous

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// testTTL is the shortest lease that etcd grants with the store's timing.
const testTTL = 2 * time.Second

// bench is one embedded store and the nodes that a test starts against it.
type bench struct {
	t   *testing.T
	srv *Server
	job string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	srv, err := Serve(t.Context(), "j", []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, srv: srv, job: "j"}
	t.Cleanup(func() { b.srv.Close() })
	return b
}

// node is one member of a test: its session, and what it was told.
type node struct {
	*Session
	cli    *clientv3.Client
	mu     sync.Mutex
	events []Event
}

func (b *bench) client() *clientv3.Client {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 5*time.Second)
	defer cancel()
	c, err := Connect(ctx, Store{Endpoints: b.srv.Endpoints(), Job: b.job}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func (b *bench) enter(self Member) *node {
	b.t.Helper()
	n := &node{cli: b.client()}
	self.PID, self.Addr = os.Getpid(), netip.MustParseAddr("10.0.0.1")
	n.Session = Enter(b.t.Context(), n.cli, Config{Job: b.job, Self: self, TTL: testTTL, Events: func(e Event) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.events = append(n.events, e)
		b.t.Logf("%s %s: %s %s", time.Now().Format("05.000"), self.Host, e.Kind, e.Text)
	}})
	b.t.Cleanup(func() { n.Leave(""); n.cli.Close() })
	return n
}

// told waits until the node was told an event of the kind.
func (n *node) told(t *testing.T, kind EventKind) Event {
	t.Helper()
	deadline := time.Now().Add(8 * time.Second)
	for time.Now().Before(deadline) {
		n.mu.Lock()
		i := slices.IndexFunc(n.events, func(e Event) bool { return e.Kind == kind })
		var e Event
		if i >= 0 {
			e = n.events[i]
		}
		n.mu.Unlock()
		if i >= 0 {
			return e
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("never told %q; was told %+v", kind, n.events)
	return Event{}
}

type joined struct {
	w   World
	err error
}

func (n *node) join(ctx context.Context) <-chan joined {
	out := make(chan joined, 1)
	go func() {
		w, err := n.Join(ctx)
		out <- joined{w, err}
	}()
	return out
}

func short(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// worlds collects the worlds of all nodes and checks that they are one world
// with each rank once.
func worlds(t *testing.T, chs ...<-chan joined) []World {
	t.Helper()
	var out []World
	ranks := map[int]bool{}
	for i, ch := range chs {
		j := <-ch
		if j.err != nil {
			t.Fatalf("node %d: %v", i, j.err)
		}
		if ranks[j.w.Rank] {
			t.Fatalf("rank %d twice", j.w.Rank)
		}
		ranks[j.w.Rank] = true
		if len(out) > 0 && j.w.RunID != out[0].RunID {
			t.Fatalf("two worlds: %s and %s", j.w.RunID, out[0].RunID)
		}
		out = append(out, j.w)
	}
	return out
}

func waitMembers(t *testing.T, n *node, want int) {
	t.Helper()
	for range 1000 {
		if ms, err := Members(t.Context(), n.cli, "j"); err == nil && len(ms) == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("never %d members", want)
}

// known is the epoch as this node last saw it.
func (n *node) known() Epoch {
	n.Session.mu.Lock()
	defer n.Session.mu.Unlock()
	return n.ep
}
