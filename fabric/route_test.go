package fabric

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
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

func TestTheFactsHaveTheRouteToAnAddress(t *testing.T) {
	link := func(name string, up bool, addrs ...string) Interface {
		f := Interface{Name: name, Up: up}
		for _, a := range addrs {
			f.Addrs = append(f.Addrs, netip.MustParsePrefix(a))
		}
		return f
	}
	n := Node{Route: Route{Src: netip.MustParseAddr("192.168.1.50"), Interface: "enP7s7"}, Interfaces: []Interface{
		link("lo", true, "127.0.0.1/8", "::1/128"), link("eth9", false, "10.200.0.9/24"),
		link("rail0", true, "10.0.0.2/8", "fe80::1/64"), link("rail1", true, "10.100.0.13/24", "fe80::2/64", "fd00:1::5/64"),
		link("enP7s7", true, "192.168.1.50/24"),
	}}
	for dst, want := range map[string]string{
		"10.100.0.12": "10.100.0.13 rail1", "::ffff:10.100.0.12": "10.100.0.13 rail1", "10.100.0.13": "10.100.0.13 rail1",
		"10.7.7.7": "10.0.0.2 rail0", "192.168.1.7": "192.168.1.50 enP7s7", "8.8.8.8": "192.168.1.50 enP7s7",
		"10.200.0.7": "10.0.0.2 rail0", "127.0.0.1": "127.0.0.1 lo", "fd00:1::9": "fd00:1::5 rail1",
		"fe80::9%rail1": "fe80::2 rail1", "2001:db8::1": "", "fe80::9%gone": "",
	} {
		got := ""
		if r, err := n.RouteTo(netip.MustParseAddr(dst)); err == nil {
			got = r.Src.String() + " " + r.Interface
		}
		if got != want {
			t.Errorf("to %s: %q, want %q", dst, got, want)
		}
	}
	if r, err := (Node{}).RouteTo(farAway); err == nil {
		t.Errorf("without facts: %+v", r)
	}
}

// A rule by source chooses the table of an address; one that takes all sources, or marked packets alone, does not.
func TestRulesBySource(t *testing.T) {
	rule := func(src string, edit func(*netlink.Rule)) netlink.Rule {
		r := netlink.NewRule()
		if _, n, err := net.ParseCIDR(src); err == nil {
			r.Src = n
		}
		if edit != nil {
			edit(r)
		}
		return *r
	}
	for name, tt := range map[string]struct {
		rule netlink.Rule
		want bool
	}{
		"its address":            {rule("10.9.0.2/32", nil), true},
		"its network":            {rule("10.9.0.0/24", nil), true},
		"another address":        {rule("10.9.0.3/32", nil), false},
		"all":                    {rule("", nil), false},
		"every source":           {rule("0.0.0.0/0", nil), false},
		"marked packets":         {rule("10.9.0.2/32", func(r *netlink.Rule) { r.Mark = 1 }), false},
		"what is sent from here": {rule("10.9.0.2/32", func(r *netlink.Rule) { r.IifName = "lo" }), true},
		"bound to an interface":  {rule("10.9.0.2/32", func(r *netlink.Rule) { r.OifName = "e0" }), false},
		"what is forwarded":      {rule("10.9.0.2/32", func(r *netlink.Rule) { r.IifName = "e0" }), false},
	} {
		if got := ruled([]netlink.Rule{tt.rule}, netip.MustParseAddr("10.9.0.2")); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
