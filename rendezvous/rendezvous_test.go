package rendezvous

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"launch/rendezvous/memstore"

	"launch/rendezvous/protocol"
)

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		os.Exit(serveMain())
	}
	memstore.Bubbles()
	silenceGRPC()                      // gRPC wants it before anything else of its own runs
	_ = flag.Set("test.parallel", "6") // they mostly wait; -parallel overrides it
	dir, err := os.MkdirTemp("", "rendezvous")
	if err == nil {
		err = os.Setenv("TMPDIR", dir) // of the stores
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func TestJoinGivesEveryNodeOneRankOfOneWorld(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		const n = 24
		var chs []<-chan joined
		for i := range n {
			m := Member{Index: -1, Size: n, Host: fmt.Sprint("h", i), First: i == 17}
			chs = append(chs, b.enter(m).join(short(t, 20*time.Second)))
		}
		ws := worlds(t, chs...)
		if got := ws[0].Master.Host; got != "h17" {
			t.Errorf("rank 0 is %s, want the store's host h17", got)
		}
	})
}

// The others reach the store's host by an address that it did not guess: they
// are to find it there, and the job's own store too.
func TestTheHostIsWhereTheOthersCome(t *testing.T) {
	at := netip.MustParseAddr("10.9.0.1")
	for _, order := range [][]string{{"host", "other"}, {"other", "host"}} { // the node that registers first seals
		t.Run(order[0]+" first", func(t *testing.T) {
			eachStore(t, func(t *testing.T, b *bench) {
				var come atomic.Bool
				nodes := map[string]*node{}
				for _, name := range order {
					self := Member{Index: -1, Size: 2, Host: name}
					if name == "host" {
						self.First = true
						b.reached = func() (a netip.Addr) {
							if come.Load() {
								a = at
							}
							return a
						}
					}
					come.Store(come.Load() || name == "other")
					nodes[name] = b.enter(self)
					b.reached = nil
					waitMembers(t, nodes[name], len(nodes))
				}
				ctx := short(t, 10*time.Second)
				ws := worlds(t, nodes["host"].join(ctx), nodes["other"].join(ctx))
				if own, master, partner := ws[0].Self.Addr, ws[1].Master.Addr, ws[1].Partners[0].Addr; own != at || master != at ||
					partner != at {
					t.Errorf("the host is at %s for itself, at %s as rank 0 and at %s as a partner, want %s", own, master, partner, at)
				}
			})
		})
	}
}

func TestIndexesBecomeRanks(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		var chs []<-chan joined
		for i := range 5 {
			chs = append(chs, b.enter(Member{Index: 4 - i, Vouch: Typed, Size: 5}).join(short(t, 10*time.Second)))
		}
		for i, w := range worlds(t, chs...) {
			if w.Rank != 4-i {
				t.Errorf("index %d got rank %d", 4-i, w.Rank)
			}
		}
	})
}

func TestMissingNodesAreNamed(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 4, Host: "a"})
		c := b.enter(Member{Index: 2, Vouch: Typed, Size: 4, Host: "c"})
		began := time.Now()
		ctx := short(t, 1500*time.Millisecond)
		for _, ch := range []<-chan joined{a.join(ctx), c.join(ctx)} {
			var miss *MissingError
			if j := <-ch; !errors.As(j.err, &miss) || !slices.Equal(miss.Missing, []int{1, 3}) || miss.Joined != 2 {
				t.Fatalf("got %v (%+v), want indexes 1 and 3 missing", j.err, miss)
			}
		}
		b.took(began, 1500*time.Millisecond)
	})
}

func TestInterruptedNodeIsToldToAllAndItsReplacementCompletes(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 15*time.Second)
		a := b.enter(Member{Index: -1, Size: 4, Host: "a"})
		c := b.enter(Member{Index: -1, Size: 4, Host: "c"})
		ja, jc := a.join(ctx), c.join(ctx)
		d := b.enter(Member{Index: -1, Size: 4, Host: "d"})
		d.join(ctx)
		a.sees(t, 3)
		d.Leave("interrupted")
		for _, n := range []*node{a, c} {
			if e := n.notified(t, Left); e.Member.Host != "d" || e.Text != "interrupted" {
				t.Errorf("got %+v, want that d was interrupted", e)
			}
		}
		d2 := b.enter(Member{Index: -1, Size: 4, Host: "d"})
		e2 := b.enter(Member{Index: -1, Size: 4, Host: "e"})
		worlds(t, ja, jc, d2.join(ctx), e2.join(ctx))
	})
}

