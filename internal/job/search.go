package job

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

// Limits of the search for the modules of a program, which each start waits for: beyond them no further file is known.
// A listing of so many names is not used.
const (
	maxSearch  = time.Second
	maxLookups = 2000
	maxListing = 4096
)

// search looks for the modules of a program, for a limited time.
type search struct {
	root    fs.FS
	until   time.Time
	lookups int                        // of files and folders
	known   map[[2]string]string       // by folder and dotted name: the file; "": not there
	listed  map[string]map[string]bool // by folder: the names in it; nil: not known
}

func newSearch(root fs.FS) *search {
	return &search{root: root, until: time.Now().Add(maxSearch), known: map[[2]string]string{},
		listed: map[string]map[string]bool{}}
}

// late reports whether the search has taken its time.
func (s *search) late() bool { return time.Now().After(s.until) }

// over reports whether nothing more is looked up.
func (s *search) over() bool { return s.lookups >= maxLookups || s.late() }

// module returns the file of a module by its dotted name, as Python finds it below a folder; "": it is elsewhere, or
// the search is over.
func (s *search) module(folder, name string) string {
	key := [2]string{folder, name}
	file, known := s.known[key]
	if known || s.over() {
		return file
	}
	file = s.find(folder, name)
	s.known[key] = file
	return file
}

func (s *search) find(folder, name string) string {
	parts := strings.Split(name, ".")
	last := parts[len(parts)-1] // "": the folder itself
	for _, part := range parts[:len(parts)-1] {
		if !s.mayHave(folder, part) {
			return ""
		}
		folder = path.Join(folder, part)
	}
	if file := last + ".py"; s.isFile(folder, file) {
		return path.Join(folder, file)
	}
	if last != "" && !s.mayHave(folder, last) {
		return ""
	}
	folder = path.Join(folder, last)
	for _, file := range []string{"__main__.py", "__init__.py"} {
		if s.isFile(folder, file) {
			return path.Join(folder, file)
		}
	}
	return ""
}

// isFile reports whether a folder has a file. What is in no listing is not asked for.
func (s *search) isFile(folder, name string) bool {
	if !s.mayHave(folder, name) {
		return false
	}
	s.lookups++
	info, err := fs.Stat(s.root, strings.TrimPrefix(path.Join(folder, name), "/"))
	return err == nil && !info.IsDir()
}

// mayHave reports whether a folder has a name, or its names are not known.
func (s *search) mayHave(folder, name string) bool {
	names := s.names(folder)
	return names == nil || names[name]
}

// names returns the names in a folder; nil: not known.
func (s *search) names(folder string) map[string]bool {
	names, known := s.listed[folder]
	if !known {
		s.lookups++
		names = list(s.root, folder)
		s.listed[folder] = names
	}
	return names
}

// list returns the names in a folder; nil: they cannot be read, or are too many.
func list(root fs.FS, folder string) map[string]bool {
	folder = strings.TrimPrefix(folder, "/")
	if folder == "" {
		folder = "."
	}
	dir, err := root.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]bool{}
	}
	if err != nil {
		return nil
	}
	defer dir.Close()
	reader, ok := dir.(fs.ReadDirFile)
	if !ok {
		return nil
	}
	entries, err := reader.ReadDir(maxListing)
	if err != nil && err != io.EOF || len(entries) == maxListing {
		return nil
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names
}
