package flight

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	maxFiles = 50000
	maxBytes = 128 << 20 // of one dump, unpacked
	headSize = 1 << 13
	stdinArg = "-"
)

// Gather reads the dumps among the files, and in the directories. It returns also the paths that are no dumps.
func Gather(paths []string) (Set, []string) {
	var s Set
	var rest []string
	r := newReader()
	for _, p := range paths {
		info, err := os.Stat(p)
		switch {
		case p == stdinArg || err != nil:
			rest = append(rest, p)
		case info.IsDir():
			s.walk(r, p)
			rest = append(rest, p)
		case !s.add(r, p):
			rest = append(rest, p)
		}
	}
	s.unique()
	return s, rest
}

// Has says whether a file is a dump, also one that was not used, or a directory with dumps.
func (s Set) Has(path string) bool {
	under := strings.TrimSuffix(path, "/") + "/"
	one := func(p string) bool { return p == path || strings.HasPrefix(p, under) }
	return slices.ContainsFunc(s.Dumps, func(d Dump) bool { return one(d.Path) }) ||
		slices.ContainsFunc(s.Gaps, func(g Gap) bool { return one(g.Path) }) || slices.ContainsFunc(s.same, one)
}

func (s *Set) walk(r *reader, dir string) {
	files := 0
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return nil
		case files >= maxFiles:
			return filepath.SkipAll
		}
		files++
		s.add(r, path)
		return nil
	})
}

// add reads a file, and says whether it is a dump.
func (s *Set) add(r *reader, path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	in, pickled, ok := recognise(f)
	if !ok {
		return false
	}
	if info.Size() > maxBytes {
		s.gap(path, errTooLong)
		return true
	}
	limited := &limit{in: in, left: maxBytes}
	d, err := r.read(limited, pickled)
	if errors.Is(err, errNoDump) {
		return false
	}
	d.Path, d.Rank, d.Changed = path, rankOf(path), info.ModTime()
	switch {
	case err != nil:
		s.gap(path, err)
	case d.Rank < 0:
		s.gap(path, errors.New("has no rank in its name: name it nccl_trace_rank_N"))
	default:
		s.Bytes += maxBytes - limited.left
		d.finish()
		s.keep(d)
	}
	return true
}

func (s *Set) gap(path string, err error) {
	s.Gaps = append(s.Gaps, Gap{path, "is a dump of torch's flight recorder that is not used: " + tidy(err.Error())})
}

// keep adds a dump; of further ones, when memory gets scarce, only the newest entries.
func (s *Set) keep(d Dump) {
	all := 0
	for _, old := range s.Dumps {
		all += len(old.Entries)
	}
	if all > maxAllEntries && len(d.Entries) > fewEntries {
		d.Entries = slices.Clone(d.Entries[len(d.Entries)-fewEntries:])
		d.Wrapped = true
	}
	s.Dumps = append(s.Dumps, d)
}

// unique keeps the newest dump of a rank and backend; of equally new ones the one with lines of the program.
func (s *Set) unique() {
	type key struct {
		rank    int
		backend string
	}
	slices.SortStableFunc(s.Dumps, func(a, b Dump) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(b.newest(), a.newest()),
			cmp.Compare(b.lines(), a.lines()), cmp.Compare(a.Path, b.Path))
	})
	seen := map[key]Dump{}
	s.Dumps = slices.DeleteFunc(s.Dumps, func(d Dump) bool {
		k := key{rank: d.Rank}
		if len(d.Entries) > 0 {
			k.backend = d.Entries[0].Backend
		}
		first, again := seen[k]
		if !again {
			seen[k] = d
			return false
		}
		if first.newest() != d.newest() {
			s.gap(d.Path, fmt.Errorf("%s of rank %d is newer", first.Path, d.Rank))
		} else {
			s.same = append(s.same, d.Path) // in the other format
		}
		return true
	})
}

func (d *Dump) newest() int64 {
	if len(d.Entries) == 0 {
		return 0
	}
	return d.Entries[len(d.Entries)-1].Created
}

func (d *Dump) lines() int {
	return len(slices.DeleteFunc(slices.Clone(d.Entries), func(e Entry) bool { return e.At == "" }))
}

// recognise unpacks what is gzipped, and says whether it begins as a dump.
func recognise(f io.Reader) (in *bufio.Reader, pickled, ok bool) {
	in = bufio.NewReaderSize(f, headSize)
	head, _ := in.Peek(headSize)
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, false, false
		}
		in = bufio.NewReaderSize(z, headSize)
		head, _ = in.Peek(headSize)
	}
	has := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return bytes.Contains(head, []byte(k)) })
	}
	if bytes.HasPrefix(head, []byte("\x80\x02")) {
		return in, true, has("pg_config", "pg_status", "collective_seq_id")
	}
	json := bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("{"))
	return in, false, json && has(`"pg_config"`, `"collective_seq_id"`)
}

var errTooLong = fmt.Errorf("it has more than %d MiB", maxBytes>>20)

func (r *reader) read(in io.Reader, pickled bool) (Dump, error) {
	if !pickled {
		return r.fromJSON(in)
	}
	var all strings.Builder
	if _, err := io.Copy(&all, in); err != nil {
		return Dump{}, err
	}
	return r.fromPickle(all.String())
}

// limit ends with an error where a file unpacks to more than is read.
type limit struct {
	in   io.Reader
	left int64
}

func (l *limit) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLong
	}
	n, err := l.in.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

var (
	packed   = regexp.MustCompile(`(?i)\.(gz|json|pkl|pickle|pt|bin|dump|txt)$`)
	rankName = regexp.MustCompile(`(?i)rank[-_.=]?(\d{1,6})(?:\D|$)`)
	rankEnd  = regexp.MustCompile(`(?:^|\D)(\d{1,6})$`)
)

// rankOf returns the rank in the name of a dump: torch appends it; -1: there is none.
func rankOf(path string) int {
	name := filepath.Base(path)
	for packed.MatchString(name) {
		name = packed.ReplaceAllString(name, "")
	}
	m := rankEnd.FindStringSubmatch(name)
	if all := rankName.FindAllStringSubmatch(name, -1); len(all) > 0 {
		m = all[len(all)-1]
	}
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return -1
	}
	return n
}
