package sidechannel

import (
	"context"
	"crypto/tls"
	"net/netip"
	"testing"
)

func TestHearSaysHowProgramsListen(t *testing.T) {
	k := keys(t, "0123456789abcdef")
	for name, tc := range map[string]struct{ here, there *tls.Config }{"open": {},
		"with a secret": {k.Client(), k.Server()}} {
		t.Run(name, func(t *testing.T) {
			l, to := listen(t, tc.there)
			if h, err := Hear(t.Context(), to, tc.here, l.id, 7); err == nil {
				t.Errorf("before Show: %q", h)
			}
			said := map[int]Hearing{7: Deaf, 8: Listens, 65535: Elsewhere}
			l.Show(func(context.Context, netip.Addr) []byte { return nil },
				func(_ context.Context, caller netip.Addr, port int) Hearing {
					if caller != lo {
						t.Errorf("the caller is %s", caller)
					}
					return said[port]
				})
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
	l.Show(func(context.Context, netip.Addr) []byte { return nil },
		func(context.Context, netip.Addr, int) Hearing { t.Error("a stranger is answered"); return Listens })
	if _, err := Hear(t.Context(), to, nil, l.id, 8); CauseOf(err) != Token {
		t.Error(err)
	}
}
