package truth

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// verdict is how launch did in one draw.
type verdict string

const (
	// Where the job runs without launch:
	quiet  verdict = "quiet"         // it ran, and launch said nothing
	warned verdict = "warned"        // it ran, slower or by luck, and launch said something
	alarm  verdict = "false warning" // it ran well, and launch warned
	failed verdict = "false"         // launch did not let it run, or it broke with launch

	// Where it hangs or dies:
	right     verdict = "right"      // the cause and the node
	prevented verdict = "prevented"  // with launch it runs
	node      verdict = "right node" // the node, and another cause
	vague     verdict = "vague"      // the cause, and no node
	wrong     verdict = "wrong"      // neither
	silent    verdict = "silent"

	// unmade: this machine could not make the environment.
	unmade verdict = "unmade"
)

// verdicts are all of them, in the order of the tables.
var (
	healthyVerdicts = []verdict{quiet, warned, alarm, failed}
	harmfulVerdicts = []verdict{right, prevented, node, vague, wrong, silent}
)

// good reports whether launch did as it should.
func (v verdict) good() bool {
	return slices.Contains([]verdict{quiet, warned, right, prevented, unmade}, v)
}

// hard reports whether a verdict fails the test, if it happens twice: launch failed a job that runs, or
// said nothing of one that hangs.
func (v verdict) hard() bool { return v == failed || v == silent }

// result is the outcome of one draw.
type result struct {
	Seed, Draw    string
	Topics        []string
	Alone, Launch string // how the job went
	Verdict       verdict
	Why           string  // the statement that decided
	After         float64 // seconds after the last start or the fault
	First         float64 // of the first statement
	Known         string  // the reason why a disagreement is known
	Once          bool    // the second run of the draw had another verdict
	from          string
	alone, with   *bed
}

// went returns how a run went.
func (b *bed) went() string {
	took := b.ended.Sub(b.last).Seconds()
	switch {
	case b.ran():
		return fmt.Sprintf("ran, %.0f s", took)
	case b.launch && b.up.IsZero():
		var exits []string
		for _, h := range b.hosts {
			exits = append(exits, fmt.Sprint(h.Status))
		}
		return "not started, exits " + strings.Join(exits, " ")
	case !b.died.IsZero():
		return fmt.Sprintf("died after %.0f s", b.died.Sub(b.last).Seconds())
	}
	return "hung"
}

// slowly is how long a job may take that runs well; a late node is not counted.
const slowly = 6 * time.Second

// judge compares both runs of a draw.
func judge(d draw, alone, with *bed) result {
	r := result{Seed: d.seed, Draw: d.String(), Alone: alone.went(), Launch: with.went(), alone: alone, with: with}
	for _, f := range d.faults {
		r.Topics = append(r.Topics, f.topic+": "+f.name)
	}
	said := with.statements()
	if len(said) > 0 {
		r.First = max(0, said[0].at.Sub(with.struck()).Seconds())
	}
	if why := alone.unmade() + with.unmade(); why != "" {
		r.Verdict, r.Why = unmade, why
		return r
	}
	if alone.ran() {
		r.Verdict, r.Why = judgeHealthy(d, alone, with, said)
		return r
	}
	if with.ran() {
		r.Verdict = prevented
		return r
	}
	best := statement{}
	r.Verdict, best = judgeHarmful(d, with, said)
	if r.Why = best.text(); best.host != nil {
		r.After = max(0, best.at.Sub(with.struck()).Seconds())
	}
	return r
}

func judgeHealthy(d draw, alone, with *bed, said []statement) (verdict, string) {
	first := slices.IndexFunc(said, func(s statement) bool { return s.alarm })
	why := ""
	if first >= 0 {
		why = said[first].text()
	}
	degraded := slices.ContainsFunc(d.faults, func(f fault) bool { return f.degrades }) ||
		alone.ended.Sub(alone.struck()) > slowly && !d.long()
	switch {
	case !with.ran():
		return failed, why
	case first < 0:
		return quiet, ""
	case degraded:
		return warned, why
	}
	return alarm, why
}

// judgeHarmful returns the verdict of the best statement that came in time.
func judgeHarmful(d draw, b *bed, said []statement) (verdict, statement) {
	best, by := silent, statement{}
	for _, s := range said {
		if !b.inTime(s) {
			continue
		}
		v := wrong
		for _, f := range d.faults {
			cause := slices.ContainsFunc(strings.Fields(f.causes), func(c string) bool { return slices.Contains(s.causes, c) })
			switch named := b.names(s, f); {
			case cause && named:
				v = right
			case named && f.scope != allNodes && v != right:
				v = node
			case cause && v == wrong:
				v = vague
			}
		}
		if v == wrong && !s.alarm {
			continue
		}
		if slices.Index(harmfulVerdicts, v) < slices.Index(harmfulVerdicts, best) {
			best, by = v, s
		}
	}
	return best, by
}

// text returns a statement as one line.
func (s statement) text() string {
	if s.host == nil {
		return ""
	}
	what := s.said.What
	if what == "" {
		what = s.said.Text
	}
	head := s.said.ID
	if s.said.Type == "error" {
		head = fmt.Sprint("error ", s.said.Code)
	}
	if s.said.Type == "wait" {
		head = "wait " + s.said.Kind
	}
	return fmt.Sprintf("%s: %s %s: %.160s", s.host.Name, s.said.Status, head, strings.ReplaceAll(what, "\n", " "))
}
