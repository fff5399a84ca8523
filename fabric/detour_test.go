package fabric

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// lan is a machine with eth0 in 10.66.0.0/24, eth1 in 10.67.0.0/24 and a bridge of containers in a half of eth0's.
func lan(extra ...netlink.Route) (routes []netlink.Route, all []net.Interface) {
	for i, name := range []string{"eth0", "eth1", "docker0"} {
		all = append(all, net.Interface{Index: i + 1, Name: name, Flags: net.FlagUp})
	}
	return append(extra, way("10.66.0.0/24", 1, ""), way("10.67.0.0/24", 2, ""), way("0.0.0.0/0", 1, "10.66.0.254")), all
}

func way(to string, iface int, router string) netlink.Route {
	_, dst, _ := net.ParseCIDR(to)
	return netlink.Route{Dst: dst, LinkIndex: iface, Gw: net.ParseIP(router), Type: unix.RTN_UNICAST}
}

func TestAWayThatANeighbourDoesNotNeedIsUnusual(t *testing.T) {
	src, to := netip.MustParseAddr("10.66.0.2"), netip.MustParseAddrPort("10.66.0.3:29500")
	router := netip.MustParseAddr("10.66.0.254")
	docker := way("10.66.0.0/25", 3, "")
	for _, tt := range []struct {
		name   string
		hop    hop
		to     string
		routes []netlink.Route
		want   string // "": usual
	}{
		{"to the neighbour", hop{iface: "eth0", table: 254}, "", nil, ""},
		{"a rule leads to a router", hop{iface: "eth0", gateway: router, table: 100}, "", nil,
			"to the router 10.66.0.254 (routing table 100), although 10.66.0.3 is a neighbour on eth0 (10.66.0.0/24)"},
		{"a host route", hop{iface: "eth1", gateway: netip.MustParseAddr("10.67.0.1"), table: 254}, "", nil,
			"to the router 10.67.0.1 (routing table main)"},
		{"no neighbour", hop{iface: "eth0", gateway: router, table: 254}, "192.0.2.7:1", nil, ""},
		{"by its own network, in another table", hop{iface: "eth0", table: 100}, "", nil, ""},
		{"by an interface without that network", hop{iface: "eth1", table: 100}, "", nil, "by eth1 (routing table 100)"},
		{"a bridge with a part", hop{iface: "docker0", table: 254}, "", []netlink.Route{docker},
			"by docker0 (routing table main), although 10.66.0.3 is a neighbour on eth0 (10.66.0.0/24)"},
		{"a rail with a part", hop{iface: "eth1", table: 254}, "", []netlink.Route{way("10.66.0.0/25", 2, "")}, ""},
		{"two in one network", hop{iface: "eth1", table: 254}, "", []netlink.Route{way("10.66.0.0/24", 2, "")}, ""},
	} {
		if tt.hop.src = src; tt.to == "" {
			tt.to = to.String()
		}
		at := netip.MustParseAddrPort(tt.to)
		routes, all := lan(tt.routes...)
		got := tt.hop.unlike(at, neighbours(routes, all, at.Addr()), func(i string) bool { return i == "docker0" })
		if (got.Why == "") != (tt.want == "") || !strings.Contains(got.Why, tt.want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestAnswersThatAStrictInterfaceDrops(t *testing.T) {
	h := hop{src: netip.MustParseAddr("10.66.0.2"), iface: "eth1", table: 254}
	to := netip.MustParseAddrPort("10.66.0.1:29500")
	if f := h.unheard(to, "eth0"); !strings.Contains(f.Why, "by eth1, and eth0, which has that address, drops the") ||
		!strings.Contains(f.Do, "net.ipv4.conf.eth0.rp_filter=2") {
		t.Errorf("got %+v", f)
	}
	for _, strict := range []string{"", "eth1"} {
		if f := h.unheard(to, strict); f != (Fault{}) {
			t.Errorf("strict %q: got %+v", strict, f)
		}
	}
}

func TestInterfacesThatTakePacketsFromTheirOwnWay(t *testing.T) {
	conf := func(all, eth0 string) fstest.MapFS {
		const dir = "sys/net/ipv4/conf/"
		return fstest.MapFS{dir + "all/rp_filter": {Data: []byte(all + "\n")},
			dir + "eth0/rp_filter": {Data: []byte(eth0 + "\n")}, dir + "default/rp_filter": {Data: []byte("1\n")},
			dir + "lo/rp_filter": {Data: []byte("0\n")}}
	}
	for _, tt := range []struct {
		all, eth0 string
		want      bool
	}{{"0", "0", false}, {"1", "0", true}, {"0", "1", true}, {"2", "1", false}, {"1", "2", false}, {"", "", false}} {
		if got := strictInterfaces(conf(tt.all, tt.eth0)); slices.Equal(got, []string{"eth0"}) != tt.want {
			t.Errorf("all %q, eth0 %q: %v", tt.all, tt.eth0, got)
		}
	}
}

func TestNeighboursThatAreNotHeard(t *testing.T) {
	strict := []string{"eth0"}
	for _, tt := range []struct {
		name   string
		extra  netlink.Route
		strict []string
		want   string
	}{
		{"a host route by another interface", way("10.66.0.2/32", 2, "10.67.0.2"), strict,
			"drops what arrives from 10.66.0.2, a part of its network 10.66.0.0/24: the way back leaves by eth1"},
		{"a half of the network", way("10.66.0.128/25", 2, "10.67.0.2"), strict, "from 10.66.0.128/25, a part"},
		{"loose", way("10.66.0.2/32", 2, "10.67.0.2"), nil, ""},
		{"by the same interface", way("10.66.0.2/32", 1, "10.66.0.254"), strict, ""},
		{"a container", way("10.66.0.2/32", 3, ""), strict, ""},
		{"another network", way("10.80.0.0/24", 2, "10.67.0.2"), strict, ""},
	} {
		routes, all := lan(tt.extra)
		byMain := func(net.Interface, netip.Addr) string { return "eth1" }
		got := deafTo(routes, all, tt.strict, byMain)
		byRule := func(i net.Interface, _ netip.Addr) string { return i.Name }
		if d := deafTo(routes, all, tt.strict, byRule); d.Why != "" {
			t.Errorf("%s, and a rule has the answers leave by the interface of their source: %+v", tt.name, d)
		}
		if (got.Why == "") != (tt.want == "") || !strings.Contains(got.Why, tt.want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if a := netip.MustParseAddr("10.66.0.2"); tt.name == "a half of the network" != got.Hears(a) && tt.want != "" {
			t.Errorf("%s: it hears %s: %t", tt.name, a, got.Hears(a))
		}
	}
	counted := Deaf{Fault: Fault{Why: "3 packets"}}
	if counted.Hears(netip.MustParseAddr("10.66.0.2")) || !(Deaf{}).Hears(netip.MustParseAddr("10.66.0.2")) {
		t.Error("a node that drops packets of unknown senders hears all, or another one does not")
	}
}

func TestPacketsDroppedForTheirWayBack(t *testing.T) {
	proc := fstest.MapFS{"net/netstat": {Data: []byte("TcpExt: SyncookiesSent IPReversePathFilter TCPTimeWait\n" +
		"TcpExt: 3 41 5\nIpExt: InNoRoutes InTruncatedPkts\nIpExt: 7 8\n")}}
	if d := DeafTo(proc, Drops{ReversePath: 39}); d.Why != "" {
		t.Errorf("two packets: %+v", d)
	}
	if d := DeafTo(proc, Drops{ReversePath: 37}); !strings.Contains(d.Why, "this node has dropped 4 packets") {
		t.Errorf("four packets: %+v", d)
	}
}

func TestPacketsThatArriveWithAWrongChecksum(t *testing.T) {
	proc := fstest.MapFS{"net/snmp": {Data: []byte("Tcp: OutRsts InCsumErrors\nTcp: 4 23\n")}}
	if d := DeafTo(proc, Drops{Sums: 21}); d != (Deaf{}) {
		t.Errorf("two packets, as of a damaged cable: %+v", d)
	}
	if d := DeafTo(proc, Drops{}); !d.Sums || !strings.Contains(d.Why, "has dropped 23 packets of TCP that arrived") {
		t.Errorf("23 packets: %+v", d)
	}
}

// The kernel's answers about ways of this machine can be read.
func TestTheWayOfAPacketIsAsked(t *testing.T) {
	to := netip.MustParseAddrPort("127.0.0.1:29500")
	h, err := nextHop(netip.Addr{}, to)
	if refused(err) {
		t.Skip(err)
	}
	if err != nil || !h.local || h.iface != "lo" || h.src != to.Addr() || h.gateway.IsValid() {
		t.Errorf("%+v, %v", h, err)
	}
	if d := DetourTo(netip.Addr{}, to); d != (Detour{}) {
		t.Errorf("to itself: %+v", d)
	}
	r, err := defaultRoute()
	if far, err2 := nextHop(netip.Addr{}, netip.AddrPortFrom(farAway, 80)); (err == nil) != (err2 == nil) ||
		err == nil && (far.src != r.Src || far.iface != r.Interface) {
		t.Errorf("far away: %+v, %v; the other way of asking: %+v, %v", far, err2, r, err)
	}
}

func TestARemedyNamesItsNodeOnce(t *testing.T) {
	for do, want := range map[string]string{
		"ip rule": "ip rule   # on n1", "ip rule\nsysctl": "ip rule   # on n1\nsysctl",
		"ip rule   # there": "ip rule   # there",
	} {
		if got := (Fault{Do: do}).On("n1"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
