package rendezvous

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"launch/rendezvous/protocol"
)

// leave writes a note by a connection of its own, as a node without a companion
// does.
func (b *bench) leave(notes ...Note) {
	b.t.Helper()
	cli := b.store.connect(b.t)
	defer cli.Close()
	for _, n := range notes {
		if err := WriteNote(short(b.t, 10*time.Second), cli, b.job, n); err != nil {
			b.t.Fatal(err)
		}
	}
}

// hears waits until the progress names so many nodes that are not fit.
func (n *node) hears(t *testing.T, unfit int) Attendance {
	t.Helper()
	e, _ := n.await(t, fmt.Sprint(unfit, " are not fit"), func(e Event) bool {
		return e.Kind == Progress && len(e.Attendance.Unfit)+e.Attendance.More == unfit
	})
	return *e.Attendance
}

var bad = Note{Name: "node 2 c (10.0.0.3)", Index: 2, Text: "gpu.count: 7 GPUs, 8 asked"}

func TestWhoWaitsIsToldOfANodeThatIsNotFitUntilItComes(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 20*time.Second)
		nodes := []*node{b.enter(Member{Index: 0, Vouch: Typed, Size: 3, Host: "a"}),
			b.enter(Member{Index: 1, Vouch: Typed, Size: 3, Host: "b"})}
		chs := []<-chan joined{nodes[0].join(ctx), nodes[1].join(ctx)}
		nodes[0].sees(t, 2)
		b.leave(bad, bad)
		for _, n := range nodes {
			if diff := cmp.Diff([]Note{bad}, n.notified(t, Unfit).Unfit); diff != "" {
				t.Errorf("notices (-want +got):\n%s", diff)
			}
			if a := n.hears(t, 1); a.Joined != 2 || !cmp.Equal(a.Missing, []int{2}) {
				t.Errorf("the progress says %+v", a)
			}
		}
		if got, err := Notes(ctx, nodes[0].cli, "j", true); err != nil || !cmp.Equal(got, []Note{bad}) {
			t.Errorf("who looks reads %v, %v", got, err)
		}
		if ms, err := Members(ctx, nodes[0].cli, "j"); err != nil || len(ms) != 2 {
			t.Errorf("the note registered somebody: %v, %v", ms, err)
		}
		d := b.enter(Member{Index: 2, Vouch: Typed, Size: 3, Host: "d"})
		worlds(t, append(chs, d.join(ctx))...)
		for _, n := range append(nodes, d) {
			n.mu.Lock()
			count := 0
			for _, e := range n.events {
				if e.Kind == Unfit {
					count++
				}
			}
			n.mu.Unlock()
			if want := map[bool]int{true: 0, false: 1}[n == d]; count != want {
				t.Errorf("%s was notified %d times, want %d", n.me().Host, count, want)
			}
		}
		r, err := d.cli.Get(ctx, d.k.Notes, clientv3.WithPrefix())
		if err != nil || len(r.Kvs) != 0 {
			t.Errorf("next to the world there still are %v, %v", r, err)
		}
	})
}

func TestAnOpenWaitForgetsWhoHasComeInstead(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 20*time.Second)
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 4, Host: "a"})
		a.join(ctx)
		a.sees(t, 1)
		b.leave(bad)
		a.hears(t, 1)
		c := b.enter(Member{Index: 2, Vouch: Typed, Size: 4, Host: "c"})
		c.join(ctx)
		a.sees(t, 2)
		if got := a.last(); len(got.Unfit) > 0 {
			t.Errorf("node 2 is here, and the progress says %+v", got)
		}
		c.Leave("interrupted")
		a.notified(t, Left)
		b.enter(Member{Index: 1, Vouch: Typed, Size: 4, Host: "b"}).join(ctx)
		a.await(t, "that node 1 joined", func(e Event) bool {
			return e.Kind == Progress && strings.Contains(fmt.Sprint(e.Attendance.Here), "node 1")
		})
		if got := a.last(); len(got.Unfit) > 0 {
			t.Errorf("node 2 was here since, and the progress says %+v", got)
		}
	})
}

// last returns the attendance that the node received last.
func (n *node) last() (a Attendance) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.events {
		if e.Kind == Progress {
			a = *e.Attendance
		}
	}
	return a
}

