package fabric

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// maxFile limits what is read of one file: a sysfs attribute is one page.
const maxFile = 8 << 10

// ReadFile reads a small file, 8 KiB of it at most. It reads a file of the kernel with one read(2):
// some drivers answer EAGAIN, and Go's poller would wait forever for them to become readable.
func ReadFile(fsys fs.FS, name string) (string, error) {
	return readInto(make([]byte, maxFile), fsys, name)
}

// readInto is ReadFile with a reusable buffer: a node with RoCE has thousands of small files.
func readInto(buf []byte, fsys fs.FS, name string) (string, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	n := 0
	if c, ok := f.(syscall.Conn); ok {
		raw, err := c.SyscallConn()
		if err != nil {
			return "", err
		}
		var readErr error
		err = raw.Read(func(fd uintptr) bool {
			for {
				n, readErr = syscall.Read(int(fd), buf)
				if readErr != syscall.EINTR {
					return true
				}
			}
		})
		if err := errors.Join(err, readErr); err != nil {
			return "", &fs.PathError{Op: "read", Path: name, Err: err}
		}
	} else if n, err = io.ReadFull(f, buf); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return "", &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return string(buf[:n]), nil
}

// dir reads a directory of facts. One bad device is one Unknown: the first thing that was not read.
type dir struct {
	fsys fs.FS
	name string
	bad  *Unknown
	buf  []byte // for the current read
}

// blame records why a file could not be read or parsed.
func (d *dir) blame(file string, err error) {
	if d.bad == nil {
		why := err
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			why = p.Err // What has the path
		}
		d.bad = &Unknown{What: path.Join(d.name, file), Why: why.Error()}
	}
}

// line reads a file of one line. It returns "" without an error if the file is missing, or if the
// driver refuses it with EINVAL, ENODEV or EOPNOTSUPP, as the speed of an interface that is down.
func (d *dir) line(file string) string {
	if d.buf == nil {
		d.buf = make([]byte, maxFile)
	}
	s, err := readInto(d.buf, d.fsys, path.Join(d.name, file))
	if err != nil {
		if !absent(err) {
			d.blame(file, err)
		}
		return ""
	}
	return strings.TrimSpace(s)
}

// number reads a number at the start of a line: "4: ACTIVE", "0x1003", "-1".
func (d *dir) number(file string, missing int) int {
	s := d.line(file)
	if s == "" {
		return missing
	}
	n, err := leadingInt(s)
	if err != nil {
		d.blame(file, err)
		return missing
	}
	return n
}

// link returns the base name of a symbolic link's target, which need not exist; "": no link.
func (d *dir) link(file string) string {
	target, err := fs.ReadLink(d.fsys, path.Join(d.name, file))
	if err != nil {
		return ""
	}
	return path.Base(target)
}

// has reports whether an entry exists.
func (d *dir) has(file string) bool {
	_, err := fs.Stat(d.fsys, path.Join(d.name, file))
	return err == nil
}

// names lists a directory; a missing one is empty.
func (d *dir) names(sub string) []string {
	entries, err := fs.ReadDir(d.fsys, path.Join(d.name, sub))
	if err != nil && !absent(err) {
		d.blame(sub, err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EINVAL) ||
		errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EOPNOTSUPP)
}

// leadingInt reads the number at the start of a string, as "4: ACTIVE" or 0x….
func leadingInt(s string) (int, error) {
	word := s
	if i := strings.IndexAny(s, ": \t\n"); i >= 0 {
		word = s[:i]
	}
	n, err := strconv.ParseInt(word, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("%q does not start with a number", s)
	}
	return int(n), nil
}

// leadingRate reads Gb/s from "400 Gb/sec (4X NDR)" or "2.5 Gb/sec (1X SDR)".
func leadingRate(s string) (float64, error) {
	word, _, _ := strings.Cut(s, " ")
	rate, err := strconv.ParseFloat(word, 64)
	if err != nil || !(rate >= 0 && rate < 1e6) {
		return 0, fmt.Errorf("%q does not start with a rate", s)
	}
	return rate, nil
}

// rateLanes reads the 4 of "400 Gb/sec (4X NDR)"; 0 for another text (ib_width_enum_to_int).
func rateLanes(s string) int {
	_, word, _ := strings.Cut(s, "(")
	word, _, ok := strings.Cut(word, "X")
	n, err := strconv.Atoi(word)
	if !ok || err != nil || n < 1 || n > 12 {
		return 0
	}
	return n
}

func ueventValue(uevent, key string) string {
	for line := range strings.Lines(uevent) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && k == key {
			return v
		}
	}
	return ""
}

// filled returns r with an empty file system for each root that was not recorded.
func (r Roots) filled() Roots {
	for _, root := range []*fs.FS{&r.Sys, &r.Proc, &r.Etc, &r.Dev, &r.Root} {
		if *root == nil {
			*root = embed.FS{}
		}
	}
	return r
}
