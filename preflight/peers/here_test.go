package peers

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"launch/fabric"
	"launch/internal/sidechannel"
	"launch/preflight/calls"
)

// TestANodeWhoseOwnKernelRefusesIsAtFault: of two nodes without a path, the one that sends nothing leaves.
func TestANodeWhoseOwnKernelRefusesIsAtFault(t *testing.T) {
	for _, tc := range []struct {
		cause sidechannel.Cause
		sick  int
		why   string
		fix   string
	}{
		{sidechannel.Blackhole, 0, "in either direction: host0 has a blackhole route to 10.0.0.1",
			"ip rule; ip route get 10.0.0.1"},
		{sidechannel.NoRoute, 1, "in either direction: host1 has no route to 10.0.0.0", "on host1: is the netmask right"},
		{sidechannel.Denied, 0, "host0 forbids calls", "prohibit"},
		{sidechannel.NoPort, 1, "host1 has no free port", "ip_local_port_range"},
		{sidechannel.Unknown, 1, "host1 cannot call: too many open files", "ulimit -n   # on host1"},
	} {
		got := compareCalls(calling(2, func(from, _ int, c *calls.Call) {
			if drop(c); from == tc.sick {
				c.Cause, c.Err, c.Here = tc.cause, "too many open files", true
			}
		}))
		if len(got) != 1 || !strings.Contains(got[0].What, tc.why) || !slices.Equal(got[0].unfit, []int{tc.sick}) ||
			!strings.Contains(got[0].What+got[0].Fix, tc.fix) || strings.Contains(got[0].Fix, "is not known") {
			t.Errorf("%s: %+v", tc.cause, got)
		}
	}
	both := compareCalls(calling(2, func(_, _ int, c *calls.Call) { c.Cause, c.Here = sidechannel.NoRoute, true }))
	if len(both) != 1 || !strings.Contains(both[0].Fix, "is not known") {
		t.Errorf("both: %+v", both)
	}
}

