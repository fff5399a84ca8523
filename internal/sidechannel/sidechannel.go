// Package sidechannel is the side channel between the nodes of one job: a listener
// that launch itself opened and announced, and calls to it which measure the
// way there. With a secret both sides prove it by mutual TLS; peers connect to
// nothing else.
package sidechannel

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Limits of a listener. A stray connection costs a descriptor for as long, and
// no more than that.
const (
	helloBudget  = 2 * time.Second // until the hello and the handshake are over
	callBudget   = 6 * time.Second // for one call in all
	maxCalls     = 64              // at once; the kernel's queue holds those that wait
	maxOps       = 32              // of one call
	maxBulk      = 1 << 20         // bytes each way of one exchange
	maxSoundings = 512             // datagrams that one call may have answered
	acceptPause  = 50 * time.Millisecond
)

// Listener answers calls until it is closed.
type Listener struct {
	door
	keys  *tls.Config
	id    string
	about []byte
	echo  *echo // nil: no UDP socket was to be had
	now   func() time.Time
}

// Listen opens a listener on a port of its own choice, TCP and UDP. keys is nil
// where no secret is shared; id, at most 64 bytes, is what it answers with, and
// about, at most MaxAbout, what it says of itself to a caller that asks.
func Listen(addr netip.Addr, keys *tls.Config, id string, about []byte) (*Listener, error) {
	if len(about) > MaxAbout {
		return nil, fmt.Errorf("open the side channel: %d bytes about this node, at most %d are sent", len(about), MaxAbout)
	}
	return open(netip.AddrPortFrom(addr, 0), keys, id, about, time.Now)
}

func open(at netip.AddrPort, keys *tls.Config, id string, about []byte, now func() time.Time) (*Listener, error) {
	if len(id) > maxID {
		return nil, fmt.Errorf("open the side channel: the ID has %d bytes, at most %d are sent", len(id), maxID)
	}
	s := &Listener{keys: keys, id: id, about: about, now: now}
	if err := s.listen(at); err != nil {
		return nil, fmt.Errorf("open the side channel: %w", err)
	}
	s.echo = openEcho(s.ctx, at.Addr(), s.Port())
	s.serve(s.take)
	return s, nil
}

// Close ends the listener and every call in it.
func (s *Listener) Close() {
	s.door.Close()
	s.echo.close()
}

// take serves one connection, for no longer than a call may last.
func (s *Listener) take(c *net.TCPConn) {
	from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	if !s.converse(c, from) {
		_ = c.SetLinger(0) // what a dead path did not take shall not linger in the kernel
	}
}