func TestLeaderThatLeavesIsReplaced(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 15*time.Second)
		a := b.enter(Member{Index: -1, Size: 3, Host: "a"})
		a.join(ctx)
		a.notified(t, Progress) // it leads
		c := b.enter(Member{Index: -1, Size: 3, Host: "c"})
		jc := c.join(ctx)
		waitMembers(t, c, 2)
		a.Leave("interrupted")
		if e := c.notified(t, Left); e.Member.Host != "a" {
			t.Errorf("notified that %s left, want a", e.Member.Host)
		}
		worlds(t, jc, b.enter(Member{Index: -1, Size: 3, Host: "d"}).join(ctx),
			b.enter(Member{Index: -1, Size: 3, Host: "e"}).join(ctx))
	})
}

func TestTypedIndexTwiceNamesBoth(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 2, Host: "a"})
		ja := a.join(short(t, 15*time.Second))
		waitMembers(t, a, 1)
		began := time.Now()
		c := b.enter(Member{Index: 0, Vouch: Typed, Size: 2, Host: "c"})
		j := <-c.join(short(t, 15*time.Second))
		var dup *DuplicateError
		if !errors.As(j.err, &dup) || dup.Holder.Host != "a" || dup.Self.Host != "c" {
			t.Fatalf("got %v, want a and c named", j.err)
		}
		b.took(began, testTTL+protocol.TypedGrace)
		if e := a.notified(t, Conflict); e.Member.Host != "c" {
			t.Errorf("the holder was notified of %s, want c", e.Member.Host)
		}
		worlds(t, ja, b.enter(Member{Index: 1, Vouch: Typed, Size: 2}).join(short(t, 5*time.Second)))
	})
}

func TestDeadProcessOfThisMachineIsReplacedAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 1, Host: "a", Machine: "m", Started: "another time"})
		<-a.join(short(t, 5*time.Second))
		began := time.Now()
		worlds(t, b.enter(Member{Index: 0, Vouch: Typed, Size: 1, Host: "b", Machine: "m"}).join(short(t, 10*time.Second)))
		if d := time.Since(began); d >= testTTL {
			t.Errorf("took %s: it waited for the lease", d)
		}
	})
}

func TestNewestScheduledIncarnationWins(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		old := b.enter(Member{Index: 0, Vouch: Scheduled, Size: 2, Host: "old"})
		jo := old.join(short(t, 10*time.Second))
		waitMembers(t, old, 1)
		young := b.enter(Member{Index: 0, Vouch: Scheduled, Size: 2, Host: "young"})
		jy := young.join(short(t, 10*time.Second))
		var sup *SupersededError
		if j := <-jo; !errors.As(j.err, &sup) || sup.Newer.Host != "young" {
			t.Fatalf("the older got %v, want superseded by young", j.err)
		}
		ws := worlds(t, jy, b.enter(Member{Index: 1, Vouch: Scheduled, Size: 2}).join(short(t, 10*time.Second)))
		if ws[0].Master.Host != "young" {
			t.Errorf("rank 0 is %s", ws[0].Master.Host)
		}
	})
}

func TestDifferentSizesAreNamed(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		a := b.enter(Member{Index: -1, Size: 3, Host: "a"})
		a.join(short(t, 10*time.Second))
		a.notified(t, Progress)
		c := b.enter(Member{Index: -1, Size: 2, Host: "c"})
		var size *SizeError
		if j := <-c.join(short(t, 10*time.Second)); !errors.As(j.err, &size) || size.Want != "3" ||
			!strings.Contains(size.First, "a") {
			t.Fatalf("got %v", j.err)
		}
	})
}

func concat(posts [][]byte) ([]byte, bool) { return append([]byte{}, slices.Concat(posts...)...), true }

func TestRoundIsReadByAll(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		const n = 8
		ctx := short(t, 20*time.Second)
		nodes := make([]*node, n)
		var chs []<-chan joined
		for i := range nodes {
			nodes[i] = b.enter(Member{Index: i, Vouch: Typed, Size: n, First: i == 3})
			chs = append(chs, nodes[i].join(ctx))
		}
		worlds(t, chs...)
		var wg sync.WaitGroup
		for i, nd := range nodes {
			wg.Go(func() {
				got, err := nd.Round(ctx, "go", []byte(fmt.Sprint(i)), concat)
				if err != nil || string(got) != "01234567" {
					t.Errorf("node %d: %q, %v", i, got, err)
				}
				nd.Start(ctx)
			})
		}
		wg.Wait()
		if ep, ok, err := Current(ctx, nodes[0].cli, "j"); err != nil || !ok || ep.State != Started {
			t.Errorf("epoch %+v %v %v, want started", ep, ok, err)
		}
	})
}