// A node that drops what arrives for its way back is at fault, and not the one that calls it, nor a firewall.
func TestANodeThatDropsForTheWayBackIsAtFault(t *testing.T) {
	deaf := fabric.Deaf{From: netip.MustParsePrefix("10.0.0.1/32"), Fault: fabric.Fault{
		Why: "eth0 of this node drops what arrives from 10.0.0.1", Do: "ip route del 10.0.0.1/32"}}
	for _, tt := range []struct {
		name  string
		cause sidechannel.Cause
		at    string // of host1
		want  string // what is said, or a part
		unfit []int
	}{
		{"dropped", sidechannel.Dropped, "10.0.0.1", "host0: eth0 of this node drops what arrives", []int{0}},
		{"no ARP", sidechannel.NoHost, "10.0.0.1", "host0: eth0 of this node drops", []int{0}},
		{"another sender", sidechannel.Dropped, "10.0.0.9", "dropped, as by a firewall", []int{1}},
		{"refused", sidechannel.Refused, "10.0.0.1", "connection refused", []int{1}},
	} {
		posts := calling(2, func(_, _ int, c *calls.Call) {
			drop(c)
			c.Cause = tt.cause
		})
		posts[0].Deaf, posts[0].Addr, posts[1].Addr = deaf, netip.MustParseAddr("10.0.0.0"), netip.MustParseAddr(tt.at)
		got := compareCalls(posts)
		if len(got) != 1 || !strings.Contains(got[0].What, tt.want) || !slices.Equal(got[0].unfit, tt.unfit) ||
			strings.HasPrefix(tt.want, "host0") != strings.Contains(got[0].Fix, "ip route del 10.0.0.1/32   # on host0") {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	healthy := calling(2, func(_, _ int, c *calls.Call) {})
	healthy[0].Deaf = deaf
	if got := compareCalls(healthy); len(got) > 0 {
		t.Errorf("calls get through: %+v", got)
	}
}

// The reason of a call may be in the caller's own tables: it leaves, and not the node that it called.
func TestACallerWhoseOwnTablesAreTheReasonIsAtFault(t *testing.T) {
	nat := fabric.Fault{Why: "this node's NAT sends calls on to 10.0.0.99", Do: "nft list ruleset"}
	blame := func(c *calls.Call) { c.Wrong, c.Here = nat, true }
	for _, tt := range []struct {
		name  string
		call  func(c *calls.Call)
		want  string
		other bool // the called node's call fails, too
	}{
		{"no answer", drop, "in either direction: host1: this node's NAT", true},
		{"refused", func(c *calls.Call) { c.Cause = sidechannel.Refused }, "those back do: host1: this node's NAT", false},
		{"another node answers", func(c *calls.Call) { c.Other = "x" }, "those back do: host1: this node's NAT", false},
		{"long messages", func(c *calls.Call) { c.Stall = "there" }, "short ones do: host1: this node's NAT", false},
	} {
		got := compareCalls(calling(2, func(from, _ int, c *calls.Call) {
			switch {
			case from == 1:
				tt.call(c)
				blame(c)
			case tt.other:
				drop(c)
			}
		}))
		if len(got) != 1 || !strings.Contains(got[0].What, tt.want) || !slices.Equal(got[0].unfit, []int{1}) ||
			!strings.Contains(got[0].Fix, "nft list ruleset   # on host1") {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// The node whose packets arrive with wrong checksums is at fault, and the one that counts them is not.
func TestANodeWhosePacketsAreDamagedIsAtFault(t *testing.T) {
	sums := fabric.Deaf{Sums: true, Fault: fabric.Fault{Why: "this node has dropped 9 packets",
		Do: "ethtool -K IFACE tx off   # to try, on the node that sends them"}}
	for _, damaged := range []bool{true, false} {
		posts := calling(2, func(from, _ int, c *calls.Call) { c.Stall = map[int]string{1: "there", 0: "back"}[from] })
		if damaged {
			posts[0].Deaf = sums
		}
		got := compareCalls(posts)
		if len(got) != 1 || !slices.Equal(got[0].unfit, []int{1}) ||
			strings.Contains(got[0].What, "host0: this node has dropped 9 packets") != damaged ||
			strings.Contains(got[0].Fix, "on host1") != damaged && damaged {
			t.Errorf("damaged %t: %+v", damaged, got)
		}
	}
	healthy := calling(2, func(_, _ int, _ *calls.Call) {})
	healthy[0].Deaf = sums
	if got := compareCalls(healthy); len(got) > 0 {
		t.Errorf("a counter that rises without harm: %+v", got)
	}
}

// A node in a macvlan and the machine that has its interface never reach each other.
func TestAMacvlanAndItsOwnMachine(t *testing.T) {
	for _, tt := range []struct {
		name              string
		machine, net, kid string // of host1
		want              bool
	}{
		{"its machine", "m", "2", "macvlan", true},
		{"another machine", "n", "2", "macvlan", false},
		{"both in one namespace", "m", "1", "macvlan", false},
		{"a pair of virtual interfaces", "m", "2", "", false},
	} {
		posts := calling(2, func(_, _ int, c *calls.Call) {
			drop(c)
			c.Cause = sidechannel.NoHost
		})
		posts[0].Traits = Traits{Machine: "m", Net: "1", PeerIf: "eth0"}
		posts[1].Traits = Traits{Machine: tt.machine, Net: tt.net, PeerIf: "eth0", Child: tt.kid}
		got := compareCalls(posts)
		said := "both are on one machine, and eth0 of host1 is a macvlan, which never reaches its own machine"
		if len(got) != 1 || strings.Contains(got[0].What, said) != tt.want {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// Of a node that has chosen an address by an odd way to the store, the others need no route to that.
func TestANodeWhoseAddressIsOfAnOddWayIsAtFault(t *testing.T) {
	for _, odd := range []string{"", "this node sends packets to a router"} {
		posts := calling(3, func(from, to int, c *calls.Call) {
			if from == 1 && to == 2 {
				drop(c)
				c.Cause, c.Here = sidechannel.NoRoute, true
			}
		})
		posts[2].Odd = fabric.Fault{Why: odd, Do: "ip route"}
		got := compareCalls(posts)
		want, unfit := "host1 has no route to 10.0.0.2", []int{1}
		if odd != "" {
			want, unfit = "which host2 has chosen by its way to the store: this node sends", []int{2}
		}
		if len(got) != 1 || !strings.Contains(got[0].What, want) || !slices.Equal(got[0].unfit, unfit) {
			t.Errorf("%q: %+v", odd, got)
		}
	}
}

// A node that drops all calls is at fault, also where some of those that call it show a reason of their own; where
// half of them do, they are not. A caller with a reason of its own is, and those that it alone does not reach are not.
func TestACallersOwnReasonExcusesNoOtherNode(t *testing.T) {
	const n = 8
	nat := fabric.Fault{Why: "this node's NAT sends calls on to 10.0.0.99", Do: "nft list ruleset"}
	for name, tt := range map[string]struct {
		own  []int // the callers with a reason of their own
		all  bool  // all calls of theirs fail, and host5 drops nothing
		want []int
	}{
		"no caller shows a reason": {nil, false, []int{5}},
		"one of four does":         {[]int{4}, false, []int{4, 5}},
		"two do":                   {[]int{4, 6}, false, []int{5}},
		"three do":                 {[]int{2, 4, 6}, false, []int{5}},
		"all do":                   {[]int{0, 2, 4, 6}, false, []int{5}},
		"one whose calls all fail": {[]int{4}, true, []int{4}},
	} {
		var unfit []int
		for _, f := range compareCalls(calling(n, func(from, to int, c *calls.Call) {
			if own := slices.Contains(tt.own, from); own && tt.all || !tt.all && to == 5 {
				if drop(c); own {
					c.Wrong, c.Here = nat, true
				}
			}
		})) {
			unfit = append(unfit, f.unfit...)
		}
		slices.Sort(unfit)
		if !slices.Equal(unfit, tt.want) {
			t.Errorf("%s: unfit %v, want %v", name, unfit, tt.want)
		}
	}
}

// Of nodes with different netmasks the one with the odd netmask is at fault, whatever the other found out by itself.
func TestANodeWithAnotherNetmask(t *testing.T) {
	guess := fabric.Fault{Why: "the answers arrive at eth0 of this node, and this node drops them", Do: "nft list ruleset"}
	for _, tt := range []struct {
		name  string
		bits  [3]int // of host0, host1, host2
		cause sidechannel.Cause
		want  string
		unfit []int
	}{
		{"broadcast", [3]int{24, 30, 24}, sidechannel.Broadcast, "host1 takes 10.0.0.2 for the broadcast address of a " +
			"network; the netmask of one node differs: host1 has 10.0.0.1/30, and /24 is the netmask of host0, host2",
			[]int{1}},
		{"the called node", [3]int{30, 30, 24}, sidechannel.NoRoute, "host1 has no route to 10.0.0.2; the netmask of one " +
			"node differs: host2 has 10.0.0.2/24, and /30 is the netmask of host0, host1", []int{2}},
		{"equal", [3]int{24, 24, 24}, sidechannel.NoRoute, "host1 has no route to 10.0.0.2", []int{1}},
		{"unreachable", [3]int{24, 24, 24}, sidechannel.NoHost, "host1 has an unreachable route to 10.0.0.2", []int{1}},
	} {
		posts := calling(3, func(from, to int, c *calls.Call) {
			if from+to != 3 || from == 0 || to == 0 {
				return
			}
			if drop(c); from == 1 {
				c.Cause, c.Here = tt.cause, true
			} else {
				c.Wrong, c.Here = guess, true
			}
		})
		for i := range posts {
			posts[i].Traits.Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), tt.bits[i])
		}
		got := compareCalls(posts)
		if len(got) != 1 || !strings.HasSuffix(got[0].What, "in either direction: "+tt.want) ||
			!slices.Equal(got[0].unfit, tt.unfit) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	healthy := calling(3, func(_, _ int, _ *calls.Call) {})
	for i := range healthy {
		healthy[i].Traits.Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 24+6*(i%2))
	}
	if got := compareCalls(healthy); len(got) > 0 {
		t.Errorf("calls get through: %+v", got)
	}
}
