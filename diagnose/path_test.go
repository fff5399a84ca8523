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

// TestANodeThatAnswersIsNotLost: of a connection that is stuck, long packets vanish if the other node has shown what it
// sees at the same address.
func TestANodeThatAnswersIsNotLost(t *testing.T) {
	stuck := func(asked string) string {
		zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
		zero.Sockets[0].Info, zero.Sockets[0].SendQ = &scene.Info{Backoff: 5, Unacked: 3, LastRecv: time.Minute}, 5000
		if asked != "" {
			one.At = netip.MustParseAddr(asked)
		}
		return Judge([]scene.Scene{zero, one})[0].Why[0].Cause
	}
	// Few bytes take any path: the connection is dead, and new ones are not.
	old, new := plainRank(0, "python", 1), plainRank(1, "python", 0)
	old.Sockets[0].Info, old.Sockets[0].SendQ = &scene.Info{Backoff: 5, Unacked: 1, LastRecv: time.Minute}, 96
	new.At = netip.MustParseAddr("10.0.0.2")
	if got := Judge([]scene.Scene{old, new})[0].Why[0].Cause; got != "path.stale" {
		t.Errorf("96 bytes: %s", got)
	}
	// A filter of this node itself: nothing counts as sent. The other end may also take no more.
	for window, want := range map[uint32]string{65536: "path.here", 100: "rank.before-init"} {
		zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
		zero.Sockets[0].Info, zero.Sockets[0].SendQ = &scene.Info{Backoff: 5, Window: window}, 5000
		one.At = netip.MustParseAddr("10.0.0.2")
		if got := Judge([]scene.Scene{zero, one})[0].Why[0].Cause; got != want {
			t.Errorf("window %d: %s, not %s", window, got, want)
		}
	}
	// The node that was asked shows the connection.
	zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
	one.Sockets[0].Info, one.Sockets[0].SendQ = &scene.Info{Backoff: 5, Unacked: 3}, 5000
	one.At = one.Addrs[0]
	if got := Judge([]scene.Scene{zero, one})[0].Why[0].Cause; got != "path.mtu" {
		t.Errorf("seen by the other node: %s", got)
	}
	// The scene of a companion on the doctor's own host crossed no network.
	own, later := zero, zero
	own.At, later.Taken = zero.Addrs[0], zero.Taken.Add(time.Second)
	if got := Judge([]scene.Scene{own, later, one})[0].Why[0].Cause; got != "path.mtu" {
		t.Errorf("seen by the other node, and by the companion here: %s", got)
	}
	for asked, want := range map[string]string{"": "path.lost", "10.0.0.2": "path.mtu", "10.9.0.2": "path.lost"} {
		if got := stuck(asked); got != want {
			t.Errorf("asked at %q: %s, not %s", asked, got, want)
		}
	}
}

// TestANodesOwnQueueExplainsItsLongPackets: what a node shows of itself goes before an MTU on the path. Where a new
// connection takes long messages, it is not the reason.
func TestANodesOwnQueueExplainsItsLongPackets(t *testing.T) {
	for long, want := range map[bool]string{false: "path.here", true: "path.stale"} {
		zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
		zero.Sockets[0].Info, zero.Sockets[0].SendQ = &scene.Info{Backoff: 6, Unacked: 3, LastRecv: time.Minute}, 5000
		to := netip.MustParseAddr("10.0.0.2")
		zero.Paths = []scene.Path{{From: netip.MustParseAddr("10.0.0.1"), To: to, Outcome: scene.Answered, Long: long}}
		zero.Ways = []scene.Way{{To: to, Wrong: "this node's own queue (tbf) drops packets", Fix: "tc -s qdisc"}}
		got := Judge([]scene.Scene{zero, one})[0].Why[0]
		if got.Cause != want || !long && (!strings.Contains(got.Says, "own queue (tbf)") ||
			!strings.HasPrefix(got.Do, "tc -s qdisc   # on ")) {
			t.Errorf("long messages arrive: %t: got %+v", long, got)
		}
	}
}