func TestWithoutIndexesANoteIsOldOnceItsHostOrAllAreHere(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 20*time.Second)
		a := b.enter(Member{Index: -1, Size: 3, Host: "a"})
		ja := a.join(ctx)
		a.sees(t, 1)
		b.leave(Note{Name: "c (10.0.0.1)", Index: -1, Text: "x"}, Note{Name: "d (10.0.0.1)", Index: -1, Text: "x"})
		a.hears(t, 2)
		jc := b.enter(Member{Index: -1, Size: 3, Host: "c"}).join(ctx)
		a.sees(t, 2)
		if got := a.last(); !cmp.Equal(got.Unfit, []Note{{Name: "d (10.0.0.1)", Index: -1, Text: "x"}}) {
			t.Errorf("c is here, and the progress says %+v", got)
		}
		e := b.enter(Member{Index: -1, Size: 3, Host: "e"})
		ws := worlds(t, ja, jc, e.join(ctx))
		b.leave(Note{Name: "late (10.0.0.1)", Index: -1, Text: "one too many"})
		e.Leave("unfit") // opens the next epoch
		if _, err := a.Round(ctx, "go", nil, concat); !isBroken(err) {
			t.Fatalf("%d nodes: %v", len(ws), err)
		}
		b.leave(Note{Name: "next (10.0.0.1)", Index: -1, Text: "x"})
		a.await(t, "of the next", func(e Event) bool { return e.Kind == Unfit && e.Unfit[0].Name == "next (10.0.0.1)" })
		for _, n := range a.last().Unfit {
			if n.Name != "late (10.0.0.1)" && n.Name != "next (10.0.0.1)" {
				t.Errorf("the next wait is notified of %+v, from before the world", n)
			}
		}
	})
}

func isBroken(err error) bool {
	_, ok := errors.AsType[*BrokenError](err)
	return ok
}

func TestTheErrorAtTheEndOfTheTimeSaysWhoIsNotFit(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 3, Host: "a"})
		a.join(short(t, 20*time.Second))
		c := b.enter(Member{Index: 1, Vouch: Typed, Size: 3, Host: "c"})
		ctx := short(t, 4*time.Second)
		jc := c.join(ctx)
		a.sees(t, 2)
		b.leave(bad)
		c.hears(t, 1)
		a.Leave("interrupted") // the next leader still knows
		var miss *MissingError
		if j := <-jc; !errors.As(j.err, &miss) || !cmp.Equal(miss.Unfit, []Note{bad}) {
			t.Errorf("got %v (%+v), want the note of node 2", j.err, miss)
		}
	})
}

func TestFailFastEndsTheWaitOfAll(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		b.failFast = true
		ctx := short(t, 20*time.Second)
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 3, Host: "a", First: true})
		other := b.enter(Member{Index: 1, Vouch: Typed, Size: 3, Host: "b"})
		ja, jb := a.join(ctx), other.join(ctx)
		a.sees(t, 2)
		b.leave(bad)
		b.endsUnfit(<-jb)
		other.Leave("")
		began := time.Now()
		b.endsUnfit(<-ja)
		if d := time.Since(began); d > Linger/2 {
			t.Errorf("the store's host ended %s after the last of the others", d)
		}
	})
}

// endsUnfit checks that a node ended because of bad.
func (b *bench) endsUnfit(j joined) {
	b.t.Helper()
	if unfit, ok := errors.AsType[*UnfitError](j.err); !ok || !cmp.Equal(unfit.Notes, []Note{bad}) {
		b.t.Errorf("got %v, want that node 2 is not fit", j.err)
	}
}

// The store's host waits for late nodes, but not for ever.
func TestFailFastIsToldToWhoComesLater(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		b.failFast = true
		ctx := short(t, time.Minute)
		began := time.Now()
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 4, Host: "a", First: true})
		ja := a.join(ctx)
		a.sees(t, 1)
		b.leave(bad)
		time.Sleep(Linger / 2)
		late := b.enter(Member{Index: 1, Vouch: Typed, Size: 4, Host: "b"})
		b.endsUnfit(<-late.join(ctx))
		late.Leave("")
		b.endsUnfit(<-ja) // node 3 never joined
		if d := time.Since(began); d < Linger || d > Linger+5*time.Second {
			t.Errorf("the store's host ended after %s, want %s", d, Linger)
		}
	})
}

