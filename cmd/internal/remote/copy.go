package remote

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Copies is this program, for the hosts that lack it, in the form that a host unpacks; "": as it is.
type Copies map[string]func() ([]byte, error)

// NewCopies makes each form once it is asked for, and has begun with the one that most hosts take.
func NewCopies() Copies {
	all := Copies{
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

// Place copies this program to a file of the host, packed in the form that the host unpacks: "zstd", "gzip" or "" (as
// it is). The error is a *Failed, or is of reading the own file.
func (s *Session) Place(all Copies, form, file string, limit time.Duration) (err error) {
	late := time.AfterFunc(limit, s.End)
	defer func() {
		inTime := late.Stop()
		if f, ok := errors.AsType[*Failed](err); ok {
			f.Late = f.Late || !inTime
		}
	}()
	reader := "cat"
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
	to := Quote(file)
	return s.Feed(reader+" > "+to+" && chmod 700 "+to, data)
}
