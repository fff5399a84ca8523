package diagnose

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// TestAJobWhoseConnectionCrawlsDoesNotJustRun: it is said with its rates, and with what a node shows itself. It is not
// lost, although its data is sent again just now.
func TestAJobWhoseConnectionCrawlsDoesNotJustRun(t *testing.T) {
	from, to := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	crawl := scene.Crawl{From: from, To: to, Span: 15 * time.Second, Rate: 24 << 10, Before: 5 << 20, Again: 0.3}
	for _, tt := range []struct {
		name, wrong string // of the other node
		crawl       scene.Crawl
		backoff     uint8
		cause, says string
	}{
		{"loss", "", crawl, 0, "path.loss", "crawls: 24 KiB/s for 15 s, and up to 5 MiB/s before; 30 % of it is sent again"},
		{"no loss", "", scene.Crawl{From: from, To: to, Span: 15 * time.Second, Rate: 6 << 10, Before: 5 << 20}, 0,
			"path.loss", "before: a limit of the rate on the way, or a full link"},
		{"a policer", "this node drops packets beyond 25 kB", crawl, 0, "path.here", " drops packets beyond 25 kB"},
		{"just now it is sent again", "", crawl, 4, "path.loss", "crawls"},
	} {
		zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
		zero.Crawls = []scene.Crawl{tt.crawl}
		if tt.wrong != "" {
			one.Ways = []scene.Way{{To: from, Wrong: tt.wrong}}
		}
		if tt.backoff > 0 {
			zero.Sockets[0].Info, zero.Sockets[0].SendQ = &scene.Info{Backoff: tt.backoff, Unacked: 3}, 5000
		}
		a := Judge([]scene.Scene{zero, one})[0]
		if a.State != verdict.Hung || a.Why[0].Cause != tt.cause || !strings.Contains(a.Why[0].Says, tt.says) {
			t.Errorf("%s: got %s %+v", tt.name, a.State, a.Why)
		}
		for _, v := range a.Why {
			if v.Cause == "path.lost" || v.Cause == "path.mtu" {
				t.Errorf("%s: also %+v", tt.name, v)
			}
		}
	}
	zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
	zero.Crawls = []scene.Crawl{{From: from, To: netip.MustParseAddr("192.0.2.7"), Rate: 1000, Before: 1 << 30}}
	for _, v := range Judge([]scene.Scene{zero, one})[0].Why {
		if strings.HasPrefix(v.Cause, "path.") {
			t.Errorf("to no node of this job: %+v", v)
		}
	}
}

// TestSomeFlowsAreLost: the ports of new connections decide which of them open, as either end sees it. Packets that are
// lost by chance, and a box that has forgotten one connection, look different.
func TestSomeFlowsAreLost(t *testing.T) {
	from, to := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for _, tt := range []struct {
		name        string
		near, far   scene.Path
		cause, says string
	}{
		{"from here", scene.Path{To: to, Outcome: scene.Unreachable, Knocks: 12, Late: 6, Never: 6}, scene.Path{},
			"path.stale", "6 of 12 new ones got no answer"},
		{"from there", scene.Path{To: to, Outcome: scene.Answered, Long: true, Knocks: 12},
			scene.Path{To: from, Outcome: scene.Answered, Knocks: 12, Late: 5, Never: 5}, "path.stale", "5 of 12 new ones"},
		{"by chance", scene.Path{To: to, Outcome: scene.Answered, Knocks: 12, Late: 6, Never: 2, Loses: true},
			scene.Path{}, "path.loss", "lost, again and again"},
		{"this one alone", scene.Path{To: to, Outcome: scene.Answered, Long: true, Knocks: 12}, scene.Path{}, "path.stale",
			"a firewall, a NAT"},
		{"all", scene.Path{To: to, Outcome: scene.Unreachable, Knocks: 12, Late: 12, Never: 12}, scene.Path{},
			"path.lost", ""},
	} {
		zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
		zero.Sockets[0].Info, zero.Sockets[0].SendQ = &scene.Info{Backoff: 6, Unacked: 3, LastRecv: time.Minute}, 5000
		zero.Paths = []scene.Path{tt.near}
		if tt.far.To.IsValid() {
			one.Paths = []scene.Path{tt.far}
		}
		if got := Judge([]scene.Scene{zero, one})[0].Why[0]; got.Cause != tt.cause || !strings.Contains(got.Says, tt.says) {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
}

// TestWhatALostWayShows: a router that says so, packets that still arrive, and silence by ARP, which is no cable then.
func TestWhatALostWayShows(t *testing.T) {
	to := netip.MustParseAddr("10.0.0.2")
	for _, tt := range []struct {
		name        string
		way         scene.Way
		cause, says string
	}{
		{"a router refuses", scene.Way{Trail: "the router 10.0.0.9 says that packets do not get from it to 10.0.0.2",
			Refused: true, Heard: true}, "path.lost", "the router 10.0.0.9 says that packets do not get from it to 10.0.0.2; " +
			"packets from "},
		{"packets arrive", scene.Way{Heard: true, Asked: true}, "path.lost", "still arrive at h0, so no cable"},
		{"they are acknowledged", scene.Way{Heard: true, Moved: true, Asked: true}, "path.loss", "slow or full"},
		{"no answer by ARP", scene.Way{Asked: true}, "path.lost", "no machine answers for 10.0.0.2 by ARP"},
		{"a router says nothing", scene.Way{Router: netip.MustParseAddr("10.0.0.9")}, "path.lost",
			"a cable, a port of the switch, the router 10.0.0.9 or one after it, a filter, or the host"},
		{"not asked", scene.Way{}, "path.lost", "a cable, a port of the switch, a filter, or the host"},
	} {
		zero := plainRank(0, "python", 1)
		zero.Sockets[0].Info, zero.Sockets[0].SendQ = &scene.Info{Backoff: 6, Unacked: 3, LastRecv: time.Minute}, 5000
		tt.way.To = to
		zero.Ways = []scene.Way{tt.way}
		if got := Judge([]scene.Scene{zero})[0].Why[0]; got.Cause != tt.cause || !strings.Contains(got.Says, tt.says) {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
}