func TestFailFastDoesNotEndAJobThatCanDoWithoutTheNode(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		b.failFast, b.lastCall = true, 500*time.Millisecond
		ctx := short(t, 20*time.Second)
		a := b.enter(Member{Index: -1, Size: 3, Min: 2, Host: "a"})
		ja := a.join(ctx)
		a.sees(t, 1)
		b.leave(Note{Name: "c", Index: -1, Text: "x"})
		a.hears(t, 1)
		worlds(t, ja, b.enter(Member{Index: -1, Size: 3, Min: 2, Host: "b"}).join(ctx))
	})
}

// A note may be of the last run, or of a node that was faster than the others.
func TestANoteThatWasThereFirstIsToldIfNobodyAnswersIt(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		b.failFast = true
		ctx := short(t, 20*time.Second)
		b.leave(bad, Note{Name: "node 1 b", Index: 1, Text: "mended"})
		if _, known, err := Current(ctx, b.connected(), "j"); known || err != nil {
			t.Fatalf("a note made an epoch: %v", err)
		}
		began := time.Now()
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 3, Host: "a"})
		ja := a.join(ctx)
		jb := b.enter(Member{Index: 1, Vouch: Typed, Size: 3, Host: "b"}).join(ctx)
		for _, ch := range []<-chan joined{ja, jb} {
			var unfit *UnfitError
			if j := <-ch; !errors.As(j.err, &unfit) || !cmp.Equal(unfit.Notes, []Note{bad}) {
				t.Errorf("got %v, want node 2 alone", j.err)
			}
		}
		if d := time.Since(began); d < protocol.NoteGrace {
			t.Errorf("notified after %s, before the nodes of the job had the time to join", d)
		}
	})
}

// connected is a connection that ends with the test.
func (b *bench) connected() *clientv3.Client {
	cli := b.store.connect(b.t)
	b.t.Cleanup(func() { cli.Close() })
	return cli
}

func TestANoteIsForgottenByItselfAndByClean(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		cli := b.connected()
		count := func(want int) {
			t.Helper()
			if got, err := Notes(t.Context(), cli, "j", false); err != nil || len(got) != want {
				t.Errorf("%v, %v; want %d", got, err, want)
			}
		}
		b.leave(bad)
		count(1)
		time.Sleep(noteTTL + time.Second)
		count(0)
		b.leave(bad)
		if here, err := Clean(t.Context(), cli, "j"); here != 0 || err != nil {
			t.Errorf("%d, %v", here, err)
		}
		count(0)
		if jobs, err := Jobs(t.Context(), cli); err != nil || len(jobs) != 0 {
			t.Errorf("left behind: %v, %v", jobs, err)
		}
	})
}

func TestWhatIsToldOfManyIsBounded(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		a := b.enter(Member{Index: 0, Vouch: Typed, Size: 99, Host: "a"})
		a.join(short(t, time.Hour))
		a.sees(t, 1)
		var notes []Note
		for i := range 40 {
			notes = append(notes, Note{Name: strings.Repeat("n", 1000), Index: 1 + i, Text: strings.Repeat("\xffé", 1000)})
		}
		b.leave(notes...)
		got := a.hears(t, 40)
		if len(got.Unfit) != few || got.Unfit[0].Index != 25 {
			t.Errorf("notified of %d, from node %d on; want the last %d", len(got.Unfit), got.Unfit[0].Index, few)
		}
		for _, n := range got.Unfit {
			if len([]rune(n.Name)) > protocol.NoteName || len([]rune(n.Text)) > protocol.NoteText {
				t.Errorf("a note of %d and %d bytes", len(n.Name), len(n.Text))
			}
		}
	})
}

func TestANoteForAStoreThatIsGoneIsAnError(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		cli := b.connected()
		b.store.stop(t)
		began := time.Now()
		if err := WriteNote(short(t, 2*time.Second), cli, "j", bad); err == nil {
			t.Error("it was written to a store that is gone")
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("it took %s", d)
		}
	})
}

// A host whose loopback interface is down cannot call its own store, and the others can.
func TestAHostWritesANoteIntoItsOwnStore(t *testing.T) {
	srv, err := Serve(t.Context(), "j", []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	if err := srv.WriteNote(t.Context(), "j", bad); err != nil {
		t.Fatal(err)
	}
	cli, err := Connect(t.Context(), Store{Endpoints: srv.Endpoints(), Job: "j"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer cli.Close()
	if got, err := Notes(t.Context(), cli, "j", false); err != nil || !cmp.Equal(got, []Note{bad}) {
		t.Errorf("another node reads %v, %v", got, err)
	}
}
