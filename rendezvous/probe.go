package rendezvous

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// etcd's client tries again until its time is over, and does not report why. What follows asks the
// store's address once, for the reason.

// noAnswer is the reason of a request whose time ran out.
const noAnswer = "no answer"

// explained returns why the last try failed: what is at the address, where the try only ran out of time.
func (s Store) explained(last string) string {
	if last == "" || last == noAnswer {
		return s.silence()
	}
	return last
}

// silence returns why a store gives no answer, as one more connection to each endpoint
// shows it.
func (s Store) silence() string {
	found := make(chan string)
	hosts := s.hosts()
	for _, e := range hosts {
		go func() { found <- stranger(e) }()
	}
	text := noAnswer
	for range hosts {
		text = cmp.Or(<-found, text)
	}
	return text
}

// stranger returns what accepts connections at an address and is no store; "": a store, or nothing.
func stranger(at string) string {
	c, err := net.DialTimeout("tcp", at, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	tls := make(chan bool, 1)
	go func() { tls <- speaksTLS(at) }()
	store, said := preface(c)
	switch {
	case store || <-tls:
		return ""
	case strings.HasPrefix(said, "HTTP/1"):
		return fmt.Sprintf("no etcd, but an HTTP server answers at %s (%s): a proxy or a portal?", c.RemoteAddr(), said)
	case said != "":
		return fmt.Sprintf("no etcd, but another program answers at %s (%s)", c.RemoteAddr(), said)
	}
	return fmt.Sprintf("%s of an etcd, but a process accepts connections there (%s)", noAnswer, c.RemoteAddr())
}

// dial connects to one of the endpoints and closes the connection. It returns why that
// fails: the etcd client retries until its deadline and does not report why.
func (s Store) dial(ctx context.Context) error {
	var errs []error
	for _, host := range s.hosts() {
		all := addrsOf(ctx, host)
		share := len(all)
		for _, at := range all {
			c, err := dialPart(ctx, at, share)
			share--
			if err == nil {
				defer c.Close()
				return cmp.Or(s.familiar(c), s.greet(ctx, c))
			}
			err = reason(ctx, err)
			if len(s.Endpoints) > 1 || len(all) > 1 {
				err = fmt.Errorf("%s: %w", at, err)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// addrsOf returns the addresses of a host and port, each with the port: a name may have one that is dead. Where none
// is found it returns the name, whose error then counts.
func addrsOf(ctx context.Context, at string) (out []string) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return []string{at}
	}
	addrs, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil || len(addrs) < 2 {
		return []string{at}
	}
	for _, a := range addrs {
		out = append(out, net.JoinHostPort(a, port))
	}
	return out
}

// dialPart is dialShort within an equal share of the remaining time.
func dialPart(ctx context.Context, at string, shares int) (net.Conn, error) {
	if end, limited := ctx.Deadline(); limited && shares > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(shares))
		defer cancel()
	}
	return dialShort(ctx, at)
}

// greet begins a conversation with the store and returns why it fails: gRPC retries a
// refusal and does not report why.
func (s Store) greet(ctx context.Context, c net.Conn) error {
	t, err := s.tlsConfig()
	switch {
	case err != nil:
		return err
	case t != nil:
		t = t.Clone()
		if t.ServerName == "" {
			t.ServerName, _, _ = net.SplitHostPort(strings.TrimPrefix(s.Endpoints[0], "https://"))
		}
		return s.handshake(ctx, c, t)
	case plain(c) || !speaksTLS(c.RemoteAddr().String()):
		return nil
	case strings.Contains(s.Endpoints[0], "://"):
		return fmt.Errorf("%w: it speaks TLS, so the endpoint %s needs https://", ErrAccess,
			s.Endpoints[0])
	}
	return fmt.Errorf("%w: the store asks for one, and this node has none", ErrToken)
}

// handshake returns why a TLS handshake with the store fails.
func (s Store) handshake(ctx context.Context, c net.Conn, t *tls.Config) error {
	conn := tls.Client(c, t)
	err := conn.HandshakeContext(ctx)
	if err == nil { // the server refuses a client certificate after it (RFC 8446, 4.4.2.4)
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err = conn.Read(make([]byte, 1)); !refused(err) {
			return nil
		}
		return err
	}
	e, other := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case s.TLS == nil && other && len(e.UnverifiedCertificates) > 0 &&
		e.UnverifiedCertificates[0].Subject.CommonName == TokenName:
		return fmt.Errorf("%w: the store asks for one, and this node has none", ErrToken)
	case s.TLS == nil || s.Access != Access{}:
		return err
	case other:
		return fmt.Errorf("%w: this node's is not the one of the store: %w", ErrToken, e.Err)
	}
	again, dialErr := (&net.Dialer{}).DialContext(ctx, "tcp", c.RemoteAddr().String())
	if dialErr != nil {
		return err
	}
	defer again.Close()
	if plain(again) {
		return fmt.Errorf("%w: this node has one, the store has none", ErrToken)
	}
	return err
}

// plain returns whether the other end speaks HTTP/2 without TLS.
func plain(c net.Conn) bool {
	store, _ := preface(c)
	return store
}

// maxIntroduction is how much of what a stranger says is shown, in bytes.
const maxIntroduction = 60

// preface sends HTTP/2's preface and an empty SETTINGS frame, and returns whether the other end answers with a SETTINGS
// frame (RFC 9113, 3.4); else the first line that it says, if that is text.
func preface(c net.Conn) (settings bool, said string) {
	const length, kind, ofSettings = 9, 3, 4
	_ = c.SetDeadline(time.Now().Add(time.Second))
	answer := make([]byte, maxIntroduction)
	_, werr := c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	n, rerr := io.ReadAtLeast(c, answer, length)
	line, _, _ := strings.Cut(string(answer[:n]), "\n")
	line = strings.TrimSpace(line)
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
		line = ""
	}
	return werr == nil && rerr == nil && answer[kind] == ofSettings, line
}

// speaksTLS returns whether the listener there speaks TLS.
func speaksTLS(at string) bool {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Second}, Config: &tls.Config{InsecureSkipVerify: true}}
	c, err := d.Dial("tcp", at)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
