package sidechannel

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"
)

// Small datagrams come back and large ones do not: that is the path, unless the
// other process has only just begun to answer.
func TestLateAnswersAreNoBlackHole(t *testing.T) {
	for name, tc := range map[string]struct {
		still, budget time.Duration
		want          bool
	}{
		"the path loses the large ones":             {0, soundBudget, true},
		"the process stood still until just before": {2*gapMin - gapMin/4, 3 * gapMin, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(lo, 0)))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			e := &echo{admits: map[pass]*admitted{{}: {from: lo, left: maxSoundings}}}
			go func() {
				in, began := make([]byte, 1<<16), time.Now()
				for {
					n, from, err := c.ReadFromUDPAddrPort(in)
					if err != nil {
						return
					}
					if out := e.reply(in[:n], from.Addr().Unmap()); n < 1000 && time.Since(began) >= tc.still {
						_, _ = c.WriteToUDPAddrPort(out, from)
					}
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), tc.budget)
			defer cancel()
			m := probeMTU(ctx, lo, c.LocalAddr().(*net.UDPAddr).AddrPort(), pass{}, 1500, 0)
			if m.BlackHole() != tc.want {
				t.Errorf("got %+v; want a black hole: %t", m, tc.want)
			}
		})
	}
}
