package sidechannel

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

func deaf(context.Context, netip.Addr, int) Hearing { return Deaf }

// shows makes a listener answer with a text.
func shows(l *Listener, text string) {
	l.Show(func(context.Context, netip.Addr, int) []byte { return []byte(text) }, deaf)
}

func TestShowAnswersWithAndWithoutASecret(t *testing.T) {
	k := keys(t, "0123456789abcdef")
	for name, tc := range map[string]struct{ here, there *tls.Config }{"open": {},
		"with a secret": {k.Client(), k.Server()}} {
		t.Run(name, func(t *testing.T) {
			l, to := listen(t, tc.there)
			if got, err := Look(t.Context(), to, tc.here, l.id); err == nil || len(got) > 0 {
				t.Errorf("before Show: %q, %v", got, err)
			}
			from := make(chan netip.Addr, 1)
			large := bytes.Repeat([]byte("scene"), MaxShown/5)
			l.Show(func(_ context.Context, caller netip.Addr, _ int) []byte { from <- caller; return large }, deaf)
			got, err := Look(t.Context(), to, tc.here, l.id)
			if err != nil || !bytes.Equal(got, large) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			if a := <-from; a != lo {
				t.Errorf("the caller is %s", a)
			}
			if got, err := Look(t.Context(), to, tc.here, "another ID"); CauseOf(err) != Stranger || got != nil {
				t.Errorf("another ID: %q, %v", got, err)
			}
			shows(l, "")
			if got, err := Look(t.Context(), to, tc.here, l.id); err != nil || len(got) > 0 {
				t.Errorf("nothing shown: %q, %v", got, err)
			}
		})
	}
}

func TestShowTellsNothingWithoutTheSecret(t *testing.T) {
	l, to := listen(t, keys(t, "0123456789abcdef").Server())
	l.Show(func(context.Context, netip.Addr, int) []byte {
		t.Error("a caller without the secret is shown")
		return nil
	}, deaf)
	for name, k := range map[string]*tls.Config{"none": nil, "another": keys(t, "fedcba9876543210").Client()} {
		if got, err := Look(t.Context(), to, k, l.id); CauseOf(err) != Token || got != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestShowRefusesAnswersThatAreTooLong(t *testing.T) {
	l, to := listen(t, nil)
	l.Show(func(context.Context, netip.Addr, int) []byte { return make([]byte, MaxShown+1) }, deaf)
	if got, err := Look(t.Context(), to, nil, l.id); err != nil || len(got) > 0 {
		t.Errorf("%d bytes, %v; want none", len(got), err)
	}
	for announced, want := range map[string]string{
		"\xff\xff\xff\xff": "4294967295 bytes are announced", "\x00\x40\x00\x01": "4194305 bytes are announced",
		"\x00\x40\x00\x00": "unexpected EOF", // as much as it may, and then it hangs up
	} {
		to := server(t, func(c net.Conn) {
			_, _ = io.CopyN(io.Discard, c, helloLen)
			_, _ = c.Write(append([]byte(answer+version), greeting{id: "x"}.encode()...))
			_, _ = io.CopyN(io.Discard, c, 1)
			_, _ = io.WriteString(c, announced)
		})
		got, err := Look(t.Context(), to, nil, "x")
		if err == nil || got != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d bytes, %v; want %q", announced, len(got), err, want)
		}
	}
}

// A listener that never answers, and one that never ends, cost no more than the caller's time.
func TestShowEndsWithItsCaller(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"silent": func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"slow": func(c net.Conn) {
			_, _ = c.Write(append([]byte(answer+version), greeting{id: "x"}.encode()...))
			_, _ = c.Write([]byte{0, 1, 0, 0})
			_, _ = io.Copy(io.Discard, c)
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		got, err := Look(ctx, server(t, serve), nil, "x")
		cancel()
		if err == nil || got != nil || time.Since(began) > time.Second {
			t.Errorf("%s: %d bytes, %v after %s", name, len(got), err, time.Since(began))
		}
	}
}

func TestShowClosesTheEchoAndCloseEndsAViewThatWaits(t *testing.T) {
	l, to := listen(t, nil)
	udp := net.UDPAddrFromAddrPort(netip.AddrPortFrom(lo, l.echo.port))
	begun := make(chan struct{})
	l.Show(func(ctx context.Context, _ netip.Addr, _ int) []byte { close(begun); <-ctx.Done(); return nil }, deaf)
	if c, err := net.ListenUDP("udp", udp); err != nil {
		t.Errorf("the port of the datagrams is still taken: %v", err)
	} else {
		c.Close()
	}
	if a, err := Probe(t.Context(), to, nil, Options{}); err != nil || a.ID != l.id {
		t.Errorf("a call after Show: %+v, %v", a, err)
	}
	asked := make(chan []byte)
	go func() { got, _ := Look(t.Context(), to, nil, l.id); asked <- got }()
	<-begun
	at := time.Now()
	l.Close()
	l.Close()
	if took := time.Since(at); took > time.Second {
		t.Errorf("Close took %s", took)
	}
	if got := <-asked; len(got) > 0 {
		t.Errorf("a listener that was closed has shown %q", got)
	}
}

func TestShowDuringManyLooks(t *testing.T) {
	l, to := listen(t, nil)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { _, _ = Look(t.Context(), to, nil, l.id) })
		wg.Go(func() { _, _ = Probe(t.Context(), to, nil, Options{IfMTU: 1500}) })
	}
	shows(l, "a")
	shows(l, "b")
	wg.Wait()
	if got, err := Look(t.Context(), to, nil, l.id); err != nil || string(got) != "b" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestANodeThatDoesNotGreetIsMute: a kernel takes a connection for a process that does not run.
func TestANodeThatDoesNotGreetIsMute(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // no program accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = Look(ctx, l.Addr().(*net.TCPAddr).AddrPort(), nil, "an id")
	if !Mute(err) || CauseOf(err) != Silent {
		t.Errorf("%q: %v", CauseOf(err), err)
	}
}

func TestANodePassesOnWhatAnotherOneSees(t *testing.T) {
	l, to := listen(t, nil)
	l.Show(func(_ context.Context, caller netip.Addr, rank int) []byte {
		switch {
		case rank == Own:
			return []byte("own")
		case rank == 70000 && caller == lo:
			return []byte("of 70000")
		}
		return nil
	}, deaf)
	for rank, want := range map[int]string{70000: "of 70000", 3: ""} {
		if got, err := Pass(t.Context(), to, nil, l.id, rank); err != nil || string(got) != want {
			t.Errorf("rank %d: %q, %v", rank, got, err)
		}
	}
	if got, err := Look(t.Context(), to, nil, l.id); err != nil || string(got) != "own" {
		t.Errorf("%q, %v", got, err)
	}
}
