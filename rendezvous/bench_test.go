package rendezvous

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"launch/rendezvous/protocol"
)

// testTTL is the shortest lease that etcd grants with the store's timing.
const testTTL = 2 * time.Second

// bench is one store and the nodes that a test starts against it.
type bench struct {
	t     *testing.T
	store store
	job   string
	asks  bool // the store is one of launch: nodes register by Enter
	exact bool // the clock does not advance while a goroutine works

	startTimeout, lastCall time.Duration // of the nodes
	failFast               bool
	reached                func() netip.Addr // of the next node
}

// took checks how long something took that only time ends.
func (b *bench) took(began time.Time, want time.Duration) {
	b.t.Helper()
	switch d := time.Since(began); {
	case b.exact && d != want:
		b.t.Errorf("took %s, want %s", d, want)
	case d < want:
		b.t.Errorf("took %s, less than %s", d, want)
	}
}

// stopping begins to stop the store, which waits for its clients, and returns the
// wait for its end.
func (b *bench) stopping(t *testing.T) (wait func()) {
	ended := make(chan struct{})
	go func() { b.store.stop(t); close(ended) }()
	return func() { <-ended }
}

// node is one member of a test: its session, and the events that it received.
type node struct {
	*Session
	cli    *clientv3.Client
	mu     sync.Mutex
	events []Event
	times  []time.Time // of the events
}

func (b *bench) enter(self Member) *node {
	b.t.Helper()
	return b.enterBy(b.store.connect(b.t), self)
}

// enterBy lets a node in by a client of its own.
func (b *bench) enterBy(cli *clientv3.Client, self Member) *node {
	b.t.Helper()
	n := &node{cli: cli}
	self.PID, self.Addr = os.Getpid(), netip.MustParseAddr("10.0.0.1")
	n.Session = Enter(b.t.Context(), n.cli, Config{Job: b.job, Self: self, TTL: testTTL, OwnStore: b.asks,
		StartTimeout: b.startTimeout, LastCall: b.lastCall, FailFast: b.failFast, Reached: b.reached, Events: func(e Event) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events, n.times = append(n.events, e), append(n.times, time.Now())
			b.t.Logf("%s %s: %s %s", time.Now().Format("05.000"), self.Host, e.Kind, e.Text)
		}})
	b.t.Cleanup(func() { n.Leave(""); n.cli.Close() })
	return n
}

// await waits until the node has received an event for which is holds, and returns
// it with the time.
func (n *node) await(t *testing.T, what string, is func(Event) bool) (Event, time.Time) {
	t.Helper()
	deadline := time.Now().Add(8 * time.Second)
	for time.Now().Before(deadline) {
		n.mu.Lock()
		i := slices.IndexFunc(n.events, is)
		var e Event
		var at time.Time
		if i >= 0 {
			e, at = n.events[i], n.times[i]
		}
		n.mu.Unlock()
		if i >= 0 {
			return e, at
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("never notified of %s; got %+v", what, n.events)
	return Event{}, time.Time{}
}

// notified waits until the node has received an event of the kind.
func (n *node) notified(t *testing.T, kind EventKind) Event {
	t.Helper()
	e, _ := n.await(t, string(kind), func(e Event) bool { return e.Kind == kind })
	return e
}

// sees waits until the node has read that so many have joined: until the leader
// has seen them.
func (n *node) sees(t *testing.T, come int) {
	t.Helper()
	n.await(t, fmt.Sprint(come, " have come"), func(e Event) bool {
		return e.Kind == Progress && e.Attendance.Joined == come
	})
}

// die ends a node that gives no reason: its lease runs on.
func (n *node) die() {
	n.stop()
	<-n.done
}

type joined struct {
	w   World
	err error
}

func (n *node) join(ctx context.Context) <-chan joined {
	out := make(chan joined, 1)
	go func() {
		w, err := n.Join(ctx, time.Hour)
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
	until(t, fmt.Sprint(want, " members"), func() bool {
		ms, err := Members(t.Context(), n.cli, "j")
		return err == nil && len(ms) == want
	})
}

// until waits for something that happens within seconds.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 1000 {
		if is() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("never %s", what)
}

// known returns the epoch as this node last saw it.
func (n *node) known() (ep Epoch) {
	n.state(func(n *protocol.Node) { ep = n.Epoch() })
	return ep
}
