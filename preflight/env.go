package preflight

import (
	"context"
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
			func(id string) bool { return strings.HasPrefix(id, ifnamePrefix) }),
	}, {
		ID: "env.harmful", Limit: computed,
		Title: "no inherited variable is known to be harmful here",
		Doc:   "Settings outlive the machine and the bug that they were made for, and are copied from script to script.",
		Run: inherited("no inherited variable is known to be harmful",
			func(id string) bool { return !strings.HasPrefix(id, ifnamePrefix) }),
	}}
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
