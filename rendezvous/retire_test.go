package rendezvous

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

// pair returns two nodes of a world in a store of job j.
func pair(t *testing.T, srv *Server) (a, c *node) {
	t.Helper()
	b := &bench{t: t, store: &embedded{srv}, job: "j", asks: true}
	a, c = b.enter(Member{Index: -1, Size: 2, Host: "a"}), b.enter(Member{Index: -1, Size: 2, Host: "c"})
	ctx := short(t, 15*time.Second)
	worlds(t, a.join(ctx), c.join(ctx))
	return a, c
}

// precedence returns what a look at a store finds.
func precedence(t *testing.T, srv *Server) (Precedence, error) {
	return Peek(t.Context(), Store{Endpoints: srv.Endpoints(), Job: "j"})
}

func TestAStoreWhoseJobHasBegunIsNotRetired(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	srv := serveHere(t)
	if is, err := precedence(t, srv); err != nil || is.Begun || is.Order != srv.Order() {
		t.Fatalf("a new store: %v, %v; its order is %q", is, err, srv.Order())
	}
	a, c := pair(t, srv)
	if is, err := precedence(t, srv); err != nil || is.Begun {
		t.Fatalf("before the go: %v, %v", is, err)
	}
	go func() { _, _ = c.Round(t.Context(), "go", nil, concat) }()
	if _, err := a.Round(short(t, 10*time.Second), "go", nil, concat); err != nil {
		t.Fatal(err)
	}
	if is, err := precedence(t, srv); err != nil || !is.Begun {
		t.Errorf("after the go: %v, %v", is, err)
	}
	if srv.Retire(t.Context()) {
		t.Error("it was retired")
	}
}

// The go and the retirement exclude each other, at whatever moment both are tried.
func TestARetiredStoreGivesNoGo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for i := range 12 {
		srv := serveHere(t)
		a, c := pair(t, srv)
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		starts := make(chan bool, 2)
		for _, n := range []*node{a, c} {
			go func() {
				got, err := n.Round(ctx, "go", []byte("x"), concat)
				starts <- err == nil && got != nil
			}()
		}
		time.Sleep(time.Duration(i) * 500 * time.Microsecond)
		retired := srv.Retire(t.Context())
		if retired {
			if _, err := precedence(t, srv); err == nil {
				t.Error("a look takes a retired store for one")
			}
			time.AfterFunc(300*time.Millisecond, cancel)
		}
		if one, other := <-starts, <-starts; one == retired || other == retired {
			t.Errorf("after %d tries: retired %v, and the nodes start: %v, %v", i, retired, one, other)
		}
		cancel()
		a.Leave("")
		c.Leave("")
		srv.Close()
	}
}

// Nodes of a world in a store that is retired join one of another store.
func TestTheNodesOfARetiredStoreGoToAnother(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	one, hangup := serveHere(t), &Hangup{}
	b := &bench{t: t, job: "j", asks: true}
	moves := b.enterBy(connect(t, Store{Endpoints: one.Endpoints(), Job: "j", Hangup: hangup}),
		Member{Index: -1, Size: 2, Host: "a"})
	host := b.enterBy(connect(t, Store{Endpoints: one.Endpoints(), Job: "j"}), Member{Index: -1, Size: 2, Host: "c"})
	ctx := short(t, 30*time.Second)
	worlds(t, moves.join(ctx), host.join(ctx))
	if !one.Retire(ctx) {
		t.Fatal("it was not retired")
	}
	host.Leave("")
	one.Close()
	other := &embedded{one} // at the same address, so that one machine has both
	other.restart(t)
	hangup.Move([]netip.Addr{netip.MustParseAddr("127.0.0.1")})
	b.store = other
	again := b.enter(Member{Index: -1, Size: 2, Host: "c"})
	worlds(t, moves.join(ctx), again.join(ctx))
}

// Texts of orders sort as addresses do.
func TestTheOrderOfStores(t *testing.T) {
	var last string
	for _, at := range []string{"9.0.0.1:1", "10.0.0.1:1", "10.0.0.2:1", "10.0.0.10:1", "[::1]:1", "[fd00::1]:1"} {
		now := orderOf([]netip.AddrPort{netip.MustParseAddrPort("[ff00::1]:1"), netip.MustParseAddrPort(at)})
		if now <= last {
			t.Errorf("%s: %q after %q", at, now, last)
		}
		last = now
	}
}
