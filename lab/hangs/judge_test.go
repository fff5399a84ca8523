package hangs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"launch/diagnose/verdict"
)

// outcome is how an answer compares with the right one.
type outcome string

// Right: the first verdict. Other: the right cause, not as the first one, or with other ranks, nodes or state.
// Silent: no verdict where there is a cause. Wrong: another cause. Unmade: the job did not do what the kind says.
const (
	right  outcome = "right"
	other  outcome = "other"
	silent outcome = "silent"
	wrong  outcome = "wrong"
	unmade outcome = "unmade"
)

// statuses are the exit statuses of the command where the state decides them.
var statuses = map[verdict.State]int{verdict.Running: 0, verdict.Slow: 0, verdict.Hung: 1, verdict.Open: 2}

// compare judges a reply, and explains any outcome but right.
func (w want) compare(r reply) (outcome, string) {
	if r.err != nil {
		return silent, r.err.Error()
	}
	answers := slices.Clone(r.Answers)
	if w.others {
		answers = slices.DeleteFunc(answers, func(a verdict.Answer) bool { return a.State == verdict.Running })
	}
	switch {
	case len(answers) == 0:
		return silent, "no answer"
	case len(answers) > 1:
		return wrong, fmt.Sprintf("%d jobs with something to say; want 1", len(answers))
	}
	a := answers[0]
	if how, why := w.causes(a); how != right {
		return how, why
	}
	if !oneOf(w.state, string(a.State)) {
		if a.State == verdict.Hung { // of a job that goes on
			return wrong, "the state is hung; want " + w.state
		}
		return other, fmt.Sprintf("the state is %s; want %s", a.State, w.state)
	}
	if lost := fmt.Sprint(r.Scenes); !strings.Contains(lost, w.lost) {
		return other, fmt.Sprintf("it does not say that it lacks %q: %s", w.lost, lost)
	}
	if want := statuses[a.State]; r.status != want {
		return other, fmt.Sprintf("exit %d; want %d", r.status, want)
	}
	return right, ""
}

func (w want) causes(a verdict.Answer) (outcome, string) {
	switch {
	case len(a.Why) == 0 && w.cause == "" || len(a.Why) == 0 && oneOf(w.cause, ""):
		return right, ""
	case len(a.Why) == 0 && w.stack && !tools.stacks && a.State == verdict.Open:
		return right, ""
	case len(a.Why) == 0:
		return silent, "no verdict; want " + w.cause
	case w.cause == "":
		return wrong, fmt.Sprintf("%s; want no verdict", a.Why[0].Cause)
	}
	if w.stack && !tools.stacks && a.Why[0].Cause == "collective.idle" {
		return right, ""
	}
	at := slices.IndexFunc(a.Why, func(v verdict.Verdict) bool { return oneOf(w.cause, v.Cause) })
	switch {
	case at < 0:
		return wrong, fmt.Sprintf("%s; want %s", a.Why[0].Cause, w.cause)
	case at > 0:
		return other, fmt.Sprintf("%s is verdict %d", a.Why[at].Cause, at+1)
	}
	ranks, nodes := blamed(a.Why)
	if !oneOf(w.ranks, ranks) {
		return other, fmt.Sprintf("%s blames ranks %q; want %s", a.Why[0].Cause, ranks, w.ranks)
	}
	if !oneOf(w.nodes, nodes) {
		return other, fmt.Sprintf("%s blames nodes %q; want %s", a.Why[0].Cause, nodes, w.nodes)
	}
	return right, ""
}

// blamed returns the ranks and nodes of all verdicts that have the cause of the first one.
func blamed(why []verdict.Verdict) (ranks, nodes string) {
	var r []int
	var n []string
	for _, v := range why {
		if v.Cause == why[0].Cause {
			r, n = append(r, v.Ranks...), append(n, v.Nodes...)
		}
	}
	slices.Sort(r)
	slices.Sort(n)
	ranks = strings.ReplaceAll(strings.Trim(fmt.Sprint(slices.Compact(r)), "[]"), " ", ",")
	return ranks, strings.Join(slices.Compact(n), ",")
}

// oneOf reports whether a text is one of the alternatives; without any, it always is.
func oneOf(alternatives, text string) bool {
	return alternatives == "" || slices.Contains(strings.Split(alternatives, "|"), text)
}

