package companion

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"launch/fabric"
	"launch/rendezvous"
)

// A router says once that it has no way, and then nothing for a while: what it said counts until a packet gets farther,
// or for some minutes.
func TestWhatARouterSaysOnceRemainsKnown(t *testing.T) {
	to, router := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.254")
	silent := fabric.Trail{To: to, Router: router}
	refused, arrived, farther, turned := silent, silent, silent, silent
	refused.Refused, arrived.Arrived, farther.Hops = router, true, []netip.Addr{router}
	turned.Router = netip.MustParseAddr("10.0.0.253")
	for name, tt := range map[string]struct {
		next fabric.Trail
		wait time.Duration
		asks int
		want bool // that the refusal counts
	}{
		"within a look":            {arrived, freshTrail / 2, 1, true},
		"nothing after that":       {silent, 2 * freshTrail, 2, true},
		"it arrives after that":    {arrived, 2 * freshTrail, 2, false},
		"it gets farther":          {farther, 2 * freshTrail, 2, false},
		"it goes by another one":   {turned, 2 * freshTrail, 2, false},
		"nothing, and much later":  {silent, refusedTrail + time.Second, 2, false},
		"refused again much later": {refused, refusedTrail + time.Second, 2, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			ways := trails{trace: func(context.Context, netip.Addr) fabric.Trail {
				if asked++; asked > 1 {
					return tt.next
				}
				return refused
			}}
			ways.begin(t.Context(), []netip.Addr{to})
			time.Sleep(tt.wait)
			if got := ways.of(t.Context(), to); got.Refused.IsValid() != tt.want || asked != tt.asks {
				t.Errorf("%s: asked %d times: %+v", name, asked, got)
			}
		})
	}
}

// What a router said without being asked counts where the way has a router, and nothing is heard of it now.
func TestWhatARouterSaidOfItselfCounts(t *testing.T) {
	to, router := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.254")
	silent := fabric.Trail{To: to, Router: router}
	arrived := silent
	arrived.Arrived = true
	for name, tt := range map[string]struct {
		now  fabric.Trail
		of   netip.Addr
		wait time.Duration
		want bool // that it counts
	}{
		"silence since then":      {silent, to, time.Second, true},
		"packets arrive again":    {arrived, to, time.Second, false},
		"the node is a neighbour": {fabric.Trail{}, to, time.Second, false},
		"of another address":      {silent, router, time.Second, false},
		"it is long ago":          {silent, to, lateRefusal + time.Second, false},
		"of another way": {fabric.Trail{To: to, Router: netip.MustParseAddr("10.0.1.254")}, to, time.Second,
			false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ways := trails{trace: func(context.Context, netip.Addr) fabric.Trail { return tt.now }}
			ways.refusedBy(router, tt.of)
			time.Sleep(tt.wait)
			if got := ways.of(t.Context(), to); got.Refused.IsValid() != tt.want {
				t.Errorf("%s: %+v", name, got)
			}
		})
	}
}

// Where many addresses were refused, old ones make room for new ones.
func TestOldRefusalsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ways trails
		router := netip.MustParseAddr("10.0.0.254")
		at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}) }
		for i := range maxRefused {
			ways.refusedBy(router, at(i))
		}
		ways.refusedBy(router, at(maxRefused))
		if _, known := ways.refused[at(maxRefused)]; known || len(ways.refused) != maxRefused {
			t.Errorf("%d are known, the last one: %t", len(ways.refused), known)
		}
		time.Sleep(lateRefusal)
		ways.refusedBy(router, at(maxRefused))
		if _, known := ways.refused[at(maxRefused)]; !known || len(ways.refused) != 1 {
			t.Errorf("later %d are known, the last one: %t", len(ways.refused), known)
		}
	})
}

// What routers say is heard all the time, and the ways are asked for before a look makes calls.
func TestTheWaysAreAskedForBeforeALook(t *testing.T) {
	to, router := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.254")
	for name, look := range map[string]func(context.Context, *doctor){
		"what launch doctor shows": func(ctx context.Context, d *doctor) { d.all(ctx) },
		"a stuck connection":       func(ctx context.Context, d *doctor) { d.watchPaths(ctx) },
	} {
		d, _ := nodeOf(t, "", lo)
		d.known = []rendezvous.Partner{} // no store is asked
		d.p.command.Store(int64(os.Getpid()))
		heard := false
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), stuckPoll+time.Second)
			defer cancel()
			asked := 0
			d.stalled = func(func() []int) []netip.Addr { return []netip.Addr{to} }
			d.trails.trace = func(context.Context, netip.Addr) fabric.Trail { asked++; return fabric.Trail{} }
			d.trails.listen = func(_ context.Context, take func(router, to netip.Addr)) error {
				heard = true
				take(router, to)
				return nil
			}
			if look(ctx, d); asked != 1 {
				t.Errorf("%s: asked %d times", name, asked)
			}
		})
		if heard != (name == "a stuck connection") || heard && d.trails.refused[to].router != router {
			t.Errorf("%s: heard is %t: %v", name, heard, d.trails.refused)
		}
	}
}
