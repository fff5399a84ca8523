package memstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"launch/rendezvous/memstore"
)

func TestMain(m *testing.M) {
	memstore.Bubbles()
	goleak.VerifyTestMain(m)
}

// inBubble runs a test on an empty store with a clock of its own.
func inBubble(t *testing.T, test func(t *testing.T, s *memstore.Store)) {
	synctest.Test(t, func(t *testing.T) { test(t, memstore.New()) })
}

func dial(t *testing.T, s *memstore.Store) (*memstore.Link, *clientv3.Client) {
	l := s.Dial()
	c := l.Client()
	t.Cleanup(func() { c.Close() })
	return l, c
}

func put(t *testing.T, c *clientv3.Client, key, value string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	r, err := c.Put(t.Context(), key, value, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

// next is the next event of a watch.
func next(t *testing.T, w clientv3.WatchChan) *clientv3.Event {
	t.Helper()
	select {
	case r, ok := <-w:
		if !ok || len(r.Events) != 1 {
			t.Fatalf("the watch gave %+v, %v; want one event", r, ok)
		}
		return r.Events[0]
	case <-time.After(time.Minute):
		t.Fatal("no event within a minute")
		return nil
	}
}

func TestALeaseEndsAtItsTimeAndNotBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memstore.Store) {
		_, c := dial(t, s)
		g, err := c.Grant(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		put(t, c, "k", "v", clientv3.WithLease(g.ID))
		w := c.Watch(t.Context(), "k")
		if e := next(t, w); e.Type != clientv3.EventTypeDelete {
			t.Errorf("got %v, want that the key is deleted", e)
		}
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("the lease of 10 s ended after %s", d)
		}
	})
}

func TestARenewedLeaseLastsUntilItIsNoLongerRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memstore.Store) {
		l, c := dial(t, s)
		_, other := dial(t, s)
		g, err := c.Grant(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.KeepAlive(t.Context(), g.ID); err != nil {
			t.Fatal(err)
		}
		put(t, c, "k", "v", clientv3.WithLease(g.ID))
		w := other.Watch(t.Context(), "k")
		select {
		case r := <-w:
			t.Fatalf("a renewed lease ended: %+v", r)
		case <-time.After(time.Minute):
		}
		cut := time.Now()
		l.Cut()
		next(t, w)
		if d := time.Since(cut); d < time.Second || d > 3*time.Second {
			t.Errorf("it ended %s after its holder was cut off, want its 3 s less the time since the last renewal", d)
		}
		l.Heal()
	})
}

func TestAWatchBeginsInThePastAndGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memstore.Store) {
		l, c := dial(t, s)
		rev := put(t, c, "k/1", "")
		put(t, c, "other", "")
		put(t, c, "k/2", "")
		w := c.Watch(t.Context(), "k/", clientv3.WithPrefix(), clientv3.WithRev(rev))
		for i, want := range []string{"k/1", "k/2"} {
			if e := next(t, w); string(e.Kv.Key) != want || e.Kv.ModRevision != rev+int64(2*i) {
				t.Errorf("event %d is %v, want %s", i, e, want)
			}
		}
		l.Break()
		put(t, c, "k/3", "")
		if e := next(t, w); string(e.Kv.Key) != "k/3" {
			t.Errorf("after the connection broke: %v, want k/3", e)
		}
	})
}

func TestAWatchOfTheFutureMissesTheRevisionsBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memstore.Store) {
		_, c := dial(t, s)
		w := c.Watch(t.Context(), "k", clientv3.WithRev(4))
		for range 3 {
			put(t, c, "k", "")
		}
		if e := next(t, w); e.Kv.ModRevision != 4 {
			t.Errorf("the first event is of revision %d, want 4", e.Kv.ModRevision)
		}
	})
}

func TestAnEndedStoreHoldsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memstore.Store) {
		_, c := dial(t, s)
		g, err := c.Grant(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		alive, err := c.KeepAlive(t.Context(), g.ID)
		if err != nil {
			t.Fatal(err)
		}
		put(t, c, "k", "v", clientv3.WithLease(g.ID))
		s.Stop()
		if _, err := c.Get(t.Context(), "k"); err == nil {
			t.Error("a stopped store answers")
		}
		s.Restart()
		if r, err := c.Get(t.Context(), "k"); err != nil || len(r.Kvs) != 0 || r.Header.Revision != 1 {
			t.Errorf("got %+v, %v; want an empty store at revision 1", r, err)
		}
		for range alive { // ends once the store has said that it has no such lease
		}
	})
}

func TestFaultsOfALink(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memstore.Store) {
		l, c := dial(t, s)
		var fault memstore.Fault
		var delay time.Duration
		l.SetFaults(func(any) (memstore.Fault, time.Duration) { return fault, delay })
		for _, tc := range []struct {
			fault   memstore.Fault
			version int64 // of the key afterwards
		}{{memstore.Refuse, 0}, {memstore.DropReply, 1}} {
			fault = tc.fault
			if _, err := c.Put(t.Context(), "k", ""); err == nil {
				t.Errorf("fault %d: no error", tc.fault)
			}
			fault = memstore.None
			r, err := c.Get(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if done := len(r.Kvs) == 1 && r.Kvs[0].Version == tc.version; tc.version > 0 && !done ||
				tc.version == 0 && len(r.Kvs) > 0 {
				t.Errorf("fault %d left %v", tc.fault, r.Kvs)
			}
		}
		delay = 2 * time.Second
		began := time.Now()
		put(t, c, "k", "")
		if d := time.Since(began); d != delay {
			t.Errorf("took %s, want %s", d, delay)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.Cut()
		if _, err := c.Get(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cut off: %v", err)
		}
		l.Heal()
		put(t, c, "k", "")
	})
}
