// Package tcpstore checks whether a torch TCPStore answers. The store of a live job is the only foreign
// listener that launch ever connects to, and only with the complete handshake below: a legacy store
// serves all ranks from one thread, and half a request stops it until the connection closes.
//
// The dialect depends on the version of torch. Up to 1.13 (and 2.0) the commands start at once
// (D0). From 2.2 on a connection begins with VALIDATE, and the commands have other numbers (D2).
package tcpstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// Dialect is the form of the protocol that a store speaks.
type Dialect int

const (
	D0 Dialect = 0 // torch 1.x
	D2 Dialect = 2 // torch 2.2 and later
)

// Answer is the answer of a store.
type Answer struct {
	Dialect Dialect
	Keys    int64 // number of keys in the store
}

var (
	// ErrRefused: nothing listens there.
	ErrRefused = errors.New("connection refused")
	// ErrSilent: something accepts connections and never answers. A store does
	// that while its process is stopped or too busy.
	ErrSilent = errors.New("accepts connections but does not answer")
	// ErrNotAStore: something answers that is not a store.
	ErrNotAStore = errors.New("answers, but is not a TCPStore")
)

const (
	// patience bounds one connection. A store answers within a millisecond, but
	// not while it looks up the name of the node that connects: that takes 5 s if
	// one packet of the name service is lost (resolv.conf(5), timeout).
	patience = 6 * time.Second
	// maxKeys is far above the keys of a job of 100,000 ranks, and far below
	// eight bytes of text read as a number.
	maxKeys = 1 << 32
)

var (
	// askD2 is VALIDATE with its magic number, then GETNUMKEYS (7) four times, so that the request
	// is complete in every dialect. D0 reads it as SET (0) of a key of 0x070707073c85f7ce bytes,
	// finds that impossible and closes. Integers are in the machine's byte order, which is
	// little-endian wherever torch runs.
	askD2 = []byte{0x00, 0xce, 0xf7, 0x85, 0x3c, 7, 7, 7, 7}
	// askD0 is GETNUMKEYS of D0.
	askD0 = []byte{6}
)

// Probe asks the store at addr for its number of keys: a store that answers serves. It changes nothing
// in the store. But each connection costs the store a reverse lookup of the peer's address, in the
// thread that serves all ranks (seen in torch 2.15, both servers): let one node probe, not every node.
//
// It ends within seconds, earlier if ctx does. Errors wrap ErrRefused, ErrSilent,
// ErrNotAStore, the cause of ctx or a network error (no route, timed out).
func Probe(ctx context.Context, addr netip.AddrPort) (Answer, error) {
	counts, closed, err := ask(ctx, addr, askD2, 4)
	if err == nil {
		return Answer{D2, counts[3]}, nil
	}
	if !closed {
		return Answer{}, fmt.Errorf("probe store %s: %w", addr, err)
	}
	counts, _, err = ask(ctx, addr, askD0, 1)
	if err != nil {
		return Answer{}, fmt.Errorf("probe store %s: %w", addr, err)
	}
	return Answer{D0, counts[0]}, nil
}

// ask sends one request in one write and reads n counts. closed reports that the
// other side closed the connection without a byte of an answer.
func ask(ctx context.Context, addr netip.AddrPort, request []byte, n int) (counts []int64, closed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr.String())
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, false, ErrRefused
	}
	if err != nil {
		return nil, gone(err), unconnected(ctx, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()

	reply := make([]byte, 8*n)
	got, err := 0, error(nil)
	if _, err = conn.Write(request); err == nil {
		got, err = io.ReadFull(conn, reply)
	}
	if err != nil {
		return nil, got == 0 && gone(err), unanswered(ctx, got, err)
	}
	counts, err = decode(reply)
	return counts, false, err
}

// decode returns the counts of keys in a reply.
func decode(reply []byte) (counts []int64, err error) {
	for b := reply; len(b) >= 8; b = b[8:] {
		c := binary.LittleEndian.Uint64(b)
		if c > maxKeys {
			return nil, fmt.Errorf("%w: %q is not a number of keys", ErrNotAStore, b[:8])
		}
		counts = append(counts, int64(c))
	}
	return counts, nil
}

// unconnected returns the error for a connection that failed with err.
func unconnected(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	if gone(err) {
		return fmt.Errorf("%w: it reset the connection", ErrNotAStore)
	}
	return err
}

// unanswered returns the error for a reply that ended after got bytes with err.
func unanswered(ctx context.Context, got int, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Cause(ctx)
	case got > 0:
		return fmt.Errorf("%w: it stopped after %d bytes", ErrNotAStore, got)
	case ctx.Err() != nil:
		return ErrSilent
	case gone(err):
		return fmt.Errorf("%w: it closed the connection", ErrNotAStore)
	}
	return err
}

// gone reports whether the other side closed the connection.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
