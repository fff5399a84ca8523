package tcpstore_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/internal/tcpstore"
)

const hello = "\x02\x00\x00\x00\x00\x00\x00\x00"

// answering reads what comes and writes s, then holds the connection.
func answering(s string) func(net.Conn) {
	return func(c net.Conn) {
		go func() { _, _ = io.WriteString(c, s) }()
		_, _ = io.Copy(io.Discard, c)
	}
}

// flood writes s again and again.
func flood(s string) func(net.Conn) {
	return func(c net.Conn) {
		block := []byte(strings.Repeat(s, 64<<10))
		for range (1 << 30) / len(block) {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}
}

func drip(c net.Conn) {
	for range 100 {
		if _, err := c.Write([]byte{0}); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// then reads n bytes, writes s, and goes on with rest, or closes.
func then(n int, s string, rest func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		text(c, n)
		_, _ = io.WriteString(c, s)
		if rest != nil {
			rest(c)
		}
	}
}

// after answers the hello, the list of one key of 5 bytes, and then as rest does.
func after(key string, rest func(net.Conn)) func(net.Conn) {
	one := "\x01\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00" + key
	return then(9, strings.Repeat(hello, 4), then(1, one, rest))
}

// What listens where a store should, and is none, or does not answer to the end.
func TestReadEndsWithWhateverListens(t *testing.T) {
	hold := answering("")
	const checked, gotten = 22, 14 // bytes of a CHECK and a GET of init/
	huge := "\xff\xff\xff\xff\xff\xff\xff\x7f"
	for name, c := range map[string]struct {
		server func(net.Conn)
		want   error // nil: a board with a cut
	}{
		"never answers":           {answering(""), tcpstore.ErrSilent},
		"drips":                   {drip, tcpstore.ErrSilent},
		"half a hello":            {answering(hello + "\x02"), tcpstore.ErrSilent},
		"closes":                  {then(0, "", nil), tcpstore.ErrClosed},
		"closes after 3 bytes":    {then(9, "abc", nil), tcpstore.ErrClosed},
		"closes within a hello":   {then(9, hello+hello, nil), tcpstore.ErrClosed},
		"ssh":                     {answering("SSH-2.0-OpenSSH_9.2p1\r\n"), tcpstore.ErrGarbage},
		"http":                    {answering("HTTP/1.1 400 Bad Request\r\n\r\n"), tcpstore.ErrGarbage},
		"1 GB of zeros":           {flood("\x00"), tcpstore.ErrGarbage},
		"1 GB of 0xff":            {flood("\xff"), tcpstore.ErrGarbage},
		"a list of 2^63 keys":     {then(9, strings.Repeat(hello, 4), then(1, huge, nil)), tcpstore.ErrGarbage},
		"more than was asked":     {answering(strings.Repeat(hello, 5)), tcpstore.ErrGarbage},
		"a check says 7":          {after("init/", then(checked, "\x07", answering(""))), tcpstore.ErrGarbage},
		"a huge value":            {after("init/", then(checked, "\x00", then(gotten, huge, hold))), tcpstore.ErrGarbage},
		"a value that drips":      {after("init/", then(checked, "\x00", then(gotten, "", drip))), nil},
		"closes before a value":   {after("init/", then(checked, "\x00", nil)), nil},
		"closes after the list":   {after("init/", nil), nil},
		"silent after the list":   {after("init/", answering("")), nil},
		"a key that never exists": {after("init/", then(checked, "\x01", answering(""))), nil},
		"a key of no torch":       {after("/x\x1b[m", answering("")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			b, err := tcpstore.Read(t.Context(), tcpstore.At(serve(t, c.server)), tcpstore.Hints{})
			if took := time.Since(begin); took > 4*time.Second {
				t.Errorf("took %v, the limit is 2 s", took)
			}
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err != nil && b.Keys != 0 {
				t.Errorf("a board with an error: %+v", b)
			}
		})
	}
}

// A web server waits for the rest of a line, or answers in text.
func TestReadOfAWebServer(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	_, err := tcpstore.Read(t.Context(), tcpstore.At(s.Listener.Addr().String()), tcpstore.Hints{})
	if !errors.Is(err, tcpstore.ErrSilent) && !errors.Is(err, tcpstore.ErrGarbage) {
		t.Errorf("error %v", err)
	}
}

func TestErrorsOfDialPass(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = tcpstore.Read(t.Context(), tcpstore.At(l.Addr().String()), tcpstore.Hints{})
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error %v, want connection refused", err)
	}
}

// A reading that is cancelled, or whose caller has less time, ends then.
func TestReadEndsWithItsContext(t *testing.T) {
	addr := serve(t, answering(""))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := tcpstore.Read(ctx, tcpstore.At(addr), tcpstore.Hints{}); !errors.Is(err, tcpstore.ErrSilent) {
		t.Errorf("error %v, want silent", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := tcpstore.Read(ctx, tcpstore.At(addr), tcpstore.Hints{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("took %v", took)
	}
}
