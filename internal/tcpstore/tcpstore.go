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

const (
	// patience bounds one connection. A store answers at once, but not while it looks up the name of a
	// peer: that takes 5 s if one packet of the name service is lost (resolv.conf(5), timeout).
	patience = 6 * time.Second
	// maxKeys is far above the keys of 100,000 ranks, and far below eight bytes of text.
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

// errClosed: the other side closed the connection without a byte of an answer.
var errClosed = errors.New("it closed the connection")

// Probe asks the store at addr for its number of keys, and returns why it does not answer. It changes
// nothing in the store, but each connection costs the store a reverse lookup of the peer's address, in
// the thread that serves all ranks (seen in torch 2.15): let one node probe. It takes seconds at most.
func Probe(ctx context.Context, addr netip.AddrPort) error {
	err := ask(ctx, addr, askD2, 4)
	if errors.Is(err, errClosed) {
		err = ask(ctx, addr, askD0, 1)
	}
	if err != nil {
		return fmt.Errorf("probe store %s: %w", addr, err)
	}
	return nil
}

// ask sends one request in one write and reads n numbers of keys.
func ask(ctx context.Context, addr netip.AddrPort, request []byte, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return explain(ctx, 0, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()

	if _, err := conn.Write(request); err != nil {
		return explain(ctx, 0, err)
	}
	reply := make([]byte, 8*n)
	if got, err := io.ReadFull(conn, reply); err != nil {
		return explain(ctx, got, err)
	}
	return check(reply)
}

// explain returns why a connection failed with err after got bytes of an answer.
func explain(ctx context.Context, got int, err error) error {
	gone := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case got == 0 && gone:
		return errClosed
	}
	return err
}

// check returns an error if a reply cannot be numbers of keys.
func check(reply []byte) error {
	for ; len(reply) >= 8; reply = reply[8:] {
		if binary.LittleEndian.Uint64(reply) > maxKeys {
			return fmt.Errorf("%q is not a number of keys", reply[:8])
		}
	}
	return nil
}
