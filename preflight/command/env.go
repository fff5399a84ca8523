package command

import (
	"context"

	"launch/internal/finding"
	"launch/preflight"
)

// envChecks report the findings of the lint in the inherited settings, each with the
// ID that the lint gives it.
func envChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "env.interfaces", Limit: preflight.Computed,
		Title: "the interfaces that inherited variables name exist on this node",
		Doc: "An interface name that was right on the machine where a script was written (eth0) stops NCCL or Gloo " +
			"on another machine.",
		Run: inherited("no inherited variable names a wrong interface",
			func(id string) bool { return preflight.LintCheck(id) == "env.interfaces" }),
	}, {
		ID: "env.harmful", Limit: preflight.Computed, Title: "no inherited variable is known to be harmful here",
		Doc: "Settings outlive the machine and the bug that they were made for, and spread from script to script. " +
			"docs/env.md lists each with its own ID, which --skip takes, too.",
		Run: inherited("no inherited variable is known to be harmful",
			func(id string) bool { return preflight.LintCheck(id) == "env.harmful" }),
	}}
}

// inherited returns a Run that reports those findings of the lint that are its own.
func inherited(pass string, mine func(id string) bool) func(context.Context, preflight.Input) []finding.Finding {
	return func(_ context.Context, in preflight.Input) []finding.Finding {
		var out []finding.Finding
		for _, f := range in.Lint {
			if mine(f.ID) {
				out = append(out, f)
			}
		}
		if len(out) == 0 {
			out = append(out, finding.Passf("%s", pass))
		}
		return out
	}
}
