package software

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	// maxLinks is the kernel's own limit of symbolic links in a path.
	maxLinks = 40
	// maxText limits what is read of a text file: version.py and pyvenv.cfg have a few hundred bytes.
	maxText = 16 << 10
)

// files reads below a root by absolute paths. It follows links itself, to stay within the root.
type files struct{ root fs.FS }

// resolve follows every link in a path. It returns the file, its type and permissions; ok: it exists.
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

// file reports whether a path leads to a regular file.
func (f files) file(name string) bool {
	_, m, ok := f.resolve(name)
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
	p, _, ok := f.resolve(dir)
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

// loader finds a shared library as glibc does (ld.so(8)): preloaded libraries, the DT_RPATH of the file
// that needs it, LD_LIBRARY_PATH, its DT_RUNPATH, the cache, the default directories. torch's wheels
// have a DT_RPATH, which is before LD_LIBRARY_PATH (pytorch/builder#1150).
type loader struct {
	files
	preload, path string // LD_PRELOAD, LD_LIBRARY_PATH
	dir           string // the working directory
	cache         map[string]string
}

const cacheFile = "/etc/ld.so.cache"

// defaults are glibc's directories and Debian's, which a container without a cache needs.
var defaults = []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib",
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu"}

// find returns the file, without links, that o loads for a name; "": none. o may be zero.
func (l *loader) find(name string, o object) string {
	p, _, _ := l.resolve(l.named(name, o))
	return p
}

// named returns the name by which o loads the file: $ORIGIN in that file is the folder of this name.
func (l *loader) named(name string, o object) string {
	if name == "" {
		return ""
	}
	if strings.Contains(name, "/") {
		return l.at(name)
	}
	for _, p := range strings.FieldsFunc(l.preload, func(r rune) bool { return r == ' ' || r == ':' }) {
		if base := path.Base(p); base == name || strings.HasPrefix(base, name+".") {
			if found := l.at(p); found != "" {
				return found
			}
		}
	}
	var dirs []string
	if len(o.runpath) == 0 {
		dirs = append(dirs, o.rpath...)
	}
	if l.path != "" {
		dirs = append(dirs, strings.FieldsFunc(l.path, func(r rune) bool { return r == ':' || r == ';' })...)
	}
	for _, dir := range append(dirs, o.runpath...) {
		if found := l.at(dir + "/" + name); found != "" {
			return found
		}
	}
	if l.cache == nil {
		l.cache = parseCache(l.bytes(cacheFile, maxCache))
	}
	if found := l.at(l.cache[name]); found != "" {
		return found
	}
	for _, dir := range defaults {
		if found := l.at(dir + "/" + name); found != "" {
			return found
		}
	}
	return ""
}

// at returns the absolute name of a library, "" if there is no file.
func (l *loader) at(name string) string {
	if name == "" {
		return ""
	}
	if !path.IsAbs(name) {
		name = l.dir + "/" + name
	}
	if !l.file(name) {
		return ""
	}
	return name
}

// split splits a DT_RPATH or DT_RUNPATH. It drops entries with $LIB or $PLATFORM.
func split(paths, file string) []string {
	origin := path.Dir(file)
	var out []string
	for p := range strings.SplitSeq(paths, ":") {
		p = strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin).Replace(p)
		if p != "" && !strings.Contains(p, "$") {
			out = append(out, p)
		}
	}
	return slices.Clip(out)
}

// maxCache limits what is read of ld.so.cache; a full desktop has 200 KiB.
const maxCache = 8 << 20

// The format of ld.so.cache (glibc, sysdeps/generic/dl-cache.h): a header of 48 bytes, entries of 24,
// then the strings, with offsets from the header. Before glibc 2.32, an older format precedes it.
const (
	cacheMagic  = "glibc-ld.so.cache1.1"
	cacheHeader = 48
	cacheEntry  = 24
)

// parseCache reads the 64-bit entries of ld.so.cache; the first entry of a name wins.
func parseCache(b []byte) map[string]string {
	out := map[string]string{}
	at := bytes.Index(b, []byte(cacheMagic))
	if at < 0 || len(b)-at < cacheHeader {
		return out
	}
	b = b[at:]
	n := int(binary.LittleEndian.Uint32(b[len(cacheMagic):]))
	for i := range min(n, (len(b)-cacheHeader)/cacheEntry) {
		e := b[cacheHeader+i*cacheEntry:]
		flags := binary.LittleEndian.Uint32(e)
		if flags&0xff00 == 0 { // FLAG_REQUIRED_MASK: 0 is the 32-bit ABI of i386
			continue
		}
		name, file := cString(b, binary.LittleEndian.Uint32(e[4:])), cString(b, binary.LittleEndian.Uint32(e[8:]))
		if _, seen := out[name]; !seen && name != "" && file != "" {
			out[name] = file
		}
	}
	return out
}

// cString returns the text at an offset, up to its NUL.
func cString(b []byte, at uint32) string {
	if int64(at) >= int64(len(b)) {
		return ""
	}
	b = b[at:]
	return string(b[:max(0, bytes.IndexByte(b, 0))])
}
