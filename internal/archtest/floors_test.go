package archtest

import (
	"bufio"
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// floor returns the floor of a package: 0 for values and leaves, 1 for facts,
// agreement, plan and checks, 2 for the commands; -1 for what is no part of the
// house (laboratories, examples, tools).
func floor(pkg string) int {
	top, _, _ := strings.Cut(pkg, "/")
	switch top {
	case "internal":
		return 0
	case "fabric", "rendezvous", "envgen", "preflight", "diagnose":
		return 1
	case "cmd":
		return 2
	}
	return -1
}

// edges returns which packages of the module each package imports, its tests
// left out.
func edges(t *testing.T) map[string][]string {
	out := map[string][]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		out[s.pkg] = append(out[s.pkg], nil...)
		for _, imp := range s.imports() {
			if to, ours := strings.CutPrefix(imp, module+"/"); ours {
				out[s.pkg] = append(out[s.pkg], to)
			}
		}
	}
	return out
}

func TestNothingImportsUpwards(t *testing.T) {
	for from, all := range edges(t) {
		for _, to := range all {
			if floor(from) >= 0 && floor(to) > floor(from) {
				t.Errorf("%s imports %s, which is a floor above it: move what they share down, or the caller up", from, to)
			}
			if floor(from) >= 0 && floor(to) < 0 {
				t.Errorf("%s imports %s, which is no part of the house", from, to)
			}
		}
	}
}

// maxDepth bounds the longest chain of imports from a command down: a reader who
// follows a call passes through at most so many packages.
const maxDepth = 7

func TestImportsAreShallow(t *testing.T) {
	all := edges(t)
	longest := map[string][]string{}
	var chain func(pkg string) []string
	chain = func(pkg string) []string {
		if c, ok := longest[pkg]; ok {
			return c
		}
		var below []string
		for _, to := range all[pkg] {
			if c := chain(to); len(c) > len(below) {
				below = c
			}
		}
		longest[pkg] = append([]string{pkg}, below...)
		return longest[pkg]
	}
	for _, pkg := range slices.Sorted(maps.Keys(all)) {
		if c := chain(pkg); floor(pkg) == 2 && len(c) > maxDepth {
			t.Errorf("%d packages deep, more than %d: %s", len(c), maxDepth, strings.Join(c, " -> "))
		}
	}
}

// A line fits into the window of a review.
func TestLinesAreShort(t *testing.T) {
	const maxLine = 120
	for _, s := range sources(t) {
		f, err := os.Open(filepath.Join("..", "..", s.path))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			if len([]rune(lines.Text())) > maxLine {
				t.Errorf("%s:%d has %d columns, more than %d", s.path, n, len([]rune(lines.Text())), maxLine)
			}
		}
		f.Close()
	}
}

// The order of a start is in one package: it alone joins a world, through the
// companion, which alone asks the rendezvous.
func TestOnePackageJoins(t *testing.T) {
	allowed := []string{"cmd/internal/start", "cmd/internal/companion", "rendezvous"}
	for _, s := range sources(t) {
		if s.test || floor(s.pkg) < 0 {
			continue
		}
		packages := map[string]bool{} // by the name in this file
		for _, i := range s.ast.Imports {
			p, _ := strconv.Unquote(i.Path.Value)
			packages[path.Base(p)] = true
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Join" {
				return true
			}
			if id, ok := sel.X.(*ast.Ident); ok && packages[id.Name] {
				return true
			}
			if !slices.Contains(allowed, s.pkg) {
				t.Errorf("%s: Join outside %s: make it a stage of a start", s.at(n), strings.Join(allowed, ", "))
			}
			return true
		})
	}
}
