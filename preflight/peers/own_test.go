package peers

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"launch/fabric"
	"launch/internal/sidechannel"
	"launch/preflight/calls"
)

// A node with another one's address is to leave, and not the one whose address it is.
func TestANodeThatHasTheAddressOfAnotherOne(t *testing.T) {
	all := calling(4, func(from, to int, c *calls.Call) {
		switch {
		case from == 2 && to == 1:
			c.Cause, c.Err, c.Own = sidechannel.Refused, "connection refused", "lo"
		case from == 1 && to == 2:
			drop(c)
		}
	})
	for i := range all {
		all[i].Traits.Machine = all[i].Name
	}
	d := Decide(all, nil)
	var said []string
	for _, f := range d.All() {
		said = append(said, string(f.Status)+" "+f.ID+" "+f.What)
	}
	const want = "fail peer.identity host2 has the address 10.0.0.1 of host1, too, on lo"
	if got := strings.Join(said, "; "); got != want {
		t.Errorf("said %q, not %q", got, want)
	}
	if len(d.Unfit) != 1 || d.Unfit[0] != 2 {
		t.Errorf("%v leave, not 2", d.Unfit)
	}
}

// A node that takes packets to another one's address answers for it, too: what third nodes see is no fault of the other
// one. An address that no node is called at, and one where no call failed, are no reason.
func TestAnAddressInTheTableLocalOfAnotherNode(t *testing.T) {
	refused := func(c *calls.Call) { c.Cause, c.Err = sidechannel.Refused, "connection refused" }
	for name, tt := range map[string]struct {
		n      int
		held   string // by host4
		answer func(from, to int, c *calls.Call)
		want   string
		unfit  []int
	}{
		"most calls reach the other machine": {5, "10.0.0.1", func(from, to int, c *calls.Call) {
			switch {
			case to == 1 && from != 0:
				refused(c)
			case from == 1 && to == 4:
				c.Cause, c.Err = sidechannel.NoHost, "no route to host"
			}
		}, "fail peer.identity host4 takes the address 10.0.0.1 of host1 for its own: its table local has it, and no " +
			"interface does", []int{4}},
		"a node that does not call it": {12, "10.0.0.7", func(from, to int, c *calls.Call) {
			if to == 7 && from == 6 {
				c.Other = "id4"
			}
		}, "fail peer.identity host4 takes the address 10.0.0.7 of host7 for its own: its table local has it, and no " +
			"interface does", []int{4}},
		"a firewall, too": {5, "10.0.0.1", func(from, to int, c *calls.Call) {
			switch {
			case to == 3:
				drop(c)
			case to == 1 && from == 4:
				refused(c)
			}
		}, "fail peer.identity host4 takes the address 10.0.0.1 of host1 for its own: its table local has it, and no " +
			"interface does; fail peer.reach calls to host3 do not get through (4 of 4 tried), while those from it do: no " +
			"answer within 8s (dropped, as by a firewall)", []int{3, 4}},
		"an address of no node": {5, "10.0.0.77", func(_, to int, c *calls.Call) {
			if to == 1 {
				refused(c)
			}
		}, "fail peer.reach calls to host1 do not get through (4 of 4 tried), while those from it do: connection refused",
			[]int{1}},
		"no call has failed": {5, "10.0.0.1", func(int, int, *calls.Call) {}, "", nil},
		"only a firewall drops": {12, "10.0.0.7", func(_, to int, c *calls.Call) {
			if to == 7 {
				drop(c)
			}
		}, "fail peer.reach calls to host7 do not get through (4 of 4 tried), while those from it do: no answer within 8s " +
			"(dropped, as by a firewall)", []int{7}},
	} {
		all := calling(tt.n, tt.answer)
		for i := range all {
			all[i].Traits.Machine, all[i].ID = all[i].Name, fmt.Sprintf("id%d", i)
			all[i].Addr = netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
		}
		all[4].Held = map[netip.Addr]string{netip.MustParseAddr(tt.held): ""}
		d := Decide(all, nil)
		var said []string
		for _, f := range d.All() {
			said = append(said, string(f.Status)+" "+f.ID+" "+f.What)
		}
		if got := strings.Join(said, "; "); got != tt.want || !slices.Equal(d.Unfit, tt.unfit) {
			t.Errorf("%s: said %q, not %q; %v leave, not %v", name, got, tt.want, d.Unfit, tt.unfit)
		}
	}
}

// What a caller's own tables say of its call is no fault of the called node, whatever the others see of that one.
func TestAFactOfACallerIsSaidWhereOthersFailToo(t *testing.T) {
	said := fabric.Fault{Why: "this node's NAT (nat) sends packets on", Do: "nft list ruleset"}
	d := Decide(calling(5, func(from, to int, c *calls.Call) {
		if to == 1 && from != 0 {
			drop(c)
		}
		if to == 1 && from == 4 {
			c.Here, c.Wrong = true, said
		}
	}), nil)
	var got []string
	for _, f := range d.All() {
		got = append(got, f.What)
	}
	want := []string{"calls to host1 do not get through (2 of 3 tried), while those from it do: no answer within 8s " +
		"(dropped, as by a firewall)",
		"calls from host4 to host1 do not get through, while those back do: host4: " + said.Why}
	if !slices.Equal(got, want) || !slices.Equal(d.Unfit, []int{1, 4}) {
		t.Errorf("said %q; %v leave", got, d.Unfit)
	}
}

// The addresses in the network of a node's own one count, and those that only its table local has.
func TestTheAddressesThatANodeHolds(t *testing.T) {
	p := netip.MustParsePrefix
	n := fabric.Node{Interfaces: []fabric.Interface{
		{Name: "lo", Up: true, Addrs: []netip.Prefix{p("127.0.0.1/8"), p("10.0.0.9/32")}},
		{Name: "eth0", Up: true, Addrs: []netip.Prefix{p("10.0.0.1/24"), p("10.0.0.2/24")}},
		{Name: "docker0", Up: true, Addrs: []netip.Prefix{p("172.17.0.1/16")}},
		{Name: "eth2", Up: true, Addrs: []netip.Prefix{p("10.9.0.1/24")}},
		{Name: "eth1", Addrs: []netip.Prefix{p("10.0.0.3/24")}},
	}}
	a := netip.MustParseAddr
	got := HeldBy(n, a("10.0.0.1"), []netip.Addr{a("34.1.2.3")}, []netip.Addr{a("10.0.0.1"), a("10.9.0.1"), a("10.8.0.1")})
	want := map[netip.Addr]string{a("10.0.0.9"): "lo", a("10.9.0.1"): "eth2", a("10.0.0.2"): "eth0", a("34.1.2.3"): ""}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, not %v", got, want)
	}
}
