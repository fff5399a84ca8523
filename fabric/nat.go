package fabric

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"launch/internal/sockaddr"
)

// Redirected begins a connection and returns where this node's NAT sends its packets instead, as the kernel's table of
// connections has it. It is the zero AddrPort where they go to the address that is called, where no NAT sees them, and
// where this user may read no such table: that takes CAP_NET_ADMIN, or /proc/net/nf_conntrack.
func Redirected(from netip.Addr, to netip.AddrPort) (on netip.AddrPort) {
	on, _ = follow(from, to, 0)
	return on
}

// follow is Redirected, and returns whether there is an answer within a time: the connection opens, or is refused.
func follow(from netip.Addr, to netip.AddrPort, within time.Duration) (on netip.AddrPort, answered bool) {
	if to.Port() == 0 {
		return on, false
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	fd, own, err := begin(from, to)
	if err != nil {
		return on, false
	}
	defer unix.Close(fd)
	answer, err := tracked(own, to)
	switch {
	case err == nil:
		_, on = tupleOf(answer)
	case errors.Is(err, unix.ENOENT): // an entry is deleted at once where a call is refused
		on = refusedAt(from, to)
	default:
		if f, err := os.Open("/proc/net/nf_conntrack"); err == nil {
			defer f.Close()
			on = replyOf(f, own, to)
		}
	}
	if on == to || !on.IsValid() {
		return netip.AddrPort{}, false
	}
	return on, answers(fd, within)
}

// answers returns whether a call has an answer within a time: it opens, or is refused.
func answers(fd int, within time.Duration) (answered bool) {
	answered, _ = outcome(fd, within)
	return answered
}

// outcome is answers, and returns whether the call is over, be it by another error. Then it must not be asked again:
// the kernel deletes the error as it is read.
func outcome(fd int, within time.Duration) (answered, over bool) {
	for end := time.Now().Add(within); ; {
		left := max(0, time.Until(end))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(left/time.Millisecond))
		switch {
		case errors.Is(err, unix.EINTR) && left > 0: // the runtime of Go sends signals to its threads
			continue
		case err != nil || n == 0:
			return false, false
		}
		code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		return err == nil && (code == 0 || unix.Errno(code) == unix.ECONNREFUSED), true
	}
}

// isAnswered returns whether a call has an answer.
func isAnswered(from netip.Addr, to netip.AddrPort) bool {
	fd, _, err := begin(from, to)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return answers(fd, answerWait)
}

// redirected returns where NAT sends a call of which no packet is answered, or that another machine answers, and the
// Fault of that. NAT is no reason where such a call is answered by now, and where the machine to which it leads is just
// as silent to a call of its own address.
func redirected(from netip.Addr, to netip.AddrPort, gone Gone) (on netip.AddrPort, f Fault) {
	on, answered := follow(from, to, answerWait)
	why := ""
	switch {
	case !on.IsValid() || answered && gone == All:
		return on, f
	case gone == Astray:
	case Neighbour(on.Addr()) == Silent:
		why = ", and no machine answers for that address (ARP)"
	case isAnswered(from, on) && !isAnswered(from, to):
		why = ", which answers only calls to its own address"
	default:
		return on, f
	}
	return on, Fault{fmt.Sprintf("this node's NAT (a rule of nft or iptables, as of kube-proxy) sends calls to %s on to "+
		"%s%s", to, on, why), fmt.Sprintf("nft list ruleset; iptables -t nat -S\nlook for the rule that has %s", on.Addr())}
}

// begin begins a connection, and returns this node's end. Closing the socket resets it.
func begin(from netip.Addr, to netip.AddrPort) (fd int, own netip.AddrPort, err error) {
	fd, err = unix.Socket(sockaddr.Family(to.Addr()), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, own, err
	}
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	if from.IsValid() {
		err = unix.Bind(fd, sockaddr.Of(netip.AddrPortFrom(from.Unmap(), 0)))
	}
	if err == nil {
		err = unix.Connect(fd, sockaddr.Of(to))
	}
	if err == nil || errors.Is(err, unix.EINPROGRESS) {
		var s unix.Sockaddr
		s, err = unix.Getsockname(fd)
		own = sockaddr.From(s)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, own, err
}

// tracked asks the kernel's table of connections for one of TCP, and returns its answer (nfnetlink_conntrack.h).
func tracked(own, to netip.AddrPort) ([]byte, error) {
	const get = 1<<8 | nl.IPCTNL_MSG_CT_GET // NFNL_SUBSYS_CTNETLINK
	family, src, dst := uint8(unix.AF_INET), nl.CTA_IP_V4_SRC, nl.CTA_IP_V4_DST
	if to.Addr().Is6() {
		family, src, dst = unix.AF_INET6, nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
	}
	req := nl.NewNetlinkRequest(get, unix.NLM_F_ACK) // the answer says that more follow, and only this ends it
	req.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
	tuple := nl.NewRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_ORIG, nil)
	ip := tuple.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_IP, nil)
	ip.AddRtAttr(src, own.Addr().AsSlice())
	ip.AddRtAttr(dst, to.Addr().AsSlice())
	proto := tuple.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_PROTO, nil)
	proto.AddRtAttr(nl.CTA_PROTO_NUM, []byte{unix.IPPROTO_TCP})
	proto.AddRtAttr(nl.CTA_PROTO_SRC_PORT, binary.BigEndian.AppendUint16(nil, own.Port()))
	proto.AddRtAttr(nl.CTA_PROTO_DST_PORT, binary.BigEndian.AppendUint16(nil, to.Port()))
	req.AddData(tuple)
	answers, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return nil, err
	}
	if len(answers) == 0 {
		return nil, unix.ENOENT
	}
	return answers[0], nil
}

