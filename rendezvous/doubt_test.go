package rendezvous

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"launch/rendezvous/memstore"
	"launch/rendezvous/protocol"
)

// The reply to the first registration is lost. Whether the holder that the next
// try finds is older or newer follows from the store's revisions: the newest wins.
func TestAnOlderProcessDoesNotReplaceANewerOneThoughItsFirstReplyWasLost(t *testing.T) {
	for _, registered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := memstore.New()
			b := &bench{t: t, store: memory{s}, job: "j", exact: true}
			m := func(host string) Member { return Member{Index: 0, Vouch: Scheduled, Size: 2, Host: host} }
			if !registered { // before the first one tries
				b.enter(m("newest"))
				synctest.Wait()
			}
			link := s.Dial()
			began := time.Now()
			link.SetFaults(func(r any) (memstore.Fault, time.Duration) {
				key := protocol.KeysOf(b.job).Member(m(""))
				if time.Since(began) < 2*time.Second && puts(r, key) {
					return memstore.DropReply, 0
				}
				return memstore.None, 0
			})
			old := b.enterBy(link.Client(), m("old"))
			synctest.Wait()
			if registered {
				b.enter(m("newest"))
			}
			_, err := old.Join(short(t, 10*time.Second), time.Hour)
			var sup *SupersededError
			if replaced := errors.As(err, &sup); replaced != registered {
				t.Errorf("the other joined after it: %v; got %v", registered, err)
			}
		})
	}
}

// The go is there, and before this node has read it another has taken its place.
func TestANodeThatWasReplacedDoesNotStart(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 15*time.Second)
		m := func(index int, host string) Member {
			return Member{Index: index, Vouch: Scheduled, Size: 2, Host: host}
		}
		a, old := b.enter(m(0, "a")), b.enter(m(1, "old"))
		worlds(t, a.join(ctx), old.join(ctx))
		done := make(chan error, 1)
		go func() { _, err := a.Round(ctx, "go", nil, concat); done <- err }()
		if _, err := old.Round(ctx, "go", nil, concat); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		b.enter(m(1, "newest"))
		var sup *SupersededError
		for errors.As(old.Start(ctx), &sup); sup == nil; {
			select {
			case <-ctx.Done():
				t.Fatal("it has not seen that it was replaced")
			case <-time.After(20 * time.Millisecond):
				errors.As(old.Start(ctx), &sup)
			}
		}
		if sup.Newer.Host != "newest" {
			t.Errorf("replaced by %s, want newest", sup.Newer.Host)
		}
	})
}
