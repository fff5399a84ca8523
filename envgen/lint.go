package envgen

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"

	"launch/internal/finding"
	"launch/internal/setting"
)

// lintRule is one way in which an inherited setting is harmful or useless.
type lintRule struct {
	id    string   // "env.…"; those about interfaces begin with "env.ifname."
	names []string // the variables that it checks; * as in path.Match
	what  string   // what it finds, for docs/env.md
	gone  bool     // no library reads these
	look  func(*view, setting.Decided) (finding.Finding, bool)
}

// Lint returns which of the settings in force (in.Decided) are harmful, obsolete or without effect
// on this machine, and which are missing, in the order of the tables. A Fail means that the job
// dies or hangs here. It is only for several nodes and a library that this node will use (NCCL with
// GPUs, Gloo without), so that a stale variable never stops a job that does not read it.
func Lint(in Input) []finding.Finding {
	v := look(in)
	var out []finding.Finding
	for _, r := range lintRules() {
		seen := map[string]bool{}
		for _, d := range in.Decided {
			if seen[d.Name] || !slices.ContainsFunc(r.names, func(p string) bool { return matches(p, d.Name) }) {
				continue
			}
			seen[d.Name] = true // the first of a name is in force
			if f, bad := r.look(v, d); bad {
				out = append(out, f.Named(r.id).See(d.From, "%s=%s", d.Name, d.Value))
			}
		}
	}
	for _, r := range lackRules() {
		if f, bad := r.look(v); bad {
			out = append(out, f.Named(r.id))
		}
	}
	return out
}

// LintIDs returns the IDs of all findings of Lint.
func LintIDs() []string {
	var out []string
	for _, r := range lintRules() {
		out = append(out, r.id)
	}
	for _, r := range lackRules() {
		out = append(out, r.id)
	}
	return out
}

func lintRules() []lintRule {
	return slices.Concat(ifnameLint(), ncclLint(), netLint(), libraryLint(), plainLint())
}

// none is the result of a rule without a finding.
func none() (finding.Finding, bool) { return finding.Finding{}, false }

// worst returns a Fail if the job is certain to die, else a Warn.
func worst(certain bool, format string, a ...any) finding.Finding {
	if certain {
		return finding.Failf(format, a...)
	}
	return finding.Warnf(format, a...)
}

// drop returns how to remove the setting where it is set.
func drop(d setting.Decided) string {
	if d.From == "environment" {
		return "unset " + d.Name
	}
	return "remove " + d.Name + " from " + d.From
}

// put returns how to replace the setting where it is set.
func put(d setting.Decided, value string) string {
	if d.From != "environment" {
		return "write " + d.Name + "=" + value + " in " + d.From
	}
	if quoted, err := syntax.Quote(value, syntax.LangPOSIX); err == nil {
		value = quoted
	}
	return "export " + d.Name + "=" + value
}
