package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

const helpHead = `launch: one word before torchrun, mpirun or any program that several nodes run

usage
  launch [flags] [--] COMMAND [ARGS...]   the same line on every node
  launch SUBCOMMAND [flags]

examples
  launch --store host0 torchrun --nnodes 3 --nproc-per-node 8 train.py
  launch torchrun --nnodes 3 --rdzv-endpoint host0:29400 --rdzv-id j train.py
  launch --nnodes 3 --store host0 python train.py
  launch --dry-run torchrun --nnodes 3 --rdzv-endpoint host0:29400 train.py

It checks this node, waits for all nodes, agrees on ranks, sets what the
libraries would get wrong, and becomes COMMAND: same process, same exit status.
Flags of launch stand before COMMAND; all that follows is COMMAND's. Every flag
has a variable: --join-timeout is LAUNCH_JOIN_TIMEOUT.
`

// envNote tells launch's own word from the program of that name.
const envNote = `
launch env NAME=VALUE COMMAND... is env(1) before the command, not a subcommand.
`

// checkNote is what launch check ends with.
const checkNote = `
On each node of a job the same line: they meet, check each other, print the same
report and end with 0 (all are fit), 65 (this node is not), 66 (another one is
not) or 75 (some did not come). Several nodes are meant where --nnodes, the
command or a scheduler says so.
`

// benchNote is what launch bench ends with.
const benchNote = `
On each node of a job the same line: each meets three others, and all print the
same report: which port, cable or node is slow. By hand between two, in any
order: launch bench --server on one, launch bench --client HOST on the other.
It ends with 0 (none is slow), 65 (this node is), 66 (another one is) or 75
(some did not come). GB/s are 1,000,000,000 bytes of payload a second, µs are
half a round trip.
`

const helpTail = `
LAUNCH_TOKEN, where set, must be the same on all nodes: they prove it to each
other. Exit codes: 64 usage, 65 this node is unfit, 66 a peer is, 69 no store,
73 duplicate, 75 nodes missing, 78 contradiction, 126/127 as in a shell
(docs/exit-codes.md).
`

// wantsHelp tells whether a word asks for help.
func wantsHelp(w string) bool { return w == "--help" || w == "-h" || w == "-help" }

// groups are the headings, in the order of the help.
func groups() []group { return []group{grpJob, grpEtcd, grpCheck, grpBench, grpStart, grpOutput} }

// help is what launch --help prints, in 80 columns.
func help(flags []cli.Flag, subs []*cli.Command) string {
	var b strings.Builder
	b.WriteString(helpHead)
	for _, g := range groups() {
		writeGroup(&b, g, flags)
	}
	b.WriteString("\nsubcommands\n")
	for _, c := range subs {
		b.WriteString(row(strings.TrimSpace(c.Name+" "+c.ArgsUsage), c.Usage))
	}
	b.WriteString(envNote + helpTail)
	return b.String()
}

// subHelp is what launch SUBCOMMAND --help prints.
func subHelp(c *cli.Command) string {
	var b strings.Builder
	words := []string{"launch", c.Name, c.ArgsUsage}
	if len(c.Flags) > 0 {
		words = slices.Insert(words, 2, "[flags]")
	}
	fmt.Fprintf(&b, "%s\n\n%s\n", strings.TrimSpace(strings.Join(words, " ")), c.Usage)
	switch c.Name {
	case "env":
		b.WriteString(envNote)
	case "check":
		b.WriteString(checkNote)
	case "bench":
		b.WriteString(benchNote)
	}
	for _, g := range groups() {
		writeGroup(&b, g, c.Flags)
	}
	return b.String()
}

func writeGroup(b *strings.Builder, g group, flags []cli.Flag) {
	head := fmt.Sprintf("\n%s\n", g)
	for _, f := range flags {
		d := f.(cli.DocGenerationFlag)
		if c, ok := f.(cli.CategorizableFlag); !ok || c.GetCategory() != string(g) {
			continue
		}
		b.WriteString(head)
		head = ""
		name, usage := "--"+f.Names()[0], d.GetUsage()
		if parts := strings.SplitN(usage, "`", 3); len(parts) == 3 {
			name, usage = name+" "+parts[1], strings.TrimSpace(parts[2])
		}
		if v := strings.Trim(d.GetDefaultText(), `"`); v != "" && v != "false" {
			usage += " (default " + v + ")"
		}
		b.WriteString(row(name, usage))
	}
}

// helpWidth is the terminal that everybody has.
const helpWidth = 80

// row is a name and its meaning in two columns.
func row(name, text string) string {
	const column = 24
	var b strings.Builder
	if n := len([]rune(name)); n > column-3 {
		fmt.Fprintf(&b, "  %s\n%-*s", name, column, "")
	} else {
		fmt.Fprintf(&b, "  %s%*s", name, column-2-n, "")
	}
	used := column
	for i, w := range strings.Fields(text) {
		if i > 0 && used+1+len(w) > helpWidth {
			fmt.Fprintf(&b, "\n%-*s", column, "")
			used = column
		} else if i > 0 {
			b.WriteByte(' ')
			used++
		}
		b.WriteString(w)
		used += len(w)
	}
	return b.String() + "\n"
}
