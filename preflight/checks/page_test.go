package checks

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"launch/preflight"
	"launch/preflight/bandwidth"
	"launch/preflight/peers"
)

// TestPage holds docs/checks.md to the tables (UPDATE=1 writes it).
func TestPage(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "checks.md")
	got := page()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(want, got) {
		t.Errorf("docs/checks.md is not what the tables say (%v): UPDATE=1 go test ./preflight/checks -run Page", err)
	}
}

const pageHead = `<!-- Generated from the tables of preflight: UPDATE=1 go test ./preflight/checks -run Page -->
# Checks

Each is asked before the command starts; "launch check" asks them alone and
prints all. An answer is **ok**, **warn** (the job may run), **fail** (it is
certain to hang or die, so it does not start here) or **skip** (could not tell,
and why). Of a check that failed those that need it are skips, so one cause is
told once. What is not through when its time is over is a skip, too.

"--skip ID" and "--only ID" choose among all of them, those between nodes too:
what one node's user skips there is judged for none. "--warn-only" makes each
fail a warning, between nodes where all say so. "--threshold NAME=VALUE", or several in LAUNCH_THRESHOLDS behind
commas, judges by another number.

"launch check --store host0 --nnodes 4", the same line on each node, checks all
four together: they meet as for a start, under a name of their own, compare what
they found, print the same report, and leave. Its exit status is 0 where all are
fit, 65 on a node that is not, 66 on the others then, 75 where some did not come.
Each node calls at most four others and node rank 0, and each is called by some;
with "--all-pairs" each calls all. "--local" checks one node of such a job alone.
"--html FILE" writes a page that needs nothing else, "--textfile FILE" metrics
for node_exporter.

## This node
`

const pageRates = `
## How fast the rails are: launch bench

"launch bench --store host0 --nnodes 4", the same line on each node, measures every
rail between all four; a start and "launch check" do with "--bench short" (at most 5 s)
or "--bench full" (5 s for each direction) on rank 0, whose word counts for all. All of
these are warnings, since a slow job still runs. The exit status of "launch bench" is 65
on a node that is named and 66 on the others then, so that a script can go by it; the
page of "launch check --bench short --html FILE" has its picture beside the checks.
`

const pageRule = `
Each node meets three others, in rounds (each other one with "--all-pairs"), all its
rails at the same time, each pair one way and then the other. Then:

1. A port's speed is what it usually sent, and received: the upper median of those
   that it met. The median of these is what the flows of that rail are held against,
   and where rails of one kind and rate differ, that of the fastest.
2. A flow is slow below "bench.slow" of that, or below the median less 6 standard
   deviations of what was measured (MAD), if that is less, but never below 55 %.
   It is slow, too, below 80 % of what both ports are good for by their own rate,
   MTU and PCIe link (generation times lanes), where these are known.
3. Who is slow is told by who else saw it, as with calls that fail: all flows of a
   rail ("bench.rail"); nothing fast between two groups; a port most of whose flows
   are slow, to it, from it or both, the worst first and without what it explains
   ("bench.port"); a node all of whose rails are ("bench.node"); what is left is the
   way between two ("bench.way").
4. A suspect is measured once more, a port with one that passed and that it has not
   met, a way on itself. Who is as fast as others then is not named.
5. By default the verdict is there 3.6 s after the last node came: 0.2 s of watching,
   three rounds of 0.7 s, and the rest for what is measured once more. The start and
   the join before it are not in these; with them it is less than 5 s where a processor
   is free.
6. A port's counters are read before the first and after the last measurement. Where
   they have moved by clearly more than was sent, with 16 % for headers and 8 % for
   acknowledgements, others use it: by 5 % of its rate, or where that is not known by a
   fifth of what it carried. Nothing that was measured there counts then.

How often that is wrong: [benchmarks.md](benchmarks.md).
`

const pageUser = `
## Your own: --check-dir DIR (LAUNCH_CHECK_DIR)

Each executable regular file of DIR is a check "user.FILE"; hidden files and
those that end in ~ are left out, and in the ID a character that is no letter,
digit, dot, - or _ becomes -. They run at the same time as the others, on each
node, as the user and in the directory and environment of the job, with
LAUNCH_CHECK=1; on stdin is what is known of this node, the JSON object "node"
of [json.md](json.md). Each has "user.limit", then it is killed with all that it
started. A dry run executes none of them.

| exit status | |
|---|---|
| 0 | ok |
| 75 | skip: it could not tell |
| any other | fail |

The last line of its stdout says what was seen. If that is a JSON object, it is
the finding: "{JSON}", each as in
[json.md](json.md), any of them missing. Where "status" and the exit status
differ the graver one counts (ok, skip, warn, fail), so a warning is a "status"
of "warn" with exit status 0. A check that cannot be started, takes too long or
dies of a signal gave no verdict: that is a warning. 64 KiB of what it writes
are kept. [examples/checks](../examples/checks) has one.
`