// Untracked reports whether the kernel's table of connections has no entry for an open one, whichever end has begun it.
// It is false where this user may not ask, which takes CAP_NET_ADMIN.
func Untracked(own, to netip.AddrPort) bool {
	own, to = plain(own), plain(to)
	for _, ends := range [][2]netip.AddrPort{{own, to}, {to, own}} {
		if _, err := tracked(ends[0], ends[1]); !errors.Is(err, unix.ENOENT) {
			return false
		}
	}
	return true
}

// Tracks reports whether the kernel's table of connections has an entry for a call, which this begins: a firewall or
// NAT of this node needs such entries.
func Tracks(from netip.Addr, to netip.AddrPort) bool {
	fd, own, err := begin(from, plain(to))
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = tracked(plain(own), plain(to))
	return err == nil
}

func plain(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

const (
	// eventWait bounds the wait for the kernel's report of a connection that it has just begun.
	eventWait = 100 * time.Millisecond
	// answerWait bounds the wait for the answer to a call: the kernel sends the first packet again after a second.
	answerWait = 1500 * time.Millisecond
)

// refusedAt begins a connection, and returns from where the kernel expects the answers, as it reports that itself when
// it enters or deletes a connection.
func refusedAt(from netip.Addr, to netip.AddrPort) (on netip.AddrPort) {
	const entered, deleted = 1, 3 // NFNLGRP_CONNTRACK_NEW, NFNLGRP_CONNTRACK_DESTROY
	events, err := nl.Subscribe(unix.NETLINK_NETFILTER, entered, deleted)
	if err != nil {
		return on
	}
	defer events.Close()
	wait := unix.NsecToTimeval(eventWait.Nanoseconds())
	if err := events.SetReceiveTimeout(&wait); err != nil {
		return on
	}
	fd, own, err := begin(from, to)
	if err != nil {
		return on
	}
	defer unix.Close(fd)
	for end := time.Now().Add(eventWait); time.Now().Before(end); {
		all, _, err := events.Receive()
		if err != nil {
			return on
		}
		for _, e := range all {
			if caller, on := tupleOf(e.Data); caller == own {
				return on
			}
		}
	}
	return on
}

// tupleOf returns from where a connection is called, and from where the kernel expects its answers.
func tupleOf(b []byte) (caller, answers netip.AddrPort) {
	if len(b) < nl.SizeofNfgenmsg {
		return caller, answers
	}
	all := nested(b[nl.SizeofNfgenmsg:])
	return source(all[nl.CTA_TUPLE_ORIG]), source(all[nl.CTA_TUPLE_REPLY])
}

// source returns the address and port from which one direction of a connection is sent.
func source(tuple []byte) netip.AddrPort {
	parts := nested(tuple)
	addrs, port := nested(parts[nl.CTA_TUPLE_IP]), nested(parts[nl.CTA_TUPLE_PROTO])[nl.CTA_PROTO_SRC_PORT]
	for _, kind := range []uint16{nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC} {
		if a, ok := netip.AddrFromSlice(addrs[kind]); ok && len(port) == 2 {
			return netip.AddrPortFrom(a, binary.BigEndian.Uint16(port))
		}
	}
	return netip.AddrPort{}
}

// nested returns the attributes in a list of netlink's, by their type.
func nested(b []byte) map[uint16][]byte {
	out := map[uint16][]byte{}
	all, err := nl.ParseRouteAttr(b)
	if err != nil {
		return out
	}
	for _, a := range all {
		out[a.Attr.Type&nl.NLA_TYPE_MASK] = a.Value
	}
	return out
}

// mostTracked bounds what is read of a table of connections, bytes: about 100,000 entries.
const mostTracked = 16 << 20

// replyOf is replySource by the text of /proc/net/nf_conntrack, in which each entry has both directions.
func replyOf(table io.Reader, own, to netip.AddrPort) netip.AddrPort {
	lines := bufio.NewScanner(io.LimitReader(table, mostTracked))
	for lines.Scan() {
		var ends [][2]netip.AddrPort // of each direction: from and to
		var src, dst netip.Addr
		var sport uint64
		for _, field := range strings.Fields(lines.Text()) {
			name, value, _ := strings.Cut(field, "=")
			switch name {
			case "src":
				src, _ = netip.ParseAddr(value)
			case "dst":
				dst, _ = netip.ParseAddr(value)
			case "sport":
				sport, _ = strconv.ParseUint(value, 10, 16)
			case "dport":
				dport, _ := strconv.ParseUint(value, 10, 16)
				ends = append(ends, [2]netip.AddrPort{netip.AddrPortFrom(src, uint16(sport)),
					netip.AddrPortFrom(dst, uint16(dport))})
			}
		}
		if len(ends) == 2 && ends[0] == [2]netip.AddrPort{own, to} && strings.Contains(lines.Text(), " tcp ") {
			return ends[1][0]
		}
	}
	return netip.AddrPort{}
}
