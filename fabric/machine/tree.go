package machine

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Limits of a recording. A machine with 40 HCAs and all their counters stays far below them.
const (
	maxEntries = 200_000
	maxBytes   = 64 << 20
	maxDepth   = 64
	maxLinks   = 40 // followed on one path, as in the kernel (MAXSYMLINKS)
)

// tree is a directory tree in memory. It follows links anywhere in a path, within the tree.
type tree struct {
	root           *node
	entries, bytes int
}

// node is a directory if children is not nil, a link if target is not "", else a file.
type node struct {
	children     map[string]*node
	target, data string
	err          error // the error of reading it
}

func newTree() *tree { return &tree{root: &node{children: map[string]*node{}}} }

// add adds an entry at a path, with the directories above it. Adding the same entry twice is fine.
func (t *tree) add(name string, n *node) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%q is not a path below the root", name)
	}
	parts := strings.Split(name, "/")
	if len(parts) > maxDepth {
		return fmt.Errorf("%q is deeper than %d directories", name[:min(len(name), 80)], maxDepth)
	}
	at := t.root
	for i, part := range parts {
		last := i == len(parts)-1
		next := at.children[part]
		if next == nil {
			next = &node{children: map[string]*node{}}
			if last {
				next = n
			}
			if t.entries++; t.entries > maxEntries {
				return fmt.Errorf("more than %d entries", maxEntries)
			}
			at.children[part] = next
		} else if same := next.children != nil && n.children != nil; last && !same {
			return fmt.Errorf("%q is there twice", name)
		}
		if !last && next.children == nil {
			return fmt.Errorf("%q is below %q, which is no directory", name, strings.Join(parts[:i+1], "/"))
		}
		at = next
	}
	if t.bytes += len(name) + len(n.data) + len(n.target); t.bytes > maxBytes {
		return fmt.Errorf("more than %d MiB", maxBytes>>20)
	}
	return nil
}

func (t *tree) dir(name string) error             { return t.add(name, &node{children: map[string]*node{}}) }
func (t *tree) file(name, data string) error      { return t.add(name, &node{data: data}) }
func (t *tree) fail(name string, why error) error { return t.add(name, &node{err: why}) }

func (t *tree) link(name, target string) error {
	if target == "" || len(target) > 4096 || strings.ContainsRune(target, 0) {
		return fmt.Errorf("link %q has a target of %d bytes", name, len(target))
	}
	return t.add(name, &node{target: target})
}

// find walks a path. If follow is true, it follows a link in the last component.
func (t *tree) find(name string, follow bool) (*node, error) {
	if !fs.ValidPath(name) {
		return nil, fs.ErrInvalid
	}
	rest := strings.Split(name, "/")
	trail := []*node{t.root}
	for links := 0; len(rest) > 0; {
		at, part := trail[len(trail)-1], rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..": // only links have it; above the root is the root
			trail = trail[:max(1, len(trail)-1)]
			continue
		}
		if at.children == nil {
			return nil, syscall.ENOTDIR
		}
		next := at.children[part]
		if next == nil {
			return nil, syscall.ENOENT
		}
		if next.target == "" || len(rest) == 0 && !follow {
			trail = append(trail, next)
			continue
		}
		if links++; links > maxLinks {
			return nil, syscall.ELOOP
		}
		if path.IsAbs(next.target) {
			trail = trail[:1]
		}
		rest = append(strings.Split(next.target, "/"), rest...)
		if len(rest) > 10*maxDepth {
			return nil, syscall.ENAMETOOLONG
		}
	}
	return trail[len(trail)-1], nil
}

// Open follows links. As in sysfs, a file that cannot be read fails to open too.
func (t *tree) Open(name string) (fs.File, error) {
	n, err := t.find(name, true)
	if err == nil {
		err = n.err
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if n.children == nil {
		return open(name, n.data), nil
	}
	return &folder{info: info{path.Base(name), n}}, nil
}

// open returns an open file with a content.
func open(name, data string) fs.File {
	return file{info{path.Base(name), &node{data: data}}, strings.NewReader(data)}
}

// ReadLink and Lstat make a tree an fs.ReadLinkFS.
func (t *tree) ReadLink(name string) (string, error) {
	n, err := t.find(name, false)
	if err == nil && n.target == "" {
		err = syscall.EINVAL
	}
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return n.target, nil
}

func (t *tree) Lstat(name string) (fs.FileInfo, error) { return t.stat("lstat", name, false) }

// Stat succeeds for a file that cannot be read, too.
func (t *tree) Stat(name string) (fs.FileInfo, error) { return t.stat("stat", name, true) }

func (t *tree) stat(op, name string, follow bool) (fs.FileInfo, error) {
	n, err := t.find(name, follow)
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return info{path.Base(name), n}, nil
}

// ReadDir lists a directory by name.
func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := t.find(name, true)
	if err == nil && n.children == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	return n.list(), nil
}

func (n *node) list() []fs.DirEntry {
	var out []fs.DirEntry
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		out = append(out, fs.FileInfoToDirEntry(info{name, n.children[name]}))
	}
	return out
}

// at returns the tree below a directory.
func (t *tree) at(dir string) fs.FS {
	sub, err := fs.Sub(t, dir)
	if err != nil { // only if the path is invalid
		return t
	}
	return sub
}

// info describes a node.
type info struct {
	name string
	n    *node
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return int64(len(i.n.data)) }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.n.children != nil }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	switch {
	case i.n.children != nil:
		return fs.ModeDir | 0o555
	case i.n.target != "":
		return fs.ModeSymlink | 0o777
	}
	return 0o444
}

// file is an open file. Its ReadAt is for a PCI function's registers.
type file struct {
	info
	*strings.Reader
}

func (f file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f file) Size() int64                { return f.info.Size() }
func (f file) Close() error               { return nil }

// folder is an open directory.
type folder struct {
	info
	listed int
}

func (f *folder) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *folder) Close() error               { return nil }

func (f *folder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.name, Err: syscall.EISDIR}
}

// ReadDir lists the directory.
func (f *folder) ReadDir(count int) ([]fs.DirEntry, error) {
	all := f.n.list()[f.listed:]
	if count > 0 && len(all) == 0 {
		return nil, io.EOF
	}
	if count > 0 {
		all = all[:min(count, len(all))]
	}
	f.listed += len(all)
	return all, nil
}
