package taskgroup

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// bases are where the folder may be: the first in which it can be is the same for all tasks of a
// node, whatever TMPDIR they have.
var bases = []string{"/tmp", "/var/tmp", "/dev/shm"}

// folder returns the folder in which this user's tasks meet. Nobody else can enter it, and a
// folder of another user with its name is not taken.
func folder() (string, error) {
	var errs []error
	for _, base := range bases {
		dir := filepath.Join(base, "launch-"+strconv.Itoa(os.Geteuid()))
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) {
			err = private(dir)
		}
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("%w: %w", ErrNoFolder, errors.Join(errs...))
}

// private returns an error unless a folder is this user's, and closed to others.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", dir)
	case !ok || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d", dir, st.Uid)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is open to other users: %s", dir, info.Mode().Perm())
	}
	return nil
}

// lock is a task's number in a group, which one process has at a time.
type lock struct {
	*os.File
	dir    string
	socket string // of the group's first task
}

// take takes a number. The error wraps ErrTaken where another process has it. Groups of different network
// namespaces are different: they are different hosts that share a disk.
func take(group string, number int) (*lock, error) {
	host, _ := os.Readlink("/proc/self/ns/net")
	sum := sha256.Sum256([]byte(host + " " + group))
	name := fmt.Sprintf("%x", sum[:8])
	for {
		dir, err := folder()
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, fmt.Sprintf("%s-%d", name, number))
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if errors.Is(err, fs.ErrNotExist) { // another process has just removed the folder
			continue
		}
		if err != nil {
			return nil, err
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			_ = f.Close()
			return nil, ErrTaken
		}
		if now, err := os.Stat(path); err == nil && same(f, now) {
			return &lock{f, dir, filepath.Join(dir, name)}, nil
		}
		_ = f.Close() // another process has just removed the file
	}
}

func same(f *os.File, now os.FileInfo) bool {
	mine, err := f.Stat()
	return err == nil && os.SameFile(mine, now)
}

// release gives the number back, and removes the folder after the last one.
func (l *lock) release() {
	_ = os.Remove(l.Name())
	_ = l.Close()
	_ = os.Remove(l.dir) // if it is empty
}
