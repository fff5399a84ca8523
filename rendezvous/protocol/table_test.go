package protocol

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// declared returns the constants of a type in machine.go, in their order.
func declared(t *testing.T, typ string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "machine.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		first := g.Specs[0].(*ast.ValueSpec).Type
		if id, ok := first.(*ast.Ident); ok && id.Name == typ {
			for _, s := range g.Specs {
				out = append(out, s.(*ast.ValueSpec).Names[0].Name)
			}
		}
	}
	return out
}

// The document shows the table of transitions as it is.
func TestTheDocumentShowsTheTable(t *testing.T) {
	kinds, phases := declared(t, "Kind"), declared(t, "Phase")
	var want strings.Builder
	for _, r := range Rules() {
		in := make([]string, len(r.In))
		for i, p := range r.In {
			in[i] = strings.ToLower(phases[p])
		}
		fmt.Fprintf(&want, "| %s | %s | %s |\n", kinds[r.On-1], strings.Join(in, ", "), r.Name)
	}
	doc, err := os.ReadFile("../../docs/rendezvous.md")
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(string(doc), "| event | in | transition |\n|---|---|---|\n")
	got, _, _ = strings.Cut(got, "\n\n")
	if diff := cmp.Diff(want.String(), got+"\n"); diff != "" {
		t.Errorf("docs/rendezvous.md, Transitions (-want +got):\n%s\nthe whole table:\n%s", diff, &want)
	}
}

// The model names each transition of the table, or says that it leaves it out; and
// each function that it names exists.
func TestTheModelNamesTheTransitionsOfTheTable(t *testing.T) {
	model, err := os.ReadFile("../model/rendezvous.pml")
	if err != nil {
		t.Fatal(err)
	}
	_, head, _ := strings.Cut(string(model), " *   Session: ")
	head, steps, _ := strings.Cut(head, " * Revisions are not counted.")
	var named []string
	list := func(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) }
	row := regexp.MustCompile(`^(?: \*\s+|App:\s+|\s*)*([a-z ,]+?)\s{2,}(\w+\.go)\s+([\w, ]+)`)
	rows, rest, _ := strings.Cut(head, " *   in one step")
	for _, line := range strings.Split(strings.TrimSpace(strings.ReplaceAll(rows, "App:", "    ")), "\n") {
		m := row.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not readable: %q", line)
			continue
		}
		source, err := os.ReadFile(m[2])
		if err != nil {
			t.Error(err)
		}
		for _, f := range list(m[3]) {
			f, _, _ = strings.Cut(strings.TrimSpace(f), " ")
			if !strings.Contains(string(source), "func (n *Node) "+f+"(") {
				t.Errorf("%s has no function %s", m[2], f)
			}
		}
		for _, name := range list(m[1]) {
			name = strings.TrimSpace(name)
			named = append(named, name)
			if !strings.Contains(steps, name) {
				t.Errorf("the model has no step %q", name)
			}
		}
	}
	others := strings.NewReplacer("\n", " ", "*", " ", ":", ",", "not in this model", ",").Replace(rest)
	for _, name := range list(others) {
		named = append(named, strings.Join(strings.Fields(name), " "))
	}
	var want []string
	for _, r := range Rules() {
		want = append(want, r.Name)
	}
	slices.Sort(want)
	slices.Sort(named)
	named = slices.DeleteFunc(slices.Compact(named), func(s string) bool {
		return s == "" || s == "with these"
	})
	if diff := cmp.Diff(slices.Compact(want), named); diff != "" {
		t.Errorf("transitions of the table (-) and of the model (+):\n%s", diff)
	}
}
