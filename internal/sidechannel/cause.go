package sidechannel

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"launch/internal/sockaddr"
)

// Cause is why a call failed, in one or two words.
type Cause string

// The causes. After a success compare the ID as well: another launch may have the port by now.
const (
	Refused   Cause = "refused"           // the address refuses: nothing listens there, or a firewall rejects
	Dropped   Cause = "dropped"           // no SYN was answered
	NoRoute   Cause = "no route"          // this node, or a router on the path, has no route
	Broadcast Cause = "broadcast address" // this node takes the address for the broadcast address of a network
	Blackhole Cause = "blackhole route"   // this node has a route of type blackhole there
	NoPort    Cause = "no free port"      // this node has no ephemeral port left
	NoHost    Cause = "host unreachable"  // no machine has the address (after 3 s), or a router reports that (at once)
	Denied    Cause = "denied"            // a rule of this node, or over IPv6 a firewall, prohibits it
	Reset     Cause = "reset"             // reset before an answer: a proxy or sidecar, or an inspecting firewall
	Silent    Cause = "silent"            // connected, but no answer: a proxy, a full path, or a stopped process
	Token     Cause = "token"             // a launch with another LAUNCH_TOKEN, or one side has none
	Stranger  Cause = "stranger"          // a program that is not launch
	Version   Cause = "another version"   // a launch whose side channel has another version
	Unknown   Cause = "unknown"           // the call was cancelled, or this node could not make it
)

// ErrSecret: the other side does not share this job's secret.
var ErrSecret = errors.New("the other side has another LAUNCH_TOKEN, or none")

// failure is an error with its cause.
type failure struct {
	cause Cause
	here  bool // see Here
	mute  bool // see Mute
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// CauseOf returns the cause of an error of Probe, Talk or a Conversation; "" for nil.
func CauseOf(err error) Cause {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.cause
	}
	if err != nil {
		return Unknown
	}
	return ""
}

// Here reports whether this node's own kernel refused a call, so that it says nothing about the other node.
func Here(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.here
}

// Mute reports whether a node took a connection and did not even greet, which takes short packets only: the process
// there does not run.
func Mute(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.mute
}

// refusedHere reports whether the error of a call is of this node's own kernel: no packet has left. A router may report
// some errors as well. Then a datagram socket decides, which sends nothing.
func refusedHere(to netip.AddrPort, err error) bool {
	for _, own := range []unix.Errno{unix.EINVAL, unix.EPERM, unix.EADDRNOTAVAIL, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, own) {
			return true
		}
	}
	for _, either := range []unix.Errno{unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES} {
		if errors.Is(err, either) {
			return byDatagram(to) != nil
		}
	}
	return false
}

// byDatagram returns the error of this node's kernel for a datagram to an address, and sends nothing: EACCES for a
// broadcast address (udp(7)). A socket of package net may send to those.
func byDatagram(to netip.AddrPort) error {
	fd, err := unix.Socket(sockaddr.Family(to.Addr()), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	return unix.Connect(fd, sockaddr.Of(to))
}

// dialing returns why there is no connection.
func dialing(ctx context.Context, err error) Cause {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return Unknown
	case errors.Is(err, unix.ECONNREFUSED):
		return Refused
	case errors.Is(err, unix.ENETUNREACH):
		return NoRoute
	case errors.Is(err, unix.EINVAL): // ip-route(8)
		return Blackhole
	case errors.Is(err, unix.EADDRNOTAVAIL) && !binding(err):
		return NoPort
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

// binding reports whether the address of this node was refused, not the call.
func binding(err error) bool {
	s, ok := errors.AsType[*os.SyscallError](err)
	return ok && s.Syscall == "bind"
}

// talking returns why a connection failed.
func talking(ctx context.Context, err error) Cause {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return Unknown
	case errors.Is(err, ErrSecret):
		return Token
	case errors.Is(err, errVersion):
		return Version
	case errors.Is(err, errNotAPeer):
		return Stranger
	case closed(err):
		return Reset
	case late(err), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Silent
	}
	return dialing(ctx, err)
}

func late(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, unix.ETIMEDOUT)
}

// handshake returns what a failed TLS handshake means.
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
	// If the connection itself did not fail, the other side speaks another TLS.
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op != "remote error" ||
		errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return err
	}
	return errNotAPeer
}

// sameName reports whether a certificate is launch's, with any token.
func sameName(keys *tls.Config, theirs *x509.Certificate) bool {
	for _, c := range keys.Certificates {
		ours, err := x509.ParseCertificate(c.Certificate[0])
		if err == nil && bytes.Equal(ours.RawSubject, theirs.RawSubject) {
			return true
		}
	}
	return false
}
