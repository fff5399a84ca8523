package companion

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"launch/diagnose/scene"
	"launch/fabric"
)

// link01 is a connection of node 0 to node 1.
var link01 = scene.Link{Local: netip.MustParseAddrPort("10.0.0.1:40000"),
	Remote: netip.MustParseAddrPort("10.0.0.2:50000")}

// TestAConnectionThatCrawls: data waits at each look, the other end takes more, some arrives, and by far less than
// before or with heavy loss. A process that reads slowly, a step without data and a path that is dead are something
// else.
func TestAConnectionThatCrawls(t *testing.T) {
	const mega = 1 << 20
	for _, tt := range []struct {
		name   string
		before uint64        // bytes in a look, for a minute
		acked  uint64        // then, bytes in a look
		sent   uint64        // likewise, with those sent again
		queued uint32        // at each look
		unsent uint32        // likewise
		full   time.Duration // in a look
		stops  int           // after how many more looks nothing arrives; 0: never
		want   bool
	}{
		{"a policer", 20 * mega, 120 << 10, 600 << 10, 500 << 10, 500 << 10, 0, 0, true},
		{"a shaper, without loss", 20 * mega, 30 << 10, 30 << 10, 500 << 10, 500 << 10, 0, 0, true},
		{"an allowance of packets: all is sent, again and again", 20 * mega, 6 << 10, 30 << 10, 200 << 10, 0, 0, 0, true},
		{"from the start, with loss", 0, 120 << 10, 600 << 10, 500 << 10, 500 << 10, 0, 0, true},

		{"as before", 20 * mega, 20 * mega, 20 * mega, 500 << 10, 500 << 10, 0, 0, false},
		{"an upload that is slow at times, without loss", 20 * mega, 2 * mega, 2 * mega, 500 << 10, 500 << 10, 0, 0, false},
		{"half as fast, with loss", 20 * mega, 10 * mega, 12 * mega, 500 << 10, 500 << 10, 0, 0, false},
		{"from the start, a slow link", 0, 120 << 10, 120 << 10, 500 << 10, 500 << 10, 0, 0, false},
		{"the process there is slow", 20 * mega, 30 << 10, 30 << 10, 500 << 10, 500 << 10, 4 * time.Second, 0, false},
		{"few bytes, none of which wait", 20 * mega, 30 << 10, 30 << 10, 0, 0, 0, 0, false},
		{"few bytes that are on their way at each look", 20 * mega, 30 << 10, 30 << 10, 4 << 10, 0, 0, 0, false},
		{"it is dead", 20 * mega, 0, 30 << 10, 500 << 10, 500 << 10, 0, 0, false},
		{"it died a moment ago", 20 * mega, 1 * mega, 1 * mega, 500 << 10, 500 << 10, 0, 1, false},
	} {
		var f flows
		info, at := scene.Info{}, time.Unix(0, 0)
		see := func() {
			i := info
			f.saw(scene.Traffic{link01: scene.Socket{Inode: 7, SendQ: tt.queued, Info: &i}}, at, noCourse)
			f.owned(func() scene.Traffic { return scene.Traffic{link01: scene.Socket{Inode: 7}} })
			at = at.Add(stuckPoll)
		}
		see()
		for range 12 {
			info.Acked, info.Sent = info.Acked+tt.before, info.Sent+tt.before
			if see(); len(f.crawling()) > 0 {
				t.Errorf("%s: crawls before", tt.name)
			}
		}
		if tt.before == 0 {
			f = flows{}
		}
		for i := range 4 {
			if tt.stops == 0 || i < tt.stops {
				info.Acked += tt.acked
			}
			info.Sent, info.Again = info.Sent+tt.sent, info.Again+tt.sent-min(tt.sent, tt.acked)
			info.Unsent, info.Full = tt.unsent, info.Full+tt.full
			see()
		}
		if got := f.crawling(); (len(got) > 0) != tt.want {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func noCourse(_, _ netip.AddrPort) (fabric.Course, error) { return fabric.Course{}, unix.ENETUNREACH }

// TestACrawlOfTheCommand: a connection of another program is not the command's, and a rate counts for some minutes.
func TestACrawlOfTheCommand(t *testing.T) {
	for _, tt := range []struct {
		name  string
		owner uint64
		pause time.Duration // before it is slow
		want  int
	}{
		{"the command's", 7, 0, 1},
		{"another program's", 0, 0, 0},
		{"it was fast long ago", 7, 2 * bestFor, 0},
	} {
		var f flows
		info, at := scene.Info{}, time.Unix(0, 0)
		see := func(acked uint64, queued uint32) {
			info.Acked, info.Sent, info.Unsent = info.Acked+acked, info.Sent+acked, queued
			i := info
			f.saw(scene.Traffic{link01: scene.Socket{Inode: 7, SendQ: queued, Info: &i}}, at, noCourse)
			f.owned(func() scene.Traffic { return scene.Traffic{link01: scene.Socket{Inode: tt.owner}} })
			at = at.Add(stuckPoll)
		}
		for range 12 {
			see(20<<20, 500<<10)
		}
		for range tt.pause / stuckPoll {
			see(30<<10, 0)
		}
		for range 4 {
			see(30<<10, 500<<10)
		}
		if got := f.crawling(); len(got) != tt.want {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// TestAnotherWayByWhichDataArrivesIsNoFault: of two connections one is idle, and the other one goes on when the way has
// changed. Where both end to carry, it is the fault.
func TestAnotherWayByWhichDataArrivesIsNoFault(t *testing.T) {
	busy := scene.Link{Local: netip.MustParseAddrPort("10.0.0.1:40001"), Remote: link01.Remote}
	for range 16 { // the order of a map
		for _, goesOn := range []bool{true, false} {
			var f flows
			at, acked := time.Unix(0, 0), uint64(100)
			now := fabric.Course{Interface: "eth0", Index: 2}
			course := func(_, _ netip.AddrPort) (fabric.Course, error) { return now, nil }
			traffic := func() scene.Traffic {
				return scene.Traffic{link01: {Inode: 7, Info: &scene.Info{Acked: 5}},
					busy: {Inode: 8, Info: &scene.Info{Acked: acked}}}
			}
			look := func() {
				f.saw(traffic(), at, course)
				at = at.Add(stuckPoll)
			}
			turned := func() bool {
				return f.turnedNow(link01.Local.Addr(), link01.Remote.Addr(), at, traffic(), course).Why != ""
			}
			for range 3 {
				acked += 100
				look()
			}
			now = fabric.Course{Interface: "eth1", Index: 3}
			for range 3 {
				if goesOn {
					acked += 100
				}
				if turned() == goesOn {
					t.Fatalf("it goes on: %t, before a look", goesOn)
				}
				if look(); goesOn {
					acked += 100
				}
				if turned() == goesOn {
					t.Fatalf("it goes on: %t, after a look", goesOn)
				}
			}
			if goesOn && f.trails[endsOf(link01)].sound.Interface != "eth1" {
				t.Fatal("data arrives by the new way, and it is not the sound one")
			}
		}
	}
}

// TestAFreshLookIsWaitedFor: a call may fail just after a look, of which nothing follows yet.
func TestAFreshLookIsWaitedFor(t *testing.T) {
	var f flows
	at, course := time.Unix(0, 0), func(_, _ netip.AddrPort) (fabric.Course, error) { return fabric.Course{Index: 2}, nil }
	f.saw(scene.Traffic{link01: {Inode: 7, Info: &scene.Info{Acked: 5}}}, at, course)
	unknown := pairOfEnds{link01.Remote.Addr(), link01.Local.Addr()}
	for _, tt := range []struct {
		ends        pairOfEnds
		after, want time.Duration
	}{{endsOf(link01), 30 * time.Millisecond, turnPause - 30*time.Millisecond}, {endsOf(link01), turnPause, 0},
		{endsOf(link01), -time.Hour, turnPause}, {unknown, 0, 0}} {
		if got := f.pause(tt.ends, at.Add(tt.after)); got != tt.want {
			t.Errorf("%v after %s: %s", tt.ends, tt.after, got)
		}
	}
}

// TestTheWayIsKnownAfterAConnectionWasClosed: of two connections between two nodes either one closes before the way
// changes, and the other one gets no answer from then on.
func TestTheWayIsKnownAfterAConnectionWasClosed(t *testing.T) {
	other := scene.Link{Local: netip.MustParseAddrPort("10.0.0.1:40001"), Remote: link01.Remote}
	for _, closed := range []scene.Link{link01, other} {
		for range 8 { // the order of a map
			var f flows
			at, acked := time.Unix(0, 0), uint64(100)
			now := fabric.Course{Interface: "eth0", Index: 2}
			course := func(_, _ netip.AddrPort) (fabric.Course, error) { return now, nil }
			open := scene.Traffic{link01: {Inode: 7}, other: {Inode: 8}}
			traffic := func() scene.Traffic {
				out := scene.Traffic{}
				for l, k := range open {
					k.Info = &scene.Info{Acked: acked}
					out[l] = k
				}
				return out
			}
			for range 3 {
				acked += 100
				f.saw(traffic(), at, course)
				at = at.Add(stuckPoll)
			}
			delete(open, closed)
			now = fabric.Course{Interface: "wg0", Index: 3}
			f.saw(traffic(), at, course)
			at = at.Add(stuckPoll)
			if got := f.turnedNow(link01.Local.Addr(), link01.Remote.Addr(), at, traffic(), course); got.Why == "" {
				t.Fatalf("%v closed: nothing has changed", closed)
			}
		}
	}
}

// TestALookAsksForFewCourses: of many pairs of addresses each has its turn.
func TestALookAsksForFewCourses(t *testing.T) {
	var f flows
	all := scene.Traffic{}
	for i := range 3 * maxCourses {
		to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}), 50000)
		all[scene.Link{Local: link01.Local, Remote: to}] = scene.Socket{Inode: uint64(i + 1), Info: &scene.Info{}}
	}
	asked := map[netip.AddrPort]int{}
	for i := range 3 {
		f.saw(all, time.Unix(int64(i), 0), func(_, to netip.AddrPort) (fabric.Course, error) {
			asked[to]++
			return fabric.Course{}, nil
		})
		if len(asked) != (i+1)*maxCourses {
			t.Errorf("after %d looks: %d", i+1, len(asked))
		}
	}
}

// TestAWayIsSoundWhilePacketsArrive: by another one nothing arrives, or it is a new way that is as good.
func TestAWayIsSoundWhilePacketsArrive(t *testing.T) {
	var f flows
	info := scene.Info{}
	course := fabric.Course{Interface: "eth0", Index: 2}
	see := func() fabric.Course {
		i := info
		f.saw(scene.Traffic{link01: scene.Socket{Inode: 7, Info: &i}}, time.Unix(0, 0),
			func(_, _ netip.AddrPort) (fabric.Course, error) { return course, nil })
		return f.trails[endsOf(link01)].sound
	}
	if got := see(); got.Interface != "" {
		t.Errorf("nothing has arrived: %+v", got)
	}
	info.Acked = 100
	if got := see(); got.Interface != "eth0" {
		t.Errorf("packets arrive: %+v", got)
	}
	course = fabric.Course{Interface: "eth1", Index: 3}
	info.Acked, info.Backoff = 150, 1 // the last ones of the old way
	if got := see(); got.Interface != "eth0" {
		t.Errorf("the way has changed, and data waits: %+v", got)
	}
	if got := see(); got.Interface != "eth0" {
		t.Errorf("nothing arrives by the new way: %+v", got)
	}
	info.Acked, info.Backoff = 300, 0
	if got := see(); got.Interface != "eth1" {
		t.Errorf("packets arrive by the new way: %+v", got)
	}
}
