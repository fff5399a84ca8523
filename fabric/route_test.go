package fabric

import (
	"net/netip"
	"testing"
)

func TestRouteToAnOwnAddressNamesItsInterface(t *testing.T) {
	n := Detect(t.Context(), Live(), Options{})
	tried := 0
	for _, f := range n.Interfaces {
		for _, p := range f.Addrs {
			if !f.Up || p.Addr().IsLinkLocalUnicast() {
				continue
			}
			tried++
			got, err := RouteTo(p.Addr())
			if want := (Route{Src: p.Addr(), Interface: f.Name}); err != nil || got != want {
				t.Errorf("RouteTo(%v) = %+v, %v, want %+v", p.Addr(), got, err, want)
			}
		}
	}
	if tried == 0 {
		t.Skip("no interface of this machine is up")
	}
}

func TestBothWaysOfAskingForARouteAgree(t *testing.T) {
	for _, s := range []string{"127.0.0.1", "127.1.2.3", "192.0.2.1", "::1", "2001:db8::1"} {
		dst := netip.MustParseAddr(s)
		asked, err1 := routeByNetlink(dst)
		chosen, err2 := routeByConnect(dst)
		if (err1 == nil) != (err2 == nil) || asked.Src != chosen.Src {
			t.Errorf("to %s: netlink returns %v, %v; connect returns %v, %v", s, asked.Src, err1, chosen.Src, err2)
		}
		t.Logf("to %s: %+v, %v", s, asked, err1)
	}
}

func TestRouteToReturnsTheKernelsError(t *testing.T) {
	// 240.0.0.0/4 is reserved; most machines send it by the default route, so the test
	// checks only the form of either answer.
	got, err := RouteTo(netip.MustParseAddr("240.0.0.1"))
	if (err == nil) != (got.Interface != "" && got.Src.IsValid()) {
		t.Errorf("RouteTo = %+v, %v, want a whole route or an error", got, err)
	}
	if _, err := RouteTo(netip.MustParseAddr("fe80::1%nosuchif0")); err == nil {
		t.Error("RouteTo by an interface that does not exist gave a route")
	}
}
