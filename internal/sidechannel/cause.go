package sidechannel

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Cause is why a call came to nothing, in one or two words.
type Cause string

// The causes. Where an answer came, its ID still has to be compared: another
// launch may have got the port since.
const (
	Refused  Cause = "refused"          // the address answers and says no: nothing listens there, or a firewall rejects
	Dropped  Cause = "dropped"          // no answer to any SYN
	NoRoute  Cause = "no route"         // this node has no route there, or a router on the way has none
	NoHost   Cause = "host unreachable" // nobody on the wire has the address (after about 3 s), or a router or firewall says so (at once)
	Denied   Cause = "denied"           // a rule of this node, or over IPv6 a firewall, prohibits it
	Reset    Cause = "reset"            // connected, then cut off before a word: a proxy or sidecar, or a firewall that looks into connections
	Silent   Cause = "silent"           // connected, and no word came: a proxy, a full path, or a process that stands still
	Token    Cause = "token"            // a launch with another LAUNCH_TOKEN, or one side has none
	Stranger Cause = "stranger"         // what answers is no launch, or one of another version
	Unknown  Cause = "unknown"          // anything else: the call was given up, or this node could not make it
)

// ErrSecret: the other side does not share this job's secret.
var ErrSecret = errors.New("the other side has another LAUNCH_TOKEN, or none")

// failure is an error with its cause.
type failure struct {
	cause Cause
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// CauseOf is the cause of an error that Probe or Call returned; "" of nil.
func CauseOf(err error) Cause {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.cause
	}
	if err != nil {
		return Unknown
	}
	return ""
}

// dialing judges why there is no connection.
func dialing(ctx context.Context, err error) Cause {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return Unknown
	case errors.Is(err, unix.ECONNREFUSED):
		return Refused
	// A blackhole route says EINVAL to who connects (ip-route(8)).
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EINVAL):
		return NoRoute
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EHOSTDOWN):
		return NoHost
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return Denied
	case errors.Is(err, unix.ECONNRESET):
		return Reset
	case late(err), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Dropped
	}
	return Unknown
}

// talking judges why a connection came to nothing.
func talking(ctx context.Context, err error) Cause {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return Unknown
	case errors.Is(err, ErrSecret):
		return Token
	case errors.Is(err, errNotAPeer), errors.Is(err, errVersion):
		return Stranger
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return Reset
	case late(err), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Silent
	}
	return dialing(ctx, err)
}

func late(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, unix.ETIMEDOUT)
}

// handshake says what a failed TLS handshake means.
func handshake(keys *tls.Config, err error) error {
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		if bytes.HasPrefix([]byte(answer), plain.RecordHeader[:]) {
			return ErrSecret
		}
		return errNotAPeer
	}
	if other, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		if len(other.UnverifiedCertificates) > 0 && sameName(keys, other.UnverifiedCertificates[0]) {
			return ErrSecret
		}
		return errNotAPeer
	}
	// What is not the connection's failure is another TLS, or an alert of its own.
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op != "remote error" || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return err
	}
	return errNotAPeer
}

// sameName tells whether a certificate is a launch's, whatever its token.
func sameName(keys *tls.Config, theirs *x509.Certificate) bool {
	for _, c := range keys.Certificates {
		ours, err := x509.ParseCertificate(c.Certificate[0])
		if err == nil && bytes.Equal(ours.RawSubject, theirs.RawSubject) {
			return true
		}
	}
	return false
}
