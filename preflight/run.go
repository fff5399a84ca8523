package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"launch/internal/finding"
	"launch/internal/spelling"
)

// Options select checks. The zero value runs them all.
type Options struct {
	Skip     []string // IDs to report as skipped
	Only     []string // IDs to run; the report leaves the others out
	WarnOnly bool     // report failures as warnings
	More     []Check  // the user's own checks, after those of the table
}

// grace is the time that a check has, once its limit is over, to report what it knows.
const grace = 250 * time.Millisecond

// result is the outcome of a check, valid once done is closed.
type result struct {
	done     chan struct{}
	findings []finding.Finding
	// failed is the ID of the check at the root: this one if it failed, or the one whose failure made it a skip.
	failed string
}

// Run runs the checks of a table and those of opt.More in parallel, each within its own limit, and
// reports in the order of the table. A check is a skip where one of its Needs failed, so one cause
// is reported once. A check without a Run only makes its ID valid in opt. The error is an unknown
// ID or the cause that ended ctx; a failed check is no error.
func Run(ctx context.Context, table []Check, in Input, opt Options) (finding.Report, error) {
	if err := opt.Known(table, in.LintIDs); err != nil {
		return nil, err
	}
	table = slices.Concat(table, opt.More)
	opt, in = opt.ofLint(in)
	table = slices.DeleteFunc(table, func(c Check) bool {
		return c.Run == nil || len(opt.Only) > 0 && !slices.Contains(opt.Only, c.ID)
	})
	results := map[string]*result{}
	for _, c := range table {
		results[c.ID] = &result{done: make(chan struct{})}
	}
	for _, c := range table {
		r := results[c.ID]
		go func() {
			defer close(r.done)
			if slices.Contains(opt.Skip, c.ID) {
				r.findings = []finding.Finding{finding.Skipf("switched off by the user").Named(c.ID)}
				return
			}
			r.findings, r.failed = after(ctx, c, in, results)
		}()
	}
	var report finding.Report
	for _, c := range table {
		<-results[c.ID].done
		report = append(report, results[c.ID].findings...)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("check this node: %w", context.Cause(ctx))
	}
	if opt.WarnOnly {
		Waive(report)
	}
	return report, nil
}

// Waive makes warnings of the failures in a report.
func Waive(r finding.Report) {
	for i := range r {
		if r[i].Status == finding.Fail {
			r[i].Status = finding.Warn
		}
	}
}

// after runs a check once those that it needs have ended. One that is left out or switched off does not count.
func after(ctx context.Context, c Check, in Input, results map[string]*result) (found []finding.Finding,
	failed string) {
	for _, id := range c.Needs {
		r, ok := results[id]
		if !ok {
			continue
		}
		<-r.done
		if r.failed != "" {
			return []finding.Finding{finding.Skipf("needs %s", r.failed).Named(c.ID)}, r.failed
		}
	}
	found = bounded(ctx, c, in)
	if finding.Report(found).Worst() == finding.Fail {
		failed = c.ID
	}
	return found, failed
}

// Broken is the finding of a check that panicked with p: it learned nothing.
func Broken(p any) finding.Finding {
	return finding.Skipf("could not tell: the check itself is broken (%v)", p)
}

// bounded runs a check within its limit. A check that overruns or panics learned nothing about the node, so it is
// a skip. A check that ignores the end of its context is abandoned: it must not delay the job.
func bounded(ctx context.Context, c Check, in Input) []finding.Finding {
	limit := cmp.Or(c.Limit, Computed)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found := make(chan []finding.Finding, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				found <- []finding.Finding{Broken(p)}
			}
		}()
		if c.Unless != nil {
			if why := c.Unless(in); why != "" {
				found <- finding.Skips(why)
				return
			}
		}
		found <- c.Run(ctx, in)
	}()
	select {
	case fs := <-found:
		for i := range fs {
			fs[i].ID = cmp.Or(fs[i].ID, c.ID)
		}
		return fs
	case <-time.After(limit + grace):
		return []finding.Finding{finding.Skipf("could not tell: did not finish within %v", limit).Named(c.ID)}
	}
}

// UnknownError reports an ID that no check has.
type UnknownError struct {
	ID    string
	Meant string // the ID that was most likely meant, or ""
}

func (e *UnknownError) Error() string {
	if e.Meant != "" {
		return fmt.Sprintf("no check %q, did you mean %q?", e.ID, e.Meant)
	}
	return fmt.Sprintf("no check %q; \"launch check\" lists the checks of a node, docs/checks.md lists all", e.ID)
}

// Known returns an *UnknownError for an ID that is neither in the table nor in lint, the IDs of envgen's findings.
func (o Options) Known(table []Check, lint []string) error {
	all := append(finding.Map(slices.Concat(table, o.More), func(c Check) string { return c.ID }), lint...)
	for _, id := range slices.Concat(o.Skip, o.Only) {
		if !slices.Contains(all, id) {
			return &UnknownError{id, spelling.Closest(id, all)}
		}
	}
	return nil
}
