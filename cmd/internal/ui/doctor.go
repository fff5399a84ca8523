package ui

import (
	"fmt"
	"io"
	"slices"
	"time"

	"launch/diagnose/logs"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// stateColours are the colours of what a job does.
var stateColours = map[verdict.State]string{verdict.Hung: "31", verdict.Open: "33", verdict.Slow: "33",
	verdict.Running: "32", verdict.NoJob: "2"}

// stateWords say what a job does.
var stateWords = map[verdict.State]string{
	verdict.Hung:    "the job hangs",
	verdict.Open:    "the job waits, and what was seen does not decide whether it hangs",
	verdict.Slow:    "the job is slow, and makes progress",
	verdict.Running: "the job runs: nothing stands still",
	verdict.NoJob:   "no rank, torchrun or mpirun was found on this node",
}

// Diagnosis writes what launch doctor says of one job, as data.
func (u *UI) Diagnosis(a verdict.Answer) { u.diagnosis(u.out, a, true) }

// Hang writes the verdict about a job that makes no progress, to Err.
func (u *UI) Hang(a verdict.Answer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clear()
	defer u.redraw()
	u.diagnosis(u.err, a, false)
}

func (u *UI) diagnosis(w io.Writer, a verdict.Answer, ranks bool) {
	head := stateWords[a.State]
	if a.Job != "" {
		head += " (" + a.Job + ")"
	}
	const indent = "                "
	u.print(w, "launch: "+u.paint(stateColours[a.State], fmt.Sprintf("%-8s", string(a.State))), indent, head)
	for i, v := range a.Why {
		if i == 0 || i < 4 {
			u.verdict(w, v)
		}
	}
	if n := len(a.Why) - 4; n > 0 {
		u.print(w, indent, indent, fmt.Sprintf("and %s; --json lists all", finding.Count(n, "further cause")))
	}
	if ranks {
		for i, l := range rankRows(a.Ranks) {
			u.print(w, indent+map[bool]string{true: "ranks   ", false: "        "}[i == 0], indent+"        ", l)
		}
	}
	for i, n := range a.Need {
		if i == 8 {
			u.print(w, indent, indent, fmt.Sprintf("and %d more; --json lists all", len(a.Need)-8))
			break
		}
		u.print(w, indent+"need    ", indent+"        ", n)
	}
}

func (u *UI) verdict(w io.Writer, v verdict.Verdict) {
	const indent = "                "
	u.print(w, indent+u.paint("1", "cause")+"   ", indent+"        ",
		fmt.Sprintf("%s: %s (%s)", v.Cause, v.Says, v.Sure))
	if !v.Since.IsZero() {
		u.print(w, indent+"since   ", indent+"        ", v.Since.Local().Format(time.DateTime))
	}
	for _, s := range v.Seen {
		u.print(w, indent+"seen    ", indent+"        ", s.Where+": "+s.What)
	}
	u.fix(w, indent+"fix     ", indent+"        ", v.Do)
}

// Logs writes what the logs of a job say, as data: the first failure, its cause, and what followed.
func (u *UI) Logs(r logs.Reading) {
	const indent = "                "
	state, head := "well", "the logs name no failure that launch knows"
	colour := "32"
	switch {
	case len(r.Verdicts) > 0:
		state, head, colour = "failed", "the logs say why", "31"
	case len(r.Open) > 0:
		state, head, colour = "open", "the logs show a failure, and do not decide its cause", "33"
	}
	u.print(u.out, "launch: "+u.paint(colour, fmt.Sprintf("%-8s", state)), indent, fmt.Sprintf("%s (%s, %s)", head,
		finding.Plural(r.Files, "file", "files"), finding.Plural(int(r.Lines), "line", "lines")))
	if f := r.First; f != nil {
		u.print(u.out, indent+"first   ", indent+"        ", firstFailure(*f))
	}
	for _, v := range r.Verdicts[:min(len(r.Verdicts), 4)] {
		u.verdict(u.out, v)
	}
	for _, l := range r.Open[:min(len(r.Open), 4)] {
		if said(r.Verdicts, l) {
			continue
		}
		u.print(u.out, indent+"open    ", indent+"        ", l.Family+": "+l.Says)
	}
	for _, c := range r.Cascade {
		u.print(u.out, indent+"then    ", indent+"        ", fmt.Sprintf("%s (%s%s)", c.Says,
			finding.Plural(c.Lines, "line", "lines"), ofRanks(c.Ranks)))
	}
	for _, p := range r.Passed {
		u.print(u.out, indent+"warning ", indent+"        ", p.Where+": "+p.Error+" (the program gave its results after it)")
	}
	for _, p := range r.Retried {
		u.print(u.out, indent+"warning ", indent+"        ",
			p.Where+": "+p.Error+" (the program tries again; a failure only where the job does not go on after it)")
	}
	for _, w := range r.Warned {
		u.print(u.out, indent+"warning ", indent+"        ",
			w.Seen[0].Where+": "+w.Says+" (a failure only where the job does not go on after it)")
	}
	for _, n := range r.Need() {
		u.print(u.out, indent+"need    ", indent+"        ", n)
	}
	if state == "well" && !r.Moved {
		u.print(u.out, indent+"need    ", indent+"        ",
			"if the job hangs, run launch doctor on its nodes: the logs show no step and no end of the job")
	}
	for _, g := range r.Gaps {
		u.print(u.out, indent+"unread  ", indent+"        ", g.Path+": "+g.Why)
	}
}

// said says whether a verdict has the sentence of a lead, which then only adds what to gather.
func said(all []verdict.Verdict, l logs.Lead) bool {
	return slices.ContainsFunc(all, func(v verdict.Verdict) bool { return v.Cause == l.Family && v.Says == l.Says })
}

// firstFailure says in one line who failed first, when, where and with what.
func firstFailure(f logs.Failure) string {
	who := "a process"
	switch {
	case f.Rank >= 0:
		who = fmt.Sprintf("rank %d", f.Rank)
	case f.Local >= 0:
		who = fmt.Sprintf("local rank %d", f.Local)
	}
	if f.Node != "" {
		who += " (" + f.Node + ")"
	}
	switch {
	case f.Time.IsZero():
	case f.Undated:
		who += " at " + f.Time.Format("01-02 15:04:05")
	default:
		who += " at " + f.Time.Format(time.DateTime)
	}
	text := fmt.Sprintf("%s, %s: %s", who, f.Where, f.Error)
	if f.At != "" {
		text += " (" + f.At + ")"
	}
	return text
}

func ofRanks(ranks []int) string {
	if len(ranks) == 0 {
		return ""
	}
	return " of " + finding.Noun(len(ranks), "rank") + " " + verdict.Spans(ranks)
}

// phaseWords say how far ranks have come.
var phaseWords = map[string]string{
	"before": "not in init_process_group", "dialing": "connecting to the store",
	"unanswered": "waiting for the store's answer",
	"counting":   "waiting for the other ranks to connect", "keys": "in init_process_group, waiting for other ranks",
	"mesh": "in init_process_group, connecting to other ranks", "inside": "in the script, after init_process_group",
	"collective": "in a collective", "group": "in new_group",
	"calling": "in torch.distributed.rpc", "program": "runs",
	"stopped": "stopped", "ended": "has ended",
	"gone": "not running", "unseen": "not seen", "": "cannot be read",
}

// rankRows lists ranks by node and phase, equal ones together.
func rankRows(all []verdict.Rank) (out []string) {
	type key struct{ node, phase, at string }
	var order []key
	ranks := map[key][]int{}
	for _, r := range all {
		k := key{r.Node, r.Phase, r.At}
		if ranks[k] == nil {
			order = append(order, k)
		}
		ranks[k] = append(ranks[k], r.Rank)
	}
	const most = 16
	for i, k := range order {
		if i == most {
			return append(out, fmt.Sprintf("and %d more; --json lists all", len(order)-most))
		}
		text := fmt.Sprintf("%s on %s: %s", verdict.Spans(ranks[k]), k.node, phaseWords[k.phase])
		if k.at != "" {
			text += ", at " + k.at
		}
		out = append(out, text)
	}
	return out
}
