package ui

import (
	"cmp"
	_ "embed" // the template
	"fmt"
	"slices"
	"strings"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// doctorTemplate is the page of launch doctor, below the head that all pages share.
//
//go:embed doctor.html
var doctorTemplate string

// doctorPage is what the page of launch doctor has besides the head.
type doctorPage struct {
	Jobs  []jobPart
	Nodes []scenePart
}

// jobPart is one job on the page.
type jobPart struct {
	verdict.Answer
	Title, Class string
	Small        bool
	Rows         []rankRow
	Legend       []legendItem
	Waits        []waitLine
}

// rankRow is one node with its ranks, or several that are alike.
type rankRow struct {
	Node, All string
	Cells     []rankCell
}

type rankCell struct {
	Text, Letter, Class, Tip string
	Blamed                   bool
}

type legendItem struct {
	Letter, Class, Says string
	Count               int
}

// waitLine says that some ranks wait, where, and for whom.
type waitLine struct{ Who, Where, For string }

// phaseLook is how a phase is drawn: a letter and the class of a colour.
type phaseLook struct{ phase, letter, class string }

// phaseLooks are all phases, in the order of the legend.
var phaseLooks = []phaseLook{
	{"gone", "X", "f"}, {"stopped", "S", "f"}, {"before", "b", "f"}, {"dialing", "d", "w"}, {"unanswered", "u", "w"},
	{"counting", "n", "w"}, {"keys", "k", "w"}, {"mesh", "m", "w"}, {"group", "g", "p"}, {"collective", "c", "p"},
	{"calling", "r", "p"}, {"inside", "i", "o"}, {"program", "p", "o"}, {"unseen", "?", "s"}, {"", "?", "s"},
}

func lookOf(phase string) phaseLook {
	if i := slices.IndexFunc(phaseLooks, func(l phaseLook) bool { return l.phase == phase }); i >= 0 {
		return phaseLooks[i]
	}
	return phaseLook{phase, "?", "s"}
}

// smallFrom is the number of ranks from which their cells have no text.
const smallFrom = 257

// DoctorHTML returns what launch doctor says as one page.
func DoctorHTML(answers []verdict.Answer, scenes []scene.Scene, o Outcome) ([]byte, error) {
	d := &doctorPage{}
	for _, a := range answers {
		d.Jobs = append(d.Jobs, partOf(a))
	}
	for _, s := range scenes {
		d.Nodes = append(d.Nodes, nodePart(s))
	}
	p := page{Outcome: o, Doctor: d, Summary: fmt.Sprintf("seen on %s", finding.Count(len(scenes), "node"))}
	p.Sentence = sentenceCase(stateWords[verdict.NoJob])
	if len(answers) > 0 {
		first := answers[0]
		p.Sentence, p.Bad = sentenceCase(stateWords[first.State]), first.State == verdict.Hung
		if len(first.Why) > 0 && first.Why[0].Says != "" {
			p.Summary = stateWords[first.State] + "; " + p.Summary
			p.Sentence = first.Why[0].Says // it may begin with a name
		}
	}
	if len(answers) == 1 && answers[0].Job != "" {
		p.Job = "job " + answers[0].Job
	}
	return p.render("doctor")
}

func partOf(a verdict.Answer) jobPart {
	p := jobPart{Answer: a, Title: stateWords[a.State], Small: len(a.Ranks) >= smallFrom, Class: "s"}
	switch a.State {
	case verdict.Hung:
		p.Class = "f"
	case verdict.Open, verdict.Slow:
		p.Class = "w"
	case verdict.Running:
		p.Class = "o"
	}
	if a.Job != "" {
		p.Title = "Job " + a.Job + ": " + p.Title
	}
	p.Title = sentenceCase(p.Title)
	p.Rows, p.Legend = gridOf(a), legendOf(a.Ranks)
	if a.State != verdict.Running {
		p.Waits = waitsOf(a)
	}
	return p
}

// gridOf returns a row for each node, by its first rank; of many nodes those that are alike share one.
func gridOf(a verdict.Answer) (rows []rankRow) {
	blamed := blamedRanks(a)
	at, alike := map[string]int{}, map[string]int{}
	var keys []string
	for _, r := range a.Ranks {
		name := cmp.Or(r.Node, "an unknown node")
		i, ok := at[name]
		if !ok {
			i = len(rows)
			at[name] = i
			rows, keys = append(rows, rankRow{Node: name, All: name}), append(keys, "")
		}
		c := cellOf(r, blamed[r.Rank])
		rows[i].Cells = append(rows[i].Cells, c)
		if keys[i] += c.Letter; c.Blamed {
			keys[i] += "!"
		}
	}
	if len(rows) <= aloneRows {
		return rows
	}
	var out []rankRow
	names := map[int][]string{}
	for i, row := range rows {
		j, ok := alike[keys[i]]
		if !ok || strings.Contains(keys[i], "!") {
			j = len(out)
			alike[keys[i]], out = j, append(out, row)
		}
		names[j] = append(names[j], row.Node)
	}
	for j := range out {
		if all := names[j]; len(all) > 1 {
			out[j].Node, out[j].All = fmt.Sprintf("%s and %d alike", all[0], len(all)-1), Names(all, len(all))
		}
	}
	return out
}

func blamedRanks(a verdict.Answer) map[int]bool {
	out := map[int]bool{}
	for _, v := range a.Why {
		for _, r := range v.Ranks {
			out[r] = true
		}
	}
	return out
}

func cellOf(r verdict.Rank, blamed bool) rankCell {
	look := lookOf(r.Phase)
	tip := fmt.Sprintf("rank %d on %s", r.Rank, cmp.Or(r.Node, "an unknown node"))
	if r.PID != 0 {
		tip += fmt.Sprintf(", pid %d", r.PID)
	}
	tip += ": " + cmp.Or(phaseWords[r.Phase], phaseWords[""])
	if r.At != "" {
		tip += ", at " + r.At
	}
	if blamed {
		tip += " (named as a cause)"
	}
	return rankCell{Text: verdict.Spans([]int{r.Rank}), Letter: look.letter, Class: look.class, Tip: tip, Blamed: blamed}
}

func legendOf(ranks []verdict.Rank) (out []legendItem) {
	counts := map[string]int{}
	for _, r := range ranks {
		counts[r.Phase]++
	}
	for _, l := range phaseLooks {
		if n := counts[l.phase]; n > 0 {
			out = append(out, legendItem{l.letter, l.class, phaseWords[l.phase], n})
		}
	}
	return out
}

// waitsOf says of each group of ranks that wait, where and for whom: ranks 0-2 for rank 3.
func waitsOf(a verdict.Answer) (out []waitLine) {
	blamed := blamedRanks(a)
	type key struct{ phase, at string }
	var order []key
	groups := map[key][]int{}
	for _, r := range a.Ranks {
		class := lookOf(r.Phase).class
		if blamed[r.Rank] || class != "w" && class != "p" {
			continue
		}
		k := key{r.Phase, r.At}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], r.Rank)
	}
	for _, k := range order {
		l := waitLine{Who: ranksText(groups[k]), Where: phaseWords[k.phase], For: causeText(a)}
		if k.at != "" {
			l.Where += ", at " + k.at
		}
		if k.phase == "dialing" || k.phase == "unanswered" {
			l.For = "the store"
		}
		const most = 12
		if out = append(out, l); len(out) == most {
			break
		}
	}
	return out
}