// judge compares the replies with the right ones, and notes the result.
func (b *bed) judge(got replies) {
	b.t.Helper()
	how, why := b.kind.want.compare(got.all)
	results.add(result{b.kind.name, b.kind.want.cause, first(got.all), how, got.all.took})
	if how != right {
		b.t.Errorf("%s: %s\n%s", how, why, got.all.text)
	}
	for host, r := range got.of {
		if r.took > doctorLimit {
			b.t.Errorf("%s: the doctor took %s; want at most %s", hostName(host), r.took, doctorLimit)
		}
	}
	if a := b.kind.want.alone; a != nil {
		if backend() == "nccl" { // publishes no address, so one node does not know which rank is missing
			a.want.cause, a.want.ranks = a.want.cause+"|nccl.join|nccl.behind|nccl.silent", ""
		}
		how, why := a.want.compare(got.of[a.host])
		results.add(result{b.kind.name + " alone", a.want.cause, first(got.of[a.host]), how, got.of[a.host].took})
		if how != right {
			b.t.Errorf("%s alone: %s: %s\n%s", hostName(a.host), how, why, got.of[a.host].text)
		}
	}
}

// first returns the first cause that was named.
func first(r reply) string {
	for _, a := range r.Answers {
		if len(a.Why) > 0 {
			return a.Why[0].Cause
		}
	}
	return "-"
}

// stopped is an answer in the form that the command prints.
const stopped = `{"type":"doctor","schema":1,"answers":[{"state":"hung","job":"10.77.0.1:29500","verdicts":[` +
	`{"cause":"rank.stopped","sure":"certain","says":"rank 3 is stopped","ranks":[3],"nodes":["host1"],` +
	`"since":"2026-11-20T10:00:00Z","seen":[],"do":"kill -CONT 4711"},` +
	`{"cause":"rank.left","sure":"possible","says":"rank 3 left","ranks":[3],"do":""}]}]}` + "\n"

func TestCompareAnAnswerWithTheRightOne(t *testing.T) {
	const quiet = `{"type":"doctor","schema":1,"answers":[{"state":"running","job":"x"}]}`
	const apart = `{"type":"doctor","schema":1,"answers":[{"state":"hung","verdicts":[` +
		`{"cause":"rank.lock","sure":"likely","says":"","ranks":[3],"nodes":["host1"],"do":""},` +
		`{"cause":"rank.lock","sure":"likely","says":"","ranks":[1],"nodes":["host0"],"do":""}]}]}`
	const two = `{"type":"doctor","schema":1,"answers":[{"state":"running"},{"state":"hung","verdicts":[` +
		`{"cause":"rank.lock","sure":"likely","says":"","ranks":[2,3],"do":""}]}]}`
	for _, c := range []struct {
		name, printed string
		status        int
		want          want
		how           outcome
	}{
		{"right", stopped, 1, want{state: "hung", cause: "rank.stopped", ranks: "3", nodes: "host1"}, right},
		{"one of two causes", stopped, 1, want{state: "hung|open", cause: "rank.lock|rank.stopped"}, right},
		{"another cause", stopped, 1, want{state: "hung", cause: "rank.lock"}, wrong},
		{"the second cause", stopped, 1, want{state: "hung", cause: "rank.left"}, other},
		{"other ranks", stopped, 1, want{state: "hung", cause: "rank.stopped", ranks: "2"}, other},
		{"other nodes", stopped, 1, want{state: "hung", cause: "rank.stopped", nodes: "host0|host0,host1"}, other},
		{"another status", stopped, 2, want{state: "hung", cause: "rank.stopped"}, other},
		{"slow called hung", stopped, 1, want{state: "slow", cause: "rank.stopped"}, wrong},
		{"no verdict", quiet, 0, want{state: "hung", cause: "rank.stopped"}, silent},
		{"healthy", quiet, 0, want{state: "running"}, right},
		{"healthy called hung", stopped, 1, want{state: "running"}, wrong},
		{"one job of two", two, 1, want{state: "hung", cause: "rank.lock", ranks: "2,3", others: true}, right},
		{"two verdicts of a cause", apart, 1, want{state: "hung", cause: "rank.lock", ranks: "1,3",
			nodes: "host0,host1"}, right},
		{"two jobs, one expected", two, 1, want{state: "hung", cause: "rank.lock"}, wrong},
		{"no line", "launch: no job\n", 2, want{state: "hung", cause: "rank.lock"}, silent},
	} {
		r := parse([]byte(c.printed))
		r.status = c.status
		if how, why := c.want.compare(r); how != c.how {
			t.Errorf("%s: %s (%s); want %s", c.name, how, why, c.how)
		}
	}
}
