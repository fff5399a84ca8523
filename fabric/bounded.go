package fabric

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"
)

// What a file may take. The first that takes longer lies on a server that is
// gone, or about to be mounted; from then on less, since others lie there too.
const (
	fileBudget  = 2 * time.Second
	fileBudget2 = 100 * time.Millisecond
)

// errLate is said of a file that was waited for in vain.
var errLate = errors.New("its file system does not answer")

// Bounded is a file system of which nobody waits long: a call on a mount whose
// server is gone does not return, and is left behind. Of a file that is open,
// reading is not bounded.
func Bounded(fsys fs.FS) fs.FS { return &bounded{fsys: fsys} }

type bounded struct {
	fsys fs.FS
	late atomic.Bool // something has been waited for in vain
}

// waited is what a call answers, or errLate.
func waited[T any](b *bounded, op, name string, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1) // buffered, so that one that is late ends too
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
