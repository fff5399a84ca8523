package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"launch/internal/sockaddr"
)

const (
	// volley is how many datagrams of one length are sent at once, to see whether any leaves.
	volley = 5
	// volleys is how often that is repeated, so that a queue which is full for a moment does not count.
	volleys, volleyPause = 3, 100 * time.Millisecond
	// shortest is the payload of a short datagram, bytes; discard is the port for one where no port is known (RFC 863).
	shortest, discard = 40, 9
)

// queued returns that this node's own queue for an interface drops what is sent to an address: datagrams of a full
// packet, and where long is false also short ones, are dropped each time. It sends some.
func queued(from netip.Addr, to netip.AddrPort, iface string, long bool) Fault {
	i, err := net.InterfaceByName(iface)
	if err != nil || i.Flags&net.FlagLoopback != 0 {
		return Fault{}
	}
	try := func(want func(mtu int) int) (all bool, size int, by string) {
		for k := range volleys {
			if k > 0 {
				time.Sleep(volleyPause)
			}
			before := queuesOf(i.Index)
			sent, dropped := 0, 0
			for range volley {
				n, err := datagram(from, to, want)
				switch {
				case errors.Is(err, unix.ENOBUFS):
					dropped++
				case err != nil:
					return false, 0, ""
				}
				sent, size = sent+1, n
			}
			by = droppedBy(before, queuesOf(i.Index), sent)
			if dropped < sent && by == "" {
				return false, size, ""
			}
		}
		return true, size, by
	}
	full, size, by := try(func(mtu int) int { return mtu })
	if !full {
		return Fault{}
	}
	short, least, _ := try(func(int) int { return 0 })
	if long && short {
		return Fault{} // then no call would get through
	}
	return dropsOwn(iface, by, size, least, short)
}

// dropsOwn says which packets of this node an interface drops.
func dropsOwn(iface, by string, size, least int, short bool) Fault {
	what := "queue (" + by + ")"
	if by == "" || by == "clsact" {
		what = "filter (tc)"
	}
	text := fmt.Sprintf("this node's own %s for output on %s drops all that it sends", what, iface)
	if !short {
		text = fmt.Sprintf("this node's own %s for output on %s drops packets of %d bytes", what, iface, size)
		if least > 0 {
			text += fmt.Sprintf(", and sends those of %d", least)
		}
		if by == "tbf" {
			text += ": the burst of that shaper is smaller than a packet"
		}
	}
	do := fmt.Sprintf("tc -s qdisc show dev %s; tc -s filter show dev %[1]s egress", iface)
	if by != "" && by != "clsact" {
		do += fmt.Sprintf("\nif it is not meant: tc qdisc del dev %s root", iface)
	}
	return Fault{text, do}
}

// datagram sends one datagram that fills a packet of some length, and returns the length. size gets the length of the
// longest that the kernel would send there; 0: a short packet. The kernel returns ENOBUFS where its own queue drops it
// and the socket asks for errors (net_xmit_errno in the kernel). Each has a socket of its own: an error that arrives
// for an earlier one would end the next.
func datagram(from netip.Addr, to netip.AddrPort, size func(mtu int) int) (int, error) {
	family, level, mtu, head := sockaddr.Family(to.Addr()), unix.IPPROTO_IP, unix.IP_MTU, 20+8
	discover, never, errs := unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO, unix.IP_RECVERR
	if family == unix.AF_INET6 {
		level, mtu, head = unix.IPPROTO_IPV6, unix.IPV6_MTU, 40+8
		discover, never, errs = unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO, unix.IPV6_RECVERR
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if from.IsValid() {
		if err := unix.Bind(fd, sockaddr.Of(netip.AddrPortFrom(from.Unmap(), 0))); err != nil {
			return 0, err
		}
	}
	if to.Port() == 0 {
		to = netip.AddrPortFrom(to.Addr(), discard)
	}
	if err := unix.Connect(fd, sockaddr.Of(to)); err != nil {
		return 0, err
	}
	most, err := unix.GetsockoptInt(fd, level, mtu)
	if err != nil {
		return 0, err
	}
	_ = unix.SetsockoptInt(fd, level, discover, never)
	if err := unix.SetsockoptInt(fd, level, errs, 1); err != nil {
		return 0, err
	}
	n := max(shortest, min(size(most), maxPacket)-head)
	_, err = unix.Write(fd, make([]byte, n))
	return n + head, err
}

// maxPacket is the length of the longest packet of IP, bytes.
const maxPacket = 65535

// queue is a queueing discipline of an interface.
type queue struct {
	kind    string
	dropped uint32
	backlog uint32 // bytes that wait
	sent    uint64 // bytes
	packets uint32 // of sent
}

// queuesOf returns those of an interface by their parents and handles; nil where this user may not ask.
func queuesOf(iface int) map[[2]uint32]queue {
	req := nl.NewNetlinkRequest(unix.RTM_GETQDISC, unix.NLM_F_DUMP)
	req.AddData(&nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(iface)})
	answers, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC)
	if err != nil {
		return nil
	}
	out := map[[2]uint32]queue{}
	for _, b := range answers {
		if len(b) >= nl.SizeofTcMsg {
			if msg := nl.DeserializeTcMsg(b); int(msg.Ifindex) == iface {
				out[[2]uint32{msg.Parent, msg.Handle}] = readQueue(b[nl.SizeofTcMsg:])
			}
		}
	}
	return out
}

