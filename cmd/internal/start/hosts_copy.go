package start

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"sync"
	"time"

	"launch/cmd/internal/remote"
)

// packed returns a function that compresses this program, once, and has begun with it.
func packed() func() ([]byte, error) {
	once := sync.OnceValues(func() ([]byte, error) {
		data, err := unpacked()
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		if _, err := z.Write(data); err != nil {
			return nil, err
		}
		err = z.Close()
		return b.Bytes(), err
	})
	go func() { _, _ = once() }()
	return once
}

// unpacked returns the file of this program.
func unpacked() ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(self)
}

// place copies launch to a host, through the shell that is there.
func place(m *member, limit time.Duration, packed func() ([]byte, error)) (err error) {
	late := time.AfterFunc(limit, m.End)
	defer func() {
		if f, ok := errors.AsType[*remote.Failed](err); ok && !late.Stop() {
			f.Late = true
		}
	}()
	to, reader := remote.Quote(m.program), "gzip -dc"
	if !m.answer.Facts.Gzip {
		reader, packed = "cat", unpacked
	}
	data, err := packed()
	if err != nil {
		return err
	}
	return m.Feed(reader+" > "+to+" && chmod 700 "+to, data)
}
