package peers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"launch/internal/finding"
	"launch/preflight"
)

// worthPosting limits the findings that one node posts to the others. inBrief and briefWords (characters) limit
// those of a start, where each node prints its own in full and reads all posts at once.
const (
	worthPosting = 16
	inBrief      = 3
	briefWords   = 120
)

// Problems returns the failures and warnings of a node's own report, the gravest first: what the others need.
func Problems(r finding.Report) finding.Report {
	out := slices.DeleteFunc(slices.Clone(r), func(f finding.Finding) bool {
		return f.Status != finding.Fail && f.Status != finding.Warn
	})
	slices.SortStableFunc(out, gravestFirst)
	return out[:min(len(out), worthPosting)]
}

func gravestFirst(a, b finding.Finding) int {
	return cmp.Compare(preflight.Gravity(b.Status), preflight.Gravity(a.Status))
}

// Brief returns Problems in under 500 bytes: without Breaks, Fix and how the node found the store, which it joined.
func Brief(r finding.Report) finding.Report {
	r = slices.DeleteFunc(Problems(r), func(f finding.Finding) bool { return strings.HasPrefix(f.ID, "store.") })
	var out finding.Report
	for _, f := range r[:min(len(r), inBrief)] {
		what := []rune(f.What)
		if len(what) > briefWords {
			what = append(what[:briefWords-1], '…')
		}
		out = append(out, finding.Finding{ID: f.ID, Status: f.Status, What: string(what)})
	}
	return out
}

// Elsewhere returns the merged findings of all nodes except one.
func Elsewhere(posts []Post, rank int) finding.Report {
	var ids []string
	for _, p := range posts {
		for _, f := range p.Local {
			if p.Rank != rank {
				ids = append(ids, f.ID)
			}
		}
	}
	out := slices.DeleteFunc(Merge(posts), func(f finding.Finding) bool { return !slices.Contains(ids, f.ID) })
	return out[:min(len(out), worthPosting)]
}

// Merge returns the nodes' findings about themselves: equal ones once, the gravest first, and of these the rarest.
func Merge(posts []Post) finding.Report {
	type shared struct {
		finding finding.Finding // of the first
		who     []Post
		what    []string
	}
	var all []*shared
	for _, p := range posts {
		for _, f := range p.Local {
			i := slices.IndexFunc(all, func(s *shared) bool {
				return s.finding.ID == f.ID && s.finding.Status == f.Status
			})
			if i < 0 {
				i, all = len(all), append(all, &shared{finding: f})
				all[i].finding.Seen = nil
			}
			s := all[i]
			s.who, s.what = append(s.who, p), append(s.what, f.What)
			for _, seen := range f.Seen {
				if len(s.finding.Seen) < finding.MaxSeen {
					s.finding.Seen = append(s.finding.Seen, finding.Seen{Where: p.Name + ": " + seen.Where, What: seen.What})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *shared) int {
		return cmp.Or(gravestFirst(a.finding, b.finding), cmp.Compare(len(a.who), len(b.who)))
	})
	var report finding.Report
	for _, s := range all {
		s.finding.What = together(namesOf(s.who), s.what, len(posts))
		report = append(report, s.finding.About(namesOf(s.who)))
	}
	return report
}

// together describes the nodes and their findings.
func together(names, what []string, n int) string {
	if !slices.ContainsFunc(what, func(w string) bool { return w != what[0] }) {
		switch {
		case len(names) == n && n > 1:
			return fmt.Sprintf("all %d nodes: %s", n, what[0])
		case len(names) > 1:
			return fmt.Sprintf("%d of %d nodes (%s): %s", len(names), n, finding.Some(names), what[0])
		}
		return names[0] + ": " + what[0]
	}
	const few = 4
	var parts []string
	for i := range min(few, len(names)) {
		parts = append(parts, names[i]+": "+what[i])
	}
	if more := len(names) - few; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d of %d nodes: %s", len(names), n, strings.Join(parts, "; "))
}
