package sidechannel

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// hold opens n connections that say a word and then nothing.
func hold(t *testing.T, to netip.AddrPort, n int, word string) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", to.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, word); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStrayConnectionsCostALimitedTime(t *testing.T) {
	for _, word := range []string{"", "l", "GET / HTTP/1.1\r\n", string([]byte{tlsRecord, 3, 1}),
		ask + version, ask + version + "b"} {
		t.Run(fmt.Sprintf("%q", word), func(t *testing.T) {
			t.Parallel()
			l, to := listen(t, keys(t, "0123456789abcdef").Server())
			hold(t, to, maxCalls, word)
			began := time.Now()
			a, err := Probe(t.Context(), to, keys(t, "0123456789abcdef").Client(), Options{})
			if err != nil || a.ID != l.id {
				t.Errorf("got %+v, %v", a, err)
			}
			if took := time.Since(began); took > helloBudget+time.Second {
				t.Errorf("the call among %d that hang took %s", maxCalls, took)
			}
		})
	}
}

func TestCloseEndsCallsThatHang(t *testing.T) {
	l, to := listen(t, nil)
	hold(t, to, 8, ask+version)
	if _, err := Probe(t.Context(), to, nil, Options{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	l.Close()
	if took := time.Since(began); took > time.Second {
		t.Errorf("closing took %s", took)
	}
}

func TestAProgramWithoutTheProtocolLearnsNothing(t *testing.T) {
	_, to := listen(t, nil)
	for _, word := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x00\x00\x00\x00aaaaaaaaaaaaaaaa",
		answer + version} {
		c, err := net.Dial("tcp", to.String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, word)
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		got, err := io.ReadAll(c)
		if late(err) || len(got) > 0 {
			t.Errorf("%q is answered %q, %v; want an end without an answer", word, got, err)
		}
		c.Close()
	}
}

func TestADifferenceOfTokensHasItsCause(t *testing.T) {
	ours, other := keys(t, "0123456789abcdef"), keys(t, "fedcba9876543210")
	https := &tls.Config{Certificates: []tls.Certificate{certificate(t)}, MinVersion: tls.VersionTLS13}
	old := https.Clone()
	old.MinVersion, old.MaxVersion = 0, tls.VersionTLS12
	for _, tc := range []struct {
		name  string
		here  *tls.Config
		there func(t *testing.T) netip.AddrPort
		want  Cause
	}{
		{"another token", other.Client(), peerWith(ours.Server()), Token},
		{"none here", nil, peerWith(ours.Server()), Token},
		{"none there", ours.Client(), peerWith(nil), Token},
		{"a web server", ours.Client(), tlsServer(https), Stranger},
		{"an old web server", ours.Client(), tlsServer(old), Stranger},
		{"an echo", nil, echoServer, Stranger},
		{"an echo, with a token", ours.Client(), echoServer, Stranger},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Probe(t.Context(), tc.there(t), tc.here, Options{IfMTU: 1500, Bulk: 1000})
			if got := CauseOf(err); got != tc.want || errors.Is(err, ErrSecret) != (tc.want == Token) {
				t.Errorf("got %q: %v; want %q", got, err, tc.want)
			}
		})
	}
}

func peerWith(keys *tls.Config) func(t *testing.T) netip.AddrPort {
	return func(t *testing.T) netip.AddrPort { _, to := listen(t, keys); return to }
}

