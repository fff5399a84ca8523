package preflight

import (
	"slices"
	"strings"

	"launch/internal/finding"
)

// ifnamePrefix starts the IDs of lint findings about variables that name an interface.
const ifnamePrefix = "env.ifname."

// LintCheck returns the ID of the check that reports a finding of the lint.
func LintCheck(id string) string {
	if strings.HasPrefix(id, ifnamePrefix) {
		return "env.interfaces"
	}
	return "env.harmful"
}

// ofLint applies Skip and Only to the IDs of the lint's findings: a skipped one becomes
// a skip, and one in Only runs the check that reports it, with that finding alone.
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
