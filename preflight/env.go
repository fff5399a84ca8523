package preflight

import (
	"context"
	"slices"
	"strings"

	"launch/internal/finding"
)

// ifnamePrefix begins the IDs of the lint's findings about variables that name
// an interface.
const ifnamePrefix = "env.ifname."

// envChecks take over what the lint of the inherited settings found, each
// finding with the lint's own ID, so that it can be looked up.
func envChecks() []Check {
	return []Check{{
		ID: "env.interfaces", Limit: computed,
		Title: "the interfaces that inherited variables name exist on this node",
		Doc:   "A name that was right on the machine where the script was written (eth0) stops NCCL or Gloo on another one.",
		Run: inherited("no inherited variable names a wrong interface",
			func(id string) bool { return ofLint(id) == "env.interfaces" }),
	}, {
		ID: "env.harmful", Limit: computed,
		Title: "no inherited variable is known to be harmful here",
		Doc:   "Settings outlive the machine and the bug that they were made for, and are copied from script to script. docs/env.md has each with its own ID, which --skip takes too.",
		Run: inherited("no inherited variable is known to be harmful",
			func(id string) bool { return ofLint(id) == "env.harmful" }),
	}}
}

// ofLint is the check that takes over a finding of the lint.
func ofLint(id string) string {
	if strings.HasPrefix(id, ifnamePrefix) {
		return "env.interfaces"
	}
	return "env.harmful"
}

// ofLint has the lint's own IDs among those that were chosen count: what is
// switched off is a skip, and of what is alone wanted the check runs with that only.
func (o Options) ofLint(in Input) (Options, Input) {
	var lint []finding.Finding
	for _, f := range in.Lint {
		switch {
		case slices.Contains(o.Skip, f.ID):
			lint = append(lint, finding.Skipf("switched off by the user").Named(f.ID))
		case len(o.Only) == 0 || slices.Contains(o.Only, f.ID) || slices.Contains(o.Only, ofLint(f.ID)):
			lint = append(lint, f)
		}
	}
	in.Lint = lint
	for _, id := range o.Only {
		if slices.Contains(in.LintIDs, id) {
			o.Only = append(slices.Clone(o.Only), ofLint(id))
		}
	}
	return o, in
}

func inherited(pass string, mine func(id string) bool) func(context.Context, Input) []finding.Finding {
	return func(_ context.Context, in Input) []finding.Finding {
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
