// Package diagnose says why a job does not run: evidence in, verdict out. So
// far the evidence is what the store knows of a start; nothing in it needs the
// job to have been started from here.
package diagnose

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"launch/internal/finding"
)

// Node is one node as the store knows it.
type Node struct {
	Rank  int    // in the sealed world, or the wanted one; -1: none yet
	Name  string // for people
	Here  bool   // its lease is alive
	Bad   bool   // gone: its command ended with another status than 0; the name says which
	Spare bool   // of a job that has some to spare
	Phase string // arrived, started; ended: its command has, and others may not have
}

// Evidence is what the store knows of one job.
type Evidence struct {
	State    string // of the epoch: "", open, sealed, started, over (only of a job with restarts)
	Why      string // open: why it was opened again; over: who failed or was lost, "" where all commands ended well
	Restarts int    // how many there might be
	Want     int    // nodes expected; 0: nobody said yet
	Min      int    // so many are enough; 0: Want
	Nodes    []Node // of the sealed world, and who waits beside it
	Missing  []int  // indexes that have not come, where indexes are used
	Unfit    string // open: which nodes have said that they are not fit, and why
}

// Start judges a job's start by what the store knows.
func Start(e Evidence) finding.Report {
	var gone, bad, here, silent, waiting, spare []string
	for _, n := range e.Nodes {
		switch {
		case !n.Here:
			if gone = append(gone, label(n)); n.Bad {
				bad = append(bad, label(n))
			}
		case n.Rank < 0 && n.Spare:
			spare = append(spare, n.Name)
		case n.Rank < 0:
			waiting = append(waiting, n.Name)
		default:
			here = append(here, label(n))
			if n.Phase == "arrived" {
				silent = append(silent, label(n))
			}
		}
	}
	var r finding.Report
	switch e.State {
	case "", "open":
		if e.Why != "" {
			r = append(r, finding.Skipf("opened again: %s", e.Why).Named("start.again"))
		}
		if e.Unfit != "" {
			r = append(r, finding.Warnf("%s", e.Unfit).Named("start.unfit").
				Breaking("the others wait for it, or another in its place").Do("mend it there, and start launch with the same line again"))
		}
		return append(r, open(e))
	case "sealed":
		return finding.Report{finding.Warnf("the ranks are agreed on, the start is being decided").Named("start.decide").
			Do("look again: this takes seconds; a node that does not reach rank 0 says so in its own output")}
	case "over":
		r = finding.Report{over(e, here)}
	default:
		r = started(e, gone, bad, silent)
	}
	if len(spare) > 0 {
		r = append(r, finding.Passf("spare, and waiting for a place: %s", strings.Join(spare, ", ")).Named("start.spare"))
	}
	if len(waiting) > 0 {
		r = append(r, finding.Warnf("no place in this run, waiting for its end: %s", strings.Join(waiting, ", ")).Named("start.surplus").
			Do("end it there, or give that job another name: --job"))
	}
	return r
}

// started judges a run whose nodes have been told that they may start.
func started(e Evidence, gone, bad, silent []string) (r finding.Report) {
	if len(silent) > 0 {
		r = append(r, finding.Warnf("may start, but has not said so: %s", strings.Join(silent, ", ")).Named("start.silent").
			Breaking("the others wait for it in their first collective").Do("look at the output of launch there"))
	}
	switch {
	case len(gone) == e.Want && len(bad) > 0:
		r = append(r, finding.Warnf("all %d nodes have ended, and not all well: %s", e.Want, strings.Join(bad, ", ")).Named("start.ended").
			Do("look at the end of the command's output there"))
	case len(gone) == e.Want:
		r = append(r, finding.Passf("all %d nodes have ended", e.Want).Named("start.ended"))
	case len(gone) > 0:
		r = append(r, finding.Warnf("ended, or lost: %s", strings.Join(gone, ", ")).Named("start.gone").
			Breaking("where it was not the job's own end, the nodes that are left wait for it").
			Do("look at the end of the command's output there; if it failed, end the rest and start again"))
	case len(silent) == 0:
		r = append(r, finding.Passf("all %d nodes have started", e.Want).Named("start.running"))
	}
	return r
}

// over judges a run with restarts that nothing follows.
func over(e Evidence, here []string) finding.Finding {
	left := ""
	if len(here) > 0 {
		left = "; still ending: " + strings.Join(here, ", ")
	}
	if e.Why == "" {
		return finding.Passf("the commands of all %d nodes have ended well%s", e.Want, left).Named("start.ended")
	}
	return finding.Failf("the job has failed: %s; no restart is left (--restarts %d)%s", e.Why, e.Restarts, left).Named("start.failed").
		Do("look at the end of the command's output there")
}

func open(e Evidence) finding.Finding {
	have := 0
	for _, n := range e.Nodes {
		if n.Here {
			have++
		}
	}
	if e.Want == 0 && have == 0 {
		return finding.Warnf("nobody has come yet").Named("start.missing").Do("start launch on the nodes")
	}
	want, who := strconv.Itoa(e.Want), ""
	switch {
	case have == 0:
		return finding.Warnf("nobody is here any more, and nobody waits").Named("start.missing").Do("start launch on the nodes")
	case e.Min > 0 && have >= e.Min:
		return finding.Passf("%d of up to %d nodes are here, enough to start after the last call", have, e.Want).Named("start.enough")
	case e.Min == 0 && have >= e.Want:
		return finding.Warnf("all %d nodes are here, the ranks are not agreed on yet", e.Want).Named("start.decide").
			Do("look again: this takes seconds")
	case e.Min > 0:
		want = fmt.Sprintf("at least %d", e.Min)
	case len(e.Missing) > 0:
		var out []string
		for _, i := range e.Missing {
			out = append(out, strconv.Itoa(i))
		}
		who = ": node " + strings.Join(out, ", ")
	}
	return finding.Warnf("%d of %s nodes are here, %d missing%s", have, want, max(cmp.Or(e.Min, e.Want)-have, 0), who).Named("start.missing").
		Breaking("the others wait until their --join-timeout").Do("start launch there with the same line; does it reach the store?")
}

func label(n Node) string {
	if n.Rank < 0 {
		return n.Name
	}
	return fmt.Sprintf("rank %d %s", n.Rank, n.Name)
}
