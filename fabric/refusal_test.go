package fabric

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestWhatARouterRefuses(t *testing.T) {
	message := func(kind, code byte) []byte {
		b := append([]byte{kind, code, 0, 0, 0, 0, 0, 0}, make([]byte, 28)...)
		b[8] = 0x45
		copy(b[24:], []byte{10, 0, 0, 2})
		return b
	}
	to := netip.MustParseAddr("10.0.0.2")
	for name, tt := range map[string]struct {
		b    []byte
		want bool
	}{
		"no network": {message(3, 0), true}, "no host": {message(3, 1), true}, "no port": {message(3, 3), false},
		"too long": {message(3, 4), false}, "a filter": {message(3, 13), false}, "the limit ended": {message(11, 0), false},
		"cut": {message(3, 1)[:20], false}, "empty": {nil, false},
	} {
		if got, ok := refusedTo(tt.b); ok != tt.want || ok && got != to {
			t.Errorf("%s: %v, %t", name, got, ok)
		}
	}
}

// A router without a way says so of the first packet. Messages of this node itself, as where ARP has no answer, are
// left out.
func TestARefusalIsHeard(t *testing.T) {
	w := newWired(t)
	w.far("sysctl -qw net.ipv4.ip_forward=1; ip route add unreachable 10.9.0.0/24")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type said struct{ router, to netip.Addr }
	heard := make(chan said, 64)
	ended := make(chan error, 1)
	here, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this function
		if err := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); err != nil {
			ended <- err
			return
		}
		ended <- Refusals(ctx, func(router, to netip.Addr) { heard <- said{router, to} })
	}()
	select {
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(100 * time.Millisecond):
	}
	send := func(to string) {
		if c, err := net.Dial("udp", to); err == nil {
			_, _ = c.Write([]byte{0})
			c.Close()
		}
	}
	send("10.0.2.77:9") // no machine answers by ARP
	time.Sleep(3500 * time.Millisecond)
	send("10.9.0.5:9")
	select {
	case got := <-heard:
		if want := (said{netip.MustParseAddr("10.0.2.2"), netip.MustParseAddr("10.9.0.5")}); got != want {
			t.Errorf("heard %v, not %v", got, want)
		}
	case <-time.After(5 * time.Second):
		t.Error("nothing is heard")
	}
	cancel()
	<-ended
}