const pageNot = `
## What is not looked at

- **PFC, ECN and traffic classes of RoCE.** /sys does not show them, and the half
  that matters is the switch's: a RoCE network that loses packets under load
  passes. "mlnx_qos -i INTERFACE" shows the node's half, NCCL_IB_TC and
  NCCL_IB_SL are compared ("same.env").
- **RDMA between nodes, and GPUs at work.** A port carries data to itself, its
  counters are read twice, no kernel is run. The calls between nodes are
  TCP and UDP, to each node's address, and TCP to where NCCL and Gloo will wait;
  "launch bench" measures the rails between them.
- **Cards that may not reach themselves.** That nothing comes back, or is refused,
  is a warning of cards by mlx5, mlx4 and Soft-RoCE alone: of others it is not
  known that they bring a port's packets back to it.
- **The packet size that the switches carry.** libibverbs tells what a port has
  agreed on; where it cannot be asked that of RoCE is computed from the
  interface's MTU, as the kernel does, and that of InfiniBand is not known. One
  that is small on all nodes alike is no finding.
- **Names of all other nodes.** The job is handed addresses. Each node looks up the
  names of those that it calls, four at most; --all-pairs asks for all of them.
  mpirun's hosts are mpirun's.
- **Proxies.** launch reaches store and nodes directly, whatever HTTP_PROXY says,
  as torch's store, NCCL and Gloo do.
- **One number for all nodes' limits.** Each node's limits are held against what
  its own processes need, and not against the other nodes'.

GPUs and HCAs were never here: "gpu.*" and "rdma.*" were tried on recorded
machines, and with an NVML and a libibverbs made for the tests; "rdma.loop" on
Soft-RoCE, too.
`

// text is a constant of this page with its code marked as such: in Go a raw
// string has no backquote.
func text(s string) string {
	return strings.NewReplacer(`"`, "`", "{JSON}", `{"status": …, "what": …, "breaks": …, "fix": …}`).Replace(s)
}

func page() []byte {
	var b bytes.Buffer
	b.WriteString(text(pageHead))
	pageTable(&b, Table().Node)
	b.WriteString("\n## The nodes beside each other\n")
	pageTable(&b, peers.Checks())
	b.WriteString(text(pageRates))
	pageTable(&b, bandwidth.Checks())
	b.WriteString(text(pageRule))
	b.WriteString(text(pageUser))
	b.WriteString("\n## Thresholds\n\n| name | default | what it is |\n|---|---|---|\n")
	for _, t := range preflight.Thresholds() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", t.Name, t.Unit.Format(t.Default), cell(t.Doc))
	}
	b.WriteString("\nBytes: 64MiB, 1Gi (powers of 1024), 500k, 2M, 1G (powers of 1000). Times: 200ms,\n5s, 1m30s.\n")
	b.WriteString(text(pageNot))
	return b.Bytes()
}

func pageTable(b *bytes.Buffer, checks []preflight.Check) {
	local := slices.ContainsFunc(checks, func(c preflight.Check) bool { return c.Scope == preflight.OfNode || c.Scope == "" })
	if local {
		b.WriteString("\n| ID | what is asked | what goes wrong | needs | time |\n|---|---|---|---|---|\n")
	} else {
		b.WriteString("\n| ID | what is asked | what goes wrong |\n|---|---|---|\n")
	}
	for _, c := range checks {
		fmt.Fprintf(b, "| `%s` | %s | %s |", c.ID, cell(c.Title), cell(c.Doc))
		if local {
			fmt.Fprintf(b, " %s | %s |", strings.Join(c.Needs, ", "), c.Limit)
		}
		b.WriteByte('\n')
	}
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// What the page and the report say of a check, it has.
func TestEveryCheckSaysWhatItIs(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range slices.Concat(Table().Node, peers.Checks(), bandwidth.Checks()) {
		if c.ID == "" || c.Title == "" || c.Doc == "" || seen[c.ID] {
			t.Errorf("%q: title %q, doc %q, twice: %v", c.ID, c.Title, c.Doc, seen[c.ID])
		}
		if (c.Scope == preflight.OfPeers || c.Scope == preflight.OfBench) != (c.Run == nil) || c.Run != nil && c.Limit <= 0 {
			t.Errorf("%s: scope %q, limit %v, run %v", c.ID, c.Scope, c.Limit, c.Run != nil)
		}
		for _, id := range c.Needs {
			if !seen[id] {
				t.Errorf("%s needs %s, which is not before it", c.ID, id)
			}
		}
		seen[c.ID] = true
	}
}
