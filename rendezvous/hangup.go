package rendezvous

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Hangup is when the other end of a connection to a store last closed it, or refused one: a
// process that ends does that, and a cable that is cut does not.
type Hangup struct{ at atomic.Int64 } // UnixNano; 0: never

// watch remembers err, if it is the other end's doing.
func (h *Hangup) watch(err error) {
	if h != nil && (err == io.EOF || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED)) {
		h.at.Store(time.Now().UnixNano())
	}
}

// within returns whether the last one was later than a time, and by less than d.
func (h *Hangup) within(since time.Time, d time.Duration) bool {
	if h == nil {
		return false
	}
	after := time.Unix(0, h.at.Load()).Sub(since)
	return after > 0 && after < d
}

// watchedConn is a connection whose end a Hangup remembers.
type watchedConn struct {
	net.Conn
	hangup *Hangup
}

func (c watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.hangup.watch(err)
	return n, err
}

// dial is dialShort for gRPC. It bounds, as gRPC does for a connection that it knows, how long data
// may remain unacknowledged.
func (h *Hangup) dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := dialShort(ctx, addr)
	if h.watch(err); err != nil {
		return nil, err
	}
	if raw, err := c.(*net.TCPConn).SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(pingTimeout/time.Millisecond))
		})
	}
	return watchedConn{c, h}, nil
}
