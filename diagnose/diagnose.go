// Package diagnose finds why a job does not run, from the data in its store. The job
// may have been started on another machine.
package diagnose

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"launch/internal/finding"
)

// Node is one node in the store.
type Node struct {
	Rank  int    // in the sealed world, or the wanted one; -1: unknown
	Name  string // for people
	Here  bool   // its lease is alive
	Lost  bool   // gone: its launch has not said that its command ended
	Bad   bool   // gone: its command ended with a status other than 0, which the name has
	Spare bool   // of a job with standby nodes
	Phase string // arrived, started; ended: its command has ended, others may run
}

// Evidence is the store's data about one job.
type Evidence struct {
	State    string // of the epoch: "", open, sealed, started, over (only of a job with restarts)
	Why      string // open: why it opened again; over: which node failed or was lost, "" if all ended well
	Restarts int    // allowed
	Want     int    // nodes expected; 0: unknown
	Min      int    // nodes enough to start; 0: Want
	Nodes    []Node // of the sealed world, and those that wait
	Missing  []int  // indexes that have not joined, if the job has indexes
	Unfit    string // open: which nodes are unfit, and why
}

// Start returns the findings about a job's start.
func Start(e Evidence) finding.Report {
	var g leavers
	var here, silent, waiting, spare []string
	for _, n := range e.Nodes {
		switch {
		case !n.Here:
			g.add(n)
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
				Breaking("the other nodes wait for it or for a replacement").
				Do("fix that node, then start launch there with the same line"))
		}
		return append(r, open(e))
	case "sealed":
		return finding.Report{finding.Warnf("the ranks are agreed on, and the nodes are about to start").
			Named("start.decide").
			Do("look again in a few seconds; a node that does not reach node rank 0 reports that in its own output")}
	case "over":
		r = finding.Report{over(e, here)}
	default:
		r = started(e, g, silent)
	}
	if len(spare) > 0 {
		r = append(r, finding.Passf("standby nodes: %s", strings.Join(spare, ", ")).Named("start.spare"))
	}
	if len(waiting) > 0 {
		r = append(r, finding.Warnf("no place in this run, waiting until it ends: %s", strings.Join(waiting, ", ")).
			Named("start.surplus").
			Do("end it there, or give its job another name: --job"))
	}
	return r
}

// leavers are the nodes of a run that are not here any more.
type leavers struct{ lost, ended, bad []string }

func (a *leavers) add(n Node) {
	if n.Lost {
		a.lost = append(a.lost, label(n))
		return
	}
	if a.ended = append(a.ended, label(n)); n.Bad {
		a.bad = append(a.bad, label(n))
	}
}

// started returns the findings about a run that may start.
func started(e Evidence, gone leavers, silent []string) (r finding.Report) {
	if len(silent) > 0 {
		r = append(r, finding.Warnf("may start, but has not reported it: %s", strings.Join(silent, ", ")).
			Named("start.silent").
			Breaking("the other nodes wait for it in their first collective").Do("look at the output of launch there"))
	}
	if len(gone.lost) > 0 {
		r = append(r, finding.Warnf("lost: %s: launch there no longer reports to the store",
			strings.Join(gone.lost, ", ")).Named("start.lost").
			Breaking("the other nodes wait for it; its host or its network has failed, or its launch was killed").
			Do("on that host: does it run, and does it reach the store's host? on another node: launch doctor\n"+
				"then end the job on the other nodes and start again"))
	}
	switch {
	case len(gone.ended) == e.Want && len(gone.bad) > 0:
		r = append(r, finding.Warnf("all %d nodes have ended, some with an error: %s",
			e.Want, strings.Join(gone.bad, ", ")).Named("start.ended").
			Do("look at the end of the command's output there"))
	case len(gone.ended) == e.Want:
		r = append(r, finding.Passf("all %d nodes have ended", e.Want).Named("start.ended"))
	case len(gone.ended) > 0:
		r = append(r, finding.Warnf("ended: %s", strings.Join(gone.ended, ", ")).Named("start.gone").
			Breaking("unless the job is ending, the other nodes wait for it").
			Do("look at the end of the command's output there; if it failed, end the other nodes and start again"))
	case len(silent)+len(gone.lost) == 0:
		r = append(r, finding.Passf("all %d nodes have started", e.Want).Named("start.running"))
	}
	return r
}

// over returns the finding about a run with restarts that has ended.
func over(e Evidence, here []string) finding.Finding {
	left := ""
	if len(here) > 0 {
		left = "; still ending: " + strings.Join(here, ", ")
	}
	if e.Why == "" {
		return finding.Passf("the commands of all %d nodes have ended without an error%s", e.Want, left).
			Named("start.ended")
	}
	return finding.Failf("the job has failed: %s; no restarts left (--restarts %d)%s", e.Why, e.Restarts, left).
		Named("start.failed").
		Do("look at the end of the command's output there")
}

// open returns the finding about a job that gathers its nodes.
func open(e Evidence) finding.Finding {
	have := 0
	for _, n := range e.Nodes {
		if n.Here {
			have++
		}
	}
	if e.Want == 0 && have == 0 {
		return finding.Warnf("no node has joined yet").Named("start.missing").Do("start launch on the nodes")
	}
	want, which := strconv.Itoa(e.Want), ""
	switch {
	case have == 0:
		return finding.Warnf("no node is registered").Named("start.missing").Do("start launch on the nodes")
	case e.Min > 0 && have >= e.Min:
		return finding.Passf("%d of up to %d nodes joined, enough to start after the last call", have, e.Want).
			Named("start.enough")
	case e.Min == 0 && have >= e.Want:
		return finding.Warnf("all %d nodes joined, the ranks are not agreed on yet", e.Want).Named("start.decide").
			Do("look again in a few seconds")
	case e.Min > 0:
		want = fmt.Sprintf("at least %d", e.Min)
	case len(e.Missing) > 0:
		which = ": node " + finding.Join(e.Missing, strconv.Itoa)
	}
	do := "start launch there with the same line, and check that it reaches the store"
	if e.Unfit != "" { // the finding before this one says which node, and why
		do = "fix the unfit node; on a node that has not tried: " + do
	}
	return finding.Warnf("%d of %s nodes joined, %d missing%s", have, want, max(cmp.Or(e.Min, e.Want)-have, 0),
		which).Named("start.missing").
		Breaking("the other nodes wait until their --join-timeout").Do("%s", do)
}

// label returns the rank and name of a node.
func label(n Node) string {
	if n.Rank < 0 {
		return n.Name
	}
	return fmt.Sprintf("node rank %d %s", n.Rank, n.Name)
}
