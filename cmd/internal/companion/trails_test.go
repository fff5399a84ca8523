package companion

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"launch/fabric"
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

// What a router said of itself counts where the way has a router, and nothing is heard of it now.
func TestWhatARouterSaidOfItselfCounts(t *testing.T) {
	to, router := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.254")
	silent := fabric.Trail{To: to, Router: router}
	arrived := silent
	arrived.Arrived = true
	for name, tt := range map[string]struct {
		now  fabric.Trail
		of   netip.Addr
		wait time.Duration
		want bool
	}{
		"silence since then":      {silent, to, time.Second, true},
		"packets arrive again":    {arrived, to, time.Second, false},
		"the node is a neighbour": {fabric.Trail{}, to, time.Second, false},
		"of another address":      {silent, router, time.Second, false},
		"it is long ago":          {silent, to, lateRefusal + time.Second, false},
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
