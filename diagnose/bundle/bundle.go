package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// Answers is the file of a bundle that a judge reads again: what launch doctor --json prints.
const Answers = "doctor.json"

// File is one file of a bundle.
type File struct {
	Name  string
	Holds string // for people
	Text  []byte
}

// Pack returns a gzip'd tar of the files, in one folder.
func Pack(files []File) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: folder + f.Name, Mode: 0o600, Size: int64(len(f.Text)), Typeflag: tar.TypeReg}
		if err := t.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
		if _, err := t.Write(f.Text); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, fmt.Errorf("pack the bundle: %w", err)
	}
	return out.Bytes(), nil
}

const folder = "launch-doctor/"

// IsPacked reports whether a file is compressed as a bundle is.
func IsPacked(text []byte) bool { return bytes.HasPrefix(text, []byte{0x1f, 0x8b}) }

// errNone is why a file is no bundle.
var errNone = errors.New("is compressed, and no bundle of launch doctor")

// Unpack returns the Answers of a bundle, which are at most so long.
func Unpack(text []byte, most int) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, errNone
	}
	t := tar.NewReader(io.LimitReader(z, int64(most)+1<<20))
	for {
		h, err := t.Next()
		switch {
		case err != nil:
			return nil, errNone
		case h.Name != folder+Answers:
			continue
		case h.Size > int64(most):
			return nil, fmt.Errorf("longer than %d MiB", most>>20)
		}
		out, err := io.ReadAll(io.LimitReader(t, int64(most)))
		if err != nil {
			return nil, fmt.Errorf("is damaged: %w", err)
		}
		return out, nil
	}
}
