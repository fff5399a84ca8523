package exit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// TestPage compares the statuses of docs/exit-codes.md with the constants.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "exit-codes.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []int
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| .+ \|$`).FindAllStringSubmatch(string(page), -1) {
		n, _ := strconv.Atoi(m[1])
		rows = append(rows, n)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "exit.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	want := []int{0}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name != "Signal" {
			status, err := strconv.Atoi(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, status)
		}
		return true
	})
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		want = append(want, Signal+int(s))
	}
	if !slices.Equal(rows, want) {
		t.Errorf("docs/exit-codes.md has the statuses %v, launch has %v", rows, want)
	}
}
