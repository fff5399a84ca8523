package confine

import (
	"encoding/binary"
	"fmt"
	"io"
)

// maxFrame is far more than one end sends in a step.
const maxFrame = 1 << 20

// writeFrame writes a frame: its kind, the length of the data in four bytes, the
// data. The parent sends the question 'q'. The child sends messages 'x', each
// answered by 'x', or by 'e' with the error, and ends with its result 'r'.
func writeFrame(w io.Writer, kind byte, data []byte) error {
	if len(data) > maxFrame {
		return fmt.Errorf("a message of %d bytes is too long", len(data))
	}
	b := append([]byte{kind}, binary.BigEndian.AppendUint32(nil, uint32(len(data)))...)
	_, err := w.Write(append(b, data...))
	return err
}

func readFrame(r io.Reader) (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a message of %d bytes is too long", n)
	}
	data = make([]byte, n)
	_, err = io.ReadFull(r, data)
	return head[0], data, err
}
