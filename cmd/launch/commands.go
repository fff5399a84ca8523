package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"launch/internal/exit"
)

// startFlags returns the flags of a start.
func (a *app) startFlags() []cli.Flag {
	f := a.flags
	return slices.Concat(
		[]cli.Flag{f.store, f.nnodes, f.spares, f.nodeRank, f.role, f.after, f.job, f.addr, f.masterPort,
			f.portRange, f.storeHost},
		f.etcd(),
		[]cli.Flag{f.skip, f.only, f.warnOnly, f.dropUnfit, f.allPairs, f.threshold, f.checkDir, f.bench},
		[]cli.Flag{
			f.joinTimeout,
			f.lastCall,
			f.startTimeout,
			f.hangAfter,
			f.onHang,
			f.bundle,
			f.failFast,
			f.restarts,
			f.keepRdzv,
			f.as,
			f.readAhead,
			f.openStore,
			f.dryRun,
			f.from,
			f.json,
		},
	)
}

// etcd returns the flags of an external etcd.
func (f *flags) etcd() []cli.Flag { return []cli.Flag{f.storeCA, f.storeCert, f.storeKey, f.storeUser} }

// identity returns the flags for this node's place in the job.
func (f *flags) identity() []cli.Flag {
	return []cli.Flag{f.store, f.nnodes, f.nodeRank, f.role, f.job, f.addr, f.masterPort, f.storeHost, f.keepRdzv,
		f.as}
}

// subcommands returns launch's subcommands with their flags. Any other first word is the command to run.
func (a *app) subcommands() []*cli.Command {
	f := a.flags
	gather := slices.Concat(f.identity(), f.etcd(), []cli.Flag{f.portRange, f.joinTimeout, f.lastCall, f.allPairs,
		f.threshold, f.openStore, f.html, f.json})
	reach := append(f.etcd(), f.store, f.job, f.json)
	return []*cli.Command{
		a.sub("check", "check this node, or all nodes of a job together, and start nothing", "[-- COMMAND…]", checkNote, -1,
			func(c *cli.Context) error { return end(a.Check(c.Context, c.Args().Slice())) },
			append(gather, f.skip, f.only, f.warnOnly, f.checkDir, f.bench, f.local, f.from, f.textfile)...),
		a.sub("bench", "measure the rails between all nodes of a job, or between two by hand", "", benchNote, 0,
			func(c *cli.Context) error { return end(a.Bench(c.Context)) },
			append(gather, f.server, f.client, f.benchPort, f.rails, f.streams, f.full, f.tcp, f.memory, f.force, f.history)...),
		a.sub("fabric", "print what this node has: its rails and GPUs, interfaces, limits", "", "", 0, a.fabric, f.svg,
			f.record, f.from, f.json),
		a.sub("metrics", "write the state of RDMA ports and GPUs for Prometheus", "", "", 0, a.metrics, f.textfile,
			f.interval, f.listen, f.from),
		a.sub("env", "print the variables that a start would set, for eval; --explain: why", "[-- COMMAND…]", envNote, -1,
			func(c *cli.Context) error { return end(a.Env(c.Context, c.Args().Slice())) },
			append(f.identity(), f.from, f.format, f.explain, f.json)...),
		a.sub("status", "print the nodes of a job; --watch: at every change", "[JOB…]", "", -1, a.status,
			slices.Concat(reach, []cli.Flag{f.joinTimeout, f.watch})...),
		a.sub("doctor", "say why a job hangs that runs on this node; --log: why one has failed", "[FILE…]", doctorNote, -1,
			a.doctor, f.pid, f.job, f.watch, f.merge, f.hosts, f.log, f.html, f.bundle, f.json),
		a.sub("store", "host a store in the foreground; clean: remove ended jobs", "[clean [JOB…]]", "", -1, a.store,
			slices.Concat(reach, []cli.Flag{f.openStore, f.prefix})...),
		a.sub("copy", "copy this program into a volume, from an image that has nothing else", "FILE", "", 1, a.copy),
		a.sub("completion", "print a script for completion: source <(launch completion bash)",
			"bash|zsh|fish", "", 1, a.completion),
		a.sub("version", "print the version, the commit and what this build lacks", "", "", 0, a.version, f.json),
	}
}

// sub returns a subcommand that takes at most most arguments (-1: any number).
func (a *app) sub(name, usage, args, note string, most int, action cli.ActionFunc, own ...cli.Flag) *cli.Command {
	return &cli.Command{Name: name, Usage: usage, ArgsUsage: args, Description: note, Flags: slices.Clone(own),
		HideHelp: true, HideHelpCommand: true, OnUsageError: a.usageError,
		Action: func(c *cli.Context) error {
			if err := a.prepare(own); err != nil {
				return err
			}
			if n := c.NArg(); most >= 0 && n > most {
				return exit.Errorf(exit.Usage, "launch %s does not take %q", name, c.Args().Get(most)).
					Do("%s", strings.TrimSpace("launch "+name+" "+args))
			}
			a.Flags = takes(a.startFlags())
			return action(c)
		}}
}

// subcommand returns the subcommand that these words begin with, or nil. env is also env(1), and fabric
// Lightning's, before run: launch's own has no argument, or a flag or -- after it.
func (a *app) subcommand(words []string) *cli.Command {
	if len(words) == 0 {
		return nil
	}
	all := a.subcommands()
	i := slices.IndexFunc(all, func(c *cli.Command) bool { return c.Name == words[0] })
	switch {
	case i < 0:
		return nil
	case words[0] == "fabric" && len(words) > 1 && (words[1] == "run" || words[1] == "consolidate"):
		return nil
	case words[0] != "env" || len(words) == 1 || strings.HasPrefix(words[1], "--"):
		return all[i]
	case !strings.HasPrefix(words[1], "-") && !strings.Contains(words[1], "="):
		a.UI.Note("env before %s is the program env(1); launch env -- %s prints the variables", words[1], words[1])
	}
	return nil
}

// takesCommand reports whether a command may follow.
func (a *app) takesCommand() bool {
	return a.Subcommand == "" || a.Subcommand == "check" || a.Subcommand == "env"
}

// takes returns the names of flags, and whether each needs a value.
func takes(flags []cli.Flag) map[string]bool {
	out := map[string]bool{}
	for _, f := range flags {
		_, isBool := f.(*cli.BoolFlag)
		out[f.Names()[0]] = !isBool
	}
	return out
}

// allFlags returns the flags of a start, then those of all subcommands.
func (a *app) allFlags() []cli.Flag {
	all := a.startFlags()
	for _, c := range a.subcommands() {
		all = append(all, c.Flags...)
	}
	return all
}
