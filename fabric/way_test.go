package fabric

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestIPsecDropsWhatAPolicyWantsSealedWithoutAnAssociation(t *testing.T) {
	from, to := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	network := func(text string) *net.IPNet {
		_, n, _ := net.ParseCIDR(text)
		return n
	}
	esp := netlink.XfrmPolicyTmpl{Dst: net.IP{10, 0, 0, 3}, Proto: unix.IPPROTO_ESP}
	policy := netlink.XfrmPolicy{Dir: netlink.XFRM_DIR_OUT, Dst: network("10.0.0.3/32"), Src: network("0.0.0.0/0"),
		Priority: 10, Tmpls: []netlink.XfrmPolicyTmpl{esp}}
	with := func(change func(*netlink.XfrmPolicy)) []netlink.XfrmPolicy {
		p := policy
		change(&p)
		return []netlink.XfrmPolicy{p}
	}
	state := netlink.XfrmState{Dst: net.IP{10, 0, 0, 3}, Proto: unix.IPPROTO_ESP, Spi: 7}
	larval := state
	larval.Spi = 0
	pass := netlink.XfrmPolicy{Dir: netlink.XFRM_DIR_OUT, Dst: network("10.0.0.0/24"), Src: network("0.0.0.0/0")}
	for _, tt := range []struct {
		name     string
		policies []netlink.XfrmPolicy
		states   []netlink.XfrmState
		want     string
	}{
		{"no policy", nil, nil, ""},
		{"no association", []netlink.XfrmPolicy{policy}, nil, "no security association"},
		{"one that is still asked for", []netlink.XfrmPolicy{policy}, []netlink.XfrmState{larval},
			"no security association"},
		{"an association", []netlink.XfrmPolicy{policy}, []netlink.XfrmState{state}, ""},
		{"a policy for what arrives", with(func(p *netlink.XfrmPolicy) { p.Dir = netlink.XFRM_DIR_IN }), nil, ""},
		{"another network", with(func(p *netlink.XfrmPolicy) { p.Dst = network("10.0.1.0/24") }), nil, ""},
		{"another source", with(func(p *netlink.XfrmPolicy) { p.Src = network("10.0.9.0/24") }), nil, ""},
		{"VXLAN alone", with(func(p *netlink.XfrmPolicy) { p.Proto, p.DstPort = unix.IPPROTO_UDP, 4789 }), nil, ""},
		{"sealed if there is one", with(func(p *netlink.XfrmPolicy) {
			p.Tmpls = []netlink.XfrmPolicyTmpl{{Dst: esp.Dst, Proto: esp.Proto, Optional: 1}}
		}), nil, ""},
		{"an earlier policy lets it pass", []netlink.XfrmPolicy{policy, pass}, nil, ""},
		{"blocked", with(func(p *netlink.XfrmPolicy) { p.Action = netlink.XFRM_POLICY_BLOCK }), nil, "blocks packets"},
	} {
		if got := ipsecDrops(tt.policies, tt.states, from, to); (got == "") != (tt.want == "") ||
			!strings.Contains(got, tt.want) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

func TestCountersOfDroppedPackets(t *testing.T) {
	proc := func(rp, state, sums string) fstest.MapFS {
		return fstest.MapFS{"net/netstat": {Data: []byte("TcpExt: SyncookiesSent IPReversePathFilter TCPHits\n" +
			"TcpExt: 1 " + rp + " 3\nIpExt: InNoRoutes\nIpExt: 4\n")},
			"net/snmp": {Data: []byte("Icmp: InMsgs InErrors InCsumErrors\nIcmp: 7 0 99\nTcp: RtoMin OutRsts InCsumErrors\n" +
				"Tcp: 200 4 " + sums + "\nUdp: InErrors InCsumErrors\nUdp: 0 98\n")},
			"net/xfrm_stat": {Data: []byte("XfrmInError  0\nXfrmOutNoStates \t" + state + "\n")}}
	}
	before := ReadDrops(proc("5", "2", "1"))
	if got, want := ReadDrops(proc("9", "2", "1")).Since(before), (Drops{ReversePath: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := ReadDrops(proc("5", "8", "1")).Since(before), (Drops{NoState: 6}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := ReadDrops(proc("5", "2", "24")).Since(before), (Drops{Sums: 23}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := ReadDrops(fstest.MapFS{}); got != (Drops{}) {
		t.Errorf("without the files: %+v", got)
	}
}

// TestNothingIsWrongWithAHealthyNode: this machine reaches itself, and drops nothing.
func TestNothingIsWrongWithAHealthyNode(t *testing.T) {
	lo := netip.MustParseAddr("127.0.0.1")
	if f := Wrong(Call{From: lo, To: netip.AddrPortFrom(lo, 9), Gone: All, Risen: Drops{ReversePath: 3}}); f != (Fault{}) {
		t.Errorf("%+v", f)
	}
	if who, asked := Near(lo, lo); asked || len(who) > 0 {
		t.Errorf("loopback was asked by ARP: %v", who)
	}
}

func TestTheCommandForARPNamesAVLAN(t *testing.T) {
	for iface, want := range map[string]string{"eth0": "conf.eth0.arp", "eth0.100": "conf.eth0/100.arp"} {
		if got := setConf("arp_ignore", 0, iface); !strings.Contains(got, want) {
			t.Errorf("%s: %q", iface, got)
		}
	}
}
