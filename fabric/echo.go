package fabric

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/sockaddr"
)

// askedHost is one of the hosts that answerers asks, with its sockets; -1: it has no such socket.
type askedHost struct {
	at             netip.Addr
	echo, udp, tcp int
}

// answerers asks hosts for any sign by IP: an echo, a packet of UDP to a port of no program, and a call of TCP to a
// port. It returns which have answered within a time, and whether it may send echoes: hosts whose filter drops the rest
// answer these as a rule.
func answerers(ctx context.Context, hosts []netip.Addr, port uint16, limit time.Duration) (heard map[netip.Addr]bool,
	echoes bool) {
	heard = map[netip.Addr]bool{}
	var all []*askedHost
	for _, a := range hosts {
		h := ask(a.Unmap(), port)
		echoes = echoes || h.echo >= 0
		all = append(all, &h)
	}
	defer func() {
		for _, h := range all {
			h.close()
		}
	}()
	for end := time.Now().Add(limit); len(heard) < len(all) && time.Now().Before(end) && ctx.Err() == nil; {
		var fds []unix.PollFd
		for _, h := range all {
			if heard[h.at] {
				continue
			}
			if h.answered() {
				heard[h.at] = true
				continue
			}
			for _, fd := range []int{h.echo, h.udp, h.tcp} {
				if fd >= 0 {
					fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
				}
			}
		}
		_, _ = unix.Poll(fds, 50)
	}
	return heard, echoes
}

// ask sends a host what it may answer.
func ask(a netip.Addr, port uint16) (h askedHost) {
	h = askedHost{a, -1, -1, -1}
	request, proto, level, errs := []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}, unix.IPPROTO_ICMP, unix.SOL_IP, unix.IP_RECVERR
	if a.Is6() {
		request, proto, level, errs = []byte{128, 0, 0, 0, 0, 0, 0, 0}, unix.IPPROTO_ICMPV6, unix.SOL_IPV6, unix.IPV6_RECVERR
	}
	open := func(kind, proto int, to netip.AddrPort) int {
		fd, err := unix.Socket(sockaddr.Family(a), kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
		if err != nil {
			return -1
		}
		if unix.Connect(fd, sockaddr.Of(to)) != nil {
			_ = unix.Close(fd)
			return -1
		}
		return fd
	}
	for _, kind := range []int{unix.SOCK_DGRAM, unix.SOCK_RAW} { // the first one is for the groups of ping_group_range
		if h.echo = open(kind, proto, netip.AddrPortFrom(a, 0)); h.echo >= 0 {
			_, _ = unix.Write(h.echo, request)
			break
		}
	}
	if h.udp = open(unix.SOCK_DGRAM, 0, netip.AddrPortFrom(a, trailPort)); h.udp >= 0 {
		_ = unix.SetsockoptInt(h.udp, level, errs, 1)
		_, _ = unix.Write(h.udp, []byte("launch"))
	}
	if fd, _, err := begin(netip.Addr{}, netip.AddrPortFrom(a, port)); port > 0 && err == nil {
		h.tcp = fd
	}
	return h
}

func (h askedHost) close() {
	for _, fd := range []int{h.echo, h.udp, h.tcp} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// answered reports whether the host itself has sent something.
func (h *askedHost) answered() bool {
	level, errs := unix.SOL_IP, unix.IP_RECVERR
	if h.at.Is6() {
		level, errs = unix.SOL_IPV6, unix.IPV6_RECVERR
	}
	if h.udp >= 0 {
		if m, ok := readError(h.udp, level, errs); ok && m.from == h.at {
			return true
		}
	}
	if h.tcp >= 0 {
		answered, over := outcome(h.tcp, 0)
		if answered {
			return true
		}
		if over { // by another machine
			_ = unix.Close(h.tcp)
			h.tcp = -1
		}
	}
	b := make([]byte, 256)
	for h.echo >= 0 {
		n, err := unix.Read(h.echo, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false
		case isEchoReply(b[:n], h.at.Is6()):
			return true
		}
	}
	return false
}

// isEchoReply takes the answer of a socket of ICMP; a raw one of IPv4 has the header of IP, too.
func isEchoReply(b []byte, six bool) bool {
	if six {
		return len(b) > 0 && b[0] == 129
	}
	if len(b) > 20 && b[0]>>4 == 4 {
		b = b[min(len(b), int(b[0]&0xf)*4):]
	}
	return len(b) > 0 && b[0] == 0
}