// readQueue reads the attributes of a queueing discipline (linux/gen_stats.h).
func readQueue(b []byte) (q queue) {
	const basic, stats = 1, 3 // TCA_STATS_BASIC: bytes, packets; TCA_STATS_QUEUE: length, backlog, drops, ...
	all := nested(b)
	q.kind = strings.TrimRight(string(all[nl.TCA_KIND]), "\x00")
	both := nested(all[nl.TCA_STATS2])
	if s := both[stats]; len(s) >= 12 {
		q.backlog, q.dropped = binary.NativeEndian.Uint32(s[4:]), binary.NativeEndian.Uint32(s[8:])
	}
	if s := both[basic]; len(s) >= 12 {
		q.sent, q.packets = binary.NativeEndian.Uint64(s), binary.NativeEndian.Uint32(s[8:])
	}
	return q
}

// waiting returns how many bytes wait in the queues of an interface.
func waiting(all map[[2]uint32]queue) (n uint32) {
	for _, q := range all {
		n = max(n, q.backlog)
	}
	return n
}

const (
	// heldPause is between two looks at a queue, and heldLong how long what waits in one takes to leave that holds packets
	// back: one that is full for a moment on a fast link is empty after some milliseconds.
	heldPause, heldLong = 500 * time.Millisecond, 400 * time.Millisecond
)

// Held returns that this node's own queue for output to an address holds packets back: what waits in it takes long to
// leave. It sends nothing. The zero Fault: it does not, or this user may not ask.
func Held(from netip.Addr, to netip.Addr) Fault {
	h, err := nextHop(from.Unmap(), netip.AddrPortFrom(to.Unmap(), 0))
	if err != nil || h.local || h.iface == "" {
		return Fault{}
	}
	before := queuesOf(h.index)
	if waiting(before) == 0 {
		return Fault{}
	}
	began := time.Now()
	time.Sleep(heldPause)
	return heldBack(h.iface, before, queuesOf(h.index), time.Since(began))
}

// heldBack judges two looks at the queues of an interface. What fq holds back is TCP's own pacing.
func heldBack(iface string, before, after map[[2]uint32]queue, span time.Duration) Fault {
	for _, q := range after {
		if q.kind == "fq" {
			return Fault{}
		}
	}
	for at, q := range after {
		was, known := before[at]
		if !known || at[0] != netlink.HANDLE_ROOT || was.backlog == 0 || q.backlog == 0 {
			continue
		}
		rate := float64(q.sent-was.sent) / span.Seconds()
		if float64(min(q.backlog, was.backlog)) < rate*heldLong.Seconds() {
			continue
		}
		leave := fmt.Sprintf("%.0f kB leave in a second", rate/1000)
		if rate == 0 {
			leave = fmt.Sprintf("nothing left in %.1f s", span.Seconds())
		}
		return Fault{fmt.Sprintf("this node's own queue for output on %s (%s) holds packets back: %d bytes wait in it, "+
			"and %s", iface, q.kind, q.backlog, leave),
			fmt.Sprintf("tc -s qdisc show dev %s; tc -s class show dev %[1]s\nif it is not meant: tc qdisc del dev %[1]s root",
				iface)}
	}
	return Fault{}
}

// droppedBy returns the kind of the queueing discipline that has dropped at least n packets between two looks, rather
// an inner one than the interface's, which counts the same; "": no queue has.
func droppedBy(before, after map[[2]uint32]queue, n int) (kind string) {
	for at, q := range after {
		was, known := before[at]
		if known && q.dropped-was.dropped >= uint32(n) && (kind == "" || at[0] != netlink.HANDLE_ROOT) {
			kind = q.kind
		}
	}
	return kind
}
