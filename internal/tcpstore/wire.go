package tcpstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// What is wrong with something that listens where a store should. Errors of the dial pass through as they are.
var (
	// ErrSilent: it accepts, and does not answer in time, or not in full.
	ErrSilent = errors.New("accepts and does not answer")
	// ErrClosed: it closes the connection instead of an answer.
	ErrClosed = errors.New("closes the connection without an answer")
	// ErrGarbage: it answers what no store of torch does.
	ErrGarbage = errors.New("gives an answer that no store of torch gives")
)

// request is one of the few things that this package asks. None of them writes, waits, or wakes a waiter.
type request int

const (
	count request = iota // GETNUMKEYS
	list                 // LIST_KEYS
	check                // CHECK of one key
	get                  // GET of a key that CHECK has found: a missing one ends the connection, or reads as empty
	requests
)

// dialect is the numbering of the requests, which torch 2.2 has changed.
type dialect int

const (
	current dialect = iota // torch 2.2 and later; list since 2.10
	old                    // torch 1.13 to 2.1
)

// never is the opcode of a request that a dialect does not have.
const never = 0xff

// opcodes are all that this package can write.
var opcodes = [...][requests]byte{
	current: {count: 7, list: 17, check: 5, get: 3},
	old:     {count: 6, list: never, check: 4, get: 2},
}

// validate must be the first bytes to a current server, in one write with whole requests: an old one reads them
// as the beginning of a SET with a key of 5e17 bytes, and closes.
const validate = "\x00\xce\xf7\x85\x3c"

// Limits of what is sent and of what is believed.
const (
	maxKey     = 1 << 10  // bytes of a key that matters; above 8 KiB a server writes a warning to the job's stderr
	maxValue   = 64 << 10 // bytes of a value that matters: a blob of Gloo in a world of 8,000
	maxState   = 1 << 20  // bytes of c10d's state: 8,000 nodes
	maxSkipped = 16 << 20 // bytes of a value that is skipped; libuv's limit is half of it
	maxListed  = 20_000   // keys of a store that is asked for its list: 0.2 s of an old server's only thread
	maxCount   = 1 << 32  // keys that a store can have: 8 bytes of text make a larger number
	maxSent    = 16 << 10 // bytes written at once: fits every socket buffer
)

// batch is one or more whole requests, for one write.
type batch struct {
	dialect dialect
	buf     []byte
}

// ask appends a request. It is the only place that writes an opcode.
func (b *batch) ask(r request) {
	op := opcodes[b.dialect][r]
	if op == never {
		panic("tcpstore: a request that this server does not know")
	}
	b.buf = append(b.buf, op)
}

// about appends a request about one key.
func (b *batch) about(r request, key string) {
	b.ask(r)
	if r == check {
		b.buf = binary.LittleEndian.AppendUint64(b.buf, 1)
	}
	b.buf = binary.LittleEndian.AppendUint64(b.buf, uint64(len(key)))
	b.buf = append(b.buf, key...)
}

// link is one connection to a store.
type link struct {
	conn    net.Conn
	in      *bufio.Reader
	dialect dialect
	// answered: at least one byte has come. An old store closes without one where it is spoken to as a current one.
	answered bool
}

func newLink(conn net.Conn, d dialect) *link {
	return &link{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), dialect: d}
}

// exchange writes a batch and reads its answers at the same time, so that neither side can wait for the other:
// an old server with a full socket serves nobody.
func (l *link) exchange(b batch, answers func() error) error {
	if l.in.Buffered() > 0 {
		return fmt.Errorf("%w: more than was asked for", ErrGarbage)
	}
	written := make(chan error, 1)
	go func() {
		_, err := l.conn.Write(b.buf)
		written <- err
	}()
	err := answers()
	if err != nil {
		_ = l.conn.Close() // ends a write that still goes on
	}
	if werr := <-written; err == nil {
		err = werr
	}
	return reason(err)
}

// reason maps an error of the connection to the sentinels.
func reason(err error) error {
	var timeout net.Error
	switch {
	case err == nil, errors.Is(err, ErrGarbage):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return ErrSilent
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}

// hello returns the number of keys. It is the first exchange of a connection.
func (l *link) hello() (keys int, err error) {
	b, times := batch{dialect: l.dialect}, 1
	if l.dialect == current {
		// An old server needs 8 bytes after the first to take them for a length and close: with fewer it waits
		// for the rest, and the whole job with it.
		b.buf, times = append(b.buf, validate...), 4
	}
	for range times {
		b.ask(count)
	}
	err = l.exchange(b, func() error {
		for range times {
			if keys, err = l.number(); err != nil {
				return err
			}
		}
		return nil
	})
	return keys, err
}

// number reads a count of keys.
func (l *link) number() (int, error) {
	n, err := l.long()
	if err == nil && n >= maxCount {
		err = fmt.Errorf("%w: %d keys", ErrGarbage, n)
	}
	return int(n), err
}

func (l *link) long() (uint64, error) {
	var b [8]byte
	n, err := io.ReadFull(l.in, b[:])
	l.answered = l.answered || n > 0
	return binary.LittleEndian.Uint64(b[:]), err
}

// keys calls each with every key of the store; long counts those that are longer than maxKey.
func (l *link) keys(each func(key string)) (long int, err error) {
	b := batch{dialect: l.dialect}
	b.ask(list)
	err = l.exchange(b, func() error {
		n, err := l.number()
		if err == nil && n > 2*maxListed {
			err = fmt.Errorf("%w: a list of %d keys", ErrGarbage, n)
		}
		for i := 0; i < n && err == nil; i++ {
			var key []byte
			if key, err = l.bytes(maxKey); err == nil && key == nil {
				long++
			} else if err == nil {
				each(string(key))
			}
		}
		return err
	})
	return long, err
}

// bytes reads a string. Nil is one that is longer than limit, which was skipped.
func (l *link) bytes(limit int) ([]byte, error) {
	n, err := l.long()
	switch {
	case err != nil:
		return nil, err
	case n > maxSkipped:
		return nil, fmt.Errorf("%w: %d bytes", ErrGarbage, n)
	case n > uint64(limit):
		_, err = io.CopyN(io.Discard, l.in, int64(n))
		return nil, err
	}
	out := make([]byte, n)
	_, err = io.ReadFull(l.in, out)
	return out, err
}

// have returns which of the keys exist. They are few enough for one write.
func (l *link) have(keys []key) (there []key, err error) {
	b := batch{dialect: l.dialect}
	for _, k := range keys {
		b.about(check, k.text)
	}
	err = l.exchange(b, func() error {
		for _, k := range keys {
			answer, err := l.in.ReadByte()
			switch {
			case err != nil:
				return err
			case answer > 1:
				return fmt.Errorf("%w: %d to a check", ErrGarbage, answer)
			case answer == 0:
				there = append(there, k)
			}
		}
		return nil
	})
	return there, err
}

// values calls each with the value of every key; nil is one that was too large.
func (l *link) values(keys []key, each func(k key, value []byte)) error {
	b := batch{dialect: l.dialect}
	for _, k := range keys {
		b.about(get, k.text)
	}
	return l.exchange(b, func() error {
		for _, k := range keys {
			limit := maxValue
			if k.kind == kindState {
				limit = maxState
			}
			value, err := l.bytes(limit)
			if err != nil {
				return err
			}
			each(k, value)
		}
		return nil
	})
}