// TestANodeThatHasNotJoinedHasAName: launch knows which host has a node rank, also where no torchrun says so.
// TestANewConnectionShowsWhatThePathTakes: of a connection that is stuck, a new one to the same node shows whether the
// path is at fault, from either end.
func TestANewConnectionShowsWhatThePathTakes(t *testing.T) {
	from, to := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	answered := scene.Path{From: from, To: to, Outcome: scene.Answered}
	long, full, sounded, again, back := answered, answered, answered, answered, scene.Path{From: to, To: from,
		Outcome: scene.Answered, Back: true}
	other := answered
	other.From, other.Long = netip.MustParseAddr("10.9.0.1"), true
	loses, late := answered, answered
	loses.Sounded, loses.Loses, loses.Late, late.Sounded, late.Late = true, true, 7, true, 1
	long.Long, full.Full, full.Sounded, sounded.Sounded, again.Long, again.Again = true, true, true, true, true, 9
	healed := long
	long.Sound, back.Sound, other.Sound, healed.Sound = 9*time.Second, 9*time.Second, 9*time.Second, 4*time.Second
	for _, tt := range []struct {
		name    string
		path    scene.Path
		there   bool // the other node has tried
		backoff uint8
		cause   string
		sure    verdict.Sure
	}{
		{"no answer", scene.Path{To: to, Outcome: scene.Unreachable}, false, 6, "path.lost", verdict.Certain},
		{"long messages pass", long, false, 6, "path.stale", verdict.Certain},
		{"the next try may pass", long, false, 5, "path.stale", verdict.Likely},
		{"the last try was before that", healed, false, 7, "path.stale", verdict.Likely},
		{"they pass from another address", other, false, 6, "path.stale", verdict.Likely},
		{"they pass, seen by the other", back, true, 6, "path.stale", verdict.Certain},
		{"full packets pass, long messages do not", full, false, 6, "path.loss", verdict.Certain},
		{"many are sent again", again, false, 6, "path.loss", verdict.Certain},
		{"short ones are lost, too", loses, false, 6, "path.loss", verdict.Certain},
		{"a short one is lost, too", late, false, 6, "path.mtu", verdict.Likely},
		{"no full packet passes", sounded, false, 6, "path.mtu", verdict.Certain},
		{"no long message passes", answered, false, 6, "path.mtu", verdict.Certain},
	} {
		zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
		zero.Sockets[0].Info = &scene.Info{Backoff: tt.backoff, Unacked: 3, LastRecv: time.Minute,
			LastSent: 5 * time.Second}
		zero.Sockets[0].SendQ = 9000
		zero.Paths = []scene.Path{tt.path}
		if tt.there {
			zero.Paths, one.Paths = nil, []scene.Path{tt.path}
		}
		if got := Judge([]scene.Scene{zero, one})[0].Why[0]; got.Cause != tt.cause || got.Sure != tt.sure {
			t.Errorf("%s: %s, %s", tt.name, got.Cause, got.Sure)
		}
		// The doctor looks again on a node whose companion has tried: it makes no calls of its own.
		later := zero
		later.Taken, later.Paths = zero.Taken.Add(time.Second), nil
		if got := Judge([]scene.Scene{later, zero, one})[0].Why[0]; got.Cause != tt.cause {
			t.Errorf("%s, and the doctor after it: %s", tt.name, got.Cause)
		}
	}
}

// A path from which data has just arrived is slow or loses packets; it is lost where nothing arrives.
func TestAPathFromWhichDataArrivesIsNotLost(t *testing.T) {
	for ago, want := range map[time.Duration]string{0: "path.loss", time.Second: "path.loss",
		3 * time.Second: "path.lost"} {
		zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
		zero.Sockets[0].Info = &scene.Info{Backoff: 4, Unacked: 367, Received: 1 << 20, LastRecv: ago}
		zero.Sockets[0].SendQ = 524528
		zero.Paths = []scene.Path{{To: netip.MustParseAddr("10.0.0.2"), Outcome: scene.Unreachable}}
		a := Judge([]scene.Scene{zero, one})[0]
		if got := a.Why[0]; got.Cause != want || want == "path.loss" && a.Certain() {
			t.Errorf("%s: %+v", ago, a.Why)
		}
	}
}

