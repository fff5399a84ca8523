package start

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"launch/cmd/internal/remote"
)

// copies is this program, for the hosts that lack it, in the form that a host unpacks; "": as it is.
type copies map[string]func() ([]byte, error)

// newCopies makes each form once it is asked for, and has begun with the one that most hosts take.
func newCopies() copies {
	all := copies{
		"zstd": compressed(func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false)) // the agent has sums
		}),
		"gzip": compressed(func(w io.Writer) (io.WriteCloser, error) {
			return gzip.NewWriterLevel(w, gzip.BestSpeed)
		}),
		"": ownFile,
	}
	go func() { _, _ = all["zstd"]() }()
	return all
}

func compressed(writer func(io.Writer) (io.WriteCloser, error)) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		data, err := ownFile()
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		z, err := writer(&b)
		if err != nil {
			return nil, err
		}
		_, err = z.Write(data)
		err = errors.Join(err, z.Close())
		return b.Bytes(), err
	})
}

// ownFile returns the file of this program.
func ownFile() ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(self)
}

// place copies launch to a host, through the shell that is there.
func place(m *member, limit time.Duration, all copies) (err error) {
	late := time.AfterFunc(limit, m.End)
	defer func() {
		if f, ok := errors.AsType[*remote.Failed](err); ok && !late.Stop() {
			f.Late = true
		}
	}()
	form, reader := m.answer.Facts.Unpacks, "cat"
	if all[form] == nil { // what the host has printed
		form = ""
	}
	if form != "" {
		reader = form + " -dc"
	}
	data, err := all[form]()
	if err != nil {
		return err
	}
	to := remote.Quote(m.program)
	return m.Feed(reader+" > "+to+" && chmod 700 "+to, data)
}
