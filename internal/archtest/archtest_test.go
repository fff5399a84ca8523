// Package archtest holds the rules of the house that a compiler does not: who
// may import whom, one comment for each package, one place that ends the
// process, no state made at start, no other working directory, no device path
// outside the facts. It reads the sources of all build tags and runs nothing.
package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "launch"

// source is one Go file of the module.
type source struct {
	path string // below the root, with slashes: "internal/job/job.go"
	pkg  string // its directory: "internal/job"; "." is the root
	test bool
	ast  *ast.File
	fset *token.FileSet
}

func (s source) at(n ast.Node) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(n.Pos()).Line)
}

// sources parses every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	root := os.DirFS(filepath.Join("..", ".."))
	var out []source
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(root, p)
		}
		if path.Ext(p) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
		out = append(out, source{p, path.Dir(p), strings.HasSuffix(p, "_test.go"), file, fset})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 10 {
		t.Fatalf("only %d Go files found: the test does not see the module", len(out))
	}
	return out
}

// skipDir leaves out what the go tool leaves out: hidden folders, testdata,
// and other modules.
func skipDir(root fs.FS, p string) error {
	name := path.Base(p)
	if p == "." {
		return nil
	}
	if name[0] == '.' || name[0] == '_' || name == "testdata" {
		return fs.SkipDir
	}
	if _, err := fs.Stat(root, path.Join(p, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// imports are the paths that a file imports, less the standard library's.
func (s source) imports() []string {
	var out []string
	for _, i := range s.ast.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		first, _, _ := strings.Cut(p, "/")
		if first == module || strings.Contains(first, ".") {
			out = append(out, p)
		}
	}
	return out
}

func TestImportsAreInTheTable(t *testing.T) {
	used := map[string]map[string]bool{} // package, entry of the table
	told := map[string]bool{}
	for _, s := range sources(t) {
		if used[s.pkg] == nil {
			used[s.pkg] = map[string]bool{}
		}
		allowed := doors[s.pkg]
		if s.test {
			allowed = slices.Concat(allowed, testDoors[s.pkg], testDoors["*"])
		}
		for _, imp := range s.imports() {
			door := find(allowed, imp)
			used[s.pkg][door] = true
			own := s.test && imp == module+"/"+s.pkg
			if edge := s.pkg + imp; door == "" && !own && !told[edge] {
				told[edge] = true
				t.Errorf("%s imports %s, which is not in the table: add a line and a sentence why, or do without", s.path, imp)
			}
		}
	}
	for _, table := range []map[string][]string{doors, testDoors} {
		for pkg, allowed := range table {
			if pkg != "*" && used[pkg] == nil {
				t.Errorf("the table names package %q, which does not exist", pkg)
			}
			for _, door := range allowed {
				if pkg != "*" && used[pkg] != nil && !used[pkg][door] {
					t.Errorf("the table lets %s import %s, which it does not: take the line out", pkg, door)
				}
			}
		}
	}
}

// find is the entry of the table that lets a path in: one of our packages by
// its own name, any other by the beginning of its path.
func find(allowed []string, imp string) string {
	ours, isOurs := strings.CutPrefix(imp, module+"/")
	for _, door := range allowed {
		if isOurs && (door == ours || door == anyOfOurs) || !isOurs && (imp == door || strings.HasPrefix(imp, door+"/")) {
			return door
		}
	}
	return ""
}

func TestOneCommentForEachPackage(t *testing.T) {
	comments := map[string][]string{} // package: files with a comment
	for _, s := range sources(t) {
		if strings.HasSuffix(s.ast.Name.Name, "_test") || s.pkg == "." {
			continue
		}
		files := comments[s.pkg]
		if s.ast.Doc != nil {
			files = append(files, s.path)
			want := "Package " + s.ast.Name.Name + " "
			if s.ast.Name.Name == "main" {
				want = "Command " + path.Base(s.pkg) + " "
			}
			if got := strings.Join(strings.Fields(s.ast.Doc.Text()), " "); !strings.HasPrefix(got, want) {
				t.Errorf("%s: the package comment does not begin with %q", s.path, want)
			}
		}
		comments[s.pkg] = files
	}
	for pkg, files := range comments {
		if len(files) != 1 {
			t.Errorf("package %s has %d package comments, want one: %q", pkg, len(files), files)
		}
	}
}

func TestOneExit(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.ast.Decls {
			f, isFunc := d.(*ast.FuncDecl)
			if isFunc && s.test && f.Name.Name == "TestMain" {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || !isIdent(sel.X, "os") || sel.Sel.Name != "Exit" {
					return true
				}
				if !isFunc || f.Name.Name != "main" || s.ast.Name.Name != "main" {
					t.Errorf("%s: os.Exit outside main: return an error or a code", s.at(n))
				}
				return true
			})
		}
	}
}

// The working directory belongs to all tests of a package: one that is removed fails programs that a later test starts.
// T.Chdir restores it.
func TestTheWorkingDirectoryRemains(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && isIdent(sel.X, "os") && sel.Sel.Name == "Chdir" {
				t.Errorf("%s: os.Chdir: name the folder, or call T.Chdir in a test", s.at(n))
			}
			return true
		})
	}
}

func TestNothingHappensAtStart(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: func init: let its user call it", s.at(f))
			}
		}
	}
}

// Facts come through the roots of fabric.Live, so that a recorded machine
// replays. A path may be shown to people: the evidence of a finding is one.
func TestDevicePathsAreFabricsAlone(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || strings.HasPrefix(s.pkg, "cmd/") || strings.HasPrefix(s.pkg, "lab/") {
			continue
		}
		shown := map[ast.Expr]bool{} // first arguments of Finding.See
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				return s.pkg != "fabric" || n.Name.Name != "Live"
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if ok && sel.Sel.Name == "See" && len(n.Args) > 0 {
					shown[n.Args[0]] = true
				}
			case *ast.CompositeLit:
				if sel, ok := n.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Seen" {
					return false
				}
			case ast.Expr:
				if shown[n] {
					return false
				}
			}
			checkSys(t, s, n)
			return true
		})
	}
}

func checkSys(t *testing.T, s source, n ast.Node) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return
	}
	if v, err := strconv.Unquote(lit.Value); err == nil && (v == "/sys" || strings.HasPrefix(v, "/sys/")) {
		t.Errorf("%s: %s outside fabric.Live: take an fs.FS", s.at(lit), lit.Value)
	}
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// A file is one topic, and a function fits on a screen.
func TestFilesAndFunctionsAreShort(t *testing.T) {
	const maxFile, maxFunc = 400, 60
	used := map[string]bool{}
	check := func(name, at string, lines, limit int) {
		if lines <= limit {
			return
		}
		if used[name] = true; argued[name] == "" {
			t.Errorf("%s has %d lines, more than %d: part it, or argue for it in the table", at, lines, limit)
		}
	}
	for _, s := range sources(t) {
		line := func(p token.Pos) int { return s.fset.Position(p).Line }
		check(s.path, s.path, line(s.ast.FileEnd-1), maxFile)
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && !s.test {
				name := s.pkg + "." + f.Name.Name
				check(name, s.at(f)+": func "+f.Name.Name, line(f.End())-line(f.Pos())+1, maxFunc)
			}
		}
	}
	for name := range argued {
		if !used[name] {
			t.Errorf("the table argues for %s, which is short: take the line out", name)
		}
	}
}
