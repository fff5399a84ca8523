package diagnose

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// TestAnErrorOfTheOwnKernelSaysNothingOfTheOtherHost: a call that this node's kernel refused is this node's fault.
func TestAnErrorOfTheOwnKernelSaysNothingOfTheOtherHost(t *testing.T) {
	for errno, want := range map[string]string{
		"": "its SYN packets are dropped", "EADDRNOTAVAIL": "h1 has no free port", "EINVAL": "h1 has a blackhole route",
		"ENETUNREACH": "h1 has no route to 10.0.0.1", "EPERM": "h1 forbids calls", "EMFILE": "h1 cannot call",
	} {
		one := plainRank(1, "python")
		one.Stores = []scene.Store{{Addr: "10.0.0.1:29500", At: netip.MustParseAddrPort("10.0.0.1:29500"), Kind: "master",
			Outcome: scene.Unreachable, Err: "an error", Here: errno}}
		got := Judge([]scene.Scene{one})[0].Why[0]
		if !strings.Contains(got.Says, want) || (errno == "") != (got.Cause == "store.dropped") {
			t.Errorf("%q: %s: %s", errno, got.Cause, got.Says)
		}
	}
}

// TestDataThatDoesNotLeaveItsNode: where nothing counts as sent and the other end takes more, no cable is at fault,
// whatever the other end sees.
func TestDataThatDoesNotLeaveItsNode(t *testing.T) {
	here, to := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for name, tt := range map[string]struct {
		unacked uint32
		addr    string
		path    []scene.Path
		cause   string
		sure    verdict.Sure
		says    string
	}{
		"a filter":     {0, "10.0.0.1", nil, "path.here", verdict.Certain, "packets from h0 to h1 do not leave h0"},
		"the wire":     {2, "10.0.0.1", nil, "path.lost", verdict.Likely, "no answer"},
		"another DHCP": {1, "10.0.0.77", nil, "path.here", verdict.Certain, "h0's address 10.0.0.1 is gone"},
		"no ports": {1, "10.0.0.1", []scene.Path{{From: here, To: to, Outcome: scene.Unreachable, Here: "EADDRNOTAVAIL"}},
			"path.here", verdict.Certain, "h0 has no free port"},
	} {
		zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
		zero.Sockets[0].Info = &scene.Info{Backoff: 5, Unacked: tt.unacked, Window: 1 << 20, LastRecv: time.Minute}
		zero.Sockets[0].SendQ, zero.Paths, zero.Addrs = 500288, tt.path, []netip.Addr{netip.MustParseAddr(tt.addr)}
		one.Sockets[0].Local, one.Sockets[0].Remote = zero.Sockets[0].Remote, zero.Sockets[0].Local
		one.Sockets[0].Info, one.Sockets[0].SendQ = &scene.Info{Backoff: 5, Unacked: 1, LastRecv: time.Minute}, 96
		got := Judge([]scene.Scene{zero, one})[0].Why
		if got[0].Cause != tt.cause || got[0].Sure != tt.sure || !strings.Contains(got[0].Says, tt.says) {
			t.Errorf("%s: %s, %s: %s", name, got[0].Cause, got[0].Sure, got[0].Says)
		}
		if len(got) > 1 && got[1].Cause == "path.lost" && tt.cause == "path.here" {
			t.Errorf("%s: also %s", name, got[1].Says)
		}
	}
}
