// Package peer is the side channel between the nodes of one job: a listener
// that launch itself opened and announced. With a secret both sides prove it by
// mutual TLS; peers connect to nothing else.
package peer

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// nonceLen is what a caller sends and gets back, so that no other service
	// on the port is taken for a peer.
	nonceLen = 16
	// callBudget bounds one call on the listener's side: a stray connection
	// costs a descriptor for as long, no more.
	callBudget = 3 * time.Second
)

// ErrSecret: the other side does not share this job's secret.
var ErrSecret = errors.New("the other side has another LAUNCH_TOKEN, or none")

// Listener answers calls until it is closed.
type Listener struct {
	l  net.Listener
	wg sync.WaitGroup
}

// Listen opens a listener on a port of its own choice; keys is nil where no
// secret is shared.
func Listen(addr netip.Addr, keys *tls.Config) (*Listener, error) {
	l, err := net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		return nil, fmt.Errorf("open the side channel: %w", err)
	}
	s := &Listener{l: l}
	s.wg.Go(func() { s.serve(keys) })
	return s, nil
}

// Port is where it listens.
func (s *Listener) Port() int { return s.l.Addr().(*net.TCPAddr).Port }

// Close ends the listener and every call in it.
func (s *Listener) Close() {
	s.l.Close()
	s.wg.Wait()
}

func (s *Listener) serve(keys *tls.Config) {
	for {
		c, err := s.l.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(callBudget))
			if keys != nil {
				c = tls.Server(c, keys)
			}
			nonce := make([]byte, nonceLen)
			if _, err := io.ReadFull(c, nonce); err == nil {
				_, _ = c.Write(nonce)
			}
		})
	}
}

// Call connects to a peer's listener and has a nonce sent back. It returns how
// long that took: a connection, the handshake where there is a secret, and one
// round trip.
func Call(ctx context.Context, to netip.AddrPort, keys *tls.Config) (time.Duration, error) {
	began := time.Now()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if d, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(d)
	}
	if keys != nil {
		t := tls.Client(c, keys)
		if err := t.HandshakeContext(ctx); err != nil {
			_, plain := errors.AsType[tls.RecordHeaderError](err)
			_, other := errors.AsType[*tls.CertificateVerificationError](err)
			if plain || other {
				err = ErrSecret
			}
			return 0, fmt.Errorf("greet %s: %w", to, err)
		}
		c = t
	}
	nonce, back := make([]byte, nonceLen), make([]byte, nonceLen)
	_, _ = rand.Read(nonce)
	if _, err := c.Write(nonce); err != nil {
		return 0, fmt.Errorf("greet %s: %w", to, err)
	}
	if _, err := io.ReadFull(c, back); err != nil {
		return 0, fmt.Errorf("read the answer of %s: %w", to, err)
	}
	if !bytes.Equal(nonce, back) {
		return 0, fmt.Errorf("read the answer of %s: it is not the one of a peer", to)
	}
	return time.Since(began), nil
}
