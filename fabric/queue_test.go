package fabric

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

func TestAQueueingDisciplineIsRead(t *testing.T) {
	stats := make([]byte, 20) // struct gnet_stats_queue
	binary.NativeEndian.PutUint32(stats[4:], 5000)
	binary.NativeEndian.PutUint32(stats[8:], 348)
	basic := make([]byte, 12) // struct gnet_stats_basic
	binary.NativeEndian.PutUint64(basic, 1<<40)
	binary.NativeEndian.PutUint32(basic[8:], 9)
	two := nl.NewRtAttr(unix.NLA_F_NESTED|nl.TCA_STATS2, nil)
	two.AddRtAttr(1, basic)
	two.AddRtAttr(3, stats)
	b := append(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("tbf")).Serialize(), two.Serialize()...)
	if got := readQueue(b); got != (queue{"tbf", 348, 5000, 1 << 40, 9}) {
		t.Errorf("got %+v", got)
	}
	if got := readQueue(b[:8]); got != (queue{kind: "tbf"}) {
		t.Errorf("without counters: %+v", got)
	}
}

func TestWhichQueueHasDroppedPackets(t *testing.T) {
	root, child := [2]uint32{netlink.HANDLE_ROOT, 1 << 16}, [2]uint32{1<<16 | 1, 2 << 16}
	look := func(r, c uint32) map[[2]uint32]queue {
		return map[[2]uint32]queue{root: {kind: "htb", dropped: r}, child: {kind: "tbf", dropped: c}}
	}
	for _, tt := range []struct {
		name          string
		before, after map[[2]uint32]queue
		want          string
	}{
		{"the inner one, which the root counts too", look(7, 7), look(12, 12), "tbf"},
		{"the root", look(7, 7), look(12, 7), "htb"},
		{"it rises without harm", look(7, 7), look(11, 11), ""},
		{"not known", nil, nil, ""},
		{"a new one", nil, look(9, 9), ""},
	} {
		if got := droppedBy(tt.before, tt.after, 5); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestHowDropsOfThisNodeAreDescribed(t *testing.T) {
	for _, tt := range []struct {
		by    string
		short bool
		want  string
		do    string
	}{
		{"tbf", false, "own queue (tbf) for output on eth0 drops packets of 1500 bytes, and sends those of 68: the burst",
			"tc qdisc del dev eth0 root"},
		{"htb", true, "own queue (htb) for output on eth0 drops all that it sends", "tc qdisc del dev eth0 root"},
		{"", false, "own filter (tc) for output on eth0 drops packets of 1500 bytes", "tc -s filter show dev eth0 egress"},
	} {
		f := dropsOwn("eth0", tt.by, 1500, 68, tt.short)
		if !strings.Contains(f.Why, tt.want) || !strings.Contains(f.Do, tt.do) ||
			tt.by == "" && strings.Contains(f.Do, "qdisc del") {
			t.Errorf("%q: %+v", tt.by, f)
		}
	}
}

// Loopback has no queue that drops.
func TestAHealthyQueueDropsNothing(t *testing.T) {
	to := netip.MustParseAddrPort("127.0.0.1:9")
	if f := queued(netip.Addr{}, to, "lo", false); f != (Fault{}) {
		t.Errorf("got %+v", f)
	}
	n, err := datagram(netip.Addr{}, to, func(mtu int) int { return min(mtu, 1500) })
	if err != nil || n != 1500 {
		t.Errorf("a datagram of %d bytes: %v", n, err)
	}
	if n, err = datagram(netip.Addr{}, to, func(int) int { return 0 }); err != nil || n != shortest+28 {
		t.Errorf("a short one of %d bytes: %v", n, err)
	}
}

// TestAQueueThatHoldsPacketsBack: what waits in it takes long to leave. A fast link has a full queue for a moment.
func TestAQueueThatHoldsPacketsBack(t *testing.T) {
	root, child := [2]uint32{netlink.HANDLE_ROOT, 1 << 16}, [2]uint32{1<<16 | 1, 2 << 16}
	look := func(kind string, backlog uint32, sent uint64) map[[2]uint32]queue {
		return map[[2]uint32]queue{root: {kind: kind, backlog: backlog, sent: sent},
			child: {kind: "pfifo", backlog: backlog}}
	}
	paced := look("mq", 3000, 0)
	paced[child] = queue{kind: "fq", backlog: 3000}
	for _, tt := range []struct {
		name          string
		before, after map[[2]uint32]queue
		want          string
	}{
		{"48 kbit/s", look("htb", 9000, 0), look("htb", 8000, 3000),
			"(htb) holds packets back: 8000 bytes wait in it, and 6 kB"},
		{"nothing leaves", look("htb", 9000, 0), look("htb", 9000, 0), "and nothing left in 0.5 s"},
		{"a full queue of a fast link", look("fq_codel", 2e6, 0), look("fq_codel", 2e6, 6e8), ""},
		{"it was empty between", look("htb", 9000, 0), look("htb", 0, 3000), ""},
		{"TCP's own pacing", paced, paced, ""},
		{"not known", nil, nil, ""},
	} {
		got := heldBack("eth0", tt.before, tt.after, heldPause).Why
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q", tt.name, got)
		}
	}
}