func TestNodeLostInARoundBreaksTheWorldAndItsReplacementMakesTheNext(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 20*time.Second)
		a := b.enter(Member{Index: -1, Size: 2, Host: "a"})
		c := b.enter(Member{Index: -1, Size: 2, Host: "c"})
		first := worlds(t, a.join(ctx), c.join(ctx))
		c.Leave("interrupted")
		var broken *BrokenError
		if _, err := a.Round(ctx, "go", nil, concat); !errors.As(err, &broken) || !strings.Contains(broken.Why, "c") {
			t.Fatalf("got %v, want a broken world that names c", err)
		}
		d := b.enter(Member{Index: -1, Size: 2, Host: "d"})
		next := worlds(t, a.join(ctx), d.join(ctx))
		if next[0].Epoch <= first[0].Epoch {
			t.Errorf("epoch %d after %d", next[0].Epoch, first[0].Epoch)
		}
	})
}

func TestALeaderOutsideTheWorldLeavesTheLeadToIt(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 15*time.Second)
		a := b.enter(Member{Index: -1, Size: 3, Host: "a"})
		a.notified(t, Progress) // it leads
		c := b.enter(Member{Index: 0, Vouch: Typed, Size: 2, Host: "c"})
		d := b.enter(Member{Index: 1, Vouch: Typed, Size: 2, Host: "d"})
		waitMembers(t, a, 3)
		// As if it had sealed these two while it was one too many.
		rank0 := c.me()
		cli := b.store.inside(t)
		sealed := Epoch{N: 7, Nonce: newID(), State: Sealed, Size: 2, Master: &rank0}
		for rank, m := range []Member{c.me(), d.me()} {
			place := Place{Partner: Partner{Rank: rank, ID: m.ID}}
			if _, err := cli.Put(ctx, a.k.Place(sealed.Nonce, m), encode(place)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := cli.Put(ctx, c.k.Epoch, encode(sealed)); err != nil {
			t.Fatal(err)
		}
		for _, n := range []*node{c, d} { // until then they see an open epoch of three
			for n.known().Nonce != sealed.Nonce && ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
		}
		worlds(t, c.join(ctx), d.join(ctx))
		var wg sync.WaitGroup
		for _, n := range []*node{c, d} {
			wg.Go(func() {
				if _, err := n.Round(ctx, "go", nil, concat); err != nil {
					t.Errorf("%s: %v", n.me().Host, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestWhoRunsInAnEarlierEpochIsNotSealedIntoTheNext(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 15*time.Second)
		a := b.enter(Member{Index: -1, Size: 2, Host: "a"})
		c := b.enter(Member{Index: -1, Size: 2, Host: "c"})
		worlds(t, a.join(ctx), c.join(ctx))
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
		// The store returns empty, as when its host starts the line again; c
		// still runs and registers there.
		if _, err := b.store.inside(t).Delete(ctx, a.k.Epoch); err != nil {
			t.Fatal(err)
		}
		a.Leave("")
		d := b.enter(Member{Index: -1, Size: 2, Host: "d"})
		var miss *MissingError
		if j := <-d.join(short(t, 1500*time.Millisecond)); !errors.As(j.err, &miss) || miss.Joined != 1 {
			t.Errorf("got %+v, %v; want d alone", j.w, j.err)
		}
	})
}

func TestNextRunBeginsAfterTheLastHasEnded(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 20*time.Second)
		run := func(hold *node) (*node, string) {
			n := b.enter(Member{Index: -1, Size: 1, Host: "a"})
			ch := n.join(ctx)
			if hold != nil {
				n.notified(t, Waiting)
				hold.Leave("")
			}
			w := worlds(t, ch)
			if _, err := n.Round(ctx, "go", nil, concat); err != nil {
				t.Fatal(err)
			}
			n.Start(ctx)
			return n, w[0].RunID
		}
		one, id1 := run(nil)
		_, id2 := run(one)
		if id1 == id2 {
			t.Errorf("both runs are %s", id1)
		}
	})
}
