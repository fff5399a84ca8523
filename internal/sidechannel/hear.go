package sidechannel

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// Hearing says how programs listen on a TCP port of a node.
type Hearing byte

// The answers about a port.
const (
	Deaf      Hearing = 'n' // no program listens there
	Listens   Hearing = 'y' // one listens, at the address that the node's peers call
	Elsewhere Hearing = 'e' // one listens, at other addresses only: at loopback, as a rule
)

var errHearing = errors.New("an unknown answer")

// hear answers a caller that asks about a port.
func (s *Listener) hear(c net.Conn) bool {
	var port [2]byte
	if _, err := io.ReadFull(c, port[:]); err != nil {
		return true
	}
	if !s.awaitShow(c) {
		return true
	}
	ear := s.ear.Load()
	_ = c.SetDeadline(time.Now().Add(showBudget))
	from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	_, err := c.Write([]byte{byte((*ear)(s.ctx, from, int(binary.BigEndian.Uint16(port[:]))))})
	return err == nil
}

// awaitShow waits for Show, as long as the call lasts. It returns false where the caller hangs up, or too many wait.
func (s *Listener) awaitShow(c net.Conn) bool {
	select {
	case s.early <- struct{}{}:
	default:
		return s.ear.Load() != nil
	}
	defer func() { <-s.early }()
	over := make(chan struct{})
	go func() {
		_, _ = c.Read(make([]byte, 1)) // nothing follows the question; c has a deadline
		close(over)
	}()
	select {
	case <-s.shown:
		return true
	case <-over:
		return false
	}
}

// Hear asks a listener with a given ID how programs of its node listen on a TCP port (errors: CauseOf). No connection
// is made to that port: a program may serve its first caller only. A listener that is not shown yet answers when it is;
// it hangs up after some seconds, or where too many wait.
func Hear(ctx context.Context, to netip.AddrPort, keys *tls.Config, id string, port int) (Hearing, error) {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	c, err := meet(ctx, to, keys, id)
	if err != nil {
		return 0, err
	}
	var said [1]byte
	if _, err = c.Write(binary.BigEndian.AppendUint16([]byte{opPort}, uint16(port))); err == nil {
		_, err = io.ReadFull(c, said[:])
	}
	h := Hearing(said[0])
	if err == nil && h != Deaf && h != Listens && h != Elsewhere {
		err = errHearing
	}
	if err != nil {
		return 0, &failure{cause: talking(ctx, err), err: fmt.Errorf("ask %s about port %d: %w", to, port, ending(ctx, err))}
	}
	return h, nil
}
