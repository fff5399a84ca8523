package sidechannel

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"time"
)

// drained bounds what is read from a rejected caller: closing a connection with
// unread bytes would reset it, and the answer would be lost.
const drained = 64 << 10

// welcome reads a caller's hello, inside TLS if there are keys. It returns nil if it
// has rejected the caller; ok is then as in converse.
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

// converse serves one call. It returns false if unsent bytes may be left that the
// path does not take.
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
		case opAbout:
			if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(s.about))), s.about...)); err != nil {
				return false
			}
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
