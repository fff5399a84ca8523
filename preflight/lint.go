package preflight

import (
	"slices"
	"strings"

	"launch/internal/finding"
)

// ifnamePrefix begins the IDs of the lint's findings about variables that name
// an interface.
const ifnamePrefix = "env.ifname."

// ofLint is the check that takes over a finding of the lint.
func LintCheck(id string) string {
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
		case len(o.Only) == 0 || slices.Contains(o.Only, f.ID) || slices.Contains(o.Only, LintCheck(f.ID)):
			lint = append(lint, f)
		}
	}
	in.Lint = lint
	for _, id := range o.Only {
		if slices.Contains(in.LintIDs, id) {
			o.Only = append(slices.Clone(o.Only), LintCheck(id))
		}
	}
	return o, in
}
