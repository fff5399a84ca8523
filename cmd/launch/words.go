package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"launch/internal/exit"
)

// jobFlags are those that say who this node is.
const jobFlags = "store nnodes node-rank job addr master-port store-host as keep-rdzv "

// storeFlags are those that say how to reach a store.
const storeFlags = "store store-ca store-cert store-key store-user json "

// subcommands are launch's own words; any other first word is the command to
// run, and behind -- so are these. Each takes the flags that it uses, and at
// most so many arguments (-1: any number).
func (a *app) subcommands() []*cli.Command {
	sub := func(name, usage, args string, most int, flags string, f func(*cli.Context) error) *cli.Command {
		c := &cli.Command{Name: name, Usage: usage, ArgsUsage: args, HideHelp: true, HideHelpCommand: true, OnUsageError: a.usageError,
			Flags: slices.DeleteFunc(flagTable(&a.o), func(f cli.Flag) bool { return !slices.Contains(strings.Fields(flags), f.Names()[0]) })}
		c.Action = func(ctx *cli.Context) error {
			if err := a.prepare(ctx); err != nil {
				return err
			}
			if n := ctx.NArg(); most >= 0 && n > most {
				return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("launch %s does not take %q", name, ctx.Args().Get(most)),
					Fix: strings.TrimSpace("launch " + name + " " + args)}
			}
			return f(ctx)
		}
		return c
	}
	return []*cli.Command{
		sub("check", "check this node, or all nodes of a job together, and start nothing", "[-- COMMAND…]", -1,
			jobFlags+storeFlags+"port-range join-timeout last-call skip only warn-only all-pairs threshold check-dir bench local from textfile html", a.check),
		sub("bench", "measure the rails between all nodes of a job, or between two by hand", "", 0,
			jobFlags+storeFlags+"port-range join-timeout last-call all-pairs threshold server client bench-port rails streams full tcp memory force history html", a.bench),
		sub("fabric", "print what this node has: its rails beside the GPUs, interfaces, limits", "", 0, "svg record from json", a.fabric),
		sub("metrics", "write how RDMA ports and GPUs are, for Prometheus", "", 0, "textfile interval from", a.metrics),
		sub("env", "print the variables that a start would set, for eval; --explain: and why", "[-- COMMAND…]", -1, jobFlags+"from format explain json", a.env),
		sub("status", "print who is where in a job; --watch: at every change", "[JOB…]", -1, storeFlags+"job join-timeout watch", a.status),
		sub("store", "host a store in the foreground; clean: forget jobs that are over", "[clean [JOB…]]", -1, storeFlags+"job", a.store),
		sub("completion", "print a completion script: source <(launch completion bash)", "bash|zsh", 1, "", a.completion),
		sub("version", "print version, commit, and what this build can do", "", 0, "json", a.version),
	}
}

// ownWord tells whether the words behind launch's flags begin with one of its
// own. env is also env(1): launch's own stands alone, or before a flag or --.
func (a *app) ownWord(words []string) bool {
	if len(words) == 0 || !slices.ContainsFunc(a.subcommands(), func(s *cli.Command) bool { return s.Name == words[0] }) {
		return false
	}
	if words[0] != "env" || len(words) == 1 || strings.HasPrefix(words[1], "--") {
		return true
	}
	if !strings.HasPrefix(words[1], "-") && !strings.Contains(words[1], "=") {
		a.ui.Note("env before %s is the program env(1); launch env -- %s prints the variables", words[1], words[1])
	}
	return false
}
