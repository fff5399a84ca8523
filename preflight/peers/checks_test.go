package peers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/preflight"
)

// What the code calls a finding between nodes is in the table, so that it can be
// switched off and is in the page, and nothing else is.
func TestEveryPeerFindingIsInTheTable(t *testing.T) {
	ids := map[string]bool{}
	shape := regexp.MustCompile(`^(peer|same)\.[a-z0-9.]+$`)
	names, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range names {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") || slices.Contains([]string{"peerchecks.go", "threshold.go"}, e.Name()) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, _ := strconv.Unquote(lit.Value); shape.MatchString(s) {
					ids[s] = true
				}
			}
			return true
		})
	}
	for _, c := range Checks() {
		if !ids[c.ID] {
			t.Errorf("no code gives %s", c.ID)
		}
		delete(ids, c.ID)
	}
	for id := range ids {
		t.Errorf("%s is not in PeerChecks", id)
	}
}

func TestWhatIsNotJudgedBetweenNodes(t *testing.T) {
	all := func(but ...string) []string {
		var out []string
		for _, c := range Checks() {
			if !slices.Contains(but, c.ID) {
				out = append(out, c.ID)
			}
		}
		return out
	}
	for _, tt := range []struct {
		name string
		opt  preflight.Options
		want []string
	}{
		{"nothing said", preflight.Options{}, nil},
		{"one left out", preflight.Options{Skip: []string{"shm.size", "same.nccl"}}, []string{"same.nccl"}},
		{"one alone", preflight.Options{Only: []string{"same.nccl"}}, all("same.nccl")},
		{"one of this node alone", preflight.Options{Only: []string{"shm.size"}}, all()},
	} {
		if diff := cmp.Diff(tt.want, NotJudged(tt.opt)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
