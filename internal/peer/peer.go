// Package peer is the side channel between the nodes of one job: a listener
// that launch itself opened and announced, and a call that proves on both
// sides that the other one knows the job's secret. Peers connect to nothing
// else.
package peer

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// The exchange: the caller sends its nonce; the listener answers with its own
// nonce and HMAC("listener", both); the caller sends HMAC("caller", both), and
// the listener one closing byte.
const (
	nonceLen = 16
	macLen   = sha256.Size
	// callBudget bounds one call on the listener's side: a stray connection
	// costs a descriptor for as long, no more.
	callBudget = 3 * time.Second
)

// ErrSecret: the other side does not know this job's secret.
var ErrSecret = errors.New("the other side has another LAUNCH_TOKEN, or none")

// Listener answers calls until it is closed.
type Listener struct {
	l      net.Listener
	secret []byte
	wg     sync.WaitGroup
}

// Listen opens a listener on a port of its own choice.
func Listen(addr netip.Addr, secret string) (*Listener, error) {
	l, err := net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		return nil, fmt.Errorf("open the side channel: %w", err)
	}
	s := &Listener{l: l, secret: []byte(secret)}
	s.wg.Go(s.serve)
	return s, nil
}

// Port is where it listens.
func (s *Listener) Port() int { return s.l.Addr().(*net.TCPAddr).Port }

// Close ends the listener and every call in it.
func (s *Listener) Close() {
	s.l.Close()
	s.wg.Wait()
}

func (s *Listener) serve() {
	for {
		c, err := s.l.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(callBudget))
			_ = answer(c, s.secret)
		})
	}
}

func answer(c net.Conn, secret []byte) error {
	both := make([]byte, 2*nonceLen)
	if _, err := io.ReadFull(c, both[:nonceLen]); err != nil {
		return err
	}
	_, _ = rand.Read(both[nonceLen:])
	if _, err := c.Write(append(both[nonceLen:], mac(secret, "listener", both)...)); err != nil {
		return err
	}
	proof := make([]byte, macLen)
	if _, err := io.ReadFull(c, proof); err != nil {
		return err
	}
	if !hmac.Equal(proof, mac(secret, "caller", both)) {
		return ErrSecret
	}
	_, err := c.Write([]byte{1})
	return err
}

// Call connects to a peer's listener and goes through the whole exchange. It
// returns how long that took: one connection and two round trips.
func Call(ctx context.Context, to netip.AddrPort, secret string) (time.Duration, error) {
	began := time.Now()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if d, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(d)
	}
	both := make([]byte, 2*nonceLen)
	_, _ = rand.Read(both[:nonceLen])
	if _, err := c.Write(both[:nonceLen]); err != nil {
		return 0, fmt.Errorf("greet %s: %w", to, err)
	}
	reply := make([]byte, nonceLen+macLen)
	if _, err := io.ReadFull(c, reply); err != nil {
		return 0, fmt.Errorf("read the answer of %s: %w", to, err)
	}
	copy(both[nonceLen:], reply)
	if !hmac.Equal(reply[nonceLen:], mac([]byte(secret), "listener", both)) {
		return 0, fmt.Errorf("check %s: %w", to, ErrSecret)
	}
	if _, err := c.Write(mac([]byte(secret), "caller", both)); err != nil {
		return 0, fmt.Errorf("answer %s: %w", to, err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return 0, fmt.Errorf("read the end from %s: %w", to, err)
	}
	return time.Since(began), nil
}

func mac(secret []byte, role string, both []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("launch/peer/1/" + role + "\x00"))
	h.Write(both)
	return h.Sum(nil)
}
