package fabric

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"
)

// Time limits for one file. The first file that exceeds its limit is probably on a lost
// server or a pending mount; later files get less time, since they may be there too.
const (
	fileBudget  = 2 * time.Second
	fileBudget2 = 100 * time.Millisecond
)

// errLate is the error for a file that took too long.
var errLate = errors.New("its file system does not answer")

// Bounded returns fsys with a time limit for each call: a call on a mount whose server
// is gone never returns and is abandoned. Reading from an open file has no limit.
func Bounded(fsys fs.FS) fs.FS { return &bounded{fsys: fsys} }

type bounded struct {
	fsys fs.FS
	late atomic.Bool // a call has exceeded its limit
}

// waited returns the answer of call, or errLate.
func waited[T any](b *bounded, op, name string, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1) // buffered, so that a late call ends too
	go func() {
		v, err := call()
		done <- answer{v, err}
	}()
	limit := fileBudget
	if b.late.Load() {
		limit = fileBudget2
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.value, a.err
	case <-timer.C:
		b.late.Store(true)
		var none T
		return none, &fs.PathError{Op: op, Path: name, Err: errLate}
	}
}

func (b *bounded) Open(name string) (fs.File, error) {
	return waited(b, "open", name, func() (fs.File, error) { return b.fsys.Open(name) })
}

func (b *bounded) Stat(name string) (fs.FileInfo, error) {
	return waited(b, "stat", name, func() (fs.FileInfo, error) { return fs.Stat(b.fsys, name) })
}

func (b *bounded) Lstat(name string) (fs.FileInfo, error) {
	return waited(b, "lstat", name, func() (fs.FileInfo, error) { return fs.Lstat(b.fsys, name) })
}

func (b *bounded) ReadLink(name string) (string, error) {
	return waited(b, "readlink", name, func() (string, error) { return fs.ReadLink(b.fsys, name) })
}

func (b *bounded) ReadFile(name string) ([]byte, error) {
	return waited(b, "read", name, func() ([]byte, error) { return fs.ReadFile(b.fsys, name) })
}

func (b *bounded) ReadDir(name string) ([]fs.DirEntry, error) {
	return waited(b, "readdir", name, func() ([]fs.DirEntry, error) { return fs.ReadDir(b.fsys, name) })
}
