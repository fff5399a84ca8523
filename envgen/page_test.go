package envgen

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"launch/internal/setting"
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
openmpi-mca-params-override.conf, what the line itself says, and then
openmpi-mca-params.conf and prte-mca-params.conf. Nothing is set for a library
that the job is not seen to use.

` + "`launch env` prints the plan for `eval`; `--format` has dotenv, json, kubernetes,\nmpirun (Open MPI's -x) and hydra (-genv, of MPICH and Intel MPI); `launch env --explain` says of each variable why it is set on this node,\nfrom what evidence, or why not." + `

A fact of a **node** is computed on each node and never copied to another, so
never by mpirun -x; a constant of the **job** is the same on all. A rule for
some versions of NCCL holds where NCCL's version is found; one that is not found
counts as a current one.

## What comes out where

| on | launch sets, where needed |
|---|---|
| every network | the interface to the peers, for each library in its own notation |
| InfiniBand | the HCAs of the training fabric, where other ports are ACTIVE too; the partition |
| RoCE v2, RoCE v1 | the same, and of the GID table a family, version or range; an index only before NCCL 2.21 |
| InfiniBand and RoCE in one node | InfiniBand's HCAs on every node, since NCCL cannot connect the two |
| AWS EFA, Slingshot | nothing for NCCL: aws-ofi-nccl sets what it needs, and a finding says where it is lacking; the transport of NVSHMEM. Slingshot's FI_CXI_* differ between sites, which have profiles |
| Google Cloud | no more than anywhere: the settings of gIB and FasTrak stand in Google's scripts, which a finding names with the line to paste where they were not sourced; what they have set is kept |
| Azure ND | the topology file where a container sees it and nothing names it; the image's /etc/nccl.conf is read first |
| TCP | threads and sockets from 100 Gb/s on |
| NVLink, also between nodes; PCIe alone | nothing: NCCL sees it. NVLink or IMEX that is broken is a check's finding |

An interface leads to no other machine where it is a bridge without a network
card in it (docker0, virbr0, cni0), a tunnel, made by software, down, without
carrier or without an address beyond its own cable; outside containers also a
veth with an address, the host's end of a container's cable. Another network card
with an address is none of these: it may reach the peers. NCCL and Gloo, which
take the first of an order or the one of the host name, are told which one it is;
Open MPI and UCX, which try all, are told only where one leads nowhere.

A node learns from the rendezvous its own place and where rank 0 is, and not the
addresses of all others, so that a start stays fast with many nodes. JAX needs no
more: JAX_COORDINATOR_ADDRESS is set, and the program gives
jax.distributed.initialize num_processes and process_id from WORLD_SIZE and RANK,
for which JAX has no variables. TF_CONFIG lists every worker, so it is set only
where a scheduler lists the hosts.

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
		row(&b, "`"+u.name+"`", setting.Library(u.name), u.alone, u.why, u.source)
	}
	b.WriteString("\n## What is found in settings that are there already\n\nA finding warns; it fails, and stops the start, only where the job is certain to\ndie of it on this node: an interface, a network module or an entry that is not\nthere, for the library that this node will use.\n\n| finding | looks at | finds |\n|---|---|---|\n")
	for _, r := range lintRules() {
		row(&b, "`"+r.id+"`", "`"+strings.Join(r.names, "` `")+"`", r.what)
	}
	for _, r := range lackRules() {
		row(&b, "`"+r.id+"`", "`"+r.name+"`, which is not set", r.what)
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