// TestANodeThatReachesNoOtherIsCutOffItself: of several lost paths the node that they have in common is at fault.
func TestANodeThatReachesNoOtherIsCutOffItself(t *testing.T) {
	a, b, c := &node{name: "a"}, &node{name: "b"}, &node{name: "c"}
	path := func(from, to *node) claim {
		return claimed("path.lost", verdict.Certain, from.name+" gets no answer from "+to.name).of(nil, from, to)
	}
	mtu := claimed("path.stale", verdict.Certain, "").of(nil, b, c)
	for _, tt := range []struct {
		name  string
		heard []*node
		paths []claim
		want  string // the sentence of the first path.lost, and how many there are
		count int
	}{
		{"one path", []*node{a}, []claim{path(a, b)}, "a gets no answer from b", 1},
		{"only itself was heard", []*node{a}, []claim{path(a, b), mtu, path(a, c)},
			"a gets no answer from b, c any more: it is", 1},
		{"the others were heard", []*node{b, c}, []claim{path(b, a), path(c, a)}, "b, c get no answer from a any more", 1},
		{"two paths without a common node", []*node{a, b, c}, []claim{path(a, b), path(c, &node{name: "d"})},
			"a gets no answer from b", 2},
		{"each lost each", []*node{a, b, c}, []claim{path(a, b), path(b, c), path(a, c)}, "a gets no answer from b", 3},
	} {
		v := &view{hosts: tt.heard}
		lost := slices.DeleteFunc(v.bothEnds(tt.paths), func(c claim) bool { return c.Cause != "path.lost" })
		if len(lost) != tt.count || !strings.HasPrefix(lost[0].Says, tt.want) {
			t.Errorf("%s: %d, %q", tt.name, len(lost), lost[0].Says)
		}
	}
}

// TestANodeWithoutProcessorTimeTimesOut: its own calls say nothing of its paths.
func TestANodeWithoutProcessorTimeTimesOut(t *testing.T) {
	for _, tt := range []struct {
		used, held time.Duration
		cause      string
	}{
		{0, 0, "path.lost"},
		{50 * time.Millisecond, 2900 * time.Millisecond, "node.starved"},
		{2 * time.Second, 5 * time.Second, "path.lost"}, // many threads at its quota
	} {
		zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
		zero.Sockets[0].Info = &scene.Info{Backoff: 6, Unacked: 3, LastRecv: time.Minute}
		zero.Group = scene.Group{Time: 3 * time.Second, Used: tt.used, Held: tt.held}
		why := Judge([]scene.Scene{zero, one})[0].Why
		if why[0].Cause != tt.cause {
			t.Errorf("%s, %s: %+v", tt.used, tt.held, why)
		}
	}
}

// TestASilentServerIsNoRank: what a rank calls outside the job is said to be so.
func TestASilentServerIsNoRank(t *testing.T) {
	for at, want := range map[string]bool{"10.9.9.9:443": true, "10.0.0.2:4444": false} {
		zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
		zero.Sockets = append(zero.Sockets, scene.Socket{PID: zero.Procs[0].PID, State: "syn-sent",
			Local: netip.MustParseAddrPort("10.0.0.1:40001"), Remote: netip.MustParseAddrPort(at),
			Info: &scene.Info{Retrans: 4}})
		for _, v := range Judge([]scene.Scene{zero, one})[0].Why {
			if v.Cause == "mesh.dropped" && strings.Contains(v.Says, "no node of this job") != want {
				t.Errorf("%s: %+v", at, v)
			}
		}
	}
}

