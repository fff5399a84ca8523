package fabric

import (
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAWayThatHasTurned: another interface or router, or another hardware address. A new name of an interface does not
// count.
func TestAWayThatHasTurned(t *testing.T) {
	from, to := netip.MustParseAddrPort("10.68.0.2:40000"), netip.MustParseAddrPort("10.66.0.1:50000")
	router, other := netip.MustParseAddr("10.68.0.254"), netip.MustParseAddr("10.68.0.9")
	before := Course{"eth0", 2, router, unix.RT_TABLE_MAIN, false, "02:00:00:00:00:02"}
	turned := func(change func(*Course)) Course {
		c := before
		change(&c)
		return c
	}
	for _, tt := range []struct {
		name     string
		now      Course
		why, fix string
	}{
		{"as before", before, "", ""},
		{"a new name", turned(func(c *Course) { c.Interface = "ens5" }), "", ""},
		{"another table with the same route", turned(func(c *Course) { c.Table = 100 }), "", ""},
		{"a VPN", turned(func(c *Course) { c.Interface, c.Index, c.Gateway, c.Table = "wg0", 5, netip.Addr{}, 51820 }),
			"this node sends packets from 10.68.0.2 to 10.66.0.1 by wg0 (routing table 51820) now, and sent them by eth0 to " +
				"the router 10.68.0.254 while they arrived", "ip route get 10.66.0.1 from 10.68.0.2"},
		{"a redirect", turned(func(c *Course) { c.Gateway, c.Redirect = other, true }), "an ICMP redirect",
			"net.ipv4.conf.eth0.accept_redirects=0"},
		{"another hardware address", turned(func(c *Course) { c.Hardware = "02:00:00:00:01:77" }),
			"another hardware address now, 02:00:00:00:01:77, and had 02:00:00:00:00:02", "lladdr 02:00:00:00:01:77"},
	} {
		got := tt.now.Turned(before, from, to)
		if (got.Why == "") != (tt.why == "") || !strings.Contains(got.Why, tt.why) || !strings.Contains(got.Do, tt.fix) {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if tt.now.Same(before) != (tt.why == "") {
			t.Errorf("%s: the same: %t", tt.name, tt.now.Same(before))
		}
	}
}
