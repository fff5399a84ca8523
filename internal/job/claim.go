package job

import (
	"fmt"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/setting"
)

// claim is what one source says about one value, not yet parsed. The zero
// claim is "said nothing".
type claim struct {
	raw  string
	from setting.Source
	set  bool
}

func (c claim) String() string { return c.from.Name + "=" + c.raw }

// explicit is the claim of a flag or LAUNCH_*.
func explicit(v setting.Value[string]) claim { return claim{v.V, v.From, v.Set} }

// choose takes the first claim that is set (they arrive in the order of their
// tiers) and notes those that say something else. same tells whether two
// values mean the same.
func choose[T any](what string, same func(a, b T) bool, parse func(claim) (T, error), claims ...claim) (setting.Value[T], []finding.Finding, error) {
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
			f := finding.Warnf("%s is not used: %s goes first", c, winner)
			if c.from.Tier == setting.Ambient { // nobody said it about this command
				f.Status = finding.Skip
			}
			notes = append(notes, f.Named("job."+what).See(c.from.Name, "%s", c.raw))
		}
	}
	return won, notes, nil
}

func equal[T comparable](a, b T) bool { return a == b }

func text(c claim) (string, error) { return c.raw, nil }

// refuse makes the error for a claim that cannot be read: a usage error where
// somebody typed it for this command, a configuration error where it was
// found in the environment.
func (c claim) refuse(fix, format string, a ...any) *exit.Error {
	code := exit.Config
	if c.from.Tier <= setting.Line {
		code = exit.Usage
	}
	return &exit.Error{Code: code, What: c.String() + ": " + fmt.Sprintf(format, a...), Fix: fix}
}
