package rendezvous

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// A node that moves to another store has seen the end of the last one; one that has no connection has not.
func TestAMoveEndsTheConnectionsToOtherAddresses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here, there := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	began := time.Now()
	var h Hangup
	h.Move([]netip.Addr{here})
	if h.within(began, time.Minute) {
		t.Error("without a connection nothing ended")
	}
	c, err := h.dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if h.Move([]netip.Addr{there, here}); h.within(began, time.Minute) || !slices.Contains(h.Connected(), here) {
		t.Errorf("connected to %v: the address is one of those", h.Connected())
	}
	if h.Move([]netip.Addr{there}); !h.within(began, time.Minute) || len(h.Connected()) > 0 {
		t.Errorf("connected to %v: the store is elsewhere", h.Connected())
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the old connection can be read")
	}
	if at := h.places("train-0.train:29377"); !slices.Equal(at, []string{"127.0.0.2:29377"}) {
		t.Errorf("dials %v", at)
	}
}
