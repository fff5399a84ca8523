package sidechannel

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

func door(t *testing.T, id string) (*Door, netip.AddrPort) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d, err := OpenDoor(l, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Shut)
	return d, l.Addr().(*net.TCPAddr).AddrPort()
}

func TestADoorSaysWhoseThePortIs(t *testing.T) {
	_, at := door(t, "ABC")
	var all sync.WaitGroup
	for range 200 { // more than it serves at once
		all.Go(func() {
			if id, err := Knock(t.Context(), at, netip.Addr{}); id != "ABC" || err != nil {
				t.Errorf("got %q, %v", id, err)
			}
		})
	}
	all.Wait()
}

func TestAShutDoorRefuses(t *testing.T) {
	d, at := door(t, "ABC")
	c, err := net.Dial("tcp", at.String()) // a caller that stays
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	d.Shut()
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v to shut", took)
	}
	if _, err := Knock(t.Context(), at, netip.Addr{}); CauseOf(err) != Refused {
		t.Errorf("got %v", err)
	}
}

func TestKnockEndsWithWhateverListens(t *testing.T) {
	for name, c := range map[string]struct {
		says string
		stay bool
		want Cause
	}{
		"nothing":        {"", true, Silent},
		"closes":         {"", false, Reset},
		"half a line":    {"launch-po", false, Reset},
		"another word":   {"SSH-2.0-x\r\n", true, Stranger},
		"a line, no end": {strings.Repeat("x", 1<<20), true, Stranger},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				c2, err := l.Accept()
				if err != nil {
					return
				}
				defer c2.Close()
				_, _ = io.WriteString(c2, c.says)
				if c.stay {
					_, _ = io.Copy(io.Discard, c2)
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			id, err := Knock(ctx, l.Addr().(*net.TCPAddr).AddrPort(), netip.Addr{})
			if id != "" || CauseOf(err) != c.want {
				t.Errorf("got %q, %v (%s); want %s", id, err, CauseOf(err), c.want)
			}
		})
	}
}

func TestADoorsIDIsBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := OpenDoor(l, strings.Repeat("x", maxID+1)); err == nil {
		t.Error("no error")
	}
}
