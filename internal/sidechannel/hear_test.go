package sidechannel

import (
	"context"
	"crypto/tls"
	"net/netip"
	"testing"
	"time"
)

func TestFewCallersWaitForShow(t *testing.T) {
	l, to := listen(t, nil)
	for range maxEarly {
		l.early <- struct{}{}
	}
	if h, err := Hear(t.Context(), to, nil, l.id, 7); err == nil {
		t.Errorf("an answer before Show: %q", h)
	}
	<-l.early
	l.Show(func(context.Context, netip.Addr, int) []byte { return nil },
		func(context.Context, netip.Addr, int) Hearing { return Listens })
	if h, err := Hear(t.Context(), to, nil, l.id, 7); err != nil || h != Listens {
		t.Errorf("after Show: %q, %v", h, err)
	}
}

func TestHearSaysHowProgramsListen(t *testing.T) {
	k := keys(t, "0123456789abcdef")
	for name, tc := range map[string]struct{ here, there *tls.Config }{"open": {},
		"with a secret": {k.Client(), k.Server()}} {
		t.Run(name, func(t *testing.T) {
			l, to := listen(t, tc.there)
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if h, err := Hear(short, to, tc.here, l.id, 7); err == nil {
				t.Errorf("before Show: %q", h)
			}
			cancel()
			for len(l.early) > 0 { // a caller that has hung up takes no place
				time.Sleep(time.Millisecond)
			}
			said := map[int]Hearing{7: Deaf, 8: Listens, 65535: Elsewhere}
			early := make(chan Hearing)
			go func() {
				h, err := Hear(t.Context(), to, tc.here, l.id, 8)
				if err != nil {
					t.Errorf("a caller that was there before Show: %v", err)
				}
				early <- h
			}()
			for len(l.early) == 0 {
				time.Sleep(time.Millisecond)
			}
			l.Show(func(context.Context, netip.Addr, int) []byte { return nil },
				func(_ context.Context, caller netip.Addr, port int) Hearing {
					if caller != lo {
						t.Errorf("the caller is %s", caller)
					}
					return said[port]
				})
			if h := <-early; h != said[8] {
				t.Errorf("a caller that was there before Show: %q", h)
			}
			for port, want := range said {
				if h, err := Hear(t.Context(), to, tc.here, l.id, port); err != nil || h != want {
					t.Errorf("port %d: %q, %v; want %q", port, h, err, want)
				}
			}
			if h, err := Hear(t.Context(), to, tc.here, l.id, 9); err == nil {
				t.Errorf("an answer that is none: %q", h)
			}
			if _, err := Hear(t.Context(), to, tc.here, "another ID", 8); CauseOf(err) != Stranger {
				t.Errorf("another ID: %v", err)
			}
		})
	}
}

func TestHearTellsNothingWithoutTheSecret(t *testing.T) {
	l, to := listen(t, keys(t, "0123456789abcdef").Server())
	l.Show(func(context.Context, netip.Addr, int) []byte { return nil },
		func(context.Context, netip.Addr, int) Hearing { t.Error("a stranger is answered"); return Listens })
	if _, err := Hear(t.Context(), to, nil, l.id, 8); CauseOf(err) != Token {
		t.Error(err)
	}
}
