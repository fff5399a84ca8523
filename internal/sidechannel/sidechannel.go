// Package sidechannel is the side channel between the nodes of one job: a listener that launch
// itself opens and announces, and calls to it that measure the path. With a secret both sides prove
// it by mutual TLS. Peers connect to no other listener.
package sidechannel

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"sync"
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
	if !s.converse(c, c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()) {
		_ = c.SetLinger(0) // drop what a dead path does not take
	}
}

// acceptor accepts connections until it is closed.
type acceptor struct {
	keys  *tls.Config // nil: there is no secret
	id    string      // the answer to every caller
	l     net.Listener
	ctx   context.Context
	stop  context.CancelFunc
	calls sync.WaitGroup
}

func (a *acceptor) listen(at netip.AddrPort, keys *tls.Config, id string) (err error) {
	if len(id) > maxID {
		return fmt.Errorf("the ID has %d bytes, the limit is %d", len(id), maxID)
	}
	a.keys, a.id = keys, id
	if a.l, err = net.Listen("tcp", at.String()); err == nil {
		a.ctx, a.stop = context.WithCancel(context.Background())
	}
	return err
}

// Port returns the port on which it listens.
func (a *acceptor) Port() int { return a.l.Addr().(*net.TCPAddr).Port }

// Close ends the listener and every call in it.
func (a *acceptor) Close() {
	a.stop()
	a.l.Close()
	a.calls.Wait()
}

// serve starts to accept calls, each until take returns. It accepts maxCalls at
// once: a caller in the kernel's queue is connected and late, not refused.
func (a *acceptor) serve(take func(c *net.TCPConn)) {
	room := make(chan struct{}, maxCalls)
	a.calls.Go(func() {
		for {
			select {
			case room <- struct{}{}:
			case <-a.ctx.Done():
				return
			}
			c, err := a.l.Accept()
			if err != nil {
				<-room
				select { // there is no free descriptor, or it is closed
				case <-time.After(acceptPause):
					continue
				case <-a.ctx.Done():
					return
				}
			}
			a.calls.Go(func() {
				defer func() { <-room }()
				defer c.Close()
				defer context.AfterFunc(a.ctx, func() { c.Close() })()
				take(c.(*net.TCPConn))
			})
		}
	})
}
