package diagnose

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// TestTheReasonOfALostPathIsSaidAsFarAsNodesShowIt: what one end shows itself is the reason; a third node that reaches
// both ends excludes their cables; bytes that have arrived exclude a direction.
func TestTheReasonOfALostPathIsSaidAsFarAsNodesShowIt(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	passed := &scene.Relay{Name: "h2 (10.0.0.3)", At: b, From: a}
	both := []string{"02:00:00:00:00:01", "02:00:00:00:00:02"}
	const causes = "a cable, a port of the switch, a filter, or the host"
	for _, tt := range []struct {
		name  string
		near  []scene.Way
		far   []scene.Way
		has   []string // hardware addresses, of both
		via   *scene.Relay
		back  uint64 // bytes of the far end that have arrived at the near one
		there uint64
		cause string
		says  string
		not   string
		do    string
	}{
		{name: "nothing is known", cause: "path.lost", says: causes},
		{name: "the near end shows it", near: []scene.Way{{To: b, Wrong: "this node has no sense", Fix: "reason"}},
			cause: "path.here", says: "h0 has no sense", do: "reason   # on h0"},
		{name: "the far end shows it", far: []scene.Way{{To: a, Wrong: "eth0 of this node is odd"}}, via: passed,
			cause: "path.here", says: "eth0 of h1 is odd", do: "ip route get 10.0.0.1; ip neigh; ip -s link   # on h1"},
		{name: "the far end shows it of another path",
			far: []scene.Way{{To: netip.MustParseAddr("10.0.0.9"), Wrong: "this node has no sense"}}, cause: "path.lost",
			says: causes},
		{name: "a third node reaches both", via: passed, cause: "path.lost",
			says: "and h2 (10.0.0.3) reaches both, so their cables and hosts are sound: a filter on one of the two",
			not:  "a cable,"},
		{name: "a third node reaches another address", via: &scene.Relay{Name: "h2", At: netip.MustParseAddr("10.9.0.2"),
			From: a}, cause: "path.lost", says: causes, not: "h2"},
		{name: "a third node is called from another address", via: &scene.Relay{Name: "h2", At: b,
			From: netip.MustParseAddr("10.9.0.1")}, cause: "path.lost", says: causes, not: "h2"},
		{name: "one direction carries bytes", via: passed, back: 900, cause: "path.lost",
			says: "packets from h0 do not arrive at h1, those from h1 do: a filter on h1", do: "on h1: what concerns 10.0.0.1"},
		{name: "the other one does", via: passed, there: 900, cause: "path.lost",
			says: "packets from h1 do not arrive at h0, those from h0 do: a filter on h0", do: "on h0: what concerns 10.0.0.2"},
		{name: "they leave, and do not arrive", via: passed, there: 900,
			near: []scene.Way{{To: b, Empty: true, Left: true}}, far: []scene.Way{{To: a, Left: true, Empty: true}},
			cause: "path.lost", not: "on h0",
			says: "packets from h1 leave it, and do not arrive at an interface of h0; those from h0 do at h1: a filter, a"},
		{name: "they do not arrive", via: passed, there: 900, near: []scene.Way{{To: b, Empty: true, Left: true}},
			cause: "path.lost", says: "those from h0 do: a filter on h1, or between the two",
			do: "# on h1: what concerns 10.0.0.1"},
		{name: "they leave", via: passed, there: 900, far: []scene.Way{{To: a, Left: true}}, cause: "path.lost",
			says: "those from h0 do: a filter on h0, or between the two"},
		{name: "neither direction arrives, and both leave", via: passed,
			near: []scene.Way{{To: b, Empty: true, Left: true}}, far: []scene.Way{{To: a, Left: true, Empty: true}},
			cause: "path.lost", says: "a router between the two", not: "on one of the two"},
		{name: "both do", via: passed, there: 900, back: 900, cause: "path.lost", says: "a filter on one of the two"},
		{name: "without a third node", back: 900, cause: "path.lost", says: "any more, since 60 s: packets from h0 do not"},
		{name: "it answers ping", near: []scene.Way{{To: b, Pings: true, Heard: true}}, cause: "path.lost",
			says: "and h1 answers ping: something drops TCP alone", do: "ip xfrm policy", not: "cable"},
		{name: "it answers ping, and one direction carries bytes", near: []scene.Way{{To: b, Pings: true}}, via: passed,
			back: 900, cause: "path.lost", says: "; ping gets through: packets from h0 do not arrive at h1"},
		{name: "an entry of the near end leads elsewhere", near: []scene.Way{{To: b, Fixed: both[0]}}, has: both[1:],
			back: 900, cause: "path.here", says: "h0 has a permanent neighbour entry for 10.0.0.2 with the hardware address " +
				"02:00:00:00:00:01, and h1 has no interface with that", do: "# on h0"},
		{name: "its entry is right", near: []scene.Way{{To: b, Fixed: both[0]}}, has: both, back: 900, cause: "path.lost",
			says: "packets from h0 do not arrive at h1"},
		{name: "an entry of the far end leads elsewhere", far: []scene.Way{{To: a, Fixed: both[1]}}, has: both[:1],
			there: 900, cause: "path.here", says: "h1 has a permanent neighbour entry for 10.0.0.1", do: "# on h1"},
		{name: "its packets arrive all the same", far: []scene.Way{{To: a, Fixed: both[1]}}, has: both[:1], back: 900,
			cause: "path.lost", says: "packets from h0 do not arrive at h1"},
		{name: "no machine answers by ARP", near: []scene.Way{{To: b, Asked: true}}, cause: "path.lost",
			says: "no machine answers for 10.0.0.2 by ARP: a cable, a port of the switch, or the host", not: "filter"},
		{name: "one does", near: []scene.Way{{To: b, Asked: true, ARP: []string{"02:00:00:00:00:01"}}},
			cause: "path.lost", says: causes},
		{name: "two do", near: []scene.Way{{To: b, Asked: true, ARP: both}}, cause: "path.lost",
			says: "2 hardware addresses answer for 10.0.0.2 by ARP (02:00:00:00:00:01, 02:00:00:00:00:02); if one is not"},
		{name: "two do, and a third node reaches it", via: passed,
			near:  []scene.Way{{To: b, Asked: true, ARP: []string{"02:00:00:00:00:01", "02:00:00:00:00:02"}}},
			cause: "path.lost", says: "a filter on one of the two", not: "another machine"},
		{name: "ARP has no answer, and a third node has", near: []scene.Way{{To: b, Asked: true}}, via: passed,
			cause: "path.lost", says: "no answer by ARP for 10.0.0.2 arrives at h0", do: "arp_ignore"},
	} {
		zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
		info := func(received uint64) *scene.Info {
			return &scene.Info{Backoff: 5, Unacked: 3, LastRecv: time.Minute, Acked: 101, Received: received}
		}
		one.Sockets[0].Local, one.Sockets[0].Remote = zero.Sockets[0].Remote, zero.Sockets[0].Local
		zero.Sockets[0].Info, one.Sockets[0].Info = info(100+tt.back), info(100+tt.there)
		zero.Paths = []scene.Path{{From: a, To: b, Outcome: scene.Unreachable}}
		zero.Ways, one.Ways, one.Via = tt.near, tt.far, tt.via
		zero.Hardware, one.Hardware = tt.has, tt.has
		got := Judge([]scene.Scene{zero, one})[0].Why[0]
		if got.Cause != tt.cause || got.Sure != verdict.Certain || !strings.Contains(got.Says, tt.says) ||
			!strings.Contains(got.Do, tt.do) || tt.not != "" && strings.Contains(got.Says, tt.not) {
			t.Errorf("%s: %s, %s: %q, do %q", tt.name, got.Cause, got.Sure, got.Says, got.Do)
		}
	}
}

