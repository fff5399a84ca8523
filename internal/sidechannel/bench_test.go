package sidechannel

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

func benchListener(b *testing.B, token string) (maybe, *Listener) {
	b.Helper()
	k, err := keysOf(token)
	if err != nil {
		b.Fatal(err)
	}
	l, err := Listen(lo, k.server(), "bench", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(l.Close)
	return k, l
}

// One call on loopback, with all that it can measure.
func BenchmarkProbe(b *testing.B) {
	for name, token := range map[string]string{"plain": "", "token": "0123456789abcdef"} {
		for what, opt := range map[string]Options{"call": {}, "all": {IfMTU: 1500, Bulk: loadSize}} {
			b.Run(name+"/"+what, func(b *testing.B) {
				k, l := benchListener(b, token)
				for b.Loop() {
					if _, err := Probe(b.Context(), portOf(l), k.client(), opt); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// A thousand calls at once to one listener, as at the start of a large job.
func BenchmarkThousandProbes(b *testing.B) {
	for name, token := range map[string]string{"plain": "", "token": "0123456789abcdef"} {
		for what, opt := range map[string]Options{"call": {}, "all": {IfMTU: 1500, Bulk: loadSize}} {
			b.Run(name+"/"+what, func(b *testing.B) {
				k, l := benchListener(b, token)
				for b.Loop() {
					thousand(b, k, l, opt)
				}
			})
		}
	}
}

func thousand(b *testing.B, k maybe, l *Listener, opt Options) {
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	var calls sync.WaitGroup
	took, errs := make([]time.Duration, 1000), make([]error, 1000)
	for i := range took {
		calls.Go(func() {
			began := time.Now()
			var a Answer
			a, errs[i] = Probe(ctx, portOf(l), k.client(), opt)
			took[i] = time.Since(began)
			if o := a.Bulk; o.Out.Stalled || o.Back.Stalled || opt.IfMTU > 0 && a.MTU.Back != opt.IfMTU {
				b.Errorf("a false alarm: %+v", a)
			}
		})
	}
	calls.Wait()
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
			b.Log(err)
		}
	}
	b.ReportMetric(float64(failed), "failed")
	b.ReportMetric(slices.Max(took).Seconds(), "s/slowest")
}

func portOf(l *Listener) netip.AddrPort { return netip.AddrPortFrom(lo, uint16(l.Port())) }
