package rendezvous

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestStoreThatCameBackEmptyIsJoinedAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 25*time.Second)
		a := b.enter(Member{Index: -1, Size: 2, Host: "a"})
		ja := a.join(ctx)
		a.notified(t, Progress)
		b.store.stop(t)
		a.notified(t, Lost)
		b.store.restart(t)
		worlds(t, ja, b.enter(Member{Index: -1, Size: 2, Host: "c"}).join(ctx))
		a.notified(t, Back)
	})
}

func TestANodeThatDiedIsMissedWhenItsLeaseEnds(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		a := b.enter(Member{Index: -1, Size: 3, Host: "a"})
		a.notified(t, Progress) // it leads
		began := time.Now()
		c := b.enter(Member{Index: -1, Size: 3, Host: "c"})
		a.sees(t, 2)
		c.die() // before it renewed its lease for the first time
		if e := a.notified(t, Left); e.Member.Host != "c" {
			t.Errorf("notified that %s left, want c", e.Member.Host)
		}
		_, at := a.await(t, "that c left", func(e Event) bool { return e.Kind == Left })
		if d := at.Sub(began); b.exact && d != testTTL {
			t.Errorf("missed after %s, want %s", d, testTTL)
		}
	})
}

func TestALeaderThatDiedIsReplacedWhenItsLeaseEnds(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 15*time.Second)
		began := time.Now()
		a := b.enter(Member{Index: -1, Size: 2, Host: "a"})
		a.notified(t, Progress) // it leads
		a.die()
		c := b.enter(Member{Index: -1, Size: 2, Host: "c"})
		d := b.enter(Member{Index: -1, Size: 2, Host: "d"})
		worlds(t, c.join(ctx), d.join(ctx))
		if b.exact {
			b.took(began, testTTL)
		}
	})
}

func TestWhoIsMissingIsKnownAlthoughTheStoresHostGaveUpFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 3, Host: "a", First: true})
		c := b.enter(Member{Index: 1, Vouch: Typed, Size: 3, Host: "c"})
		waitMembers(t, c, 2)
		began := time.Now()
		jc := c.join(short(t, 2500*time.Millisecond))
		var miss *MissingError
		if j := <-a.join(short(t, 500*time.Millisecond)); !errors.As(j.err, &miss) {
			t.Fatal(j.err)
		}
		b.took(began, 500*time.Millisecond+lastWords)
		a.Leave("")
		b.store.stop(t)
		if j := <-jc; !errors.As(j.err, &miss) || !slices.Equal(miss.Missing, []int{2}) {
			t.Errorf("got %v, want node 2 missing", j.err)
		}
		b.took(began, 2500*time.Millisecond)
	})
}

func TestWhoCameAndLeftIsNotCalledMissing(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 3, Host: "a"})
		began := time.Now()
		ja := a.join(short(t, 2*time.Second))
		c := b.enter(Member{Index: 1, Vouch: Typed, Size: 3, Host: "c"})
		a.sees(t, 2)
		c.Leave("it gave up")
		a.notified(t, Left)
		var miss *MissingError
		if j := <-ja; !errors.As(j.err, &miss) || !slices.Equal(miss.Missing, []int{2}) || len(miss.Left) != 1 ||
			miss.Left[0].Left != "it gave up" {
			t.Errorf("got %+v; want node 2 missing, and that c gave up", miss)
		}
		b.took(began, 2*time.Second)
	})
}

func TestWhatWasWaitedForIsSaidAlthoughTheStoreIsLost(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 1, Host: "a"})
		worlds(t, a.join(short(t, 5*time.Second)))
		if _, err := a.Round(short(t, 5*time.Second), "go", nil, concat); err != nil {
			t.Fatal(err)
		}
		a.Start(t.Context())
		deadline := short(t, 3*time.Second)
		twin := b.enter(Member{Index: 0, Vouch: Typed, Size: 1, Host: "twin"})
		next := b.enter(Member{Index: -1, Size: 1, Host: "next"})
		jt, jn := twin.join(deadline), next.join(deadline)
		twin.notified(t, Conflict)
		next.notified(t, Waiting)
		defer b.stopping(t)()
		var dup *DuplicateError
		if j := <-jt; !errors.As(j.err, &dup) || dup.Holder.Host != "a" {
			t.Errorf("the twin got %v, want that a holds its index", j.err)
		}
		var miss *MissingError
		if j := <-jn; !errors.As(j.err, &miss) || !strings.Contains(miss.Running, "a") {
			t.Errorf("the next run got %v, want that a still ran", j.err)
		}
		end, _ := deadline.Deadline()
		if late := time.Since(end); late > 2*time.Second || b.exact && late != 0 {
			t.Errorf("ended %s after the time was up", late)
		}
	})
}

