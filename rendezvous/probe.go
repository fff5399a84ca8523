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

// silence returns why a store gives no answer, as one more connection to each endpoint
// shows it.
func (s Store) silence() string {
	ends := make(chan bool) // whether a process that is no store accepts connections there
	hosts := s.hosts()
	for _, e := range hosts {
		go func() {
			c, err := net.DialTimeout("tcp", e, time.Second)
			if err != nil {
				ends <- false
				return
			}
			defer c.Close()
			tls := make(chan bool, 1)
			go func() { tls <- speaksTLS(e) }()
			ends <- !plain(c) && !<-tls
		}()
	}
	text := noAnswer
	for range hosts {
		if <-ends {
			text = noAnswer + " of an etcd, but a process accepts connections there"
		}
	}
	return text
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

// plain returns whether the other end speaks HTTP/2 without TLS: it answers the preface
// and an empty SETTINGS frame with a SETTINGS frame (RFC 9113, 3.4).
func plain(c net.Conn) bool {
	const settings = 4
	_ = c.SetDeadline(time.Now().Add(time.Second))
	frame := make([]byte, 9)
	_, werr := c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	_, rerr := io.ReadFull(c, frame)
	return werr == nil && rerr == nil && frame[3] == settings
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
