package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/envgen"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/setting"
	"launch/rendezvous"
)

// Identity says in one line who this node is.
func Identity(j job.Job) string {
	var b strings.Builder
	fmt.Fprintf(&b, "job %s: %s", j.ID.V, Nodes(j.Nodes.V, j.Min))
	if j.Spares > 0 {
		fmt.Fprintf(&b, " and %d to spare", j.Spares)
	}
	if j.Index.Set {
		fmt.Fprintf(&b, ", this is node %d", j.Index.V)
	}
	fmt.Fprintf(&b, ", meeting at %s", strings.Join(j.Store.V.Endpoints, ","))
	return b.String()
}

// Nodes is how many nodes a job has, or how many are enough for it and wanted.
func Nodes(most, least int) string {
	if least > 0 {
		return fmt.Sprintf("%d to %d nodes", least, most)
	}
	return Plural(most, "node", "nodes")
}

// Plural is a number with the right word.
func Plural(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Event says what happened during a wait, or "" where it is only worth a
// status line.
func Event(e rendezvous.Event) string {
	switch e.Kind {
	case rendezvous.Left:
		return fmt.Sprintf("%s left: %s; waiting for it or another in its place", e.Member.Name(), e.Text)
	case rendezvous.Unfit:
		return Unfit(e.Unfit, 0) + "; waiting for it or another in its place"
	case rendezvous.Conflict:
		return fmt.Sprintf("%s has the same node rank as this node: %s", e.Member.Name(), e.Text)
	case rendezvous.Late:
		return e.Text
	case rendezvous.Spare:
		return fmt.Sprintf("the job has its %d nodes; this one is spare, and waits to take the place of one that is lost", e.Size)
	case rendezvous.Lost:
		return "the store does not answer: " + e.Text + "; trying on"
	case rendezvous.Back:
		return "the store answers again"
	case rendezvous.Waiting:
		return fmt.Sprintf("the last run of this job still runs on %s; waiting for its end", Names(e.Have, len(e.Have)))
	case rendezvous.Progress:
		a := *e.Attendance
		if a.Min > 0 && a.Come >= a.Min {
			return fmt.Sprintf("%d of up to %d nodes are here, enough to start; last call for more", a.Come, a.Want)
		}
		text := fmt.Sprintf("%d of %s nodes are here, %s", a.Come, Wanted(a), Missing(a, nil))
		if len(a.Unfit) > 0 {
			text += "; " + Unfit(a.Unfit, a.More) + "; waiting for it or another in its place"
		}
		return text
	}
	return ""
}

// Unfit says which nodes are not fit, and why: those with one reason together.
// more is how many there are besides.
func Unfit(notes []rendezvous.Note, more int) string {
	var texts, out []string
	who := map[string][]string{}
	for _, n := range notes {
		if who[n.Text] == nil {
			texts = append(texts, n.Text)
		}
		who[n.Text] = append(who[n.Text], n.Name)
	}
	for _, text := range texts {
		names, are := who[text], "are"
		if len(names) == 1 {
			are = "is"
		}
		out = append(out, fmt.Sprintf("%s %s not fit: %s", Names(names, len(names)), are, text))
	}
	if more > 0 {
		out = append(out, Plural(more, "more is not", "more are not"))
	}
	return strings.Join(out, "; ")
}

// Wanted is how many nodes a start needs.
func Wanted(a rendezvous.Attendance) string {
	if a.Min > 0 {
		return fmt.Sprintf("at least %d", a.Min)
	}
	return strconv.Itoa(a.Want)
}

// Missing names who has not come: by index where indexes are used, with the
// scheduler's host name where one is known, else by number and who is here.
func Missing(a rendezvous.Attendance, hosts []string) string {
	n := max(cmp.Or(a.Min, a.Want)-a.Come, 0)
	if len(a.Missing) == 0 {
		return fmt.Sprintf("%d missing (here: %s)", n, Names(a.Here, a.Come))
	}
	var out []string
	for _, i := range a.Missing {
		s := strconv.Itoa(i)
		if i < len(hosts) {
			s += " (" + hosts[i] + ")"
		}
		out = append(out, s)
	}
	if more := n - len(a.Left) - len(a.Missing); more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return "missing: node " + strings.Join(out, ", ")
}

// Names lists nodes for people, the first of n.
func Names(all []string, n int) string {
	const few = 8
	var out []string
	out = append(out, all[:min(few, len(all))]...)
	if more := n - len(out); more > 0 && len(out) > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	if len(out) == 0 {
		return "nobody"
	}
	return strings.Join(out, ", ")
}

// All is how many nodes came of those that were wanted.
func All(came, want int) string {
	if came < want {
		return fmt.Sprintf("%d of up to %d", came, want)
	}
	return fmt.Sprintf("all %d", want)
}

// World says in one line what was agreed.
func World(w rendezvous.World, took time.Duration) string {
	m := w.Master
	return fmt.Sprintf("%s nodes are here after %s; this is node rank %d, rank 0 is %s port %d",
		All(w.Size, w.Self.Size), round(took), w.Rank, m.Name(), m.Port)
}

// Dry prints what a start would be: identity with sources, plan with reasons,
// argv before and after.
func (u *UI) Dry(j job.Job, local finding.Report, plan envgen.Plan, command launcher.Exec) {
	if u.json {
		return
	}
	const wide = "                   "
	row := func(name, value, from string) {
		u.print(u.out, fmt.Sprintf("  %-16s ", name), wide, strings.TrimSpace(fmt.Sprintf("%-28s %s", value, from)))
	}
	list := func(prefix, text string) { u.print(u.out, prefix, "      ", text) }
	u.Print("identity\n")
	rows(j, row)
	if len(j.Notes) > 0 {
		u.Print("notes\n")
		for _, f := range j.Notes {
			u.print(u.out, fmt.Sprintf("  %-4s ", f.Status), "       ", f.What)
			if f.Fix != "" {
				u.print(u.out, "       fix  ", "            ", f.Fix)
			}
		}
	}
	u.Print("checks\n")
	looked, skipped := apart(local)
	for _, f := range looked {
		head := fmt.Sprintf("  %-4s %-*s  ", f.Status, idWidth(looked), f.ID)
		u.print(u.out, head, strings.Repeat(" ", len(head)), f.What)
		if f.Fix != "" && (f.Status == finding.Fail || f.Status == finding.Warn) {
			u.print(u.out, "       fix  ", "            ", f.Fix)
		}
	}
	for _, f := range skipped {
		u.print(u.out, "  skip ", "       ", f.What+": "+f.ID)
	}
	u.Print("plan\n")
	vars := slices.Concat(command.Set, plan)
	for _, v := range vars {
		list("  ", Var(v))
	}
	for _, v := range command.Unset {
		list("  ", fmt.Sprintf("unset %s   # %s", v.Name, v.Reason))
	}
	if len(vars)+len(command.Unset) == 0 {
		list("  ", "nothing: the libraries do the right thing by themselves")
	}
	u.Print("command\n")
	u.Print("  before  " + launcher.Quote(j.Line.Argv) + "\n  after   " + launcher.Quote(command.Argv) + "\n") // one line each, to paste
	for _, c := range changes(command.Changes) {
		list("  ", c)
	}
	for _, n := range command.Notes {
		list("  ", "note: "+n)
	}
}

func rows(j job.Job, row func(name, value, from string)) {
	from := func(s setting.Source) string {
		if s.Name == "" {
			return ""
		}
		return "from " + s.Name
	}
	row("job", j.ID.V, from(j.ID.From))
	nodes := rendezvous.Count(j.Nodes.V, j.Min)
	if j.Spares > 0 {
		nodes += fmt.Sprintf(" and %d to spare", j.Spares)
	}
	row("nodes", nodes, from(j.Nodes.From))
	switch {
	case j.Index.Set:
		row("node rank", strconv.Itoa(j.Index.V), from(j.Index.From))
	case j.Several():
		row("node rank", launcher.Unknown, "by arrival")
	}
	if j.Several() {
		kind := "external etcd"
		if j.Store.V.Embedded {
			kind = "embedded"
		}
		row("store", strings.Join(j.Store.V.Endpoints, ","), strings.TrimSpace(kind+" "+from(j.Store.From)))
	}
	if j.NProc.Set {
		row("processes", j.NProc.V, "per node, "+from(j.NProc.From))
	}
	if j.Addr.Set {
		row("address", j.Addr.V, from(j.Addr.From))
	}
}

// Var is one variable of the plan with its reason.
func Var(v setting.Var) string {
	if v.Kept {
		return fmt.Sprintf("%s=%s   # yours, from %s; launch would set %s: %s", v.Name, v.User, v.From, v.Value, v.Reason)
	}
	return fmt.Sprintf("%s=%s   # %s", v.Name, v.Value, v.Reason)
}

// changes are the differences of a line, their reasons in a column; a long
// difference does not push the others' to the right.
func changes(all []launcher.Change) []string {
	const widest = 40
	out := make([]string, len(all))
	wide := 0
	for i, c := range all {
		switch {
		case c.Old == "":
			out[i] = "+ " + c.New
		case c.New == "":
			out[i] = "- " + c.Old
		default:
			out[i] = "~ " + c.Old + " -> " + c.New
		}
		if len(out[i]) <= widest {
			wide = max(wide, len(out[i]))
		}
	}
	for i, c := range all {
		out[i] = fmt.Sprintf("%-*s  %s", wide, out[i], c.Reason)
	}
	return out
}

// Plan tells, once a job, what is set and what was changed.
func (u *UI) Plan(p envgen.Plan, notes []string) {
	for _, v := range p {
		u.Note("%s", Var(v))
	}
	for _, n := range notes {
		u.Note("%s", n)
	}
}
