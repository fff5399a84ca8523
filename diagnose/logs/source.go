package logs

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	maxFiles = 50000 // of all directories together
	maxGaps  = 200   // that are reported one by one
	stdinArg = "-"
)

// source is one log.
type source struct {
	path  string // "-": stdin
	name  string // for people
	named bool   // on the command line, not found in a directory
}

// gather returns the logs that the paths name.
func gather(paths []string) (out []source, gaps []Gap, err error) {
	if len(paths) == 0 {
		return nil, nil, errors.New("no log is named: name files, a directory, or - for stdin")
	}
	for _, p := range paths {
		if p == stdinArg {
			if !slices.ContainsFunc(out, func(s source) bool { return s.path == stdinArg }) {
				out = append(out, source{path: stdinArg, name: "stdin", named: true})
			}
			continue
		}
		info, err := os.Stat(p)
		switch {
		case err != nil:
			gaps = append(gaps, Gap{p, why(err)})
		case info.IsDir():
			out, gaps = walk(p, out, gaps)
		default:
			out = append(out, source{path: p, name: p, named: true})
		}
	}
	return out, gaps, nil
}

var logName = regexp.MustCompile(`(?i)(\.(log|out|err|txt|gz)(\.\d+)?|stdout|stderr|\.log[.-][\w.-]+|\.[oe]\d+)$`)

// walk adds the logs below a directory. It follows links to files, not to directories, so it ends.
func walk(dir string, out []source, gaps []Gap) ([]source, []Gap) {
	before := len(out)
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			gaps = append(gaps, Gap{path, why(err)})
			return nil
		case d.IsDir() || !logName.MatchString(d.Name()):
			return nil
		case len(out) >= maxFiles:
			gaps = append(gaps, Gap{dir, fmt.Sprintf("has more than %d logs: name a smaller directory", maxFiles)})
			return filepath.SkipAll
		}
		if d.Type()&fs.ModeSymlink != 0 {
			if info, err := os.Stat(path); err != nil || info.IsDir() {
				return nil
			}
		}
		out = append(out, source{path: path, name: path})
		return nil
	})
	if len(out) == before {
		gaps = append(gaps, Gap{dir, "has no file whose name ends in .log, .out, .err, .txt or .gz: name the files"})
	}
	return out, gaps
}

func why(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "is not readable for this user"
	case errors.Is(err, syscall.ELOOP):
		return "is a loop of links"
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

func noneReadable(gaps []Gap) error {
	switch len(gaps) {
	case 0:
		return errors.New("no log is readable: name files, a directory, or - for stdin")
	case 1:
		return fmt.Errorf("%q %s: name a readable log", gaps[0].Path, gaps[0].Why)
	}
	return fmt.Errorf("%q %s, and %d more are not readable: name a readable log", gaps[0].Path, gaps[0].Why, len(gaps)-1)
}

var errBinary = errors.New("is a binary file")

// open opens a log. It opens regular files only, since a pipe or a device may block.
func (s source) open(stdin io.Reader) (io.Reader, func(), time.Time, error) {
	nothing, now := func() {}, time.Now()
	if s.path == stdinArg {
		if stdin == nil {
			return nil, nothing, now, errors.New("is closed")
		}
		r, err := plain(stdin)
		return r, nothing, now, err
	}
	info, err := os.Stat(s.path)
	switch {
	case err != nil:
		return nil, nothing, now, err
	case !info.Mode().IsRegular():
		return nil, nothing, now, errors.New("is not a regular file")
	}
	f, err := os.OpenFile(s.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nothing, now, err
	}
	done := func() { _ = f.Close() }
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() {
		done()
		return nil, nothing, now, errors.New("is not a regular file")
	}
	r, err := plain(f)
	if err != nil {
		done()
		return nil, nothing, now, err
	}
	return r, done, info.ModTime(), nil
}

// plain unpacks what is gzipped, and refuses what is no text.
func plain(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	head, err := b.Peek(2)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(head) == 2 && head[0] == 0x1f && head[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, errors.New("is a damaged gzip file")
		}
		b = bufio.NewReaderSize(z, 1<<16)
	}
	if head, _ = b.Peek(4096); binary(head) {
		return nil, errBinary
	}
	return b, nil
}

// binary says whether the beginning of a file is no text. A few zeros are: a log on a network file
// system has them after a crash.
func binary(head []byte) bool {
	odd := 0
	for _, c := range head {
		if c < 7 || c > 13 && c < 27 || c > 27 && c < 32 {
			odd++
		}
	}
	return strings.HasPrefix(string(head), "\x7fELF") || odd*10 > len(head)
}

var (
	rankDir  = regexp.MustCompile(`/attempt_\d+/(\d{1,6})/[^/]+$`)
	rankName = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:rank|task)[-_.=]?(\d{1,6})(?:\D[^/]*)?$`)
	rankTask = regexp.MustCompile(`^slurm-\d+[._](\d{1,6})\.(?:out|err|log)(?:\.gz)?$`)
)

// rankOf returns the rank in the name of a log, or -1.
func rankOf(path string) int {
	base := filepath.Base(path)
	for _, m := range [][]string{
		rankDir.FindStringSubmatch(filepath.ToSlash(path)), rankName.FindStringSubmatch(base),
		rankTask.FindStringSubmatch(base),
	} {
		if m != nil {
			return number(m[1])
		}
	}
	return -1
}
