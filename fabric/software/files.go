package software

import (
	"io/fs"
	"path"
	"strings"
)

const (
	// maxLinks is the kernel's own limit of symbolic links in a path.
	maxLinks = 40
	// maxText limits what is read of a text file: version.py and pyvenv.cfg have a few
	// hundred bytes.
	maxText = 16 << 10
)

// files reads below a root by absolute paths. It follows links itself, so that an
// absolute link stays within the root.
type files struct{ root fs.FS }

// real returns the file that a path leads to, with every link followed. ok is false if
// there is none.
func (f files) real(name string) (p string, ok bool) {
	p, _, ok = f.resolve(name)
	return p, ok
}

// resolve is real, and also returns the type and the permissions of the file.
func (f files) resolve(name string) (p string, m fs.FileMode, ok bool) {
	if !path.IsAbs(name) {
		return "", 0, false
	}
	left, links := strings.Split(name, "/"), 0
	done := "/"
	for len(left) > 0 {
		var part string
		part, left = left[0], left[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		target, err := fs.ReadLink(f.root, inside(path.Join(done, part)))
		if err != nil { // not a link; Lstat below finds out whether it exists
			done = path.Join(done, part)
			continue
		}
		if links++; links > maxLinks {
			return "", 0, false
		}
		if path.IsAbs(target) {
			done = "/"
		}
		left = append(strings.Split(target, "/"), left...)
	}
	info, err := fs.Lstat(f.root, inside(done))
	if err != nil {
		return done, 0, false
	}
	return done, info.Mode(), true
}

// inside returns an absolute path as fs.FS requires it.
func inside(p string) string {
	if p = strings.TrimPrefix(p, "/"); p == "" {
		return "."
	}
	return p
}

// mode returns the type and the permissions of a path's target; ok is false if there is none.
func (f files) mode(name string) (m fs.FileMode, ok bool) {
	_, m, ok = f.resolve(name)
	return m, ok
}

// file reports whether a path leads to a regular file.
func (f files) file(name string) bool {
	m, ok := f.mode(name)
	return ok && m.IsRegular()
}

// text returns the beginning of a file, "" if it cannot be read.
func (f files) text(name string) string { return string(f.bytes(name, maxText)) }

func (f files) open(name string) (fs.File, bool) {
	p, m, ok := f.resolve(name)
	if !ok || !m.IsRegular() {
		return nil, false // a pipe would block until something writes
	}
	r, err := f.root.Open(inside(p))
	return r, err == nil
}

// names returns the entries of a directory.
func (f files) names(dir string) []string {
	p, ok := f.real(dir)
	if !ok {
		return nil
	}
	entries, _ := fs.ReadDir(f.root, inside(p))
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
