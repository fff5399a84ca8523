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

// Identity returns the job and this node in one line.
func Identity(j job.Job) string {
	var b strings.Builder
	fmt.Fprintf(&b, "job %s: %s%s", j.ID.V, Nodes(j.Nodes.V, j.Min), standby(j.Spares))
	if j.Index.Set {
		fmt.Fprintf(&b, ", this is node %d", j.Index.V)
	}
	fmt.Fprintf(&b, ", store at %s", strings.Join(j.Store.V.Endpoints, ","))
	return b.String()
}

func standby(spares int) string {
	if spares == 0 {
		return ""
	}
	return fmt.Sprintf(", up to %d standby", spares)
}

// Nodes returns how many nodes a job has; of an elastic job, the least and the most.
func Nodes(most, least int) string {
	if least > 0 {
		return fmt.Sprintf("%d to %d nodes", least, most)
	}
	return finding.Plural(most, "node", "nodes")
}

const awaitsFix = "; waiting for a fix or a replacement"

// Event returns the line for an event of a wait; "" where the event is worth no line.
func Event(e rendezvous.Event) string {
	switch e.Kind {
	case rendezvous.Left:
		return fmt.Sprintf("%s left: %s; waiting for it or a replacement", e.Member.Name(), e.Text)
	case rendezvous.Unfit:
		return Unfit(e.Unfit, 0) + awaitsFix
	case rendezvous.Conflict:
		return fmt.Sprintf("%s has the same node rank as this node: %s", e.Member.Name(), e.Text)
	case rendezvous.Late, rendezvous.Gone, rendezvous.Failed:
		return e.Text
	case rendezvous.Spare:
		return fmt.Sprintf("all %d nodes joined; this is a standby node: it waits to replace a node that is lost", e.Size)
	case rendezvous.Lost:
		if len(e.Have) > 0 {
			return fmt.Sprintf("the store of the previous start of this job (%s) has ended; waiting for the store of a new "+
				"start", Names(e.Have, len(e.Have)))
		}
		return "the store does not answer: " + e.Text + "; retrying"
	case rendezvous.Back:
		return "the store answers again"
	case rendezvous.Waiting:
		on := Names(e.Have, len(e.Have))
		if e.Size > 0 {
			return fmt.Sprintf("all %d places of this job are taken (%s), this node is one too many: is it --nnodes %d? "+
				"waiting until the job ends", e.Size, on, e.Size+1)
		}
		return fmt.Sprintf("the previous start of this job still runs on %s; waiting until it ends", on)
	case rendezvous.Progress:
		a := *e.Attendance
		if a.Min > 0 && a.Joined >= a.Min {
			return fmt.Sprintf("%d of up to %d nodes joined, enough to start; waiting for more (--last-call)", a.Joined, a.Want)
		}
		text := fmt.Sprintf("%d of %s nodes joined; waiting for %s", a.Joined, Wanted(a), Missing(a, nil))
		if len(a.Unfit) > 0 {
			text += "; " + Unfit(a.Unfit, a.More) + awaitsFix
		}
		return text
	}
	return ""
}

// Left returns which nodes have joined and left and why, by reason, to follow another text; "" for none.
func Left(all []rendezvous.Member) string {
	whys, names := byText(len(all), func(i int) (string, string) { return all[i].Left, all[i].Name() })
	const few = 4
	text := ""
	for i, why := range whys {
		if i == few {
			return text + "; and others for other reasons"
		}
		text += fmt.Sprintf("; %s joined and left: %s", Names(names[why], len(names[why])), why)
	}
	return text
}

// byText returns the texts of n nodes, each once, and the names of those that have each.
func byText(n int, node func(i int) (text, name string)) (texts []string, names map[string][]string) {
	names = map[string][]string{}
	for i := range n {
		text, name := node(i)
		if names[text] == nil {
			texts = append(texts, text)
		}
		names[text] = append(names[text], name)
	}
	return texts, names
}

// Unfit returns which nodes are unfit and why, by reason. more is the number of those without a note.
func Unfit(notes []rendezvous.Note, more int) string {
	texts, names := byText(len(notes), func(i int) (string, string) {
		name := notes[i].Name
		if notes[i].First {
			name += ", which hosts the store,"
		}
		return notes[i].Text, name
	})
	var out []string
	for _, text := range texts {
		are := "are"
		if len(names[text]) == 1 {
			are = "is"
		}
		out = append(out, fmt.Sprintf("%s %s unfit: %s", Names(names[text], len(names[text])), are, text))
	}
	if more > 0 {
		out = append(out, finding.Plural(more, "more node is unfit", "more nodes are unfit"))
	}
	return strings.Join(out, "; ")
}

// Wanted returns how many nodes a start needs.
func Wanted(a rendezvous.Attendance) string {
	if a.Min > 0 {
		return fmt.Sprintf("at least %d", a.Min)
	}
	return strconv.Itoa(a.Want)
}

