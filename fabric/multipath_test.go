package fabric

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestTheNextHopWithoutAnAnswer(t *testing.T) {
	to, src := netip.MustParseAddrPort("10.66.0.1:29377"), netip.MustParseAddr("10.66.0.2")
	ends := func(ports ...uint16) (out []netip.AddrPort) {
		for _, p := range ports {
			out = append(out, netip.AddrPortFrom(src, p))
		}
		return out
	}
	byPort := func(a netip.AddrPort) (hop, error) {
		gateway := netip.MustParseAddr("10.66.0.253")
		if a.Port()%2 == 1 {
			gateway = netip.MustParseAddr("10.66.0.252")
		}
		return hop{src: src, iface: "eth0", gateway: gateway, table: 254}, nil
	}
	one := func(netip.AddrPort) (hop, error) { return hop{src: src, iface: "eth0", table: 254}, nil }
	unknown := func(netip.AddrPort) (hop, error) { return hop{}, errors.New("netlink is forbidden") }
	for _, tt := range []struct {
		name      string
		bad, good []netip.AddrPort
		ask       func(netip.AddrPort) (hop, error)
		want      string
	}{
		{"one is dead", ends(1, 3, 5, 7), ends(2, 4, 6, 8), byPort,
			"by 10.66.0.252 on eth0 get no answer (4 of 8), while those by 10.66.0.253 on eth0 open"},
		{"both live, and a limit", ends(1, 2, 5, 7), ends(3, 4, 6, 8), byPort, ""},
		{"the dead one opened once", ends(1, 3, 5), ends(2, 4, 6, 7, 8), byPort, ""},
		{"one next hop, and a limit", ends(1, 3, 5, 7), ends(2, 4, 6, 8), one, ""},
		{"too few to say", ends(1, 3), ends(2, 4), byPort, ""},
		{"none opened", ends(1, 3, 5, 7, 9, 11, 13, 15), nil, byPort, ""},
		{"not known", ends(1, 3, 5, 7), ends(2, 4, 6, 8), unknown, ""},
	} {
		got := deadLeg(tt.bad, tt.good, to, tt.ask)
		if (got.Why == "") != (tt.want == "") || !strings.Contains(got.Why, tt.want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}
