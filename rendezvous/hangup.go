package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/process"
)

// Hangup is when the other end of a connection to a store last closed it, or refused one: a
// process that ends does that, and a cable that is cut does not. A node that moves to a newer
// store hangs up on its own.
type Hangup struct {
	at   atomic.Int64          // UnixNano; 0: never
	lost atomic.Pointer[error] // that long packets get lost; nil: not seen

	mu    sync.Mutex
	to    []netip.Addr             // where the store is by now; nil: where the endpoints say
	open  map[watchedConn]struct{} // connections to it
	moved chan struct{}            // a move that no try to reach the store has followed; nil: not asked for
}

// Connected returns the addresses to which connections are open.
func (h *Hangup) Connected() (all []netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.open {
		all = append(all, c.to())
	}
	return all
}

// Move has the store dialed at addrs from now on, whatever its endpoints say, and ends the connections to others:
// their store counts as ended.
func (h *Hangup) Move(addrs []netip.Addr) {
	h.mu.Lock()
	h.to = addrs
	var old []watchedConn
	for c := range h.open {
		if !slices.Contains(addrs, c.to()) {
			old = append(old, c)
		}
	}
	select {
	case h.moved <- struct{}{}:
	default:
	}
	h.mu.Unlock()
	if len(old) > 0 {
		h.at.Store(time.Now().UnixNano())
	}
	for _, c := range old {
		_ = c.Close()
	}
}

// whenMoved is readable after a Move: a pause before the next try to reach the store ends with it.
func (h *Hangup) whenMoved() <-chan struct{} {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.moved == nil {
		h.moved = make(chan struct{}, 1)
	}
	return h.moved
}

// places returns the addresses to dial for an endpoint.
func (h *Hangup) places(endpoint string) []string {
	if h == nil {
		return []string{endpoint}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, port, err := net.SplitHostPort(endpoint)
	if err != nil || len(h.to) == 0 {
		return []string{endpoint}
	}
	var all []string
	for _, a := range h.to {
		all = append(all, net.JoinHostPort(a.String(), port))
	}
	return all
}

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
	if err != nil {
		if lost := c.hangup.longLost(c.Conn); lost != nil {
			err = lost
		}
	}
	return n, err
}

// LongPackets is what an error says of a store to which short packets get and long ones do not, before its address.
const LongPackets = "long packets get lost on the way to the store"

// resent is how often TCP sends a segment again, at 0.2, 0.6 and 1.4 s, until it counts as lost.
const resent = 3

// longLost returns an error about a connection that has ended, if a long segment had no answer, shorter ones had, and a
// new connection has one: its packets are short. Once seen, a long segment without an answer is enough.
func (h *Hangup) longLost(c net.Conn) error {
	tcp, ok := c.(*net.TCPConn)
	if h == nil || !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	var info *unix.TCPInfo
	_ = raw.Control(func(fd uintptr) { info, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if info == nil || info.Bytes_acked <= 1 { // it counts the SYN
		return nil
	}
	left := int64(info.Bytes_sent) - int64(info.Bytes_retrans) - int64(info.Bytes_acked-1)
	size := min(left, int64(info.Snd_mss))
	if seen := h.lost.Load(); seen != nil && size > process.Everywhere {
		return *seen
	}
	if size <= process.Everywhere || info.Total_retrans < resent {
		return nil
	}
	second, err := net.DialTimeout("tcp", c.RemoteAddr().String(), time.Second)
	if err != nil {
		return nil
	}
	second.Close()
	lost := fmt.Errorf("%s at %s: a segment of %d bytes was sent %d times without an answer, and a new connection is "+
		"answered", LongPackets, c.RemoteAddr(), size, info.Total_retrans+1)
	h.lost.Store(&lost)
	return lost
}

// Close ends the connection.
func (c watchedConn) Close() error {
	if h := c.hangup; h != nil {
		h.mu.Lock()
		delete(h.open, c)
		h.mu.Unlock()
	}
	return c.Conn.Close()
}

// to returns the other end.
func (c watchedConn) to() netip.Addr {
	at, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	return at.Addr().Unmap()
}

// dial is dialShort for gRPC. It bounds, as gRPC does for a connection that it knows, how long data
// may remain unacknowledged.
func (h *Hangup) dial(ctx context.Context, addr string) (c net.Conn, err error) {
	c, err = dialShort(ctx, h.places(addr)...)
	if h.watch(err); err != nil {
		return nil, err
	}
	if raw, err := c.(*net.TCPConn).SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(pingTimeout/time.Millisecond))
		})
	}
	w := watchedConn{c, h}
	if h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.open == nil {
			h.open = map[watchedConn]struct{}{}
		}
		h.open[w] = struct{}{}
	}
	return w, nil
}
