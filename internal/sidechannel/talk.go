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

// Talks is a listener for conversations: who calls greets as Probe does, proves
// the secret, and then each side hands the other messages of its own.
type Talks struct {
	door
	keys *tls.Config
	id   string
	talk func(ctx context.Context, c *Conversation)
}

// ListenTalks opens one at an address and port (0: of its own choice). keys is
// nil where no secret is shared; id, at most 64 bytes, is what it answers with.
// talk is called for each caller, several at a time, with a ctx that ends with
// the listener; the conversation is over when it returns.
func ListenTalks(at netip.AddrPort, keys *tls.Config, id string, talk func(ctx context.Context, c *Conversation)) (*Talks, error) {
	if len(id) > maxID {
		return nil, fmt.Errorf("listen for conversations: the ID has %d bytes, at most %d are sent", len(id), maxID)
	}
	t := &Talks{keys: keys, id: id, talk: talk}
	if err := t.listen(at); err != nil {
		return nil, fmt.Errorf("listen for conversations: %w", err)
	}
	t.serve(t.take)
	return t, nil
}

// take greets a caller; whoever is none learns nothing.
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

// Conversation is messages both ways, in order.
type Conversation struct {
	From netip.Addr // of who called
	ID   string     // of who answered; "" on its own side

	c   net.Conn
	raw net.Conn // beneath TLS
}

// Talk calls a Talks. CauseOf tells what an error means. from is this node's
// address; the zero Addr: the kernel's choice.
func Talk(ctx context.Context, to netip.AddrPort, keys *tls.Config, from netip.Addr) (*Conversation, error) {
	raw, err := dial(ctx, to, from)
	if err != nil {
		return nil, err
	}
	_ = raw.SetDeadline(time.Now().Add(greetBudget))
	defer context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })()
	c, g, err := greet(raw, keys)
	if err != nil {
		raw.Close()
		return nil, &failure{talking(ctx, err), fmt.Errorf("greet %s: %w", to, ending(ctx, err))}
	}
	_ = raw.SetDeadline(time.Time{})
	return &Conversation{ID: g.id, From: raw.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap(), c: c, raw: raw}, nil
}

// Close hangs up.
func (c *Conversation) Close() { c.raw.Close() }

// Send sends one message; it returns when ctx ends.
func (c *Conversation) Send(ctx context.Context, message []byte) error {
	if len(message) > maxMessage {
		return fmt.Errorf("send a message of %d bytes, at most %d are taken", len(message), maxMessage)
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
		return nil, &failure{Stranger, fmt.Errorf("wait for a message: one of %d bytes is announced, at most %d are taken", size, maxMessage)}
	}
	message := make([]byte, size)
	_, err := io.ReadFull(c.c, message)
	return message, c.cut(ctx, "wait for a message", err)
}

// within ends what waits for the other side when ctx ends.
func (c *Conversation) within(ctx context.Context) (done func() bool) {
	_ = c.raw.SetDeadline(time.Time{})
	return context.AfterFunc(ctx, func() { _ = c.raw.SetDeadline(time.Unix(1, 0)) })
}

func (c *Conversation) cut(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	return &failure{talking(ctx, err), fmt.Errorf("%s: %w", doing, ending(ctx, err))}
}
