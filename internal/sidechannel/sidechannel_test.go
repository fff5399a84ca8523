package sidechannel

import (
	"context"
	"crypto/tls"
	"errors"
	"net/netip"
	"testing"
	"time"

	"launch/internal/secret"
)

var lo = netip.MustParseAddr("127.0.0.1")

func listen(t *testing.T, keys *tls.Config) (*Listener, netip.AddrPort) {
	t.Helper()
	l, err := Listen(lo, keys, "id of "+t.Name(), []byte("about "+t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, netip.AddrPortFrom(lo, uint16(l.Port()))
}

func keys(t *testing.T, token string) *secret.Keys {
	t.Helper()
	k, err := secret.Token(token).Keys("j"), secret.Token(token).Check()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestCallProvesTheSecretBothWays(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ours, other := keys(t, "0123456789abcdef"), keys(t, "fedcba9876543210")
	for _, tc := range []struct {
		name        string
		here, there *tls.Config
		ok          bool
	}{
		{"the same secret", ours.Client(), ours.Server(), true},
		{"none on both sides", nil, nil, true},
		{"another secret", other.Client(), ours.Server(), false},
		{"none here", nil, ours.Server(), false},
		{"none there", ours.Client(), nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, to := listen(t, tc.there)
			_, err := Probe(ctx, to, tc.here, Options{})
			if (err == nil) != tc.ok {
				t.Errorf("got %v", err)
			}
			if tc.here == other.Client() && !errors.Is(err, ErrSecret) {
				t.Errorf("got %v, want %v", err, ErrSecret)
			}
		})
	}
}

func TestACallToAFreePortIsRefused(t *testing.T) {
	l, to := listen(t, nil)
	l.Close()
	if _, err := Probe(t.Context(), to, nil, Options{}); CauseOf(err) != Refused {
		t.Errorf("got %v", err)
	}
}

func TestAListenerAnswersAboutItself(t *testing.T) {
	k := keys(t, "0123456789abcdef")
	for name, tc := range map[string]struct{ here, there *tls.Config }{"open": {},
		"with a secret": {k.Client(), k.Server()}} {
		t.Run(name, func(t *testing.T) {
			_, to := listen(t, tc.there)
			for asked, want := range map[bool]string{true: "about " + t.Name(), false: ""} {
				if a, err := Probe(t.Context(), to, tc.here, Options{About: asked}); err != nil || string(a.About) != want {
					t.Errorf("asked %v: %q, %v; want %q", asked, a.About, err, want)
				}
			}
		})
	}
	if l, err := Listen(lo, nil, "long", make([]byte, MaxAbout+1)); err == nil {
		l.Close()
		t.Error("more than a caller reads was taken")
	}
}
