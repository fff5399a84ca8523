package preflight

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
	for _, c := range PeerChecks() {
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
		for _, c := range PeerChecks() {
			if !slices.Contains(but, c.ID) {
				out = append(out, c.ID)
			}
		}
		return out
	}
	for _, tt := range []struct {
		name string
		opt  Options
		want []string
	}{
		{"nothing said", Options{}, nil},
		{"one left out", Options{Skip: []string{"shm.size", "same.nccl"}}, []string{"same.nccl"}},
		{"one alone", Options{Only: []string{"same.nccl"}}, all("same.nccl")},
		{"one of this node alone", Options{Only: []string{"shm.size"}}, all()},
	} {
		if diff := cmp.Diff(tt.want, tt.opt.NotJudged()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestChecksBetweenNodesMayBeNamedBeforeThereAreNodes(t *testing.T) {
	for _, opt := range []Options{{Skip: []string{"same.nccl"}}, {Only: []string{"peer.clock"}}} {
		r, err := Local(t.Context(), Input{}, opt)
		if err != nil {
			t.Errorf("%+v: %v", opt, err)
		}
		if len(opt.Only) > 0 && len(r) > 0 {
			t.Errorf("%+v: ran %v", opt, r)
		}
	}
	_, err := Local(t.Context(), Input{}, Options{Skip: []string{"same.ncll"}})
	if err == nil || !strings.Contains(err.Error(), `did you mean "same.nccl"?`) {
		t.Errorf("a misspelt one: %v", err)
	}
}
