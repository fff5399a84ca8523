package sidechannel

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// echoTalks answers each message with itself.
func echoTalks(t *testing.T, token string) (netip.AddrPort, maybe) {
	t.Helper()
	k, err := keysOf(token)
	if err != nil {
		t.Fatal(err)
	}
	any := netip.MustParseAddrPort("127.0.0.1:0")
	l, err := ListenTalks(any, k.server(), "node-a", func(ctx context.Context, c *Conversation) {
		for {
			m, err := c.Receive(ctx)
			if err != nil || c.Send(ctx, m) != nil {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(l.Port())), k
}

func TestAConversationSendsMessagesBothWays(t *testing.T) {
	for _, token := range []string{"", "0123456789abcdef"} {
		at, k := echoTalks(t, token)
		c, err := Talk(t.Context(), at, k.client(), netip.Addr{})
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{0, 1, 5000, maxMessage} {
			if err := c.Send(t.Context(), make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			if m, err := c.Receive(t.Context()); err != nil || len(m) != size {
				t.Errorf("token %q: %d bytes came back as %d, %v", token, size, len(m), err)
			}
		}
		if c.ID != "node-a" {
			t.Errorf("%q answers", c.ID)
		}
		if err := c.Send(t.Context(), make([]byte, maxMessage+1)); err == nil {
			t.Error("a message that is too long was sent")
		}
		c.Close()
	}
}

func TestAConversationNeedsTheSecret(t *testing.T) {
	at, _ := echoTalks(t, "0123456789abcdef")
	for _, token := range []string{"", "another-token-of-16"} {
		k, err := keysOf(token)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Talk(t.Context(), at, k.client(), netip.Addr{}); CauseOf(err) != Token {
			t.Errorf("token %q: %q, %v", token, CauseOf(err), err)
		}
	}
	plain, _ := echoTalks(t, "")
	k, _ := keysOf("0123456789abcdef")
	if _, err := Talk(t.Context(), plain, k.client(), netip.Addr{}); CauseOf(err) != Token {
		t.Errorf("a token against none: %q, %v", CauseOf(err), err)
	}
}

func TestAWaitForAMessageEndsWithItsTime(t *testing.T) {
	at, _ := echoTalks(t, "")
	c, err := Talk(t.Context(), at, nil, netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := c.Receive(ctx); CauseOf(err) != Silent {
		t.Errorf("%q, %v", CauseOf(err), err)
	}
	if err := c.Send(t.Context(), []byte("still there")); err != nil { // the time of one wait is not that of the next
		t.Fatal(err)
	}
	if m, err := c.Receive(t.Context()); err != nil || string(m) != "still there" {
		t.Errorf("%q, %v", m, err)
	}
}

func TestATooLongMessageIsRefused(t *testing.T) {
	at, _ := echoTalks(t, "")
	c, err := Talk(t.Context(), at, nil, netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.c.Write([]byte{0xff, 0xff, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Receive(t.Context()); CauseOf(err) != Reset {
		t.Errorf("%q, %v", CauseOf(err), err)
	}
}

func TestAStrangerLearnsNothing(t *testing.T) {
	at, _ := echoTalks(t, "")
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("%q, %v", b, err)
	}
}
