package companion

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"launch/internal/sidechannel"
	"launch/rendezvous"
)

// The command of another node would take the door at rank 0's port for the job's own store.
func TestANodeWaitsUntilTheDoorOfTheHostIsShut(t *testing.T) {
	host, err := sidechannel.Listen(lo, nil, "id", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	p := &companion{ctx: t.Context(), spec: &Spec{Job: "j"}}
	waited := make(chan none)
	go func() {
		p.awaitQuiet(t.Context(), rendezvous.Partner{ID: "id", Addr: lo, Peer: host.Port()})
		close(waited)
	}()
	select {
	case <-waited:
		t.Fatal("it did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	d := &doctor{p: p}
	d.world.Store(&rendezvous.World{})
	host.Show(func(context.Context, netip.Addr, int) []byte { return nil }, d.heard)
	<-waited
	began := time.Now()
	p.awaitQuiet(t.Context(), rendezvous.Partner{ID: "id", Addr: lo, Peer: 1}) // its command has ended already
	if took := time.Since(began); took > quietBudget/2 {
		t.Errorf("after %s", took)
	}
}

func TestANodeHearsWhatListensOnAnother(t *testing.T) {
	_, n := nodeOf(t, "", lo, rendezvous.Partner{Addr: lo})
	_, far := nodeOf(t, "", netip.MustParseAddr("127.0.0.9"), rendezvous.Partner{Addr: netip.MustParseAddr("127.0.0.8")})
	open := func(at string) int {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l.Addr().(*net.TCPAddr).Port
	}
	all, mine, other := open("[::]:0"), open("127.0.0.1:0"), open("127.0.0.7:0")
	for _, tt := range []struct {
		node rendezvous.Partner
		port int
		want sidechannel.Hearing
	}{
		{n, all, sidechannel.Listens}, {n, mine, sidechannel.Listens}, {n, other, sidechannel.Elsewhere},
		{n, 1, sidechannel.Deaf}, {n, 0, sidechannel.Deaf},
		{far, all, sidechannel.Deaf}, // a stranger learns nothing
	} {
		at := netip.AddrPortFrom(tt.node.Addr, uint16(tt.node.Peer))
		if h, err := sidechannel.Hear(t.Context(), at, nil, tt.node.ID, tt.port); err != nil || h != tt.want {
			t.Errorf("port %d of %s: %q, %v; want %q", tt.port, tt.node.Addr, h, err, tt.want)
		}
	}
}