func ranksText(ranks []int) string {
	return finding.Noun(len(ranks), "rank") + " " + verdict.Spans(ranks)
}

// causeText names whom the verdicts blame.
func causeText(a verdict.Answer) string {
	var parts []string
	for _, v := range a.Why {
		text := finding.Some(v.Nodes)
		if len(v.Ranks) > 0 {
			text = ranksText(v.Ranks)
			if len(v.Nodes) > 0 {
				text += " (" + finding.Some(v.Nodes) + ")"
			}
		}
		if text != "" && !slices.Contains(parts, text) && len(parts) < 4 {
			parts = append(parts, text)
		}
	}
	return cmp.Or(strings.Join(parts, "; "), "what was seen does not tell for whom")
}

// scenePart is what one node saw, in few lines.
type scenePart struct {
	Host, Summary          string
	Taken                  time.Time
	Procs, Sockets, Stores []string
	Gaps                   []scene.Gap
}

func nodePart(s scene.Scene) scenePart {
	p := scenePart{Host: s.Host, Taken: s.Taken, Gaps: s.Gaps}
	p.Summary = strings.Join([]string{processCount(len(s.Procs)), finding.Count(len(s.Sockets), "socket"),
		finding.Count(len(s.Stores), "store"), finding.Count(len(s.Gaps), "gap")}, ", ")
	roles, states := counter{}, counter{}
	for _, x := range s.Procs {
		roles.add(string(x.Role) + " in state " + cmp.Or(x.State, "?"))
	}
	for _, k := range s.Sockets {
		text := k.State
		switch {
		case k.State == "listen":
			text = fmt.Sprintf("listen on %s", k.Local)
			if k.RecvQ > 0 {
				text += fmt.Sprintf(", %s not accepted", finding.Count(int(k.RecvQ), "connection"))
			}
		case k.State == "syn-sent":
			text = fmt.Sprintf("syn-sent to %s, no answer", k.Remote)
		case k.Info != nil && k.Info.Backoff > 0:
			text = fmt.Sprintf("%s with %s, sent again and again", k.State, k.Remote.Addr())
		}
		states.add(text)
	}
	p.Procs, p.Sockets = roles.lines(), states.lines()
	for _, st := range s.Stores {
		p.Stores = append(p.Stores, storeText(st))
	}
	return p
}

func processCount(n int) string { return finding.Plural(n, "process", "processes") }

func storeText(st scene.Store) string {
	text := fmt.Sprintf("%s (%s): %s in %s", st.Addr, st.Kind, st.Outcome, st.Took.Round(time.Millisecond))
	if st.Err != "" {
		text += ": " + st.Err
	}
	if b := st.Board; b != nil {
		text += fmt.Sprintf("; %s, %s of agents, %s of ranks", finding.Count(b.Keys, "key"),
			finding.Plural(len(b.Agents), "entry", "entries"), finding.Plural(len(b.Blobs), "address", "addresses"))
		if b.Clients >= 0 {
			text += fmt.Sprintf(", %s counted", finding.Count(b.Clients, "client"))
		}
	}
	return text
}

// counter counts equal texts.
type counter map[string]int

func (c counter) add(text string) { c[text]++ }

// lines returns the texts with their counts, the most frequent first.
func (c counter) lines() (out []string) {
	texts := make([]string, 0, len(c))
	for t := range c {
		texts = append(texts, t)
	}
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(c[b]-c[a], strings.Compare(a, b)) })
	const most = 40
	for i, t := range texts {
		if i == most {
			return append(out, fmt.Sprintf("and %d more kinds", len(texts)-most))
		}
		out = append(out, fmt.Sprintf("%d × %s", c[t], t))
	}
	return out
}
