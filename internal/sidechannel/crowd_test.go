package sidechannel

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/sockaddr"
)

// fullListener returns a listener that answers no SYN packet, since its queue is full, and what takes one from it.
func fullListener(t *testing.T) (at netip.AddrPort, take func() error) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, sockaddr.Of(netip.MustParseAddrPort("127.0.0.1:0"))); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at = sockaddr.From(own)
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return at, func() error {
		one, _, err := unix.Accept(fd)
		if err == nil {
			err = unix.Close(one)
		}
		return err
	}
}

// A listener waits for a hello only for two seconds: the call must not wait for its further connections.
func TestAConnectionThatOpensLateIsUsedAtOnce(t *testing.T) {
	t.Parallel()
	to, take := fullListener(t)
	began := time.Now()
	time.AfterFunc(2500*time.Millisecond, func() { _ = take() })
	var a Answer
	c, running, err := a.connect(t.Context(), to, Options{Crowd: 3})
	took := time.Since(began)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if running == nil || took > 4*time.Second {
		t.Errorf("open after %s, with a crowd: %v", took, running != nil)
	}
	running.end()
	if running.flows.Tried != 0 {
		t.Errorf("attempts that ended early count: %+v", running.flows)
	}
}

func TestAttemptsThatTheCallerEndsAreNotCounted(t *testing.T) {
	t.Parallel()
	to, _ := fullListener(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if f, _ := OpenFlows(ctx, to, Options{}, 3); f != (Flows{}) {
		t.Errorf("got %+v", f)
	}
}

func TestOnlyAttemptsThatWereMadeAreCompared(t *testing.T) {
	open, silent, failed := attempt{open: true}, attempt{}, attempt{failed: true}
	for name, tc := range map[string]struct {
		first, second []attempt
		want          Retry
	}{
		"the ports decide":            {[]attempt{silent, silent}, []attempt{open}, Same},
		"one port is in use":          {[]attempt{silent, failed}, []attempt{open, failed}, Same},
		"none could be tried again":   {[]attempt{failed}, []attempt{open}, ""},
		"no good one was tried again": {[]attempt{silent}, []attempt{failed}, Others},
		"all open":                    {[]attempt{open, failed}, []attempt{open}, All},
		"others do not open":          {[]attempt{silent, open}, []attempt{open}, Others},
	} {
		if got := compare(tc.first, tc.second); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	at := held.Addr().(*net.TCPAddr).AddrPort()
	if got, _ := again(t.Context(), at, Options{}, []netip.AddrPort{at}, nil); got != "" {
		t.Errorf("a port in use: got %q", got)
	}
}