func TestAFailureStartsAllAgainUntilThereIsNoRestartLeft(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 30*time.Second)
		a := b.enter(Member{Index: -1, Size: 2, Host: "a", Port: 1, Restarts: 1})
		c := b.enter(Member{Index: -1, Size: 2, Host: "c", Port: 2, Restarts: 1})
		run := func() string {
			t.Helper()
			ws := worlds(t, a.join(ctx), c.join(ctx))
			var wg sync.WaitGroup
			for _, n := range []*node{a, c} {
				wg.Go(func() {
					if _, err := n.Round(ctx, "go", nil, concat); err != nil {
						t.Error(err)
					}
					n.Start(ctx)
				})
			}
			wg.Wait()
			return ws[0].RunID
		}
		fates := func(want Fate) {
			t.Helper()
			for _, n := range []*node{a, c} {
				got, err := n.Fate(ctx, time.Minute)
				if err != nil || got.Again != want.Again || got.Restart != want.Restart || !strings.Contains(got.Why, want.Why) ||
					(want.Why == "") != (got.Why == "") {
					t.Fatalf("%s got %+v, %v; want %+v", n.me().Host, got, err, want)
				}
			}
		}
		first := run()
		a.Ended(0)
		c.Ended(3)
		fates(Fate{Again: true, Why: "failed: its command ended with 3", Restart: 1})
		for i, n := range []*node{a, c} {
			n.Return(func(m *Member) { m.Port = 10 + i })
		}
		if second := run(); second == first {
			t.Errorf("both runs are %s", first)
		}
		c.Leave("interrupted")
		if got, err := a.Fate(ctx, time.Minute); err != nil || got.Again || !strings.Contains(got.Why, "c (10.0.0.1)") {
			t.Errorf("got %+v, %v; want the end", got, err)
		}
	})
}

func TestARunWithRestartsIsOverWhenAllCommandsEndedWell(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 20*time.Second)
		a := b.enter(Member{Index: -1, Size: 1, Host: "a", Restarts: 3})
		worlds(t, a.join(ctx))
		if _, err := a.Round(ctx, "go", nil, concat); err != nil {
			t.Fatal(err)
		}
		a.Start(ctx)
		a.Ended(0)
		if got, err := a.Fate(ctx, time.Minute); err != nil || got.Again || got.Why != "" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// An etcd retains its history only for a while. A node that wants to watch from
// before that begins a new life, and has the same place.
func TestACompactedHistoryCostsNobodyItsPlace(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		if b.exact {
			return // the store in memory retains its whole history
		}
		ctx := short(t, 20*time.Second)
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 2, Host: "a"})
		ja := a.join(ctx)
		a.notified(t, Progress)
		var rev int64
		cli := b.store.inside(t)
		for range 10 {
			r, err := cli.Put(ctx, "/elsewhere", "x")
			if err != nil {
				t.Fatal(err)
			}
			rev = r.Header.Revision
		}
		if _, err := cli.Compact(ctx, rev); err != nil { // before a watches its own key
			t.Fatal(err)
		}
		time.Sleep(testTTL)
		worlds(t, ja, b.enter(Member{Index: 1, Vouch: Typed, Size: 2, Host: "c"}).join(ctx))
	})
}

func TestANodeWhoseCommandEndedDoesNotWaitForALostStoreForEver(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 30*time.Second)
		m := func(host string) Member { return Member{Index: -1, Size: 2, Restarts: 1, Host: host} }
		a, c := b.enter(m("a")), b.enter(m("c"))
		worlds(t, a.join(ctx), c.join(ctx))
		begun(t, a, c)
		a.Ended(0)
		defer b.stopping(t)()
		began := time.Now()
		if f, err := a.Fate(ctx, time.Second); !errors.Is(err, ErrUnreachable) {
			t.Errorf("got %+v, %v; want that the store is lost", f, err)
		}
		if d := time.Since(began); d > 15*time.Second {
			t.Errorf("it waited %s", d)
		}
		a.notified(t, Lost)
	})
}
