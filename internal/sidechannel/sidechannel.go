// Package sidechannel is the side channel between the nodes of one job: a listener that launch
// itself opens and announces, and calls to it that measure the path. With a secret both sides prove
// it by mutual TLS. Peers connect to no other listener.
package sidechannel

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Limits of a listener. A stray connection costs a descriptor until helloBudget.
const (
	helloBudget  = 2 * time.Second // until the hello and the handshake are over
	callBudget   = 6 * time.Second // for one call in all
	maxCalls     = 64              // at once; further ones wait in the kernel's queue
	maxOps       = 32              // of one call
	maxBulk      = 1 << 20         // bytes each way of one exchange
	maxSoundings = 512             // datagrams that one call may have answered
	acceptPause  = 50 * time.Millisecond
)

// Listener answers calls until it is closed.
type Listener struct {
	acceptor
	about []byte
	echo  *echo // nil: there is no UDP socket
	now   func() time.Time
}

// Listen opens a listener on a free port, TCP and UDP. keys is nil if there is no
// secret. id, at most 64 bytes, is its answer to every caller; about, at most
// MaxAbout bytes, its answer to a caller that asks about this node.
func Listen(addr netip.Addr, keys *tls.Config, id string, about []byte) (*Listener, error) {
	if len(about) > MaxAbout {
		return nil, fmt.Errorf("open the side channel: %d bytes about this node, the limit is %d", len(about), MaxAbout)
	}
	return open(netip.AddrPortFrom(addr, 0), keys, id, about, time.Now)
}

func open(at netip.AddrPort, keys *tls.Config, id string, about []byte, now func() time.Time) (*Listener, error) {
	s := &Listener{about: about, now: now}
	if err := s.listen(at, keys, id); err != nil {
		return nil, fmt.Errorf("open the side channel: %w", err)
	}
	s.echo = openEcho(s.ctx, at.Addr(), s.Port())
	s.serve(s.take)
	return s, nil
}

// Close ends the listener and every call in it.
func (s *Listener) Close() {
	s.acceptor.Close()
	s.echo.close()
}

// take serves one connection, for no longer than a call may last.
func (s *Listener) take(c *net.TCPConn) {
	from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	if !s.converse(c, from) {
		_ = c.SetLinger(0) // drop what a dead path does not take
	}
}
