package rendezvous

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"launch/rendezvous/protocol"
)

const testLastCall = 500 * time.Millisecond

func TestAnElasticWorldStartsAfterTheLastCall(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		b.lastCall = testLastCall
		ctx := short(t, 15*time.Second)
		a := b.enter(Member{Index: -1, Size: 4, Min: 2, Host: "a"})
		ja := a.join(ctx)
		a.notified(t, Progress)
		time.Sleep(2 * testLastCall) // there is no last call while too few nodes wait
		began := time.Now()
		jc := b.enter(Member{Index: -1, Size: 4, Min: 2, Host: "c"}).join(ctx)
		a.sees(t, 2)
		time.Sleep(testLastCall / 2)
		jd := b.enter(Member{Index: -1, Size: 4, Min: 2, Host: "d"}).join(ctx) // it puts the start off
		ws := worlds(t, ja, jc, jd)
		if d := time.Since(began); d < testLastCall*3/2 || b.exact && d > testLastCall*2 {
			t.Errorf("started after %s, want one last call (%s) after the third node", d, testLastCall)
		}
		if ws[0].Size != 3 {
			t.Errorf("a world of %d nodes, want 3", ws[0].Size)
		}
	})
}

func TestAnElasticWorldThatIsCompleteStartsAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		b.lastCall = time.Minute
		ctx := short(t, 10*time.Second)
		m := Member{Index: -1, Size: 3, Min: 1}
		worlds(t, b.enter(m).join(ctx), b.enter(m).join(ctx), b.enter(m).join(ctx))
	})
}

func TestTheLastCallIsBounded(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		b.lastCall = testLastCall
		ctx := short(t, time.Minute)
		began := time.Now()
		var last <-chan joined
		for i := 0; ; i++ { // more nodes join all the time
			j := b.enter(Member{Index: i, Vouch: Scheduled, Size: 100, Min: 2}).join(ctx)
			if i == 0 {
				last = j
			}
			select {
			case got := <-last:
				if got.err != nil || got.w.Size > 2+protocol.LastCalls*2 {
					t.Fatalf("got %+v, %v", got.w, got.err)
				}
				if d := time.Since(began); d > (protocol.LastCalls+1)*testLastCall {
					t.Errorf("started after %s, want at most %d last calls of %s", d, protocol.LastCalls, testLastCall)
				}
				return
			case <-time.After(testLastCall * 2 / 3):
			}
		}
	})
}

func TestAnElasticWorldWithTooFewNamesHowManyAreEnough(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		b.lastCall = testLastCall
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 4, Min: 2, Host: "a"})
		a.notified(t, Progress)
		var miss *MissingError
		if j := <-a.join(short(t, time.Second)); !errors.As(j.err, &miss) || miss.Want != 4 || miss.Min != 2 ||
			miss.Joined != 1 {
			t.Fatalf("got %v, want 1 of 2:4", j.err)
		}
		var size *SizeError
		c := b.enter(Member{Index: 1, Vouch: Typed, Size: 4, Host: "c"})
		if j := <-c.join(short(t, 10*time.Second)); !errors.As(j.err, &size) || size.Self != "4" || size.Want != "2:4" {
			t.Errorf("got %v, want that 4 is not 2:4", j.err)
		}
	})
}

// begun starts the world of the nodes.
func begun(t *testing.T, nodes ...*node) {
	t.Helper()
	done := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() {
			_, err := n.Round(short(t, 10*time.Second), "go", nil, concat)
			if err == nil {
				n.Start(t.Context())
			}
			done <- err
		}()
	}
	for range nodes {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestASpareTakesThePlaceOfANodeThatLeavesBeforeTheStart(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 15*time.Second)
		m := func(host string) Member { return Member{Index: -1, Size: 2, Spares: 1, Host: host} }
		a, c := b.enter(m("a")), b.enter(m("c"))
		worlds(t, a.join(ctx), c.join(ctx))
		s := b.enter(m("s"))
		js := s.join(ctx)
		if e := s.notified(t, Spare); e.Size != 2 {
			t.Errorf("notified of a world of %d nodes, want 2", e.Size)
		}
		c.Leave("it is unfit")
		var broken *BrokenError
		if _, err := a.Round(ctx, "go", nil, concat); !errors.As(err, &broken) {
			t.Fatalf("got %v, want a broken world", err)
		}
		worlds(t, a.join(ctx), js)
	})
}

func TestASpareThatIsNotNeededIsToldSo(t *testing.T) {
	for name, restarts := range map[string]int{"once it has started": 0, "once it is over": 1} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, b *bench) {
				ctx := short(t, 20*time.Second)
				m := func(host string) Member {
					return Member{Index: -1, Size: 1, Spares: 1, Restarts: restarts, Host: host}
				}
				a := b.enter(m("a"))
				worlds(t, a.join(ctx))
				s := b.enter(m("s"))
				js := s.join(ctx)
				s.notified(t, Spare)
				begun(t, a)
				if restarts > 0 {
					select {
					case j := <-js:
						t.Fatalf("the spare got %+v while it may be needed yet", j)
					case <-time.After(200 * time.Millisecond):
					}
					a.Ended(0)
				}
				var spare *SpareError
				if j := <-js; !errors.As(j.err, &spare) || spare.Size != 1 || spare.Why != "" {
					t.Errorf("got %v, want that it is not needed", j.err)
				}
			})
		})
	}
}

