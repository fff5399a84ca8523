package calls

import (
	"net/netip"
	"testing"

	"launch/fabric"
	"launch/internal/sidechannel"
)

func TestWhichWayALongMessageStalled(t *testing.T) {
	full, less := sidechannel.MTU{Answered: true, Tried: 1500, Out: 1500, Back: 1500},
		sidechannel.MTU{Answered: true, Tried: 1500, Out: 1500, Back: 1400}
	ok, bad := sidechannel.Flow{Arrived: longMessage}, sidechannel.Flow{Stalled: true}
	for name, tc := range map[string]struct {
		got  sidechannel.Answer
		want string
	}{
		"none":  {sidechannel.Answer{Bulk: sidechannel.Bulk{Out: ok, Back: ok}, MTU: full}, ""},
		"there": {sidechannel.Answer{Bulk: sidechannel.Bulk{Out: bad, Back: ok}}, "there"},
		"both ways": {sidechannel.Answer{Bulk: sidechannel.Bulk{Out: bad, Back: bad}, MTU: less},
			"there"},
		"back": {sidechannel.Answer{Bulk: sidechannel.Bulk{Out: ok, Back: bad}, MTU: less},
			"back"},
		"the other process is stopped":   {sidechannel.Answer{Bulk: sidechannel.Bulk{Out: ok, Back: bad}}, ""},
		"the other process gets no turn": {sidechannel.Answer{Bulk: sidechannel.Bulk{Out: ok, Back: bad}, MTU: full}, ""},
		"the path is slow": {sidechannel.Answer{Bulk: sidechannel.Bulk{Out: sidechannel.Flow{Arrived: 30e3, Stalled: true},
			Back: ok}, MTU: full}, ""},
		"nothing was sent on a slow machine": {sidechannel.Answer{}, ""},
	} {
		if got := stalled(tc.got, 1500); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// Where small packets are lost, too, long ones do not vanish for their length.
func TestLossOfSmallPacketsExplainsThatOfLongOnes(t *testing.T) {
	for name, tc := range map[string]struct {
		loss sidechannel.Loss
		hole bool
		lost float64
	}{
		"none":                     {sidechannel.Loss{Sent: 200}, true, 0},
		"a few":                    {sidechannel.Loss{Sent: 200, Again: 2}, true, 0.01},
		"many":                     {sidechannel.Loss{Sent: 200, Again: 50}, false, 0.25},
		"too few were sent to say": {sidechannel.Loss{Sent: 10, Again: 5}, true, 0},
		"not even the greeting":    {sidechannel.Loss{Sent: 4, Again: 3, Cut: true}, false, 0.75},
		"no connection":            {sidechannel.Loss{Cut: true}, false, 1},
	} {
		c := Call{Stall: "there", Hole: true}
		c.count(tc.loss)
		if c.Hole != tc.hole || (c.Stall != "") != tc.hole || c.Lost != tc.lost {
			t.Errorf("%s: got %+v", name, c)
		}
	}
}

// Of two interfaces in the peer's network the kernel's choice is used, which a strict rp_filter there expects.
func TestTheSourceOfACall(t *testing.T) {
	at := func(name, cidr string) fabric.Interface {
		return fabric.Interface{Name: name, Up: true, Addrs: []netip.Prefix{netip.MustParsePrefix(cidr)}}
	}
	peer := netip.MustParseAddr("127.9.9.9") // the kernel calls it from 127.0.0.1
	for name, c := range map[string]struct {
		interfaces []fabric.Interface
		own        string
		want       netip.Addr
	}{
		"two in its network": {[]fabric.Interface{at("a", "127.0.0.2/8"), at("b", "127.0.0.1/8")}, "127.0.0.2", netip.Addr{}},
		"one, and another goes": {[]fabric.Interface{at("a", "127.0.0.2/8")}, "127.0.0.2",
			netip.MustParseAddr("127.0.0.2")},
		"one, and the node's own goes": {[]fabric.Interface{at("a", "127.0.0.2/8")}, "127.0.0.1", netip.Addr{}},
		"none":                         {[]fabric.Interface{at("a", "10.0.0.1/8")}, "10.0.0.1", netip.Addr{}},
		"one that is down": {[]fabric.Interface{{Name: "a", Addrs: at("a", "127.0.0.2/8").Addrs}}, "10.0.0.1",
			netip.Addr{}},
	} {
		if got := sourceFor(t.Context(), fabric.Node{Interfaces: c.interfaces},
			netip.MustParseAddr(c.own), peer); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// The tables are asked for calls that failed, and for what of them.
func TestOnlyCallsThatFailedAreLookedAt(t *testing.T) {
	var asked []fabric.Call
	legs := 0
	c := Caller{Tables: Tables{Wrong: func(k fabric.Call) fabric.Fault {
		asked = append(asked, k)
		return fabric.Fault{Why: "NAT"}
	}, DeadLeg: func(_, _ []netip.AddrPort, _ netip.AddrPort) fabric.Fault {
		legs++
		return fabric.Fault{}
	}}}
	const at = "10.0.0.1:9"
	for _, tt := range []struct {
		name string
		call Call
		want fabric.Gone
		legs int
	}{
		{"it got through", Call{}, fabric.Nothing, 0},
		{"some opened late", Call{Flows: sidechannel.Flows{Tried: 12, Late: 3}}, fabric.Nothing, 0},
		{"dropped", Call{Cause: sidechannel.Dropped}, fabric.All, 0},
		{"denied", Call{Cause: sidechannel.Denied}, fabric.All, 0},
		{"another answers", Call{Other: "x"}, fabric.Astray, 0},
		{"refused", Call{Cause: sidechannel.Refused}, fabric.Astray, 0},
		{"refused here", Call{Cause: sidechannel.Denied, Here: true}, fabric.Nothing, 0},
		{"another token", Call{Cause: sidechannel.Token}, fabric.Nothing, 0},
		{"long messages there", Call{Stall: "there"}, fabric.Long, 0},
		{"long messages back", Call{Stall: "back"}, fabric.Long, 0},
		{"full packets", Call{Hole: true, MTU: 1181}, fabric.Long, 0},
		{"some never opened", Call{Flows: sidechannel.Flows{Tried: 12, Late: 3, Never: 3}}, fabric.Nothing, 1},
		{"none opened", Call{Cause: sidechannel.Dropped, Flows: sidechannel.Flows{Tried: 12, Late: 12, Never: 12}},
			fabric.All, 0},
	} {
		asked, legs, tt.call.Addr = nil, 0, at
		made := []Call{tt.call}
		c.own(made)
		if (len(asked) > 0) != (tt.want != fabric.Nothing) || len(asked) > 0 && (asked[0].Gone != tt.want ||
			asked[0].To.String() != at || !made[0].Here || made[0].Wrong.Why != "NAT") || legs != tt.legs {
			t.Errorf("%s: asked %+v, %d legs; %+v", tt.name, asked, legs, made[0])
		}
	}
}

// An unusual way is the reason where all calls that took it failed, and is the site's own where one got through.
func TestOnlyAWayThatNoCallGotThroughIsTheReason(t *testing.T) {
	odd := map[string]string{"10.0.0.1:9": "to r1", "10.0.0.2:9": "to r1", "10.0.0.3:9": "to r2"}
	c := Caller{Tables: Tables{Detour: func(_ netip.Addr, to netip.AddrPort) (d fabric.Detour) {
		if d.Way = odd[to.String()]; d.Way != "" {
			d.Why = d.Way
		}
		return d
	}}}
	for name, tt := range map[string]struct {
		calls []Call
		want  string // the reasons
	}{
		"a way that fails":     {[]Call{{Addr: "10.0.0.3:9", Cause: sidechannel.Dropped}, {Addr: "10.0.0.4:9"}}, "to r2"},
		"another call took it": {[]Call{{Addr: "10.0.0.1:9", Cause: sidechannel.Dropped}, {Addr: "10.0.0.2:9"}}, ""},
		"both failed": {[]Call{{Addr: "10.0.0.1:9", Cause: sidechannel.NoHost},
			{Addr: "10.0.0.2:9", Cause: sidechannel.Dropped}}, "to r1to r1"},
		"the usual way":                {[]Call{{Addr: "10.0.0.4:9", Cause: sidechannel.Dropped}}, ""},
		"all calls got through":        {[]Call{{Addr: "10.0.0.1:9"}}, ""},
		"the kernel's own reason":      {[]Call{{Addr: "10.0.0.3:9", Cause: sidechannel.Denied, Here: true}}, ""},
		"a port held by another start": {[]Call{{Addr: "10.0.0.3:9", Cause: sidechannel.Dropped, Port: true}}, ""},
	} {
		c.detours(tt.calls)
		got := ""
		for _, k := range tt.calls {
			got += k.Wrong.Why
			if k.Wrong.Why != "" && !k.Here {
				t.Errorf("%s: %+v is not the caller's fault", name, k)
			}
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	alone := []Call{{Addr: "10.0.0.1:9", Cause: sidechannel.Dropped}}
	c.Store = netip.MustParseAddrPort("10.0.0.2:9") // by the same router
	if c.detours(alone); alone[0].Wrong.Why != "" {
		t.Errorf("the store is reached that way: %+v", alone)
	}
	c.Store, c.Hosts, odd["10.0.0.1:0"] = netip.AddrPort{}, netip.MustParseAddr("10.0.0.9"), "to r1"
	if c.detours(alone); alone[0].Wrong.Why != "" {
		t.Errorf("the caller is connected to the store here that way: %+v", alone)
	}
	delete(odd, "10.0.0.1:0") // a rule for the port of the call
	if c.detours(alone); alone[0].Wrong.Why != "to r1" {
		t.Errorf("another port goes that way: %+v", alone)
	}
}
