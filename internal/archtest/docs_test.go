package archtest

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// A sentence and a line of a document are at most this long.
const maxWords, maxColumns = 30, 100

// pending are documents that do not hold these limits yet. A line for one that
// does must go.
var pending = map[string]bool{
	"rendezvous/model/README.md": true,
}

// documents returns the text of every Markdown file of the module by its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	root := os.DirFS(filepath.Join("..", ".."))
	out := map[string]string{}
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p == "bin":
			return fs.SkipDir // what make test unpacks
		case d.IsDir():
			return skipDir(root, p)
		case path.Ext(p) != ".md":
			return nil
		}
		text, err := fs.ReadFile(root, p)
		out[p] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 10 {
		t.Fatalf("only %d documents found: the test does not see the module", len(out))
	}
	return out
}

// block is consecutive lines of prose: one paragraph, heading or list item.
type block struct {
	line int // of its first line
	text string
}

var (
	item    = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	code    = regexp.MustCompile("`[^`]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	comment = regexp.MustCompile(`^<!--.*-->$`)
	ends    = regexp.MustCompile(`[.!?]["')*]*\s+`)
)

// prose returns the blocks of a document, and calls line for each of their lines.
// Code, tables and comments are left out.
func prose(doc string, line func(n int, text string)) []block {
	var out []block
	fenced, open := false, false
	for i, l := range strings.Split(doc, "\n") {
		trimmed := strings.TrimSpace(l)
		fence := strings.HasPrefix(trimmed, "```")
		switch {
		case fence:
			fenced, open = !fenced, false
			continue
		case fenced, strings.HasPrefix(l, "    "), strings.HasPrefix(trimmed, "|"), comment.MatchString(trimmed):
			open = false
			continue
		}
		line(i+1, l)
		switch {
		case trimmed == "":
			open = false
		case strings.HasPrefix(l, "#"):
			out, open = append(out, block{i + 1, trimmed}), false
		case !open || item.MatchString(l):
			out, open = append(out, block{i + 1, item.ReplaceAllString(l, "")}), true
		default:
			out[len(out)-1].text += " " + trimmed
		}
	}
	return out
}

// words returns the number of words of a sentence. Code counts as one word.
func words(sentence string) int {
	n := 0
	for _, w := range strings.Fields(sentence) {
		if strings.ContainsFunc(w, func(r rune) bool { return r != '-' && r != '·' && r != '/' && r != '+' }) {
			n++
		}
	}
	return n
}

func TestDocumentsAreEasyToRead(t *testing.T) {
	for name, doc := range documents(t) {
		hard := tooLong(doc)
		switch {
		case pending[name] && len(hard) == 0:
			t.Errorf("%s holds the limits: take it out of the table of pending documents", name)
		case !pending[name]:
			for _, h := range hard {
				t.Errorf("%s:%s", name, h)
			}
		}
	}
}

// tooLong returns the lines and sentences of a document that exceed a limit,
// each with the number of its line.
func tooLong(doc string) []string {
	var out []string
	blocks := prose(doc, func(n int, text string) {
		if c := utf8.RuneCountInString(text); c > maxColumns {
			out = append(out, fmt.Sprintf("%d: %d columns, more than %d", n, c, maxColumns))
		}
	})
	for _, b := range blocks {
		text := link.ReplaceAllString(code.ReplaceAllString(b.text, "CODE"), "]")
		for _, s := range ends.Split(text, -1) {
			if n := words(s); n > maxWords {
				const long = "%d: a sentence of %d words, more than %d: %.60s…"
				out = append(out, fmt.Sprintf(long, b.line, n, maxWords, s))
			}
		}
	}
	return out
}

// anchors returns the headings of a document as links name them.
func anchors(doc string) map[string]bool {
	out := map[string]bool{}
	for _, b := range prose(doc, func(int, string) {}) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(b.text, "#"), " "); ok && b.text[0] == '#' {
			out[regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(title), "")] = true
		}
	}
	return out
}

func TestLinksInTheDocumentsLeadSomewhere(t *testing.T) {
	docs := documents(t)
	for name, doc := range docs {
		for _, m := range link.FindAllStringSubmatch(doc, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join("..", "..", target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			} else if anchor != "" && !hasHeading(docs[target], strings.ReplaceAll(anchor, "-", " ")) {
				t.Errorf("%s links to %s, and %s has no such heading", name, m[1], target)
			}
		}
	}
}

func hasHeading(doc, heading string) bool {
	for a := range anchors(doc) {
		if strings.ReplaceAll(a, "-", " ") == heading {
			return true
		}
	}
	return false
}

// A folder or file that a document names exists, and the architecture names
// every package.
func TestDocumentsNameWhatThereIs(t *testing.T) {
	named := map[string]map[string]bool{} // document, path
	for name, doc := range documents(t) {
		named[name] = map[string]bool{}
		for _, m := range code.FindAllString(doc, -1) {
			p := strings.Trim(m, "`")
			top, rest, below := strings.Cut(p, "/")
			switch {
			case top == "" || top == ".." || top == "bin" || top == "dist" || !isDir(top), below && rest == "": // made by make
				continue
			case strings.ContainsAny(p, " …"), strings.Contains(p, "..."):
				continue
			}
			found, err := filepath.Glob(filepath.Join("..", "..", p))
			if below && !named[name][p] && (err != nil || len(found) == 0) {
				t.Errorf("%s names %s, which does not exist", name, p)
			}
			named[name][p] = true
		}
	}
	const page = "docs/ARCHITECTURE.md"
	for _, s := range sources(t) {
		if !named[page][s.pkg] {
			named[page][s.pkg] = true
			t.Errorf("%s does not name the package %s", page, s.pkg)
		}
	}
}

func isDir(name string) bool {
	info, err := os.Stat(filepath.Join("..", "..", name))
	return err == nil && info.IsDir()
}

// What the documents tell people to type must exist.
func TestMakeTargetsInTheDocumentsExist(t *testing.T) {
	targets := map[string]bool{}
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(makefile)) {
		if name, _, ok := strings.Cut(line, ":"); ok && strings.Contains(line, "## ") && !strings.Contains(name, " ") {
			targets[name] = true
		}
	}
	if len(targets) < 10 {
		t.Fatalf("the Makefile has %d targets with a help text", len(targets))
	}
	docs := documents(t)
	if ci, err := os.ReadFile(filepath.Join("..", "..", ".ci", "run")); err == nil {
		docs[".ci/run"] = string(ci)
	}
	for name, doc := range docs {
		for word := range mentioned(doc) {
			if !targets[word] {
				t.Errorf("%s says \"make %s\", which is no target", name, word)
			}
		}
	}
}

// mentioned are the words after "make" in `code`, in indented lines and at
// "step make".
func mentioned(doc string) map[string]bool {
	out := map[string]bool{}
	for _, before := range []string{"`make ", "\n    make ", "\n    $ make ", "step make "} {
		for _, rest := range strings.Split(doc, before)[1:] {
			word := rest[:cmp.Or(max(strings.IndexAny(rest, " `\n\t"), 0), len(rest))]
			out[word] = true
		}
	}
	return out
}
