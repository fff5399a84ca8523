// Package outfile writes the files that a user names for results. In a folder where others may
// write too, such as /tmp, none of them can lead the text elsewhere.
package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
)

// Write replaces the file, or makes it: readers see the old text or the new one. It writes into a
// device, a pipe or another user's file as they are, and so where the folder allows no new file. A
// link is followed if this user or root has made it.
func Write(name string, text []byte) error { return write(name, text, 0o666, false) }

// WritePrivate writes as Write does, for this user's eyes: a file that it makes or replaces has mode 0600, and
// another user's file is an error.
func WritePrivate(name string, text []byte) error { return write(name, text, 0o600, true) }

func write(name string, text []byte, mode fs.FileMode, private bool) error {
	name, info, err := resolve(name)
	if err != nil {
		return err
	}
	own := info == nil || owner(info) == os.Geteuid()
	switch {
	case private && !own && info.Mode().IsRegular():
		return &fs.PathError{Op: "open", Path: name, Err: errOwner}
	case info == nil, info.Mode().IsRegular() && own:
		if info != nil && !private {
			mode = info.Mode().Perm() // a file that was there keeps its mode
		}
		if err = replace(name, text, mode, info != nil); err == nil || info == nil || private {
			return err
		}
	}
	f, err := open(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// replace writes the text beside the file, and renames it. exact: the mode counts as it is, whatever the umask.
func replace(name string, text []byte, mode fs.FileMode, exact bool) error {
	beside := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s.%x", filepath.Base(name), rand.Uint64()))
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		p.Path = name // the one that the user knows
	}
	if err != nil {
		return err
	}
	if exact {
		err = f.Chmod(mode)
	}
	_, werr := f.Write(text)
	if err = errors.Join(err, werr, f.Close()); err == nil {
		err = os.Rename(beside, name)
	}
	if err != nil {
		_ = os.Remove(beside)
	}
	return err
}

// Append opens the file to read it and to write at its end, and makes it if it is missing. It
// follows links as Write does.
func Append(name string) (*os.File, error) {
	name, info, err := resolve(name)
	if err != nil {
		return nil, err
	}
	if info != nil && pipe(info) { // it has no end
		return nil, &fs.PathError{Op: "open", Path: name, Err: errPipe}
	}
	return open(name, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o666)
}

// errPipe and errNoReader are why a pipe is not opened.
var (
	errPipe     = errors.New("it is a pipe")
	errNoReader = errors.New("it is a pipe that no process reads")
)

func pipe(info fs.FileInfo) bool { return info.Mode().Type() == fs.ModeNamedPipe }

// open opens a file that is no link. A pipe without a reader is an error, and not a wait for one.
func open(name string, flags int, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, mode)
	if errors.Is(err, syscall.ENXIO) {
		if info, statErr := os.Lstat(name); statErr == nil && pipe(info) {
			err = &fs.PathError{Op: "open", Path: name, Err: errNoReader}
		}
	}
	return f, err
}

// errLink is why a link is not followed.
var errLink = errors.New("it is a link that another user has made")

// errOwner is why a private text is not written.
var errOwner = errors.New("it is a file of another user")

// resolve follows the links that this user or root has made. info is nil if there is no file yet.
func resolve(name string) (target string, info fs.FileInfo, err error) {
	const most = 40 // as the kernel follows: path_resolution(7)
	target = name
	for range most {
		info, err = os.Lstat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return target, nil, nil
		case err != nil:
			return "", nil, err
		case info.Mode().Type() != fs.ModeSymlink:
			return target, info, nil
		case owner(info) != os.Geteuid() && owner(info) != 0:
			return "", nil, &fs.PathError{Op: "open", Path: target, Err: errLink}
		}
		to, err := os.Readlink(target)
		if err != nil {
			return "", nil, err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(target), to)
		}
		target = to
	}
	return "", nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
}

// owner returns the user id of a file's owner; -1: unknown.
func owner(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}
