package sidechannel

import (
	"context"
	"net/netip"
	"time"
)

// A limit on new connections that time lifts lets slowFlows connections open that begin slowPace apart, and a limit on
// their number does not: this end holds them, so that they count after the listener has closed its own.
const slowFlows, slowPace = 6, 1200 * time.Millisecond

// OpensSlowly reports whether a few connections to a port open that begin one after another, and are held.
func OpensSlowly(ctx context.Context, to netip.AddrPort, opt Options) bool {
	for i := range slowFlows {
		if i > 0 {
			select {
			case <-time.After(slowPace):
			case <-ctx.Done():
				return false
			}
		}
		short, cancel := context.WithTimeout(ctx, knockBudget)
		c, err := dial(short, to, opt.From, opt.Via)
		cancel()
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetLinger(0)
	}
	return true
}
