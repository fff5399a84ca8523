package companion

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/fabric"
	"launch/rendezvous"
)

// TestWhoHasTheAddressOfANode: what answers there may be another machine. It is not where the node has another
// interface for it, and where nothing was known before. The connections may have ended.
func TestWhoHasTheAddressOfANode(t *testing.T) {
	to := link01.Remote.Addr()
	second, third := netip.MustParseAddr("10.0.0.102"), netip.MustParseAddr("10.0.0.3")
	of := rendezvous.Partner{Rank: 0, Name: "host1", Addr: to, Addrs: []netip.Addr{second}}
	others := []rendezvous.Partner{of, {Rank: 2, Name: "host2 (10.0.0.3)", Addr: third}}
	left := scene.Link{Local: netip.MustParseAddrPort("10.0.0.1:40001"), Remote: link01.Remote}
	const mac, mac2, mac3 = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"
	sound := fabric.Course{Interface: "eth0", Index: 2, Neighbour: mac}
	for _, tt := range []struct {
		name   string
		now    fabric.Course
		over   bool // the connections have ended
		rest   bool // and one on which nothing moves is left
		unseen bool // no data has arrived before
		want   string
	}{
		{name: "as before", now: sound},
		{name: "as before, and refused", now: sound, over: true},
		{name: "this node has it", now: fabric.Course{Interface: "lo", Index: 1, Local: true}, over: true,
			want: "this node has 10.0.0.2 itself now"},
		{name: "this node has it, and an old connection is left", now: fabric.Course{Interface: "lo", Index: 1, Local: true},
			rest: true, want: "this node has 10.0.0.2 itself now"},
		{name: "another node has it", now: fabric.Course{Index: 2, Neighbour: mac3}, want: "as host2 (10.0.0.3) has"},
		{name: "another node has it, and nothing was known", now: fabric.Course{Index: 2, Neighbour: mac3}, unseen: true},
		{name: "the same node's other interface", now: fabric.Course{Index: 2, Neighbour: mac2}, over: true},
	} {
		var f flows
		now, acked := sound, uint64(0)
		course := func(_, at netip.AddrPort) (fabric.Course, error) {
			switch at.Addr() {
			case second:
				return fabric.Course{Index: 2, Neighbour: mac2}, nil
			case third:
				return fabric.Course{Index: 2, Neighbour: mac3}, nil
			}
			return now, nil
		}
		traffic := func() scene.Traffic {
			return scene.Traffic{link01: {Inode: 7, Info: &scene.Info{Acked: acked}},
				left: {Inode: 8, Info: &scene.Info{Acked: min(acked, 50)}}}
		}
		for i := range 3 {
			if !tt.unseen {
				acked += 100
			}
			f.saw(traffic(), time.Unix(int64(5*i), 0), course)
		}
		now = tt.now
		for i := range 3 {
			last := traffic()
			if tt.rest || tt.over {
				delete(last, link01)
			}
			if tt.over {
				delete(last, left)
			}
			if tt.over && i > 0 { // to what has the address now
				last[left] = scene.Socket{Inode: 9, Info: &scene.Info{Acked: 5}}
			}
			f.saw(last, time.Unix(int64(15+5*i), 0), course)
		}
		if got := f.moved(to, of, others, course); (got.Why == "") != (tt.want == "") ||
			!strings.Contains(got.Why, tt.want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// TestAMovedAddressIsNoFaultWhileDataArrives: a node that has another network card goes on.
func TestAMovedAddressIsNoFaultWhileDataArrives(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	to := netip.MustParseAddr("127.0.0.9")
	if arrivesStill(to) {
		t.Error("nothing is sent, and it arrives")
	}
	go func() {
		for range 50 {
			_, _ = c.Write([]byte("x"))
			time.Sleep(movedPause / 20)
		}
	}()
	time.Sleep(movedPause / 5)
	if !arrivesStill(to) {
		t.Error("data arrives, and it is not seen")
	}
}

func TestANodeWhoseAddressMovedHasNotEnded(t *testing.T) {
	for _, tt := range []struct {
		s    sight
		want string
	}{
		{sight{is: isMoved, way: "this node has 10.0.0.2 itself now"}, "this node has 10.0.0.2 itself now"},
		{sight{is: isHelper, way: "this node has 10.0.0.2 itself now"},
			"its ranks still send data: this node has 10.0.0.2 itself now"},
		{sight{is: isHelper}, "its ranks still send data: launch's own process there is stopped or has ended"},
		{sight{is: hasEnded}, "its machine answers, and launch has ended there"},
	} {
		if got := tt.s.String(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.s, got, tt.want)
		}
	}
	if weigh(isMoved, true, further{}, scene.Exchanged{}) != isHelper {
		t.Error("its ranks send data, and it does not go on")
	}
}