// TestACallWithoutAnAnswerIsComparedWithLaunchsOwn: to the same node, at another port, and perhaps by another user.
func TestACallWithoutAnAnswerIsComparedWithLaunchsOwn(t *testing.T) {
	there := netip.MustParseAddr("10.0.0.2")
	for name, tt := range map[string]struct {
		user int
		path []scene.Path
		want string
		new  bool
		sent uint32 // again
	}{
		"a port": {0, []scene.Path{{To: there, Outcome: scene.Answered}}, "a filter of that port", false, 4},
		"a user": {99, []scene.Path{{To: there, Outcome: scene.Answered}}, "or of what user 99 sends", false, 4},
		"new connections": {0, []scene.Path{{To: there, Outcome: scene.Unreachable}},
			"no new connection gets there", true, 4},
		"for a moment": {0, []scene.Path{{To: there, Outcome: scene.Unreachable}},
			"no new connection gets there", false, 2},
		"some of them": {0, []scene.Path{{To: there, Outcome: scene.Unreachable, Knocks: 12, Late: 12, Never: 7}},
			"no new connection gets there", false, 4},
		"an error here": {0, []scene.Path{{To: there, Outcome: scene.Unreachable, Here: "EPERM"}}, "", false, 4},
		"not tried":     {0, nil, "calls host1 at port 4444 and gets no answer", false, 4},
	} {
		zero := plainRank(0, "python", 1)
		zero.Sockets = []scene.Socket{{PID: zero.Procs[0].PID, State: "syn-sent", Info: &scene.Info{Retrans: tt.sent},
			Local: netip.MustParseAddrPort("10.0.0.1:40001"), Remote: netip.AddrPortFrom(there, 4444)}}
		zero.Procs[0].User, zero.Paths = tt.user, tt.path
		zero.Peers = []scene.Peer{{Name: "host1", Rank: 1, Addrs: []netip.Addr{there}}} // its launch does not answer
		v := Judge([]scene.Scene{zero})[0].Why[0]
		if cause := map[bool]string{true: "path.new", false: "mesh.dropped"}[tt.new]; v.Cause != cause ||
			tt.new != (v.Sure == verdict.Certain) || !strings.Contains(v.Says, tt.want) || !slices.Contains(v.Nodes, "host1") {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// A connection is dead, and new ones pass: the firewall of the end whose table has no entry for it drops its packets.
func TestAFirewallThatHasForgottenAConnectionIsNamed(t *testing.T) {
	for name, tt := range map[string]struct {
		here, there, short bool
		cause, says        string
		sure               verdict.Sure
	}{
		"at the end that sends": {here: true, cause: "path.here", says: "the own firewall of h0 drops",
			sure: verdict.Certain},
		"at the other end": {there: true, cause: "path.here", says: "Or a firewall between drops them",
			sure: verdict.Likely},
		"at neither":           {cause: "path.stale", says: "between drops this one"},
		"new ones do not pass": {there: true, short: true, cause: "path.mtu"},
	} {
		zero, one := plainRank(0, "python", 1), plainRank(1, "python", 0)
		zero.Sockets[0].Info = &scene.Info{Backoff: 6, Unacked: 3, LastRecv: time.Minute}
		zero.Sockets[0].SendQ = 9000
		one.Sockets[0].Local, one.Sockets[0].Remote = zero.Sockets[0].Remote, zero.Sockets[0].Local
		zero.Sockets[0].Forgot, one.Sockets[0].Forgot = tt.here, tt.there
		to := zero.Sockets[0].Remote.Addr()
		zero.Paths = []scene.Path{{To: to, Outcome: scene.Answered, Sounded: true, Long: !tt.short}}
		got := Judge([]scene.Scene{zero, one})[0].Why[0]
		if got.Cause != tt.cause || !strings.Contains(got.Says, tt.says) {
			t.Errorf("%s: %s, %s", name, got.Cause, got.Says)
		}
		if tt.sure != "" && got.Sure != tt.sure {
			t.Errorf("%s: it is %s", name, got.Sure)
		}
		later := zero
		later.Taken, later.Paths = zero.Taken.Add(time.Second), nil
		later.Sockets = slices.Clone(zero.Sockets)
		later.Sockets[0].Forgot = false
		if again := Judge([]scene.Scene{later, zero, one})[0].Why[0]; again.Cause != tt.cause {
			t.Errorf("%s, and the doctor after it: %s", name, again.Cause)
		}
	}
}
