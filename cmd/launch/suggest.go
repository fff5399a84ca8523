package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/spelling"
)

// badValue is how the flag package, and the cli package for variables, say that
// a value is none: the value, the variable if it is one's, the flag.
var badValue = regexp.MustCompile(`^(?:invalid (?:boolean )?value|could not parse) ("(?:[^"\\]|\\.)*") (?:as .* from environment variable ("[A-Z_]+") )?for (?:flag )?-?([a-z-]+):`)

// usageError turns what the flag package says into words and a suggestion.
func (a *app) usageError(_ *cli.Context, err error, _ bool) error {
	e := &exit.Error{Code: exit.Usage, What: err.Error(), Fix: a.called() + " --help lists the flags"}
	if m := badValue.FindStringSubmatch(err.Error()); m != nil {
		return badValueError(m[1], strings.Trim(m[2], `"`), m[3])
	}
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		a.unknownFlag(e, strings.TrimLeft(name, "-"))
	} else if name, ok := strings.CutPrefix(err.Error(), "flag needs an argument: -"); ok {
		e.What = fmt.Sprintf("--%s needs a value", strings.TrimLeft(name, "-"))
	}
	return e
}

// badValueError shows what a flag of this type takes.
func badValueError(value, variable, name string) error {
	from, equals := "--"+name, " "
	if variable != "" {
		from, equals = variable, "="
	}
	e := &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s: %s is not a value for it", from, value)}
	for _, f := range flagTable(&options{}) {
		if f.Names()[0] != name {
			continue
		}
		switch f.(type) {
		case *cli.DurationFlag:
			e.Fix = from + equals + "90s, 10m or 1h30m"
		case *cli.IntFlag:
			e.Fix = from + equals + "3"
		case *cli.BoolFlag:
			if e.Fix = from + ", or " + from + "=false"; variable != "" {
				e.Fix = from + "=1 or " + from + "=0"
			}
		}
	}
	return e
}

// unknownFlag says it as it was typed: one that another of launch's words
// takes, or one that is like one.
func (a *app) unknownFlag(e *exit.Error, name string) {
	typed := "--" + name
	for _, w := range a.own {
		if word, _, _ := strings.Cut(w, "="); strings.TrimLeft(word, "-") == name {
			typed = word
		}
	}
	if _, own := ownFlags()[name]; own {
		e.What = fmt.Sprintf("%s means nothing to %s", typed, a.called())
		if a.word == "" {
			e.What, e.Fix = typed+" means nothing to a start", "launch status "+typed+" --store HOST   # from another terminal"
		}
		return
	}
	e.What = "unknown flag " + typed
	known := []string{"help", "version"}
	for name := range ownFlags() {
		known = append(known, name)
	}
	slices.Sort(known) // the same suggestion every time
	if s := spelling.Closest(name, known); s != "" {
		if e.Fix = fmt.Sprintf("did you mean --%s?", s); a.takesCommand() {
			e.Fix += " (the command's own flags go behind the command)"
		}
	}
}

// takesCommand tells whether a command may follow.
func (a *app) takesCommand() bool { return a.word == "" || a.word == "check" || a.word == "env" }

// called is how this part of launch is called.
func (a *app) called() string { return strings.TrimSpace("launch " + a.word) }

// meantForLaunch asks, where the command is not found, whether it was to be one
// of launch's own words.
func meantForLaunch(err error, command string) error {
	f, ok := errors.AsType[*exit.Error](err)
	if !ok || f.Code != exit.NotFound {
		return err
	}
	starters := []string{"torchrun", "mpirun", "mpiexec", "srun", "python", "python3"}
	var known []string
	for _, s := range (&app{}).subcommands() {
		known = append(known, s.Name)
	}
	if s := spelling.Closest(command, known); s != "" {
		f.Fix = strings.TrimSpace("did you mean launch " + s + "?\n" + f.Fix)
	} else if s := spelling.Closest(command, starters); s != "" {
		if _, err := lookPath(s); err == nil {
			f.Fix = strings.TrimSpace("did you mean " + s + "?\n" + f.Fix)
		}
	}
	return f
}

// misnamed warns of variables that are meant for launch, as it seems, and are
// not read: LAUNCH_NNOES. Others may have a LAUNCH_ of their own, so only what
// is near one of launch's counts.
func misnamed(environ []string) finding.Report {
	known := []string{"TOKEN", "STORE_PASSWORD"}
	for name := range ownFlags() {
		known = append(known, strings.TrimPrefix(env(name)[0], "LAUNCH_"))
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
