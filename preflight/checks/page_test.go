package checks

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"launch/preflight"
	"launch/preflight/peers"
	"launch/preflight/threshold"
)

// TestPage compares docs/checks.md with the tables (UPDATE=1 writes it).
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

launch makes these checks before the command starts; "launch check" makes them alone and
prints all results. A result is **ok**, **warn**, **fail** or **skip**. After a warning the
job may run. After a failure it would certainly hang or die, so it does not start here. A
skip says why the check could not tell. A check is a skip where a check that it needs has
failed, so one cause is reported once. A check that exceeds its time is a skip, too.

"--skip ID" and "--only ID" select among all checks, those between nodes too: a check that
one node's user skips applies to no node. "--warn-only" reports failures as warnings;
between nodes it must be set on all. "--threshold NAME=VALUE", or LAUNCH_THRESHOLDS with
several separated by commas, changes the number that a check compares with.

"launch check --store host0 --nnodes 4", the same line on each node, checks all four
together. The nodes join as for a start, under a job name of their own, compare what they
found, print the same report, and leave. The exit status is 0 if all nodes are fit, 65 on
an unfit node, 66 on the others then, and 75 if nodes are missing. Each node calls at most
four others and node rank 0, and some nodes call it; with "--all-pairs" each calls all.
"--local" checks one node of such a job alone. "--html FILE" writes a page that needs no
other file, "--textfile FILE" metrics for node_exporter.

## This node
`

const pageRates = `
## The speed of the rails: launch bench

"launch bench --store host0 --nnodes 4", the same line on each node, measures every rail
between all four. A start and "launch check" do so with "--bench short" (at most 5 s) or
"--bench full" (5 s for each direction) on node rank 0, whose choice applies to all. All of
these are warnings, since a slow job still runs. The exit status of "launch bench" is 65
on a slow node and 66 on the others then, so that a script can use it. The page of
"launch check --bench short --html FILE" shows the speeds and the checks.
`

const pageRule = `
Each node measures with three others, in rounds (with every other one with "--all-pairs"),
on all its rails at the same time, each pair one way and then the other. Then:

1. A port's speed is its usual speed of sending, and of receiving: the upper median of its
   partners. The median of these is the reference for the flows of that rail. Where
   rails of one kind and rate differ, the reference is that of the fastest rail.
2. A flow is slow below "bench.slow" of the reference, or below the median less 6 standard
   deviations of the measurements (MAD), whichever is less, but never below 55 %. It is
   also slow below 80 % of what both ports can carry by their own rate, MTU and PCIe link
   (generation times lanes), where these are known.
3. The cause follows from the partners that saw it, as for calls that fail. All flows of a
   rail are slow ("bench.rail"). No flow between two groups is fast. Most flows to a port,
   from it, or both are slow ("bench.port"), the worst port first, without the flows that
   it explains. All rails of a node are slow ("bench.node"). What remains is the path
   between two nodes ("bench.way").
4. Each suspect is measured again: a port with one that passed and that it has not met, a
   path on itself. A suspect that is then as fast as others is not named.
5. By default the verdict is complete 3.6 s after the last node joined: 0.2 s of watching,
   three rounds of 0.7 s, and the rest for repeated measurements. The start and the join
   before it are not in these; with them it takes less than 5 s where a processor is idle.
6. A port's counters are read before the first and after the last measurement. If they
   grew by clearly more than was sent, others use the port, and no measurement of it
   counts. 16 % for headers and 8 % for acknowledgements are allowed. Clearly more is 5 %
   of its rate, or where that is not known, a fifth of what it carried.

How often that is wrong: [benchmarks.md](benchmarks.md).
`

const pageUser = `
## Your own: --check-dir DIR (LAUNCH_CHECK_DIR)

Each executable regular file of DIR is a check "user.FILE". Hidden files and those that
end in ~ are left out. In the ID, a character that is not a letter, digit, dot, - or _
becomes -. These checks run at the same time as the others, on each node, as the user
and in the directory and environment of the job, with LAUNCH_CHECK=1 and without
LAUNCH_TOKEN. Their stdin is what launch knows of this node, the JSON object "node" of
[json.md](json.md). After "user.limit" launch kills the check with all processes that it
started. A dry run executes none. A file does not run, and is a warning, if a user other
than you and root owns it, or if others may write it.

| exit status | |
|---|---|
| 0 | ok |
| 75 | skip: it could not tell |
| any other | fail |

The last line of stdout describes the result. If that line is a JSON object, it is the
finding: "{JSON}".
The fields are those of [json.md](json.md), and any may be missing. If "status" and the exit
status differ, the graver one counts (ok, skip, warn, fail), so a warning is a "status"
of "warn" with exit status 0. A check that cannot start, takes too long or is killed by a
signal gives no verdict: that is a warning. launch keeps 64 KiB of the output.
[examples/checks](../examples/checks) has an example.
`

const pageHosts = `
## Hosts of mpirun

