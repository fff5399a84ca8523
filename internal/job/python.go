package job

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxScript is large enough for the imports at the head of any script.
const maxScript = 256 << 10

// maxFiles is how many files of a program are read: those that its script imports first.
const maxFiles = 64

// pythonFile is one file of a Python program.
type pythonFile struct {
	name   string // absolute
	text   string // its beginning, without comments
	script bool   // the file that the command names
}

// read reads the Python program of a command, which starts with the interpreter or the script: the script, and the
// modules that it imports from its own directory and from those that are added to it. It runs nothing.
func (r *resolver) read(argv []string) {
	if r.in.Root == nil {
		return
	}
	root, script, files := "", "", newSearch(r.in.Root)
	if s := r.line.Script; s > 0 && s < len(r.line.Argv) {
		script = r.absolute(r.line.Argv[s])
	} else if i := slices.IndexFunc(argv, isPython); i >= 0 {
		script = r.absolute(argv[i])
	} else if name, _, ok := moduleOf(argv[0], argv[1:]); ok {
		root = r.absolute(".")
		script = files.module(root, name)
	}
	if script == "" {
		return
	}
	if root == "" {
		root = path.Dir(r.target(script))
	}
	roots, next := []string{root}, []string{script}
	for seen := map[string]bool{}; len(next) > 0 && len(r.files) < maxFiles && !files.late(); next = next[1:] {
		name := next[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		f := pythonFile{name, comment.ReplaceAllString(head(r.in.Root, name), ""), name == script}
		if r.files = append(r.files, f); len(roots) == 1 {
			roots = append(roots, r.folders(f.text)...)
		}
		for _, imported := range imports(f.text) {
			found := files.imported(roots, name, imported)
			if found != "" && !seen[found] {
				next = append(next, found)
			}
			if found == "" && !strings.Contains(imported, ".") && len(r.foreign) < maxImports &&
				!slices.Contains(r.foreign, imported) {
				r.foreign = append(r.foreign, imported)
			}
		}
	}
}

// imported returns the file of a module that a file imports; "": it is not of this program.
func (s *search) imported(roots []string, file, name string) string {
	bare := strings.TrimLeft(name, ".")
	if bare == name {
		for _, root := range roots {
			if found := s.module(root, name); found != "" {
				return found
			}
		}
		return ""
	}
	for range len(name) - len(bare) { // the first dot is the file's own directory
		file = path.Dir(file)
	}
	return s.module(file, bare)
}

// head returns the beginning of a regular file.
func head(root fs.FS, name string) string {
	name = strings.TrimPrefix(name, "/")
	info, err := fs.Stat(root, name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 16*maxScript { // reading would drain a pipe
		return ""
	}
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(text[:min(len(text), maxScript)])
}

// importLine matches an import of Python, with what is imported from a module where it is on the same line.
var importLine = regexp.MustCompile(
	`(?m)(?:^|;)[ \t]*(?:import[ \t]+([\w., \t]+)|from[ \t]+(\.*[\w.]*)[ \t]+import\b([\w, \t]*))`)

// imports returns the dotted names of all modules that a Python text may import, with their packages; a relative one
// begins with dots.
func imports(text string) (out []string) {
	for _, m := range importLine.FindAllStringSubmatch(text, -1) {
		from, names := m[2], m[1]+m[3]
		if from != "" {
			out = append(out, packages(from)...)
		}
		for word := range strings.SplitSeq(names, ",") {
			word, _, _ = strings.Cut(strings.TrimSpace(word), " ")
			switch {
			case word == "":
			case from == "":
				out = append(out, packages(word)...)
			case strings.HasSuffix(from, "."):
				out = append(out, from+word)
			default:
				out = append(out, from+"."+word)
			}
		}
	}
	return out
}

// packages returns a dotted name after the packages that it is in.
func packages(name string) (out []string) {
	for i, c := range name {
		if c == '.' && strings.Trim(name[:i], ".") != "" {
			out = append(out, name[:i])
		}
	}
	return append(out, name)
}
