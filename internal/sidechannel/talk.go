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

// maxMessage bounds one message of a conversation, in bytes.
const maxMessage = 1 << 20

// Talks is a listener for conversations, in which each side sends messages to the other.
type Talks struct {
	acceptor
	talk func(ctx context.Context, c *Conversation)
}

// ListenTalks opens a listener at an address and port (0: a free one). keys is nil if there is no
// secret; id, at most 64 bytes, is its answer to every caller. It calls talk for each caller, several
// at a time, with a ctx that ends with the listener; the conversation is over when talk returns.
func ListenTalks(at netip.AddrPort, keys *tls.Config, id string,
	talk func(ctx context.Context, c *Conversation)) (*Talks, error) {
	t := &Talks{talk: talk}
	if err := t.listen(at, keys, id); err != nil {
		return nil, fmt.Errorf("listen for conversations: %w", err)
	}
	t.serve(t.take)
	return t, nil
}

// take greets a caller; a stranger learns nothing.
func (t *Talks) take(raw *net.TCPConn) {
	_ = raw.SetDeadline(time.Now().Add(helloBudget))
	c, _ := welcome(raw, t.keys)
	if c == nil {
		return
	}
	if _, err := c.Write(append([]byte(answer+version), greeting{id: t.id}.encode()...)); err != nil {
		return
	}
	_ = raw.SetDeadline(time.Time{})
	from := raw.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	t.talk(t.ctx, &Conversation{c: c, raw: raw, From: from})
}

// Conversation sends messages both ways, in order.
type Conversation struct {
	From netip.Addr // of the caller
	ID   string     // of the listener; "" on its own side

	c   net.Conn
	raw net.Conn // beneath TLS
}

// Talk calls a Talks (errors: CauseOf). from is this node's address; zero: the kernel's choice.
func Talk(ctx context.Context, to netip.AddrPort, keys *tls.Config, from netip.Addr) (*Conversation, error) {
	raw, err := dial(ctx, to, from, "")
	if err != nil {
		return nil, err
	}
	_ = raw.SetDeadline(time.Now().Add(greetBudget))
	defer context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })()
	c, g, err := greet(raw, keys)
	if err != nil {
		raw.Close()
		return nil, &failure{cause: talking(ctx, err), err: fmt.Errorf("first exchange with %s: %w", to, ending(ctx, err))}
	}
	_ = raw.SetDeadline(time.Time{})
	own := raw.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	return &Conversation{ID: g.id, From: own, c: c, raw: raw}, nil
}

// Close hangs up.
func (c *Conversation) Close() { c.raw.Close() }

// Send sends one message; it returns when ctx ends.
func (c *Conversation) Send(ctx context.Context, message []byte) error {
	if len(message) > maxMessage {
		return fmt.Errorf("send a message of %d bytes: the limit is %d", len(message), maxMessage)
	}
	defer c.within(ctx)()
	_, err := c.c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...))
	return c.cut(ctx, "send a message", err)
}

// Receive waits for one message, until ctx ends.
func (c *Conversation) Receive(ctx context.Context) ([]byte, error) {
	defer c.within(ctx)()
	var n [4]byte
	if _, err := io.ReadFull(c.c, n[:]); err != nil {
		return nil, c.cut(ctx, "wait for a message", err)
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > maxMessage {
		return nil, &failure{cause: Stranger, err: fmt.Errorf("wait for a message: %d bytes are announced, the limit is %d",
			size, maxMessage)}
	}
	message := make([]byte, size)
	_, err := io.ReadFull(c.c, message)
	return message, c.cut(ctx, "wait for a message", err)
}

// within ends a read or write when ctx ends.
func (c *Conversation) within(ctx context.Context) (done func() bool) {
	_ = c.raw.SetDeadline(time.Time{})
	return context.AfterFunc(ctx, func() { _ = c.raw.SetDeadline(time.Unix(1, 0)) })
}

// cut returns the error of a conversation with its cause.
func (c *Conversation) cut(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	return &failure{cause: talking(ctx, err), err: fmt.Errorf("%s: %w", doing, ending(ctx, err))}
}
