package sidechannel

import (
	"context"
	"crypto/rand"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// echo answers datagrams of callers that hold a pass, with no more bytes than it received.
type echo struct {
	conn *net.UDPConn
	port uint16
	done chan struct{}
	stop context.CancelFunc

	mu     sync.Mutex
	admits map[pass]*admitted
}

// admitted is what a pass allows: a number of datagrams from one address.
type admitted struct {
	from netip.Addr
	left int
}

// openEcho opens a UDP socket, on the same port as TCP if that is free; nil: there is none to get.
func openEcho(ctx context.Context, addr netip.Addr, port int) *echo {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return setEcho(c) }}
	for _, p := range []int{port, 0} {
		c, err := lc.ListenPacket(ctx, "udp", netip.AddrPortFrom(addr, uint16(p)).String())
		if err != nil {
			continue
		}
		e := &echo{conn: c.(*net.UDPConn), port: uint16(c.LocalAddr().(*net.UDPAddr).Port),
			done: make(chan struct{}), admits: map[pass]*admitted{}}
		ctx, e.stop = context.WithCancel(ctx)
		_ = e.conn.SetReadBuffer(1 << 20)
		go e.serve(ctx)
		return e
	}
	return nil
}

func (e *echo) close() {
	if e != nil {
		e.stop()
		e.conn.Close()
		<-e.done
	}
}

// admit answers an address until leave is called.
func (e *echo) admit(from netip.Addr) (port uint16, p pass, leave func()) {
	if e == nil {
		return 0, p, func() {}
	}
	_, _ = rand.Read(p[:])
	e.mu.Lock()
	defer e.mu.Unlock()
	e.admits[p] = &admitted{from: from, left: maxSoundings}
	return e.port, p, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.admits, p)
	}
}

func (e *echo) serve(ctx context.Context) {
	defer close(e.done)
	in, oob := make([]byte, 1<<16), make([]byte, 128)
	for ctx.Err() == nil {
		n, oobn, _, from, err := e.conn.ReadMsgUDPAddrPort(in, oob)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause): // no memory, or it is closed
			}
			continue
		}
		if out := e.reply(in[:n], from.Addr().Unmap()); out != nil {
			// From the address that was asked, which is not always that of the route back.
			_, _, _ = e.conn.WriteMsgUDPAddrPort(out, source(oob[:oobn]), from)
		}
	}
}

// reply returns the answer to a datagram, or nil.
func (e *echo) reply(b []byte, from netip.Addr) []byte {
	q, ok := parseDatagram(question, b)
	if !ok {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.admits[q.pass]
	if a == nil || a.from != from || a.left == 0 {
		return nil
	}
	a.left--
	return q.encode(reply, q.want)
}

// setEcho requests the address that a datagram was sent to, and forbids fragments.
func setEcho(c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_PKTINFO, 1)
		_ = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1)
		dontFragment(int(fd))
	})
}

// dontFragment sends unfragmented packets whatever the path's MTU (ip(7), IP_PMTUDISC_PROBE).
func dontFragment(fd int) {
	_ = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	_ = unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
	_ = unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_DONTFRAG, 1)
}

// source turns a received control message into one that sends from the same address.
func source(oob []byte) []byte {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		h := unix.Cmsghdr{Level: m.Header.Level, Type: m.Header.Type}
		switch {
		case h.Level == unix.SOL_IP && h.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: [4]byte(m.Data[4:8])})
		case h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			to := &unix.Inet6Pktinfo{Addr: [16]byte(m.Data[:16])}
			if a := netip.AddrFrom16(to.Addr); a.Is6() && a.IsLinkLocalUnicast() {
				return nil // the zone of the asker names the interface
			}
			return unix.PktInfo6(to)
		}
	}
	return nil
}
