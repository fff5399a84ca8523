package sidechannel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// What is said over TCP, all of it inside TLS where there is a secret:
//
//	caller    ask, version                      16 bytes, the same in all versions
//	listener  answer, version                   16 bytes; another version: the end
//	listener  length, ID, UDP port, pass        1 + n + 2 + 16 bytes
//	caller    opClock                           as often as it likes
//	listener  its wall clock                    8 bytes, ns since 1970
//	caller    opBulk, n, then n bytes           5 + n bytes
//	listener  n bytes, then opBulk once n came  n + 1 bytes, while it reads
//	caller    opAbout
//	listener  n, then what it says of itself    2 + n bytes
//
// The words differ by side, so that a service which echoes is no peer.
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
	opAbout = 'a'

	maxID = 64
	// MaxAbout is how many bytes a listener may say of itself: with the greeting
	// they fit into two packets of any network.
	MaxAbout = 1024
	passLen  = 16
)

// pass is what lets a caller have its datagrams answered.
type pass [passLen]byte

// greeting is what a listener says about itself.
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

// Who answers without being a peer.
var (
	errNotAPeer = errors.New("what answers there is no launch")
	errVersion  = errors.New("another version of launch answers there")
)

// checkAnswer reads what a listener's hello says.
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

// A question by UDP is padded to the size to be tested, an answer to the size
// that was wanted, which is never more:
//
//	0  word, 4 bytes
//	4  size of the question, 2
//	6  wanted size of the answer, 2
//	8  pass, 16
const (
	question    = "lpq2"
	reply       = "lpa2"
	datagramLen = 8 + passLen
)

// datagram is a question or, with the other word, the answer to it. Both sizes
// are of the UDP payload.
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

// parseDatagram is ok where b is whole and asks for no more than it brought.
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
