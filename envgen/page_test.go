package envgen

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"launch/internal/setting"
)

// TestPage compares docs/env.md with the tables (UPDATE=1 writes it).
func TestPage(t *testing.T) {
	file := filepath.Join("..", "docs", "env.md")
	got := page()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(want, got) {
		t.Errorf("docs/env.md differs from the tables (%v): UPDATE=1 go test ./envgen -run Page", err)
	}
}

//go:embed testdata/env-head.md
var pageHead string

func page() []byte {
	var b bytes.Buffer
	b.WriteString(pageHead)
	library := ""
	for _, r := range byLibrary() {
		if r.library != library {
			library = r.library
			fmt.Fprintf(&b, "\n### %s\n\n| variable | of the | on its own, %s | set if | to | source |\n",
				library, library)
			b.WriteString("|---|---|---|---|---|---|\n")
		}
		alone := r.alone
		if s := r.span.String(); s != "" {
			alone += " (rule for " + r.library + " " + s + ")"
		}
		row(&b, "`"+r.name+"`", string(r.scope), alone, r.when, r.value, r.source)
	}
	b.WriteString("\n## Variables that launch never sets\n\nUsers expect these variables, and scripts set them.\n\n" +
		"| variable | library | on its own, the library | launch never sets it | source |\n|---|---|---|---|---|\n")
	for _, u := range unsets() {
		row(&b, "`"+u.name+"`", setting.Library(u.name), u.alone, u.why, u.source)
	}
	b.WriteString("\n## Findings about variables that are set already\n\n" +
		"A finding is a warning. It is a failure, and stops the start, only if the job is certain to\n" +
		"die on this node. Then this node will use the library, and an interface, a network module or\n" +
		"an entry does not exist.\n\n" +
		"| finding | checks | finds |\n|---|---|---|\n")
	for _, r := range lintRules() {
		row(&b, "`"+r.id+"`", "`"+strings.Join(r.names, "` `")+"`", cmp.Or(r.what, "it "+r.is))
	}
	for _, r := range lackRules() {
		row(&b, "`"+r.id+"`", "`"+r.name+"`, which is not set", r.what)
	}
	b.WriteString("\n## Variables that have to be equal on all nodes\n\n")
	for _, name := range constants() {
		b.WriteString("- `" + name + "`\n")
	}
	return b.Bytes()
}

// byLibrary returns the rules grouped by library.
func byLibrary() []rule {
	var order []string
	of := map[string][]rule{}
	for _, r := range rules() {
		if of[r.library] == nil {
			order = append(order, r.library)
		}
		of[r.library] = append(of[r.library], r)
	}
	var out []rule
	for _, library := range order {
		out = append(out, of[library]...)
	}
	return out
}

func row(b *bytes.Buffer, cells ...string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}