// TestTheDoctorsOwnNodeIsTheThirdOne: it has asked both ends at the addresses of the path.
func TestTheDoctorsOwnNodeIsTheThirdOne(t *testing.T) {
	judged := func(nearAt, farAt string, more ...scene.Scene) string {
		zero, one, two := plainRank(0, "python", 1), plainRank(1, "python", 0), plainRank(2, "python", 0)
		zero.Sockets[0].Info = &scene.Info{Backoff: 5, Unacked: 3, LastRecv: time.Minute}
		zero.Paths = []scene.Path{{To: netip.MustParseAddr("10.0.0.2"), Outcome: scene.Unreachable}}
		zero.At, one.At = netip.MustParseAddr(nearAt), netip.MustParseAddr(farAt)
		return Judge(append([]scene.Scene{zero, one, two}, more...))[0].Why[0].Says
	}
	if got := judged("10.0.0.1", "10.0.0.2"); !strings.Contains(got, "h2 reaches both") {
		t.Error(got)
	}
	if got := judged("10.0.0.1", "10.9.0.2"); strings.Contains(got, "h2") {
		t.Error("another network:", got)
	}
	other := plainRank(3, "python", 0)
	if got := judged("10.0.0.1", "10.0.0.2", other); strings.Contains(got, "reaches both") {
		t.Error("two nodes have asked:", got)
	}
}

// TestANodeThatAThirdOneReachesIsNotCutOff: though several paths to it are lost.
func TestANodeThatAThirdOneReachesIsNotCutOff(t *testing.T) {
	a, b, c := &node{name: "a"}, &node{name: "b"}, &node{name: "c"}
	lost := func(from, to *node) claim {
		x := claimed("path.lost", verdict.Certain, from.name+" gets no answer from "+to.name).of(nil, from, to)
		x.shared = true
		return x
	}
	got := (&view{hosts: []*node{a, b, c}}).bothEnds([]claim{lost(b, a), lost(c, a)})
	if len(got) != 2 || got[0].Says != "b gets no answer from a" {
		t.Errorf("%d, %q", len(got), got[0].Says)
	}
}

