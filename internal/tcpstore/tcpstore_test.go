package tcpstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers every connection with handle until the test ends.
func serve(t *testing.T, handle func(*net.TCPConn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			handle(c.(*net.TCPConn))
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// request is what arrives in the first read.
func request(c *net.TCPConn) []byte {
	b := make([]byte, 64)
	n, _ := c.Read(b)
	return b[:n]
}

func counts(n ...uint64) (b []byte) {
	for _, c := range n {
		b = binary.LittleEndian.AppendUint64(b, c)
	}
	return b
}

// storeD2 insists, as a legacy store does, that the request is in one piece.
func storeD2(keys uint64) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		if bytes.Equal(request(c), []byte("\x00\xce\xf7\x85\x3c\x07\x07\x07\x07")) {
			c.Write(counts(keys, keys, keys, keys))
		}
	}
}

func storeD0(keys uint64) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		if bytes.Equal(request(c), []byte{6}) {
			c.Write(counts(keys))
			return
		}
		c.SetLinger(0) // a reset, as when the store throws
	}
}

func say(s string) func(*net.TCPConn) {
	return func(c *net.TCPConn) { request(c); c.Write([]byte(s)) }
}

// sayAndStay keeps the connection open until the other side closes it.
func sayAndStay(s string) func(*net.TCPConn) {
	return func(c *net.TCPConn) { say(s)(c); request(c) }
}

func TestProbeUnderstandsEachDialect(t *testing.T) {
	for name, store := range map[string]func(*net.TCPConn){
		"torch 2":                        storeD2(7),
		"torch 2, empty":                 storeD2(0),
		"torch 2, keys arrive meanwhile": sayAndStay(string(counts(1, 1, 2, 3))),
		"torch 1":                        storeD0(5),
		"reply in pieces": func(c *net.TCPConn) {
			request(c)
			c.SetNoDelay(true)
			for _, b := range counts(9, 9, 9, 9) {
				c.Write([]byte{b})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Probe(t.Context(), serve(t, store)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestProbeReportsWhatIsNotAStore(t *testing.T) {
	for _, tc := range []struct {
		name   string
		server func(*net.TCPConn)
		want   string
	}{
		{"web server", say("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"), "is not a number of keys"},
		{"ssh server", say("SSH-2.0-OpenSSH_9.2\r\n"), "unexpected EOF"},
		{"negative number", say(strings.Repeat("\xff", 32)), "is not a number of keys"},
		{"half a reply, then closed", say(string(counts(3))), "unexpected EOF"},
		{"half a reply, then nothing", sayAndStay(string(counts(3))), "deadline exceeded"},
		{"closes at once", func(*net.TCPConn) {}, errClosed.Error()},
		{"reads and closes", func(c *net.TCPConn) { request(c) }, errClosed.Error()},
		{"resets", func(c *net.TCPConn) { c.SetLinger(0) }, errClosed.Error()},
		{"silent", func(c *net.TCPConn) { request(c); request(c) }, "deadline exceeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			err := Probe(ctx, serve(t, tc.server))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestProbeOfStoppedProcessIsSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // only the kernel accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = Probe(ctx, l.Addr().(*net.TCPAddr).AddrPort())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestProbeOfFreePortIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr).AddrPort()
	l.Close()
	if err := Probe(t.Context(), addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want %v", err, syscall.ECONNREFUSED)
	}
}

func TestProbeEndsWithItsContext(t *testing.T) {
	stop := errors.New("interrupted by SIGINT")
	ctx, cancel := context.WithCancelCause(t.Context())
	addr := serve(t, func(c *net.TCPConn) { request(c); cancel(stop); request(c) })
	if err := Probe(ctx, addr); !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(counts(0, 1, 2, 3))
	f.Add(counts(1 << 33))
	f.Add([]byte("HTTP/1.1 400 Bad"))
	f.Fuzz(func(t *testing.T, b []byte) {
		want := true
		for i := 0; i+8 <= len(b); i += 8 {
			want = want && binary.LittleEndian.Uint64(b[i:]) <= maxKeys
		}
		if err := check(b); (err == nil) != want {
			t.Fatal(err)
		}
	})
}