// Missing returns the nodes that have not joined: by index where nodes have indexes, with the scheduler's host name
// where one is known, else their number and the nodes that joined.
func Missing(a rendezvous.Attendance, hosts []string) string {
	n := max(cmp.Or(a.Min, a.Want)-a.Joined, 0)
	if len(a.Missing) == 0 {
		return fmt.Sprintf("%d more (joined: %s)", n, Names(a.Here, a.Joined))
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
	return "node " + strings.Join(out, ", ")
}

// Names lists the first few of n nodes.
func Names(all []string, n int) string {
	const few = 8
	out := slices.Clone(all[:min(few, len(all))])
	if len(out) == 0 {
		return "no node"
	}
	if more := n - len(out); more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}

// All returns how many of the wanted nodes joined.
func All(joined, want int) string {
	if joined < want {
		return fmt.Sprintf("%d of up to %d", joined, want)
	}
	return fmt.Sprintf("all %d", want)
}

// World returns the sealed world in one line.
func World(w rendezvous.World, took time.Duration) string {
	return fmt.Sprintf("%s nodes joined after %s; this is node rank %d; rank 0 is on %s, MASTER_PORT %d",
		All(w.Size, w.Self.Size), round(took), w.Rank, w.Master.Name(), w.Master.Port)
}

// Dry writes what a start would do, as data: the identity with its sources, the checks, the plan with its reasons, and
// the command before and after. With JSON lines, the record of the start replaces it.
func (u *UI) Dry(j job.Job, local finding.Report, plan envgen.Plan, command launcher.Exec) {
	if u.json {
		return
	}
	u.Print("identity\n")
	u.identity(j)
	if len(j.Notes) > 0 {
		u.Print("notes\n")
		for _, f := range j.Notes {
			u.print(u.out, fmt.Sprintf("  %-4s ", f.Status), "       ", f.What)
			u.fix(u.out, "       fix  ", "            ", f.Fix)
		}
	}
	u.Print("checks\n")
	looked, skipped := apart(local)
	for _, f := range looked {
		head := fmt.Sprintf("  %-4s %-*s  ", f.Status, idWidth(looked), f.ID)
		u.print(u.out, head, strings.Repeat(" ", len(head)), f.What)
		if f.Status == finding.Fail || f.Status == finding.Warn {
			u.fix(u.out, "       fix  ", "            ", f.Fix)
		}
	}
	for _, f := range skipped {
		u.print(u.out, "  skip ", "       ", f.What+": "+f.ID)
	}
	list := func(text string) { u.print(u.out, "  ", "      ", text) }
	u.Print("plan\n")
	vars := slices.Concat(command.Set, plan)
	for _, v := range vars {
		list(Var(v))
	}
	for _, v := range command.Unset {
		list(fmt.Sprintf("unset %s   # %s", v.Name, v.Reason))
	}
	if len(vars)+len(command.Unset) == 0 {
		list("nothing to set: the defaults of the libraries fit this node")
	}
	// one line each, to copy
	u.Print("command\n  before  " + launcher.Quote(j.Line.Argv) + "\n  after   " + launcher.Quote(command.Argv) + "\n")
	u.changes(command.Changes)
	for _, n := range command.Notes {
		list("note: " + n)
	}
}

// identity writes the facts of a job that this node knows before the rendezvous, each with its source.
func (u *UI) identity(j job.Job) {
	row := func(name, value, from string) {
		head := fmt.Sprintf("  %-16s ", name)
		if value = visible(value); from == "" || len(value) > 28 {
			from = strings.TrimSpace(value + " " + from)
		} else {
			head += fmt.Sprintf("%-28s ", value)
		}
		u.print(u.out, head, strings.Repeat(" ", len(head)), from)
	}
	from := func(s setting.Source) string { return prefixed("from ", s.Name) }
	row("job", j.ID.V, from(j.ID.From))
	row("nodes", rendezvous.Count(j.Nodes.V, j.Min)+standby(j.Spares), from(j.Nodes.From))
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

// Var returns one variable of the plan with its reason.
func Var(v setting.Var) string {
	if v.Kept {
		ours := fmt.Sprintf("launch would set %s: %s", v.Value, v.Reason)
		return fmt.Sprintf("%s=%s   # your value, from %s; %s", v.Name, v.User, v.From, ours)
	}
	return fmt.Sprintf("%s=%s   # %s", v.Name, v.Value, v.Reason)
}

// changes writes the changes of a command line, with their reasons in a column next to short ones.
func (u *UI) changes(all []launcher.Change) {
	const widest = 40
	heads := make([]string, len(all))
	wide := 0
	for i, c := range all {
		switch {
		case c.Old == "":
			heads[i] = "+ " + visible(c.New)
		case c.New == "":
			heads[i] = "- " + visible(c.Old)
		default:
			heads[i] = "~ " + visible(c.Old) + " -> " + visible(c.New)
		}
		if len(heads[i]) <= widest {
			wide = max(wide, len(heads[i]))
		}
	}
	for i, c := range all {
		if len(heads[i]) > widest {
			u.print(u.out, "  ", "      ", heads[i]+"  "+c.Reason)
			continue
		}
		head := fmt.Sprintf("  %-*s  ", wide, heads[i])
		u.print(u.out, head, strings.Repeat(" ", len(head)), c.Reason)
	}
}

// Plan writes the variables that launch sets and the notes on the command. One node of a job writes them.
func (u *UI) Plan(p envgen.Plan, notes []string) {
	for _, v := range p {
		u.Note("%s", Var(v))
	}
	for _, n := range notes {
		u.Note("%s", n)
	}
}
