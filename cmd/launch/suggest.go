package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"launch/cmd/internal/start"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/spelling"
)

// badValue is how the flag package, and the cli package for variables, report an
// invalid value: the value, the variable if it is one's, the flag.
var badValue = regexp.MustCompile(`^(?:invalid (?:boolean )?value|could not parse) ("(?:[^"\\]|\\.)*") ` +
	`(?:as .* from environment variable ("[A-Z_]+") )?for (?:flag )?-?([a-z-]+):`)

// usageError turns an error of the flag package into one that suggests a fix.
func (a *app) usageError(_ *cli.Context, err error, _ bool) error {
	e := exit.Errorf(exit.Usage, "%v", err).Do("%s --help lists the flags", strings.TrimSpace("launch "+a.Subcommand))
	if m := badValue.FindStringSubmatch(err.Error()); m != nil {
		return a.badValue(m[1], strings.Trim(m[2], `"`), m[3])
	}
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		a.unknownFlag(e, strings.TrimLeft(name, "-"))
	} else if name, ok := strings.CutPrefix(err.Error(), "flag needs an argument: -"); ok {
		e.What = fmt.Sprintf("--%s needs a value", strings.TrimLeft(name, "-"))
	}
	return e
}

// refuse prints why a line is refused, and returns the exit status. The other nodes of a start learn it, too.
func (a *app) refuse(argv []string, err error) int {
	if a.Subcommand != "" {
		return a.Fail(err, nil)
	}
	set := flag.NewFlagSet("launch", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range a.startFlags() {
		_ = f.Apply(set) // of a variable with an invalid value
	}
	for left := a.own; len(left) > 0; left = set.Args() { // what follows an invalid flag counts
		if set.Parse(left) == nil {
			break
		}
	}
	return a.Excuse(context.Background(), argv, err)
}

// badValue returns the error for an invalid value, with a valid one for a flag of its type.
func (a *app) badValue(value, variable, name string) error {
	from, equals := "--"+name, " "
	if variable != "" {
		from, equals = variable, "="
	}
	e := exit.Errorf(exit.Usage, "%s: %s is not a valid value", from, value)
	all := a.allFlags()
	i := slices.IndexFunc(all, func(f cli.Flag) bool { return f.Names()[0] == name })
	if i < 0 {
		return e
	}
	switch all[i].(type) {
	case *cli.DurationFlag:
		e.Fix = from + equals + "90s, 10m or 1h30m"
	case *cli.IntFlag:
		e.Fix = from + equals + "3"
	case *cli.BoolFlag:
		if e.Fix = from + ", or " + from + "=false"; variable != "" {
			e.Fix = from + "=1 or " + from + "=0"
		}
	}
	return e
}

// unknownFlag describes a flag that another subcommand takes, or that resembles one of launch's.
func (a *app) unknownFlag(e *exit.Error, name string) {
	typed := "--" + name
	for _, w := range a.own {
		if word, _, _ := strings.Cut(w, "="); strings.TrimLeft(word, "-") == name {
			typed = word
		}
	}
	known := takes(a.allFlags())
	if _, own := known[name]; own {
		owner := a.ownerOf(name)
		e.What = fmt.Sprintf("%s belongs to %s, not to %s", typed, owner, a.called())
		if a.Subcommand == "" {
			e.Fix = strings.Trim(owner, "`") + " " + typed + " --store HOST   # from another terminal"
		}
		return
	}
	e.What = "unknown flag " + typed
	known["help"], known["version"] = false, false
	if s := spelling.Closest(name, slices.Sorted(maps.Keys(known))); s != "" {
		if e.Fix = fmt.Sprintf("did you mean --%s?", s); a.takesCommand() {
			e.Fix += " (the command's own flags go after the command)"
		}
	}
}

// ownerOf returns the part of launch that takes a flag.
func (a *app) ownerOf(flag string) string {
	if _, ok := takes(a.startFlags())[flag]; ok {
		return "a start"
	}
	for _, c := range a.subcommands() {
		if _, ok := takes(c.Flags)[flag]; ok {
			return "`launch " + c.Name + "`"
		}
	}
	return ""
}

// called returns the name of this part of launch.
func (a *app) called() string {
	if a.Subcommand == "" {
		return "a start"
	}
	return "`launch " + a.Subcommand + "`"
}

// meantForLaunch adds to the error of a command that was not found the
// subcommand or program that was most likely meant.
func (a *app) meantForLaunch(err error, argv []string) error {
	f, ok := errors.AsType[*exit.Error](err)
	if !ok || f.Code != exit.NotFound {
		return err
	}
	starters := []string{"torchrun", "mpirun", "mpiexec", "srun", "python", "python3"}
	if s := a.misspelt(argv); s != "" {
		f.Fix = strings.TrimSpace("did you mean launch " + s + "?\n" + f.Fix)
	} else if s := spelling.Closest(argv[0], starters); s != "" {
		if _, err := exec.LookPath(s); err == nil {
			f.Fix = strings.TrimSpace("did you mean " + s + "?\n" + f.Fix)
		}
	}
	return f
}

// closest returns the subcommand that a word is closest to; nil: none.
func (a *app) closest(name string) *cli.Command {
	all := a.subcommands()
	s := spelling.Closest(name, finding.Map(all, func(c *cli.Command) string { return c.Name }))
	i := slices.IndexFunc(all, func(c *cli.Command) bool { return c.Name == s })
	if i < 0 {
		return nil
	}
	return all[i]
}

// misspelt returns the subcommand that a command was most likely meant to be, from its name and what follows it: flags,
// or words that the subcommand takes; "": none.
func (a *app) misspelt(argv []string) string {
	c := a.closest(argv[0])
	if c == nil || c.Name == argv[0] { // fabric run, which is Lightning's
		return ""
	}
	takes := strings.Fields(strings.NewReplacer("[", " ", "]", " ", "|", " ", "…", "").Replace(c.ArgsUsage))
	if len(argv) > 1 && argv[1] != "" && argv[1][0] != '-' && !slices.Contains(takes, argv[1]) &&
		!slices.Contains(takes, "COMMAND") {
		return ""
	}
	return c.Name
}

// unknownCommand returns the error of a misspelt subcommand, with the line that was meant; nil: it is none.
func (a *app) unknownCommand(argv []string) error {
	s := a.misspelt(argv)
	if s == "" || a.Opt.Given["from"] {
		return nil
	}
	if _, err := exec.LookPath(argv[0]); err == nil {
		return nil
	}
	line := slices.Concat([]string{"launch", s}, a.own, argv[1:])
	return exit.Errorf(exit.NotFound, "%s is no command on this node and no subcommand of launch", argv[0]).
		Do("did you mean launch %s?\n%s", s, launcher.Quote(line))
}

// unknownTopic returns the error of launch help with a topic that launch does not have.
func (a *app) unknownTopic(topic string) error {
	e := exit.Errorf(exit.Usage, "launch has no subcommand %s", topic)
	if c := a.closest(topic); c != nil {
		return e.Do("did you mean launch help %s?", c.Name)
	}
	return e.Do("launch help   # lists the subcommands")
}

// misnamed returns warnings about variables that resemble one of launch's and
// are not read: LAUNCH_NNOES. Others may have a LAUNCH_ of their own.
func (a *app) misnamed(environ []string) finding.Report {
	known := []string{"TOKEN", "STORE_PASSWORD"}
	for name := range takes(a.allFlags()) {
		known = append(known, strings.TrimPrefix(start.Variable(name), "LAUNCH_"))
	}
	slices.Sort(known)
	var out finding.Report
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		rest, ours := strings.CutPrefix(name, "LAUNCH_")
		if !ours || slices.Contains(known, rest) {
			continue
		}
		if s := spelling.Closest(rest, known); s != "" {
			out = append(out, finding.Warnf("%s is not read: launch has no such variable", name).Named("job.variable").
				Do("did you mean LAUNCH_%s?", s))
		}
	}
	return out
}