"launch mpirun …" and "launch check -- mpirun …" ask each host of the line through the agent
that mpirun will use. [guide/mpirun.md](guide/mpirun.md) says how. "--skip mpi.hosts" asks
none.
`

const pageNot = `
## Not covered

- **PFC, ECN and traffic classes of RoCE.** /sys does not show them, and the switch's half
  matters: a RoCE network that loses packets under load passes. "mlnx_qos -i INTERFACE"
  shows the node's half. NCCL_IB_TC and NCCL_IB_SL are compared ("same.env").
- **RDMA between nodes, and GPUs under load.** A port carries data to itself, its counters
  are read twice, and no kernel runs on a GPU. The calls between nodes use TCP and UDP, to
  each node's address, and TCP to the addresses where NCCL and Gloo wait. "launch bench"
  measures the rails between nodes.
- **Cards that may not reach themselves.** Silence or a refusal is a warning for cards of
  mlx5, mlx4 and Soft-RoCE only. Whether other cards deliver a port's packets back to it is
  not known.
- **The packet size that the switches carry.** libibverbs reports what a port has agreed on.
  Where it cannot be asked, the size of RoCE is computed from the interface's MTU, as the
  kernel does, and that of InfiniBand is not known. A size that is equally small on all
  nodes is no finding.
- **Names of all other nodes.** launch gives the job addresses. Each node looks up the names
  of the nodes that it calls, four at most; "--all-pairs" looks up all of them. mpirun looks
  up its own hosts.
- **Proxies.** launch connects to store and nodes directly and ignores HTTP_PROXY, as
  torch's store, NCCL and Gloo do.
- **Equal limits on all nodes.** The limits of each node are compared with the needs of its
  own processes, and not with those of the other nodes.

The checks "gpu.*" and "rdma.*" were not tested on GPUs and HCAs. They were tested on
recorded machines, and with an NVML and a libibverbs made for the tests; "rdma.loop" also
on Soft-RoCE.
`

// text returns a constant of this page with its code marked: a raw string of Go has no
// backquote.
func text(s string) string {
	return strings.NewReplacer(`"`, "`", "{JSON}", `{"status": …, "what": …, "breaks": …, "fix": …}`).Replace(s)
}

func page() []byte {
	var b bytes.Buffer
	b.WriteString(text(pageHead))
	pageTable(&b, Table().Node)
	b.WriteString("\n## Between nodes\n")
	pageTable(&b, peers.Checks())
	b.WriteString(text(pageRates))
	pageTable(&b, rates())
	b.WriteString(text(pageHosts))
	pageTable(&b, Table().Hosts)
	b.WriteString(text(pageRule))
	b.WriteString(text(pageUser))
	b.WriteString("\n## Thresholds\n\n| name | default | what it limits |\n|---|---|---|\n")
	for _, t := range threshold.All() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", t.Name, t.Unit.Format(t.Default), cell(t.Doc))
	}
	b.WriteString("\nBytes: 64MiB, 1Gi (powers of 1024), 500k, 2M, 1G (powers of 1000). Durations: 200ms,\n5s, 1m30s.\n")
	b.WriteString(text(pageNot))
	return b.Bytes()
}

func pageTable(b *bytes.Buffer, checks []preflight.Check) {
	local := slices.ContainsFunc(checks, func(c preflight.Check) bool { return c.Run != nil })
	if local {
		b.WriteString("\n| ID | what holds | what goes wrong | needs | time |\n|---|---|---|---|---|\n")
	} else {
		b.WriteString("\n| ID | what holds | what goes wrong |\n|---|---|---|\n")
	}
	for _, c := range checks {
		fmt.Fprintf(b, "| `%s` | %s | %s |", c.ID, cell(c.Title), cell(c.Doc))
		if local {
			fmt.Fprintf(b, " %s | %s |", strings.Join(c.Needs, ", "), cmp.Or(c.Limit, preflight.Computed))
		}
		b.WriteByte('\n')
	}
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// Each check has everything that the page and the report show.
func TestEveryCheckSaysWhatItIs(t *testing.T) {
	seen := map[string]bool{}
	for i, c := range slices.Concat(Table().Node, peers.Checks(), rates()) {
		if c.ID == "" || c.Title == "" || c.Doc == "" || seen[c.ID] {
			t.Errorf("%q: title %q, doc %q, twice: %v", c.ID, c.Title, c.Doc, seen[c.ID])
		}
		if ofNode := i < len(Table().Node); ofNode != (c.Run != nil) || c.Limit < 0 {
			t.Errorf("%s: of a node %v, limit %v, run %v", c.ID, ofNode, c.Limit, c.Run != nil)
		}
		for _, id := range c.Needs {
			if !seen[id] {
				t.Errorf("%s needs %s, which is not before it", c.ID, id)
			}
		}
		seen[c.ID] = true
	}
}
