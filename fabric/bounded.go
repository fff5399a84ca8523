package fabric

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"time"
)

// Time limits for one file, and for each file after one that exceeded its limit.
const (
	fileBudget  = 2 * time.Second
	fileBudget2 = 100 * time.Millisecond
)

// errLate is the error for a file that took too long.
var errLate = errors.New("its file system does not answer")

// Bounded returns fsys, whose root is the machine's, with a time limit for each call. Reading from an open file has no
// limit. A thread that waits for a dead file system may be impossible to end, and execve(2) waits for it: so a child
// asks each mount that may wait for a server, before the first call there.
func Bounded(fsys fs.FS) fs.FS { return &bounded{fsys: fsys, answers: map[string]bool{}} }

type bounded struct {
	fsys fs.FS
	late atomic.Bool // a call has exceeded its limit

	mu      sync.Mutex
	mounts  []mount
	answers map[string]bool // by mount point: those that were asked
}

// dead returns whether the mount that holds a path does not answer.
func (b *bounded) dead(name string) bool {
	b.mu.Lock() // held while asking: other callers wait for the answer
	defer b.mu.Unlock()
	if b.mounts == nil {
		b.mounts = parseMounts(readText(os.DirFS("/proc"), "self/mountinfo"))
	}
	m := holds(b.mounts, path.Join("/", name)) // links are not followed: that could hang
	if m.at == "" || m.at == "/" || !m.remote() {
		return false
	}
	alive, asked := b.answers[m.at]
	if !asked {
		alive = askDisk(context.Background(), m.at, b.mounts, fileBudget).Late == ""
		b.answers[m.at] = alive
	}
	return !alive
}

// waited returns the answer of call, or errLate.
func waited[T any](b *bounded, op, name string, call func() (T, error)) (v T, err error) {
	if b.dead(name) {
		return v, &fs.PathError{Op: op, Path: name, Err: errLate}
	}
	limit := fileBudget
	if b.late.Load() {
		limit = fileBudget2
	}
	v, late, err := Within(limit, call)
	if late {
		b.late.Store(true)
		err = &fs.PathError{Op: op, Path: name, Err: errLate}
	}
	return v, err
}

// Within returns the answer of a call that a hung file system may keep for ever; late: there is none within the limit,
// and the call goes on by itself.
func Within[T any](limit time.Duration, call func() (T, error)) (v T, late bool, err error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1) // buffered, so that a late call ends too
	go func() {
		v, err := call()
		done <- answer{v, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.value, false, a.err
	case <-timer.C:
		return v, true, nil
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
