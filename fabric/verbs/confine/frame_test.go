package confine

import (
	"bytes"
	"testing"
)

func FuzzReadFrame(f *testing.F) {
	var b bytes.Buffer
	if err := writeFrame(&b, 'x', []byte("hello")); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{'r', 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, said, err := readFrame(bytes.NewReader(data))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := writeFrame(&again, kind, said); err != nil || !bytes.HasPrefix(data, again.Bytes()) {
			t.Errorf("%q reads as %q, %v", data, said, err)
		}
	})
}
