package fabric

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A machine that answers ARP and nothing of IP shows that this node's own port of the network is at fault, and one that
// answers anything that it is not.
func TestWhatTheMachinesAroundAnswer(t *testing.T) {
	to, far := netip.MustParseAddrPort("10.0.2.9:29377"), netip.MustParseAddr("10.0.2.2")
	for name, tt := range map[string]struct {
		far          string
		answer, mute bool
	}{
		"it answers":           {"true", true, false},
		"it answers pings":     {drop("input", "meta l4proto != icmp drop"), true, false},
		"it is gone":           {"ip link set eth0 down", false, false},
		"only ARP gets there":  {drop("input", "drop"), false, true},
		"only ARP gets back":   {drop("output", "drop"), false, true},
		"it refuses all calls": {drop("input", "meta l4proto tcp reject; meta l4proto { udp, icmp } drop"), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWired(t)
			w.run("ip route del default")
			isAnswered(netip.Addr{}, netip.AddrPortFrom(far, 9)) // the kernel knows it as a neighbour
			w.far(tt.far)
			got := AroundOf(t.Context(), to)
			if slices.Contains(got.Answer, far) != tt.answer || slices.Contains(got.Mute, far) != tt.mute {
				t.Errorf("got %+v", got)
			}
			if f := got.Fault(); (f.Why != "") != tt.mute {
				t.Errorf("judged %q", f.Why)
			}
		})
	}
}

// drop adds rules of a filter to the other machine.
func drop(hook, rules string) string {
	return "nft \"table ip f { chain c { type filter hook " + hook + " priority 0; " + rules + "; }; }\""
}

func TestWhatThePacketsOfATunnelShow(t *testing.T) {
	c := carriage{"VXLAN", unix.IPPROTO_UDP, 8472, 8472, netip.MustParseAddr("10.66.0.1")}
	to := netip.MustParseAddr("10.244.0.1")
	count := func(tx, rx uint64) netlink.LinkStatistics {
		return netlink.LinkStatistics{TxPackets: tx, RxPackets: rx}
	}
	for _, tt := range []struct {
		arrived     string
		before, now netlink.LinkStatistics
		want        string
	}{
		{"eth0", count(3, 0), count(6, 0), "arrive at eth0, and this node's own firewall drops them"},
		{"eth0", count(3, 8), count(6, 9), "get no answer: a filter there or between drops UDP 8472"},
		{"", count(3, 0), count(3, 0), "do not leave this node"},
		{"", count(3, 0), count(6, 0), "vx0 has received none since it exists"},
		{"", count(3, 5), count(6, 5), "get no answer: a filter there or between"},
	} {
		if f := c.fault("vx0", to, tt.arrived, tt.before, tt.now); !strings.Contains(f.Why, tt.want) {
			t.Errorf("got %q, want %q", f.Why, tt.want)
		}
	}
	gre := carriage{"GRE", unix.IPPROTO_GRE, 0, 0, c.host}
	if f := gre.fault("gre1", to, "", count(0, 0), count(1, 0)); !strings.Contains(f.Why, "(IP protocol 47)") ||
		!strings.Contains(f.Do, "and proto 47") {
		t.Errorf("GRE: %+v", f)
	}
}

func TestWhereATunnelLeads(t *testing.T) {
	ip := []byte{10, 66, 0, 1}
	for kind, link := range map[string]netlink.Link{
		"Geneve UDP 6081": &netlink.Geneve{Remote: ip, Dport: 6081}, "GRE IP protocol 47": &netlink.Gretun{Remote: ip},
		"IPIP IP protocol 4": &netlink.Iptun{Remote: ip}, "SIT IP protocol 41": &netlink.Sittun{Remote: ip},
	} {
		got, _ := carriages(link, netip.Addr{})
		if len(got) != 1 || got[0].kind+" "+got[0].String() != kind || got[0].host.String() != "10.66.0.1" {
			t.Errorf("%s: %v", kind, got)
		}
	}
	for _, link := range []netlink.Link{&netlink.Geneve{FlowBased: true}, &netlink.Iptun{Remote: []byte{0, 0, 0, 0}},
		&netlink.Dummy{}} {
		if got, _ := carriages(link, netip.Addr{}); len(got) > 0 {
			t.Errorf("%s: %v", link.Type(), got)
		}
	}
}

func TestAWireguardPeerIsFoundByItsNetworks(t *testing.T) {
	attr := func(kind byte, value ...byte) []byte {
		n := 4 + len(value)
		return append(append([]byte{byte(n), byte(n >> 8), kind, 0}, value...), make([]byte, (4-n%4)%4)...)
	}
	peer := func(last byte, bits byte) []byte {
		at := attr(wgEndpoint, 2, 0, 0xca, 0x6c, 10, 66, 0, last, 0, 0, 0, 0, 0, 0, 0, 0)
		allowed := attr(0, append(attr(wgAddress, 10, 244, last, 0), attr(wgBits, bits)...)...)
		return attr(0, append(at, attr(wgAllowed, allowed...)...)...)
	}
	answer := append([]byte{0, 1, 0, 0}, attr(wgListenPort, 0x10, 0x27)...)
	answer = append(answer, attr(wgPeers, append(peer(1, 16), peer(2, 24)...)...)...)
	for to, want := range map[string]string{"10.244.2.7": "10.66.0.2", "10.244.9.7": "10.66.0.1"} {
		got := wireguardEnd([][]byte{answer}, netip.MustParseAddr(to))
		if len(got) != 1 || got[0].host.String() != want || got[0].port != 51820 || got[0].own != 10000 {
			t.Errorf("%s: %v", to, got)
		}
	}
	if got := wireguardEnd([][]byte{answer, nil}, netip.MustParseAddr("192.0.2.1")); len(got) > 0 {
		t.Errorf("no peer: %v", got)
	}
}

func TestWhatTheInterfacesShowOfACall(t *testing.T) {
	own, to := netip.MustParseAddrPort("10.0.0.1:40000"), netip.MustParseAddrPort("10.0.0.2:29377")
	syn := packet{iface: 2, out: true, proto: unix.IPPROTO_TCP, sport: 40000, dport: 29377}
	back := packet{iface: 2, proto: unix.IPPROTO_TCP, from: to.Addr(), to: own.Addr(), sport: 29377, dport: 40000}
	other := packet{iface: 2, proto: unix.IPPROTO_TCP, from: to.Addr(), to: own.Addr(), sport: 22, dport: 40001}
	esp := packet{iface: 2, out: true, proto: unix.IPPROTO_ESP}
	for name, tt := range map[string]struct {
		seen            []packet
		opened, no, sum bool
		want            string
	}{
		"dropped elsewhere": {seen: []packet{syn, other}}, "encrypted": {seen: []packet{esp}},
		"its own output": {want: "does not leave by eth9"}, "no neighbour": {no: true},
		"its own input":  {seen: []packet{syn, back}, want: "this node drops them"},
		"wrong checksum": {seen: []packet{syn, back}, sum: true}, "opened": {seen: []packet{syn, back}, opened: true},
	} {
		l := leg{opened: tt.opened}
		for _, p := range tt.seen {
			l.see(p, own, to)
		}
		f := l.fault("eth9", to.Addr(), !tt.no, tt.sum)
		if (f.Why == "") != (tt.want == "") || !strings.Contains(f.Why, tt.want) {
			t.Errorf("%s: %q", name, f.Why)
		}
	}
	if _, ok := readPacket([]byte{0x60, 0, 0, 0}); ok {
		t.Error("a packet of IPv6 is read")
	}
}
