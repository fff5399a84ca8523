package sidechannel

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/sockaddr"
)

// burstTick is how often a burst looks whether its context has ended.
const burstTick = 50 * time.Millisecond

// attempt is a connection of a burst.
type attempt struct {
	own     netip.AddrPort // this node's end; port 0: any
	open    bool           // within the time
	late    bool           // the first SYN packet was not answered
	refused bool
	failed  bool // this node could not try, or not for the whole time
}

// burst opens connections at once, and holds them until each is open or refused, or the time is over. It asks the
// kernel without a goroutine for each: a healthy start has no time for them.
func burst(ctx context.Context, to netip.AddrPort, opt Options, all []attempt, budget time.Duration) {
	end := time.Now().Add(budget)
	fds := make([]unix.PollFd, 0, len(all))
	which := make([]int, 0, len(all)) // of all
	defer func() {
		for _, p := range fds {
			_ = unix.SetsockoptLinger(socketOf(p), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
			_ = unix.Close(socketOf(p))
		}
	}()
	for i := range all {
		fd, err := begin(to, opt, all[i].own)
		if err != nil {
			all[i].failed = true
			continue
		}
		fds, which = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT}), append(which, i)
		if own, err := unix.Getsockname(fd); err == nil {
			all[i].own = sockaddr.From(own)
		}
	}
	for left := len(fds); left > 0; {
		wait := min(burstTick, time.Until(end))
		if wait <= 0 || ctx.Err() != nil {
			break
		}
		if _, err := unix.Poll(fds, int(wait/time.Millisecond)+1); err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
		for i, p := range fds {
			if p.Fd < 0 || p.Revents == 0 {
				continue
			}
			all[which[i]].settle(int(p.Fd))
			fds[i].Fd = ^p.Fd // poll(2) ignores it
			left--
		}
	}
	if ctx.Err() == nil {
		return
	}
	for i, p := range fds { // they had less than the time
		if p.Fd >= 0 {
			all[which[i]].failed = true
		}
	}
}

// socketOf returns the socket of an entry for poll, which is negative once it is settled.
func socketOf(p unix.PollFd) int {
	if p.Fd < 0 {
		return int(^p.Fd)
	}
	return int(p.Fd)
}

// begin starts a connection from this node's end, which may be zero, and returns its socket.
func begin(to netip.AddrPort, opt Options, own netip.AddrPort) (fd int, err error) {
	fd, err = unix.Socket(sockaddr.Family(to.Addr()), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if opt.Via != "" {
		_ = unix.BindToDevice(fd, opt.Via)
	}
	if !own.IsValid() && opt.From.IsValid() {
		own = netip.AddrPortFrom(opt.From, 0)
		_ = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	}
	if own.IsValid() {
		err = unix.Bind(fd, sockaddr.Of(own))
	}
	if err == nil {
		err = unix.Connect(fd, sockaddr.Of(to))
	}
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// settle notes how a connection has ended its begin.
func (f *attempt) settle(fd int) {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		f.failed = true
	case code == 0:
		f.open = true
		if i, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO); err == nil {
			f.late = i.Total_retrans > 0
		}
	case unix.Errno(code) == unix.ETIMEDOUT:
	default: // by the other end, or a router or firewall
		f.refused = true
	}
}
