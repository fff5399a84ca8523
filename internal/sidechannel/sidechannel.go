// Package sidechannel is a listener between the nodes of one job that launch itself opens and
// announces, and calls to it that measure the path. With a secret both sides prove it by mutual TLS.
package sidechannel

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of a listener. A stray connection costs a descriptor until helloBudget.
const (
	helloBudget  = 2 * time.Second // until the hello and the handshake are over
	callBudget   = 6 * time.Second // for one call in all
	maxCalls     = 64              // at once; further ones wait in the kernel's queue
	maxEarly     = 32              // of these, those that wait for Show
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
	view  atomic.Pointer[View] // nil before Show
	ear   atomic.Pointer[Ear]  // nil before Show
	once  sync.Once            // of Show
	shown chan struct{}        // closed by Show
	early chan struct{}        // holds one value for each caller that waits for Show
}

// Listen opens a listener on a free port, TCP and UDP. keys is nil without a secret. It answers every
// caller with id, of 64 bytes at most, and one that asks with about, of MaxAbout at most.
func Listen(addr netip.Addr, keys *tls.Config, id string, about []byte) (*Listener, error) {
	if len(about) > MaxAbout {
		return nil, fmt.Errorf("open the side channel: %d bytes about this node, the limit is %d", len(about), MaxAbout)
	}
	return open(netip.AddrPortFrom(addr, 0), keys, id, about, time.Now)
}

func open(at netip.AddrPort, keys *tls.Config, id string, about []byte, now func() time.Time) (*Listener, error) {
	s := &Listener{about: about, now: now, shown: make(chan struct{}), early: make(chan struct{}, maxEarly)}
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
	if a.l, err = listenAt(at, os.DirFS("/proc")); err == nil {
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

// serve accepts maxCalls calls at once, each until take returns; others wait in the kernel's queue.
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

// drained bounds what is read of a rejected caller: unread bytes would reset the connection.
const drained = 64 << 10

// welcome reads a caller's hello, inside TLS if there are keys; nil if it has rejected the caller.
func welcome(c net.Conn, keys *tls.Config) (met net.Conn, ok bool) {
	first := make([]byte, 1)
	if _, err := io.ReadFull(c, first); err != nil {
		return nil, true
	}
	c = &begun{c, io.MultiReader(bytes.NewReader(first), c)}
	switch spoken := first[0] == tlsRecord; {
	case spoken && keys == nil:
		return nil, reject(c, answer)
	case spoken:
		c = tls.Server(c, keys)
	}
	hello := make([]byte, helloLen)
	if _, err := io.ReadFull(c, hello); err != nil || string(hello[:len(ask)]) != ask {
		return nil, true // a stranger learns nothing
	}
	if _, proven := c.(*tls.Conn); keys != nil && !proven {
		return nil, reject(c, locked)
	}
	if string(hello[len(ask):]) != version {
		return nil, reject(c, answer)
	}
	return c, true
}

// converse serves one call. It returns false if unsent bytes may be left that the path does not take.
func (s *Listener) converse(c net.Conn, from netip.Addr) bool {
	began := time.Now()
	_ = c.SetDeadline(began.Add(helloBudget))
	c, ok := welcome(c, s.keys)
	if c == nil {
		return ok
	}
	g := greeting{id: s.id}
	var leave func()
	g.port, g.pass, leave = s.echo.admit(from)
	defer leave()
	if _, err := c.Write(append([]byte(answer+version), g.encode()...)); err != nil {
		return false
	}
	_ = c.SetDeadline(began.Add(callBudget))
	return s.measure(c)
}

// measure does what the caller requests, until it hangs up.
func (s *Listener) measure(c net.Conn) bool {
	op := make([]byte, 1)
	for range maxOps {
		if _, err := io.ReadFull(c, op); err != nil {
			return true
		}
		switch op[0] {
		case opClock:
			if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(s.now().UnixNano()))); err != nil {
				return false
			}
		case opBulk:
			size := make([]byte, 4)
			if _, err := io.ReadFull(c, size); err != nil {
				return true
			}
			n := binary.BigEndian.Uint32(size)
			if n > maxBulk {
				return true
			}
			if exchange(c, int(n)) != nil {
				return false
			}
		case opDrip:
			if catch(c) != nil {
				return false
			}
		case opAbout:
			if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(s.about))), s.about...)); err != nil {
				return false
			}
		case opShow:
			return s.show(c, Own)
		case opPass:
			return s.pass(c)
		case opLinks:
			return s.show(c, Links)
		case opPort:
			return s.hear(c)
		default:
			return true
		}
	}
	return true
}

// reject sends one word and waits until the caller has hung up.
func reject(c net.Conn, word string) bool {
	if _, err := io.WriteString(c, word+version); err != nil {
		return false
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.CopyN(io.Discard, c, drained)
	return true
}

// begun is a connection whose first byte has been read.
type begun struct {
	net.Conn
	r io.Reader
}

func (b *begun) Read(p []byte) (int, error) { return b.r.Read(p) }

// CloseWrite closes our side only.
func (b *begun) CloseWrite() error {
	if half, ok := b.Conn.(*net.TCPConn); ok {
		return half.CloseWrite()
	}
	return nil
}
