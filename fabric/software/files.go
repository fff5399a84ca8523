package software

import (
	"io/fs"
	"path"
	"strings"
)

const (
	// maxLinks is the kernel's own limit of symbolic links on the way to a file.
	maxLinks = 40
	// maxText bounds what is read of a text file: version.py has a few hundred
	// bytes, pyvenv.cfg too.
	maxText = 16 << 10
)

// files reads below a root by absolute paths. Links are followed here and not
// by the root, so that an absolute one stays within it.
type files struct{ root fs.FS }

// real is the file that a path leads to, every link followed. ok is false where
// there is none.
func (f files) real(name string) (p string, ok bool) {
	p, _, ok = f.resolve(name)
	return p, ok
}

// resolve is real, and the type and the rights of that file.
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
		if err != nil { // no link; Lstat below tells whether it is there
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

// inside is an absolute path as fs.FS takes it.
func inside(p string) string {
	if p = strings.TrimPrefix(p, "/"); p == "" {
		return "."
	}
	return p
}

// mode is the type and the rights of what a path leads to; ok is false where
// there is nothing.
func (f files) mode(name string) (m fs.FileMode, ok bool) {
	_, m, ok = f.resolve(name)
	return m, ok
}

// file tells whether a path leads to a regular file.
func (f files) file(name string) bool {
	m, ok := f.mode(name)
	return ok && m.IsRegular()
}

// text is the beginning of a file, "" where it cannot be read.
func (f files) text(name string) string {
	return string(f.bytes(name, maxText))
}

func (f files) open(name string) (fs.File, bool) {
	p, m, ok := f.resolve(name)
	if !ok || !m.IsRegular() {
		return nil, false // a pipe would wait for a writer
	}
	r, err := f.root.Open(inside(p))
	return r, err == nil
}

// names are the entries of a directory.
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
