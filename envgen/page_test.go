package envgen

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPage holds docs/env.md to the tables (UPDATE=1 writes it).
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
		t.Errorf("docs/env.md is not what the tables say (%v): UPDATE=1 go test ./envgen -run Page", err)
	}
}

const pageHead = `<!-- Generated from the tables of envgen: UPDATE=1 go test ./envgen -run Page -->
# Variables

A variable is set only where the library would by itself do something else, and
wrong. On a machine where the libraries are right nothing is set. What is set
already always wins, also where it stands in a file that the library reads:
~/.nccl.conf (or NCCL_CONF_FILE), /etc/nccl.conf, ucx.conf, and for mpirun
openmpi-mca-params.conf and what the line itself says. Nothing is set for a
library that the job is not seen to use.

` + "`launch env` prints the plan for `eval`; `--format` has dotenv, json, kubernetes and\nmpirun; `launch env --explain` says of each variable why it is set on this node,\nfrom what evidence, or why not." + `

A fact of a **node** is computed on each node and never copied to another, so
never by mpirun -x; a constant of the **job** is the same on all. A rule for
some versions of NCCL holds where NCCL's version is found; one that is not found
counts as a current one.

## What launch may set
`

func page() []byte {
	var b bytes.Buffer
	b.WriteString(pageHead)
	library := ""
	for _, r := range byLibrary() {
		if r.library != library {
			library = r.library
			fmt.Fprintf(&b, "\n### %s\n\n| variable | of the | by itself, %s | set where | to | source |\n|---|---|---|---|---|---|\n", library, library)
		}
		alone := r.alone
		if s := r.span.String(); s != "" {
			alone += " (rule for " + r.library + " " + s + ")"
		}
		row(&b, "`"+r.name+"`", string(r.scope), alone, r.when, r.value, r.source)
	}
	b.WriteString("\n## What launch never sets\n\nEach is expected by somebody, and stands in scripts.\n\n| variable | library | by itself, the library | why it is left alone | source |\n|---|---|---|---|---|\n")
	for _, u := range unsets() {
		row(&b, "`"+u.name+"`", u.library, u.alone, u.why, u.source)
	}
	b.WriteString("\n## What is found in settings that are there already\n\nA finding warns; it fails, and stops the start, only where the job is certain to\ndie of it on this node: an interface, a network module or an entry that is not\nthere, for the library that this node will use.\n\n| finding | looks at | finds |\n|---|---|---|\n")
	for _, r := range lintRules() {
		row(&b, "`"+r.id+"`", "`"+strings.Join(r.names, "` `")+"`", r.what)
	}
	b.WriteString("\n## What has to be the same on all nodes\n\n`" + strings.Join(constants(), "` `") + "`\n")
	return b.Bytes()
}

// byLibrary is the table of rules with those of one library together.
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
