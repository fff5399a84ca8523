package job

import (
	"fmt"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/setting"
)

// claim is one source's text for one value, not yet parsed. The zero claim is unset.
type claim struct {
	raw  string
	from setting.Source
	set  bool
}

func (c claim) String() string { return c.from.Name + "=" + c.raw }

// explicit returns the claim of a flag or LAUNCH_*.
func explicit(v setting.Value[string]) claim { return claim{v.V, v.From, v.Set} }

// scheduled returns the claim of a scheduler.
func scheduled(raw, name string) claim {
	return claim{raw, setting.Source{Tier: setting.Scheduler, Name: name}, true}
}

// derived returns a value that follows from others.
func derived[T any](v T, name string) setting.Value[T] {
	return setting.Value[T]{V: v, From: setting.Source{Tier: setting.Derived, Name: name}, Set: true}
}

// choose returns the first claim that is set, and a note for each that differs. The claims are in
// the order of their tiers. same reports whether two values are the same.
func choose[T any](what string, same func(a, b T) bool, parse func(claim) (T, error),
	claims ...claim) (setting.Value[T], []finding.Finding, error) {
	var won setting.Value[T]
	var winner claim
	var notes []finding.Finding
	for _, c := range claims {
		if !c.set {
			continue
		}
		v, err := parse(c)
		if !won.Set {
			if err != nil {
				return won, nil, err
			}
			won, winner = setting.Value[T]{V: v, From: c.from, Set: true}, c
			continue
		}
		if err != nil || !same(v, won.V) {
			f := finding.Warnf("%s is not used: %s takes precedence", c, winner)
			if c.from.Tier == setting.Ambient { // it was not set for this command
				f.Status = finding.Skip
			}
			notes = append(notes, f.Named("job."+what).See(c.from.Name, "%s", c.raw))
		}
	}
	return won, notes, nil
}

func equal[T comparable](a, b T) bool { return a == b }

func text(c claim) (string, error) { return c.raw, nil }

// refuse returns the error for an invalid claim: a usage error for a flag or the
// command line, a configuration error for the environment.
func (c claim) refuse(fix, format string, a ...any) *exit.Error {
	code := exit.Config
	if c.from.Tier <= setting.Line {
		code = exit.Usage
	}
	return exit.Errorf(code, "%s: %s", c, fmt.Sprintf(format, a...)).Do("%s", fix)
}

// contradiction returns a configuration error.
func contradiction(fix, format string, a ...any) *exit.Error {
	return exit.Errorf(exit.Config, format, a...).Do("%s", fix)
}
