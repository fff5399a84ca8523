package fabric

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Several machines that answer ARP and nothing of IP show that this node's own port of the network may be at fault, and
// one that answers anything that it is not. A firewall may drop the rest of what one machine gets.
func TestWhatTheMachinesAroundAnswer(t *testing.T) {
	to, far := netip.MustParseAddrPort("10.0.2.9:29377"), netip.MustParseAddr("10.0.2.2")
	for name, tt := range map[string]struct {
		far          string
		alone        bool // there is one machine
		connected    bool // to which a connection is open
		answer, mute bool
	}{
		"it answers":           {far: "true", answer: true},
		"it answers pings":     {far: drop("input", "meta l4proto != icmp drop"), answer: true},
		"it is gone":           {far: "ip link set eth0 down"},
		"only ARP gets there":  {far: drop("input", "drop"), mute: true},
		"only ARP gets back":   {far: drop("output", "drop"), mute: true},
		"one has a firewall":   {far: drop("input", "drop"), alone: true},
		"SSH is open to it":    {far: drop("input", "ct state established accept; drop"), connected: true},
		"it refuses all calls": {far: drop("input", "meta l4proto tcp reject; meta l4proto != tcp drop"), answer: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWired(t)
			w.run("ip route del default")
			if !tt.alone {
				w.far("sysctl -qw net.ipv4.conf.all.arp_ignore=1; ip link add link eth0 name m0 type macvlan mode bridge; " +
					"ip addr add 10.0.2.3/24 dev m0; ip link set m0 up")
				isAnswered(netip.Addr{}, netip.MustParseAddrPort("10.0.2.3:9"))
			}
			isAnswered(netip.Addr{}, netip.AddrPortFrom(far, 9)) // the kernel knows it as a neighbour
			if tt.connected {
				w.listens(true, 22)
				c, err := net.Dial("tcp", "10.0.2.2:22")
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
			}
			w.far(tt.far)
			began := time.Now()
			got := AroundOf(t.Context(), to)
			if took := time.Since(began); took > aroundWait+time.Second/2 {
				t.Errorf("it took %v", took)
			}
			if slices.Contains(got.Answer, far) != tt.answer || !tt.alone && slices.Contains(got.Mute, far) != tt.mute {
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
	c := carriage{"VXLAN", unix.IPPROTO_UDP, 8472, 42, netip.MustParseAddr("10.66.0.1")}
	to := netip.MustParseAddr("10.244.0.1")
	count := func(tx, lost, rx uint64) netlink.LinkStatistics {
		return netlink.LinkStatistics{TxPackets: tx, TxDropped: lost, RxPackets: rx}
	}
	for _, tt := range []struct {
		arrived     string
		before, now netlink.LinkStatistics
		want        string // "": nothing
	}{
		{"eth0", count(3, 0, 0), count(6, 0, 0), "arrive at eth0, and this node's own firewall drops them"},
		{"eth0", count(3, 0, 8), count(6, 0, 9), ""},
		{"", count(3, 0, 0), count(3, 2, 0), "do not leave this node"},
		{"", count(3, 0, 0), count(3, 0, 0), ""},
		{"", count(3, 0, 0), count(6, 1, 0), ""},
		{"", count(3, 0, 0), count(6, 0, 0), ""},
		{"", count(3, 0, 5), count(6, 0, 5), ""},
	} {
		f := c.fault("vx0", to, tt.arrived, tt.before, tt.now)
		if (f.Why == "") != (tt.want == "") || !strings.Contains(f.Why, tt.want) {
			t.Errorf("%+v: got %q, want %q", tt, f.Why, tt.want)
		}
	}
	p := packet{proto: unix.IPPROTO_UDP, from: c.host, dport: 8472, vni: 42}
	if other := (packet{proto: unix.IPPROTO_UDP, from: c.host, dport: 8472, vni: 43}); !c.is(p) || c.is(other) {
		t.Error("the packets of another network count")
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

func TestWhatTheInterfacesShowOfACall(t *testing.T) {
	own, to := netip.MustParseAddrPort("10.0.0.1:40000"), netip.MustParseAddrPort("10.0.0.2:29377")
	syn := packet{iface: 2, out: true, proto: unix.IPPROTO_TCP, sport: 40000, dport: 29377}
	back := packet{iface: 2, proto: unix.IPPROTO_TCP, from: to.Addr(), to: own.Addr(), sport: 29377, dport: 40000}
	forwarded := packet{iface: 3, out: true, proto: unix.IPPROTO_TCP, from: to.Addr(),
		to: netip.MustParseAddr("172.17.0.2"), sport: 29377, dport: 40000}
	ofContainer := forwarded
	ofContainer.dport = 40001
	astray := back
	astray.astray = true
	other := packet{iface: 2, proto: unix.IPPROTO_TCP, from: to.Addr(), to: own.Addr(), sport: 22, dport: 40001}
	masqueraded := packet{iface: 2, out: true, proto: unix.IPPROTO_TCP, to: to.Addr(), sport: 1, dport: to.Port()}
	apart := packet{iface: 2, out: true, proto: unix.IPPROTO_TCP, to: to.Addr(), sport: 1, dport: 22}
	carried := packet{iface: 2, out: true, wraps: true}
	for name, tt := range map[string]struct {
		seen            []packet
		opened, no, sum bool
		want            string
	}{
		"for another machine": {seen: []packet{syn, astray}},
		"dropped elsewhere":   {seen: []packet{syn, other}}, "carried": {seen: []packet{carried}},
		"masqueraded": {seen: []packet{masqueraded}}, "another call": {seen: []packet{apart}, want: "does not leave"},
		"its own output": {want: "does not leave by eth9"}, "no neighbour": {no: true},
		"its own input":  {seen: []packet{syn, back}, want: "this node drops them, or rewrites their addresses"},
		"rewritten":      {seen: []packet{syn, back, forwarded}, want: "it sends them on to 172.17.0.2: a rule of its own"},
		"to a container": {seen: []packet{syn, back, ofContainer}, want: "this node drops them, or rewrites"},
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
	six := func(next byte, ports ...byte) []byte {
		return append(append([]byte{0x60, 0, 0, 0, 0, 8, next, 64}, make([]byte, 32)...), ports...)
	}
	const arp, mpls, ipv6 = 0x0608, 0x4788, 0xdd86 // in the byte order of the network
	for name, tt := range map[string]struct {
		kind  uint16
		b     []byte
		wraps bool
	}{
		"ARP": {arp, make([]byte, 28), false}, "MPLS": {mpls, make([]byte, 64), true},
		"ESP in IPv6":         {ipv6, six(unix.IPPROTO_ESP, 0, 0, 0, 1), true},
		"TCP":                 {ipv6, six(unix.IPPROTO_TCP, 0, 9, 0, 9), false},
		"neighbour discovery": {ipv6, six(unix.IPPROTO_ICMPV6, 135, 0, 0, 0), false},
		"ESP in UDP":          {ipv6, six(unix.IPPROTO_UDP, 0, 9, 0x11, 0x94), true},
	} {
		if got := wrapsOther(tt.kind, tt.b); got != tt.wraps {
			t.Errorf("%s: wraps is %v", name, got)
		}
	}
	if !wraps(unix.IPPROTO_AH, 0, 0) || wraps(unix.IPPROTO_UDP, 40000, 53) {
		t.Error("AH carries other packets, and a name server's do not")
	}
}