// TestALostPathThroughATunnelHasNoCable: where the way of each is a tunnel, that is named; else the cable.
func TestALostPathThroughATunnelHasNoCable(t *testing.T) {
	for _, tunnel := range []string{"", "tailscale0"} {
		a, b, c := &node{name: "a"}, &node{name: "b"}, &node{name: "c"}
		lost := func(from, to *node) claim {
			x := claimed("path.lost", verdict.Certain, "").of(nil, from, to)
			x.tunnel = tunnel
			return x
		}
		all := []claim{lost(b, a), lost(c, a)}
		for _, hosts := range [][]*node{{a, b, c}, {a}} {
			got := (&view{hosts: hosts}).bothEnds(slices.Clone(all))[0].Says
			if strings.Contains(got, "its cable") != (tunnel == "") ||
				strings.Contains(got, "its end of the tunnel tailscale0") != (tunnel != "") {
				t.Errorf("%q: %q", tunnel, got)
			}
		}
		for i := range all {
			all[i].pings = true
		}
		got := (&view{hosts: []*node{a, b, c}}).bothEnds(slices.Clone(all))
		if len(got) != 1 || !strings.Contains(got[0].Says, "drops TCP alone") {
			t.Errorf("all answer ping: %q", got[0].Says)
		}
		all[1].pings = false
		if got := (&view{hosts: []*node{a, b, c}}).bothEnds(all)[0].Says; strings.Contains(got, "TCP alone") {
			t.Errorf("one does: %q", got)
		}
		near := &node{name: "a", scene: &scene.Scene{Ways: []scene.Way{{To: netip.MustParseAddr("10.0.0.2"),
			Tunnel: tunnel}}}}
		says, _ := pair{near: near, where: "b", remote: netip.MustParseAddr("10.0.0.2")}.lost()
		if strings.Contains(says, "a cable") != (tunnel == "") {
			t.Errorf("%q: %q", tunnel, says)
		}
	}
}

// TestANodeThatIsCutOffMayNameTheReasonItself: where it was not heard, its own addresses and routes are possible, too,
// and its own output is read first; where it was heard, and shows nothing, neither.
func TestANodeThatIsCutOffMayNameTheReasonItself(t *testing.T) {
	const read, own = "read the output of launch on a first: ", "(its addresses, routes"
	near := &node{name: "b", scene: &scene.Scene{}}
	a, b, c := &node{name: "a", scene: &scene.Scene{}}, &node{name: "b"}, &node{name: "c"}
	lost := func(from *node) claim { return claimed("path.lost", verdict.Certain, "").of(nil, from, a) }
	for _, heard := range []bool{false, true} {
		p, hosts := pair{near: near, where: "a", remote: netip.MustParseAddr("10.0.0.1")}, []*node{b, c}
		if heard {
			p.far, hosts = a, append(hosts, a)
		}
		says, do := p.lost()
		all := (&view{hosts: hosts}).cutOff([]claim{lost(b), lost(c)})
		if strings.Contains(says, own) == heard || strings.HasPrefix(do, read) == heard || do == "" {
			t.Errorf("heard %v: %q, do %q", heard, says, do)
		}
		if len(all) != 1 || strings.Contains(all[0].Says, own) == heard || strings.HasPrefix(all[0].Do, read) == heard {
			t.Errorf("heard %v: %d, %q, do %q", heard, len(all), all[0].Says, all[0].Do)
		}
	}
}

// TestAnInterfaceThatWasDeletedIsNamed: where only the address is gone, that.
func TestAnInterfaceThatWasDeletedIsNamed(t *testing.T) {
	own, to := netip.MustParseAddrPort("10.0.0.1:40001"), netip.MustParseAddrPort("10.0.0.2:4444")
	for _, deleted := range []bool{true, false} {
		n := &node{name: "h0", scene: &scene.Scene{Addrs: []netip.Addr{netip.MustParseAddr("10.9.9.9")},
			Ways: []scene.Way{{To: to.Addr(), Deleted: deleted, Wrong: "the interface of this node is no more"}}}}
		says, _, _ := (&view{}).staysHere(n, scene.Socket{Local: own, Remote: to}, scene.Path{}, "h1")
		want := "h0's address 10.0.0.1 is gone"
		if deleted {
			want = "the interface of h0 is no more"
		}
		if !strings.HasPrefix(says, want) {
			t.Errorf("%t: %q", deleted, says)
		}
	}
}

// TestACallThatGetsNoAnswerHasTheSameReasons: an end that shows itself what is wrong is named, too.
func TestACallThatGetsNoAnswerHasTheSameReasons(t *testing.T) {
	for cause, ways := range map[string][]scene.Way{"mesh.dropped": nil,
		"path.here": {{To: netip.MustParseAddr("10.0.0.1"), Wrong: "this node answers no ARP request"}}} {
		zero, one := plainRank(0, "python", 1), plainRank(1, "python")
		zero.Sockets[0].State, zero.Sockets[0].Info = "syn-sent", &scene.Info{Retrans: 3}
		one.Ways = ways
		all := Judge([]scene.Scene{zero, one})[0].Why
		if got := all[0]; got.Cause != cause || ways != nil && got.Says != "h1 answers no ARP request" {
			t.Errorf("%s: %q, want %s", got.Cause, got.Says, cause)
		}
	}
}
