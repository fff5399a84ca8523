package sidechannel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The protocol over TCP, inside TLS if there is a secret:
//
//	caller    ask, version                      16 bytes, the same in all versions
//	listener  answer, version                   16 bytes; another version: the end
//	listener  length, ID, UDP port, pass        1 + n + 2 + 16 bytes
//	caller    opClock                           any number of times
//	listener  its wall clock                    8 bytes, ns since 1970
//	caller    opBulk, n, then n bytes           5 + n bytes
//	listener  n bytes, then opBulk as receipt   n + 1 bytes, while it reads
//	caller    opDrip, n, then n bytes           3 + n bytes
//	listener  opDrip as receipt                 1 byte
//	caller    opAbout
//	listener  n, then its text about itself     2 + n bytes
//	caller    opShow                            after the start, with Show
//	listener  n, then what its node sees        4 + n bytes
//	caller    opPass, node rank                 5 bytes, after the start, with Show
//	listener  n, then what that node sees       4 + n bytes
//	caller    opLinks                           after the start, with Show
//	listener  n, then its links to the caller   4 + n bytes
//	caller    opPort, port                      3 bytes, after the start, with Show
//	listener  how programs listen there         1 byte, a Hearing
//
// The words differ by side, so that an echo service is not taken for a peer.
const (
	helloLen = 16
	ask      = "launch-peer?" // 12 bytes, then the version as 4 digits
	answer   = "launch-peer!"
	locked   = "launch-lock!" // in place of the answer: this side speaks TLS only
	version  = "0003"         // 0001 echoed 16 bytes, 0002 had no opAbout

	// tlsRecord begins a TLS handshake (RFC 8446, 5.1); no hello does.
	tlsRecord = 0x16

	opClock = 'c'
	opBulk  = 'b'
	opDrip  = 'd'
	opAbout = 'a'
	opShow  = 's'
	opPort  = 'p'
	opPass  = 'r'
	opLinks = 'l'

	maxID = 64
	// MaxAbout is the limit of a listener's text about itself: with the greeting it is two packets.
	MaxAbout = 1024
	passLen  = 16
)

// pass gets a caller's datagrams answered.
type pass [passLen]byte

// greeting is a listener's first message.
type greeting struct {
	id   string
	port uint16 // its UDP port; 0: it has none
	pass pass
}

func (g greeting) encode() []byte {
	b := append([]byte{byte(len(g.id))}, g.id...)
	b = binary.BigEndian.AppendUint16(b, g.port)
	return append(b, g.pass[:]...)
}

func readGreeting(r io.Reader) (greeting, error) {
	var n [1]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return greeting{}, err
	}
	if n[0] > maxID {
		return greeting{}, errNotAPeer
	}
	b := make([]byte, int(n[0])+2+passLen)
	if _, err := io.ReadFull(r, b); err != nil {
		return greeting{}, err
	}
	id, rest := b[:n[0]], b[n[0]:]
	g := greeting{id: string(id), port: binary.BigEndian.Uint16(rest)}
	copy(g.pass[:], rest[2:])
	return g, nil
}

// Errors of programs that answer but are not peers.
var (
	errNotAPeer = errors.New("the program that answers there is not launch")
	errVersion  = errors.New("another version of launch answers there")
)

// checkAnswer returns an error unless a listener's hello is a peer's.
func checkAnswer(hello []byte) error {
	word, v := string(hello[:len(ask)]), hello[len(ask):]
	switch {
	case word == locked:
		return ErrSecret
	case word != answer || len(bytes.Trim(v, "0123456789")) > 0:
		return errNotAPeer
	case string(v) != version:
		return fmt.Errorf("%w: its side channel is version %s, this one's is %s", errVersion, v, version)
	}
	return nil
}

// A question by UDP is padded to the size to be tested, an answer to the requested
// size, which is never more:
//
//	0  word, 4 bytes
//	4  size of the question, 2
//	6  requested size of the answer, 2
//	8  pass, 16
const (
	question    = "lpq2"
	reply       = "lpa2"
	datagramLen = 8 + passLen
)

// datagram is a question or, with the other word, its answer. Both sizes are of the UDP payload.
type datagram struct {
	size, want int
	pass       pass
}

// encode pads to n bytes.
func (d datagram) encode(word string, n int) []byte {
	b := make([]byte, n)
	copy(b, word)
	binary.BigEndian.PutUint16(b[4:], uint16(d.size))
	binary.BigEndian.PutUint16(b[6:], uint16(d.want))
	copy(b[8:], d.pass[:])
	return b
}

// parseDatagram returns ok if b is complete and requests no more than its own size.
func parseDatagram(word string, b []byte) (d datagram, ok bool) {
	if len(b) < datagramLen || string(b[:4]) != word {
		return d, false
	}
	d.size, d.want = int(binary.BigEndian.Uint16(b[4:])), int(binary.BigEndian.Uint16(b[6:]))
	copy(d.pass[:], b[8:])
	whole := d.size
	if word == reply {
		whole = d.want
	}
	return d, len(b) == whole && d.want >= datagramLen && d.want <= d.size
}