func server(t *testing.T, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func echoServer(t *testing.T) netip.AddrPort {
	return server(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
}

func tlsServer(config *tls.Config) func(t *testing.T) netip.AddrPort {
	return func(t *testing.T) netip.AddrPort {
		return server(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, tls.Server(c, config)) })
	}
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "www"},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, pub, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A caller of a later version learns which one is here, whatever else it says.
func TestAnotherVersionIsReported(t *testing.T) {
	_, to := listen(t, nil)
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write(append([]byte(ask+"0777"), make([]byte, 30_000)...))
	_ = c.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(c)
	if want := answer + version; err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestADatagramIsAnsweredOnlyWithAPassAndByNoMore(t *testing.T) {
	l, to := listen(t, nil)
	_, p, leave := l.echo.admit(lo)
	ok := datagram{size: 200, want: 200, pass: p}
	for _, tc := range []struct {
		name string
		b    []byte
		from netip.Addr
		want int
	}{
		{"as it should be", ok.encode(question, 200), lo, 200},
		{"less wanted", datagram{size: 200, want: 80, pass: p}.encode(question, 200), lo, 80},
		{"more wanted", datagram{size: 200, want: 201, pass: p}.encode(question, 200), lo, 0},
		{"less sent than said", ok.encode(question, 100), lo, 0},
		{"another address", ok.encode(question, 200), netip.MustParseAddr("127.0.0.2"), 0},
		{"no pass", datagram{size: 200, want: 200}.encode(question, 200), lo, 0},
		{"an answer", ok.encode(reply, 200), lo, 0},
		{"nothing", nil, lo, 0},
	} {
		if got := l.echo.reply(tc.b, tc.from); len(got) != tc.want {
			t.Errorf("%s: %d bytes, want %d", tc.name, len(got), tc.want)
		}
	}
	for range maxSoundings {
		l.echo.reply(ok.encode(question, 200), lo)
	}
	if got := l.echo.reply(ok.encode(question, 200), lo); got != nil {
		t.Errorf("answered after %d datagrams", maxSoundings)
	}
	leave()
	if got := l.echo.reply(ok.encode(question, 200), lo); got != nil {
		t.Error("answered after the call was over")
	}
	if got, err := Probe(t.Context(), to, nil, Options{IfMTU: 65536}); err != nil || got.MTU.Back != maxPacket {
		t.Errorf("got %+v, %v after all that", got, err)
	}
}

func TestACancelledCallHasItsCause(t *testing.T) {
	to := server(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithCancel(t.Context())
	stop := time.AfterFunc(50*time.Millisecond, cancel)
	defer stop.Stop()
	_, err := Probe(ctx, to, nil, Options{})
	if CauseOf(err) != Unknown || !errors.Is(err, context.Canceled) {
		t.Errorf("got %q, %v", CauseOf(err), err)
	}
}

// A process that does not read is distinguished from a path that does not carry.
func TestAStoppedPeerIsNoStalledPath(t *testing.T) {
	over := make(chan struct{})
	to := server(t, func(c net.Conn) {
		_, _ = io.CopyN(io.Discard, c, helloLen)
		_, _ = c.Write(append([]byte(answer+version), greeting{}.encode()...))
		for range clockRounds {
			_, _ = io.CopyN(io.Discard, c, 1)
			_, _ = c.Write(make([]byte, 8))
		}
		<-over
	})
	// More than its kernel buffers, so that the rest has to wait.
	a, err := Probe(t.Context(), to, nil, Options{Bulk: maxBulk})
	close(over)
	if err != nil || a.Bulk.Out.Stalled || !a.Bulk.Back.Stalled || a.Bulk.Took > bulkBudget+time.Second {
		t.Errorf("got %+v, %v", a.Bulk, err)
	}
}

// FuzzConverse: whatever a caller sends, the call ends, and no caller learns more
// of the ID than who said the hello.
func FuzzConverse(f *testing.F) {
	hello := []byte(ask + version)
	for _, b := range [][]byte{nil, hello, append(hello, opClock, opClock),
		append(hello, opBulk, 0, 0, 0, 3, 'a', 'b', 'c', opClock), append(hello, opBulk, 0xff, 0xff, 0xff, 0xff),
		[]byte(ask + "0001"), {tlsRecord, 3, 1, 0, 5, 1, 0, 0, 1, 0}, []byte("GET / HTTP/1.0\r\n\r\n")} {
		f.Add(b, true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, secret bool) {
		l := &Listener{acceptor: acceptor{id: "an ID"}, now: time.Now}
		if secret {
			l.keys = keys(t, "0123456789abcdef").Server()
		}
		near, far := net.Pipe()
		ended := make(chan struct{})
		go func() { defer close(ended); l.converse(near, lo); near.Close() }()
		answered := make(chan []byte)
		go func() { got, _ := io.ReadAll(far); answered <- got }()
		_, _ = far.Write(b)
		far.Close()
		<-ended
		if got := <-answered; bytes.Contains(got, []byte(l.id)) && (secret || !bytes.HasPrefix(b, hello)) {
			t.Errorf("%q is answered %q", b, got)
		}
	})
}

// FuzzGreet: whatever a listener says, the caller ends with an answer or an
// error of which it knows the cause.
func FuzzGreet(f *testing.F) {
	g := greeting{id: "an ID", port: 7}
	f.Add(append([]byte(answer+version), g.encode()...))
	f.Add([]byte(answer + "0001"))
	f.Add([]byte(locked + version))
	f.Add([]byte("SSH-2.0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		go func() { _, _ = far.Write(b); far.Close() }()
		_, got, err := greet(near, nil)
		near.Close()
		if err == nil && !bytes.HasPrefix(b, append([]byte(answer+version), got.encode()...)) {
			t.Errorf("%q is taken for %+v", b, got)
		}
		if err != nil && talking(t.Context(), err) == Unknown {
			t.Errorf("%q: no cause for %v", b, err)
		}
	})
}

// FuzzDatagram: an answer is never longer than what asked for it.
func FuzzDatagram(f *testing.F) {
	p := pass{1}
	f.Add(datagram{size: 100, want: 100, pass: p}.encode(question, 100))
	f.Add(datagram{size: 100, want: 24, pass: p}.encode(question, 100))
	f.Add([]byte(question))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := &echo{admits: map[pass]*admitted{p: {from: lo, left: 1}}}
		got := e.reply(b, lo)
		if len(got) > len(b) {
			t.Errorf("%d bytes are answered by %d", len(b), len(got))
		}
		if _, ok := parseDatagram(reply, got); got != nil && !ok {
			t.Errorf("the answer %q is none", got)
		}
		_ = source(b)
		_, _ = extended(b)
	})
}
