package main

import (
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
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
Flags of launch go before COMMAND; all that follows is COMMAND's. Every flag
has a variable: --join-timeout is LAUNCH_JOIN_TIMEOUT.
`

// envNote explains the difference between launch env and the program env.
const envNote = `launch env NAME=VALUE COMMAND... is env(1) before the command, not a subcommand.
`

const checkNote = `Run the same line on each node of a job: the nodes check each other, print the
same report and end with 0 (all are fit), 65 (this node is unfit), 66 (another
one is) or 75 (some did not join). A job has several nodes if --nnodes, the
command or a scheduler says so.
`

const benchNote = `Run the same line on each node of a job: each node measures with three others,
and all print the same report: which port, cable or node is slow. By hand
between two, in any order: launch bench --server on one, launch bench --client
HOST on the other. It ends with 0 (none is slow), 65 (this node is), 66 (another
one is) or 75 (some did not join). GB/s are 1,000,000,000 bytes of payload a
second, µs are half a round trip.
`

const doctorNote = `Run it on a node while the job hangs, as the user of the job: it says which rank
or node the others wait for, and why. Where launch has started the job, it asks
the other nodes too. Elsewhere --hosts asks them by ssh, each for at most 25 s;
or run launch doctor --json on each node into a file, then launch doctor --merge
FILE... It reads only, and takes at most 20 s on one node. It ends with 0
(nothing hangs), 1 (a cause was found) or 2 (the job waits, and the evidence
does not decide why).
`

const helpTail = `
LAUNCH_TOKEN, if set, must be the same on all nodes: a node without it is
refused (openssl rand -hex 16 makes one; docs/security.md).
Exit statuses: 64 usage, 65 this node is unfit, 66 another node is, 69 the
store does not answer, 70 a bug, 73 the node's place is taken, 75 nodes are
missing, 78 settings contradict, 126/127 as in a shell (docs/exit-codes.md).
`

// wantsHelp reports whether a word asks for help.
func wantsHelp(w string) bool { return w == "--help" || w == "-h" || w == "-help" }

// The help's templates, for the library's printer.
const (
	flagsTemplate = `{{range groups .}}
{{.Name}}
{{range .Flags}}{{row (title .) (usage .)}}{{end}}{{end}}`
	appTemplate = `{{head}}` + flagsTemplate + `
subcommands
{{range .Commands}}{{row (printf "%s %s" .Name .ArgsUsage) .Usage}}{{end}}
{{note}}{{tail}}`
	commandTemplate = `launch {{.Name}}{{if .Flags}} [flags]{{end}}{{if .ArgsUsage}} {{.ArgsUsage}}{{end}}

{{.Usage}}
{{if .Description}}
{{.Description}}{{end}}` + flagsTemplate
)

// help returns what launch --help prints, in 80 columns.
func (a *app) help() string {
	return render(appTemplate, &cli.Command{Flags: a.startFlags(), Subcommands: a.subcommands()})
}

// subcommandHelp returns what launch SUBCOMMAND --help prints.
func subcommandHelp(c *cli.Command) string { return render(commandTemplate, c) }

func render(template string, c *cli.Command) string {
	var b strings.Builder
	data := struct {
		*cli.Command
		Commands []*cli.Command
	}{c, c.Subcommands}
	cli.HelpPrinterCustom(&b, template, data, map[string]any{
		"groups": func(any) []group { return grouped(c.Flags) },
		"title":  title, "usage": usage, "row": row,
		"head": func() string { return helpHead }, "note": func() string { return envNote },
		"tail": func() string { return helpTail },
	})
	return b.String()
}

// group is the flags below one heading of the help.
type group struct {
	Name  string
	Flags []cli.Flag
}

// grouped returns flags by heading, in the order of the help.
func grouped(flags []cli.Flag) []group {
	var out []group
	for _, name := range groups() {
		of := slices.DeleteFunc(slices.Clone(flags), func(f cli.Flag) bool {
			return f.(cli.CategorizableFlag).
				GetCategory() != name
		})
		if len(of) > 0 {
			out = append(out, group{name, of})
		}
	}
	return out
}

// title returns a flag with the name of its value.
func title(f cli.Flag) string {
	if _, arg, ok := strings.Cut(f.(cli.DocGenerationFlag).GetUsage(), "`"); ok {
		arg, _, _ = strings.Cut(arg, "`")
		return "--" + f.Names()[0] + " " + arg
	}
	return "--" + f.Names()[0]
}

// usage returns what a flag does, with its default.
func usage(f cli.Flag) string {
	use := f.(cli.DocGenerationFlag).GetUsage()
	if i := strings.LastIndex(use, "`"); i >= 0 {
		use = strings.TrimSpace(use[i+1:])
	}
	if v := preset(f); v != "" {
		use += " (default " + v + ")"
	}
	return use
}

// row returns a name and its meaning in two columns of 80.
func row(name, meaning string) string {
	const column, width = 24, 80
	name = strings.TrimSpace(name)
	first := "  " + name
	if len([]rune(first)) >= column {
		first += "\n"
	} else {
		first = text.Pad(first, column, ' ')
	}
	lines := strings.Split(text.WrapSoft(meaning, width-column), "\n")
	for i, line := range lines {
		if i > 0 || strings.HasSuffix(first, "\n") {
			lines[i] = strings.Repeat(" ", column) + strings.TrimSpace(line)
		} else {
			lines[i] = strings.TrimSpace(line)
		}
	}
	return first + strings.Join(lines, "\n") + "\n"
}
