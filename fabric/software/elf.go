package software

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxStrings limits the search of a library's constants: NCCL's are below 1 MiB, torch's 10 MiB.
	maxStrings = 32 << 20
	// maxHash limits what is hashed of a library without a build id; network plugins are smaller.
	maxHash = 4 << 20
	// maxName limits one string of a dynamic section: an rpath of torch's has 200 bytes.
	maxName = 4 << 10
)

// object is what the loader reads of an ELF file.
type object struct {
	needed         []string // DT_NEEDED
	rpath, runpath []string // absolute, $ORIGIN replaced
}

// needsNCCL returns the name of NCCL or RCCL that the object needs, "" if it needs neither.
func (o object) needsNCCL() string {
	for _, name := range []string{"libnccl.so.2", "librccl.so.1"} {
		if slices.Contains(o.needed, name) {
			return name
		}
	}
	return ""
}

// elf opens an ELF file; if ok, the caller must call close.
func (f files) elf(name string) (e *elf.File, close func() error, ok bool) {
	r, ok := f.open(name)
	if !ok {
		return nil, nil, false
	}
	if at, ok := r.(io.ReaderAt); ok {
		if e, err := elf.NewFile(at); err == nil {
			return e, r.Close, true
		}
	}
	r.Close()
	return nil, nil, false
}

// object reads the dynamic section of a file. It reads the strings one by one, since the string
// table of libtorch_cuda.so has 6 MB of C++ names. As for glibc, $ORIGIN is the folder of the name,
// not of a link's target: uv may link each file of a package into its cache.
func (f files) object(name string) (o object, ok bool) {
	e, done, ok := f.elf(name)
	if !ok {
		return o, false
	}
	defer done()
	dynamic := e.SectionByType(elf.SHT_DYNAMIC)
	if dynamic == nil || int(dynamic.Link) >= len(e.Sections) {
		return o, true
	}
	strings := func(tag elf.DynTag) (out []string) {
		offsets, _ := e.DynValue(tag)
		for _, at := range offsets {
			out = append(out, stringAt(e.Sections[dynamic.Link], at))
		}
		return out
	}
	o.needed = strings(elf.DT_NEEDED)
	for _, paths := range strings(elf.DT_RPATH) {
		o.rpath = append(o.rpath, split(paths, name)...)
	}
	for _, paths := range strings(elf.DT_RUNPATH) {
		o.runpath = append(o.runpath, split(paths, name)...)
	}
	return o, true
}

// stringAt returns one string of a string table. A compressed table has no ReaderAt.
func stringAt(table *elf.Section, at uint64) string {
	if at >= table.Size || table.ReaderAt == nil {
		return ""
	}
	b := make([]byte, min(maxName, table.Size-at))
	n, _ := table.ReadAt(b, int64(at))
	end := bytes.IndexByte(b[:n], 0)
	return string(b[:max(0, end)])
}

// constant returns the first match of re, or its first group, in an ELF file's constants; word begins
// it.
func (f files) constant(name, word string, re *regexp.Regexp) string {
	e, done, ok := f.elf(name)
	if !ok {
		return ""
	}
	defer done()
	left := int64(maxStrings)
	for _, s := range e.Sections {
		if s.Type != elf.SHT_PROGBITS || !strings.HasPrefix(s.Name, ".rodata") && !strings.HasPrefix(s.Name, ".lrodata") {
			continue
		}
		if found := search(io.LimitReader(s.Open(), left), word, re); found != "" {
			return found
		}
		left -= int64(min(s.Size, maxStrings))
		if left <= 0 {
			break
		}
	}
	return ""
}

// search looks through r piece by piece; a match may span two pieces.
func search(r io.Reader, word string, re *regexp.Regexp) string {
	const longest = 256 // of a match
	buf := make([]byte, 128<<10)
	kept := 0
	for {
		n, err := io.ReadFull(r, buf[kept:])
		b := buf[:kept+n]
		for at := 0; ; at++ {
			i := bytes.Index(b[at:], []byte(word))
			if i < 0 {
				break
			}
			at += i
			if m := re.FindSubmatch(b[at:min(at+longest, len(b))]); m != nil {
				return string(m[len(m)-1])
			}
		}
		if err != nil {
			return ""
		}
		kept = copy(buf, b[max(0, len(b)-longest):])
	}
}

// identity distinguishes two builds of a library: its name and its build id, or its hash.
func (f files) identity(name string) string {
	real, _, _ := f.resolve(name)
	id := f.buildID(real)
	if id == "" {
		sum := sha256.Sum256(f.bytes(real, maxHash))
		id = hex.EncodeToString(sum[:])
	}
	return path.Base(real) + " " + id[:8]
}

// buildID returns the GNU build id, "" if there is none.
func (f files) buildID(name string) string {
	e, done, ok := f.elf(name)
	if !ok {
		return ""
	}
	defer done()
	s := e.Section(".note.gnu.build-id")
	if s == nil || s.Type != elf.SHT_NOTE || s.Size > 256 {
		return ""
	}
	b, err := s.Data()
	const head = 16 // sizes of name and description, type, "GNU\0"
	if err != nil || len(b) < head+4 {
		return ""
	}
	return hex.EncodeToString(b[head:])
}

// bytes returns the beginning of a file, nil if it cannot be read.
func (f files) bytes(name string, most int64) []byte {
	r, ok := f.open(name)
	if !ok {
		return nil
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, most))
	if err != nil {
		return nil
	}
	return b
}
