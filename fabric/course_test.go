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
	before := Course{Interface: "eth0", Index: 2, Gateway: router, Table: unix.RT_TABLE_MAIN,
		Hardware: "02:00:00:00:00:02"}
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
		{"it has that address itself", turned(func(c *Course) { c.Interface, c.Index, c.Local = "lo", 1, true }),
			"this node has 10.66.0.1 itself now, on lo: its packets for that address do not leave it", "grep -wF 10.66.0.1"},
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

// TestAnAddressThatAnotherMachineHasNow: this node itself, another way, or another neighbour. A neighbour of which the
// kernel knows nothing now, and a router with another hardware address, are no such case.
func TestAnAddressThatAnotherMachineHasNow(t *testing.T) {
	from, to := netip.MustParseAddrPort("10.66.0.2:40000"), netip.MustParseAddrPort("10.66.0.1:29377")
	before := Course{Interface: "eth0", Index: 2, Table: unix.RT_TABLE_MAIN, Neighbour: "02:00:00:00:00:01"}
	moved := func(change func(*Course)) Course {
		c := before
		change(&c)
		return c
	}
	for _, tt := range []struct {
		name   string
		now    Course
		sharer string
		why    string
	}{
		{"as before", before, "", ""},
		{"not known now", moved(func(c *Course) { c.Neighbour = "" }), "", ""},
		{"a new address of this node's own interface", moved(func(c *Course) { c.Hardware = "02:00:00:00:00:09" }), "", ""},
		{"a bridge of docker", moved(func(c *Course) { c.Interface, c.Index, c.Local = "lo", 1, true }), "",
			"this node has 10.66.0.1 itself now, on lo"},
		{"another route", moved(func(c *Course) { c.Interface, c.Index = "br-1", 7 }), "",
			"this node sends packets from 10.66.0.2 to 10.66.0.1 by br-1 now, and sent them by eth0"},
		{"another machine", moved(func(c *Course) { c.Neighbour = "02:00:00:00:00:77" }), "",
			"10.66.0.1 is at another hardware address now, 02:00:00:00:00:77: another machine has that address, or its node"},
		{"another node", moved(func(c *Course) { c.Neighbour = "02:00:00:00:00:03" }), "host2 (10.66.0.3)",
			"02:00:00:00:00:03: as host2 (10.66.0.3) has; while packets arrived it was at 02:00:00:00:00:01"},
	} {
		got := tt.now.Moved(before, from, to, tt.sharer)
		if (got.Why == "") != (tt.why == "") || !strings.HasPrefix(got.Why, tt.why) && !strings.Contains(got.Why, tt.why) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// TestAnInterfaceThatDoesNotExistAnyMore: one that exists, one that was never known, and an address that another
// interface has by now are no such case.
func TestAnInterfaceThatDoesNotExistAnyMore(t *testing.T) {
	gone, lo := netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("127.0.0.1")
	const never = 1 << 30 // no interface has that index
	for _, tt := range []struct {
		name string
		was  Course
		own  netip.Addr
		want bool
	}{
		{"it was deleted", Course{Carrier: "eth0, a macvlan", Carried: never}, gone, true},
		{"only its address is gone", Course{Carrier: "lo", Carried: 1}, gone, false},
		{"it was made anew", Course{Carrier: "eth0, a macvlan", Carried: never}, lo, false},
		{"not known", Course{}, gone, false},
	} {
		if got := tt.was.Deleted(tt.own); (got.Why != "") != tt.want || tt.want &&
			!strings.Contains(got.Why, "had its address 192.0.2.77 (eth0, a macvlan)") {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}
