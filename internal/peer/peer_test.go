package peer

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T, secret string) (*Listener, netip.AddrPort) {
	t.Helper()
	lo := netip.MustParseAddr("127.0.0.1")
	l, err := Listen(lo, secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, netip.AddrPortFrom(lo, uint16(l.Port()))
}

func TestCallProvesTheSecretBothWays(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for _, tc := range []struct {
		name, here, there string
		want              error
	}{
		{"the same secret", "s", "s", nil},
		{"none on both sides", "", "", nil},
		{"another secret", "s", "x", ErrSecret},
		{"none here", "", "x", ErrSecret},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, to := listen(t, tc.there)
			if _, err := Call(ctx, to, tc.here); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestACallerWithoutTheSecretGetsNoEnd(t *testing.T) {
	_, to := listen(t, "s")
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write(make([]byte, nonceLen+macLen)) // a nonce, and a proof that is none
	buf := make([]byte, 256)
	n := 0
	for {
		k, err := c.Read(buf[n:])
		n += k
		if err != nil {
			break
		}
	}
	if n != nonceLen+macLen {
		t.Errorf("got %d bytes, want the listener's nonce and proof and no more", n)
	}
}

func TestACallToNothingSaysRefused(t *testing.T) {
	l, to := listen(t, "")
	l.Close()
	if _, err := Call(t.Context(), to, ""); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}
