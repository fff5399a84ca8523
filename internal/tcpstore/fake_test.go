package tcpstore_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"launch/internal/tcpstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a store that answers as torch's do, and notes what it is asked.
type fake struct {
	keys   map[string]string
	old    bool          // torch 1.13
	noList bool          // torch 2.2 to 2.9
	slow   time.Duration // before each answer
	gone   string        // a key that is deleted between CHECK and GET
	legacy bool          // closes on GET of a missing key, where libuv answers with an empty value

	mu    sync.Mutex
	asked []string
}

// serve serves one store on loopback, and returns its address.
func serve(t testing.TB, one func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			wg.Go(func() { defer conn.Close(); one(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// start serves the fake.
func (f *fake) start(t testing.TB) tcpstore.Dial {
	return tcpstore.At(serve(t, func(c net.Conn) { _ = f.talk(c) }))
}

// talk answers the requests of one connection to its end; an error is what a store closes at.
func (f *fake) talk(c net.Conn) error {
	in := bufio.NewReader(c)
	names := map[byte]string{7: "count", 5: "check", 3: "get", 17: "list"}
	if f.old {
		names = map[byte]string{6: "count", 4: "check", 2: "get"}
	} else {
		var hello [5]byte
		if _, err := io.ReadFull(in, hello[:]); err != nil || string(hello[:]) != "\x00\xce\xf7\x85\x3c" {
			return io.ErrUnexpectedEOF
		}
	}
	for {
		op, err := in.ReadByte()
		if err != nil {
			return err
		}
		what := names[op]
		if f.noList && what == "list" {
			what = ""
		}
		f.mu.Lock()
		f.asked = append(f.asked, what)
		f.mu.Unlock()
		time.Sleep(f.slow)
		out, err := f.answer(what, in)
		if err != nil {
			return err
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
	}
}

// answer answers one request.
func (f *fake) answer(what string, in *bufio.Reader) (out []byte, err error) {
	n := binary.LittleEndian.AppendUint64
	switch what {
	case "count":
		return n(nil, uint64(len(f.keys))), nil
	case "list":
		out = n(nil, uint64(len(f.keys)))
		for _, key := range slices.Sorted(maps.Keys(f.keys)) {
			out = append(n(out, uint64(len(key))), key...)
		}
		return out, nil
	case "check", "get":
		if what == "check" {
			if many := text(in, 8); many != "\x01\x00\x00\x00\x00\x00\x00\x00" {
				return nil, fmt.Errorf("a check of %q keys", many)
			}
		}
		key := text(in, -1)
		value, ok := f.keys[key]
		switch {
		case what == "check" && ok:
			return []byte{0}, nil
		case what == "check":
			return []byte{1}, nil
		case (!ok || key == f.gone) && f.legacy:
			return nil, io.EOF
		case key == f.gone:
			return n(nil, 0), nil
		}
		return append(n(nil, uint64(len(value))), value...), nil
	}
	return nil, io.EOF
}

// text reads n bytes; -1 is for as many as the 8 bytes before say.
func text(in io.Reader, n int) string {
	if n < 0 {
		n = int(binary.LittleEndian.Uint64([]byte(text(in, 8))))
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(in, b); err != nil {
		return "\xff\xff\xff\xff\xff\xff\xff\x00"[:min(n, 8)]
	}
	return string(b)
}
