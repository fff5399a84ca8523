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
	const stats = 3 // TCA_STATS_QUEUE: length, backlog, drops, requeues, overlimits
	all := nested(b)
	q.kind = strings.TrimRight(string(all[nl.TCA_KIND]), "\x00")
	if s := nested(all[nl.TCA_STATS2])[stats]; len(s) >= 12 {
		q.dropped = binary.NativeEndian.Uint32(s[8:])
	}
	return q
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