// A standby node that was cut off over the end of its run has no part in the next one, which
// lacks a node.
func TestASpareThatWasAwayOverTheEndOfItsRunDoesNotCompleteTheNext(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		m := func(host string) Member {
			return Member{Index: -1, Size: 2, Spares: 1, Restarts: 1, Host: host}
		}
		a, other := b.enter(m("a")), b.enter(m("other"))
		worlds(t, a.join(t.Context()), other.join(t.Context()))
		link := b.store.(memory).s.Dial()
		s := b.enterBy(link.Client(), m("s"))
		js := s.join(t.Context())
		s.notified(t, Spare)
		begun(t, a, other)
		time.Sleep(time.Second) // it has heard that they have started
		link.Cut()
		time.Sleep(time.Minute)
		a.Ended(0)
		other.Ended(0)
		for _, n := range []*node{a, other} {
			if _, err := n.Fate(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			n.Leave("")
		}
		next := b.enter(m("next"))
		next.sees(t, 1)
		link.Heal()
		var spare *SpareError
		if j := <-js; !errors.As(j.err, &spare) {
			t.Fatalf("the spare got %+v, %v", j.w, j.err)
		}
		worlds(t, next.join(t.Context()), b.enter(m("another")).join(t.Context()))
	})
}

func TestASpareWaitsBeyondItsTimeButNotWithoutAStore(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		a := b.enter(Member{Index: -1, Size: 1, Spares: 1, Restarts: 1, Host: "a"})
		worlds(t, a.join(short(t, 10*time.Second)))
		begun(t, a)
		s := b.enter(Member{Index: -1, Size: 1, Spares: 1, Restarts: 1, Host: "s"})
		out := make(chan error, 1)
		go func() { _, err := s.Join(t.Context(), 300*time.Millisecond); out <- err }()
		s.notified(t, Spare)
		select {
		case err := <-out:
			t.Fatalf("the spare ended: %v", err)
		case <-time.After(time.Second):
		}
		defer b.stopping(t)()
		if err := <-out; !errors.Is(err, ErrUnreachable) {
			t.Errorf("got %v, want that the store is lost", err)
		}
	})
}

// A spare node is ready at once, a node of the last run has to end its command
// first: that one has its place all the same.
func TestASpareTakesOnlyThePlaceThatIsFree(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 30*time.Second)
		m := func(host string) Member {
			return Member{Index: -1, Size: 3, Spares: 1, Restarts: 2, Host: host}
		}
		a, c, d := b.enter(m("a")), b.enter(m("c")), b.enter(m("d"))
		worlds(t, a.join(ctx), c.join(ctx), d.join(ctx))
		begun(t, a, c, d)
		s := b.enter(m("s"))
		js := s.join(ctx)
		s.notified(t, Spare)
		again := func(n *node) <-chan joined {
			if f, err := n.Fate(ctx, time.Minute); err != nil || !f.Again {
				t.Fatalf("got %+v, %v; want another start", f, err)
			}
			n.Return(func(*Member) {})
			return n.join(ctx)
		}

		c.Ended(1) // its command failed; its launch is there, so the spare is not needed
		ja, jc := again(a), again(c)
		time.Sleep(300 * time.Millisecond) // the third takes its time
		worlds(t, ja, jc, again(d))
		begun(t, a, c, d)

		d.Leave("its launch ended")
		ja = again(a)
		time.Sleep(300 * time.Millisecond)
		ws := worlds(t, ja, again(c), js)
		hosts := []string{ws[0].Self.Host, ws[1].Self.Host, ws[2].Self.Host}
		if !slices.Contains(hosts, "s") {
			t.Errorf("the world has %v, want the spare in it", hosts)
		}
	})
}

// A node that joins during a run is part of it, and does not run the job a
// second time after it.
func TestWhoComesLateToASpareOrElasticJobBeginsNoRunOfItsOwn(t *testing.T) {
	for name, extra := range map[string]Member{"spare": {Spares: 2}, "elastic": {Min: 1}} {
		for _, restarts := range []int{0, 1} {
			t.Run(fmt.Sprint(name, ", restarts ", restarts), func(t *testing.T) {
				eachStore(t, func(t *testing.T, b *bench) {
					b.lastCall = 50 * time.Millisecond
					ctx := short(t, 20*time.Second)
					m := Member{Index: -1, Size: 2, Restarts: restarts, Min: extra.Min, Spares: extra.Spares}
					if m.Spares > 0 {
						m.Size = 1
					}
					a := b.enter(m)
					worlds(t, a.join(ctx))
					begun(t, a)
					s := b.enter(m)
					js := s.join(ctx)
					if restarts > 0 {
						s.notified(t, Spare)
						a.Ended(0)
						var spare *SpareError
						if j := <-js; !errors.As(j.err, &spare) {
							t.Errorf("got %+v, %v; want that it is not needed", j.w, j.err)
						}
						return
					}
					var miss *MissingError
					if j := <-js; !errors.As(j.err, &miss) || miss.Running == "" {
						t.Errorf("got %+v, %v; want that the job runs already", j.w, j.err)
					}
				})
			})
		}
	}
}

func TestTheLastCallLeavesTheMostImpatientNodeTimeToStart(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		b.lastCall = 8 * time.Second
		began := time.Now()
		m := Member{Index: -1, Size: 3, Min: 2, Patience: 10 * time.Second}
		ja := b.enter(m).join(t.Context())
		time.Sleep(4 * time.Second)
		worlds(t, ja, b.enter(m).join(t.Context()))
		if d := time.Since(began); d < 7*time.Second || d > 8*time.Second {
			t.Errorf("started after %s, want three quarters of the first node's 10 s", d)
		}
	})
}
