package sidechannel

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// Limits of what a listener shows of its node.
const (
	// MaxShown is the limit of one answer, in bytes.
	MaxShown   = 4 << 20
	showBudget = 15 * time.Second // for the answer to be made and sent
	// meetBudget bounds a connection to a node that was reached before: TCP asks again after 1 and 3 s.
	meetBudget = 4 * time.Second
	// pauseBudget is the longest pause within an answer: a lost packet is sent again after 0.2 s, then 0.4 s, 0.8 s.
	pauseBudget = 3 * time.Second
)

// View returns what a listener shows of its node to a caller at an address, or what it hears of the node of another
// rank; nil: nothing.
type View func(ctx context.Context, caller netip.Addr, rank int) []byte

// Own is the rank of a View of the listener's own node, and Links of no more than its open connections to the caller.
const Own, Links = -1, -2

// Ear returns how programs listen on a TCP port of a listener's node, to a caller at an address.
type Ear func(ctx context.Context, caller netip.Addr, port int) Hearing

// Show makes the listener answer opShow by view and opPort by ear from now on, and no datagram any more: the checks of
// the start are over, and the port remains for launch doctor, and for nodes that wait until this one listens.
func (s *Listener) Show(view View, ear Ear) {
	s.echo.close()
	s.ear.Store(&ear)
	s.view.Store(&view)
	s.once.Do(func() { close(s.shown) })
}

// pass answers a caller that asks what another node sees, to which it has no path.
func (s *Listener) pass(c net.Conn) bool {
	var rank [4]byte
	if _, err := io.ReadFull(c, rank[:]); err != nil {
		return true
	}
	return s.show(c, int(binary.BigEndian.Uint32(rank[:])))
}

// show answers a caller that asks what a node sees.
func (s *Listener) show(c net.Conn, rank int) bool {
	view := s.view.Load()
	if view == nil {
		return true
	}
	_ = c.SetDeadline(time.Now().Add(showBudget))
	from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	shown := (*view)(s.ctx, from, rank)
	if len(shown) > MaxShown {
		shown = nil
	}
	_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(shown))), shown...))
	return err == nil
}

// Look asks a listener with a given ID what its node shows (errors: CauseOf).
func Look(ctx context.Context, to netip.AddrPort, keys *tls.Config, id string) ([]byte, error) {
	return look(ctx, to, keys, id, []byte{opShow})
}

// Pass asks a listener with a given ID to ask the node of another rank what it sees, and to pass that on (errors:
// CauseOf). It is empty where that node does not answer the listener either.
func Pass(ctx context.Context, to netip.AddrPort, keys *tls.Config, id string, rank int) ([]byte, error) {
	return look(ctx, to, keys, id, binary.BigEndian.AppendUint32([]byte{opPass}, uint32(rank)))
}

// LinksOf asks a listener with a given ID for its node's open connections to this one (errors: CauseOf).
func LinksOf(ctx context.Context, to netip.AddrPort, keys *tls.Config, id string) ([]byte, error) {
	return look(ctx, to, keys, id, []byte{opLinks})
}

func look(ctx context.Context, to netip.AddrPort, keys *tls.Config, id string, question []byte) ([]byte, error) {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	c, err := meet(ctx, to, keys, id)
	if err != nil {
		return nil, err
	}
	if _, err = c.Write(question); err == nil {
		var n [4]byte
		if _, err = io.ReadFull(c, n[:]); err == nil {
			return readShown(ctx, steady{c}, to, binary.BigEndian.Uint32(n[:]))
		}
	}
	return nil, &failure{cause: talking(ctx, err), err: fmt.Errorf("ask %s what it sees: %w", to, ending(ctx, err))}
}

// meet calls a listener with a given ID that shows what its node sees. The connection ends with ctx.
func meet(ctx context.Context, to netip.AddrPort, keys *tls.Config, id string) (net.Conn, error) {
	short, cancel := context.WithTimeout(ctx, meetBudget)
	raw, err := dial(short, to, netip.Addr{}, "")
	cancel()
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { raw.Close() })
	_ = raw.SetDeadline(time.Now().Add(greetBudget))
	c, g, err := greet(raw, keys)
	if err == nil && g.id != id {
		err = errNotAPeer
	}
	if err != nil {
		raw.Close()
		cause := talking(ctx, err)
		return nil, &failure{cause: cause, mute: cause == Silent, err: fmt.Errorf("greet %s: %w", to, ending(ctx, err))}
	}
	_ = raw.SetDeadline(time.Now().Add(showBudget))
	return c, nil
}

// steady is a connection on which an answer that is made arrives without a long pause: where short packets get through
// and long ones vanish, its length comes, and no more.
type steady struct{ net.Conn }

func (s steady) Read(p []byte) (int, error) {
	_ = s.SetReadDeadline(time.Now().Add(pauseBudget))
	return s.Conn.Read(p)
}

// readShown reads an answer of n bytes, without room for more than has arrived.
func readShown(ctx context.Context, c io.Reader, to netip.AddrPort, n uint32) ([]byte, error) {
	if n > MaxShown {
		return nil, &failure{cause: Stranger, err: fmt.Errorf("ask %s what it sees: %d bytes are announced, "+
			"the limit is %d", to, n, MaxShown)}
	}
	shown, err := io.ReadAll(io.LimitReader(c, int64(n)))
	if err == nil && len(shown) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, &failure{cause: talking(ctx, err), err: fmt.Errorf("ask %s what it sees: %w", to, ending(ctx, err))}
	}
	return shown, nil
}
