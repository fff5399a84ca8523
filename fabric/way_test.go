package fabric

import (
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"
)

func TestCountersOfDroppedPackets(t *testing.T) {
	proc := func(rp, state, sums string) fstest.MapFS {
		return fstest.MapFS{"net/netstat": {Data: []byte("TcpExt: SyncookiesSent IPReversePathFilter TCPHits\n" +
			"TcpExt: 1 " + rp + " 3\nIpExt: InNoRoutes\nIpExt: 4\n")},
			"net/snmp": {Data: []byte("Icmp: InMsgs InErrors InCsumErrors\nIcmp: 7 0 99\nTcp: RtoMin OutRsts InCsumErrors\n" +
				"Tcp: 200 4 " + sums + "\nUdp: InErrors InCsumErrors\nUdp: 0 98\n")},
			"net/xfrm_stat": {Data: []byte("XfrmInError  0\nXfrmOutNoStates \t" + state +
				"\nXfrmOutPolBlock \t" + state + "\n")}}
	}
	before := ReadDrops(proc("5", "2", "1"))
	if got, want := ReadDrops(proc("9", "2", "1")).Since(before), (Drops{ReversePath: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := ReadDrops(proc("5", "8", "1")).Since(before), (Drops{NoState: 6, OutBlocked: 6}); got != want {
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
