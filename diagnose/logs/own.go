package logs

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// ownWarnings are the warnings of launch after which a job waits, and whether a few steps show that it goes on. A node
// that is lost or fails may leave others that write some more.
var ownWarnings = map[string]bool{
	"job.hangs": true, "job.path": true, "start.late": true,
	"node.lost": false, "node.failed": false, "node.rank": false, "node.memory": false,
}

// ownFinding is a finding that launch itself has written into a log.
type ownFinding struct {
	id, status, host string
	what, fix        string
	file             int
	where            string
	time             time.Time
	steps            int // steps of the job until then
	over             bool
}

// ownFindings are those of all logs.
type ownFindings struct {
	all     []*ownFinding
	open    *ownFinding // whose text may go on in the next line
	section string      // and which part of it
	column  int         // where the last line of it ended
	steps   int
}

const ownLabel = "launch: "

var (
	ownHead   = re(`^launch: (ok|warn|fail) +([a-z]+\.[a-z.-]+) +(\S.*)`)
	ownDetail = re(`^launch: {2,}([a-z]+\.[a-z.-]+) +(?:(\S+) {2,})?(seen|breaks|fix) {2,}(\S.*)`)
	ownMore   = re(`^launch: {2,}([a-z]+\.[a-z.-]+) +(?:\S+ {2,})? {6,}(\S.*)`)
	ownPart   = re(`^(seen|breaks|fix) {2,}(\S.*)`)
	ownCause  = re(`^(.*\S) \(([a-z]+\.[a-z.-]+), (certain|likely|possible)\)$`)
	ownRank   = re(`\brank (\d+) \(([\w.-]+), pid \d+\)`)
	ownNode   = re(`\bnode rank \d+, ([\w.-]+), `)
	ownWorld  = re(`^launch: (?:[\w.-]+: )?\d+(?: of \d+)? nodes joined after `)
	goodEnd   = re(`(?i)\b(?:training|job|run|program|script)(?: is| has| was)? ` +
		`(?:done|completed?|finished|succeeded)\b|` +
		`\b(?:finished|completed) successfully\b`)
	noStep = []string{"rror", "ERROR", "WARN", "imeout", "timed out", "last completed", "fail", ownLabel}
)

// read takes in a line, and whether it has a sign of a step.
func (o *ownFindings) read(f *follower, line []byte) {
	at := bytes.Index(line[:min(len(line), 200)], []byte(ownLabel))
	if o.open != nil && o.open.file != f.index {
		o.open = nil
	}
	if at < 0 && o.open == nil {
		return
	}
	text := strings.TrimRight(string(ansi.ReplaceAll(line[max(at, 0):], nil)), "\r ")
	if m := ownHead().FindStringSubmatch(text); m != nil {
		o.begin(&ownFinding{status: m[1], id: m[2], what: m[3], file: f.index, where: f.place(), time: f.when(),
			steps: o.steps}, len(text))
		return
	}
	if ownWorld().MatchString(text) {
		o.end(func(one *ownFinding) bool { return one.file == f.index })
	}
	if m := ownDetail().FindStringSubmatch(text); m != nil {
		if one := o.last(m[1], f.index); one != nil {
			o.open, o.section, one.host = one, m[3], cmp.Or(one.host, m[2])
			o.put(m[4], len(text))
		}
		return
	}
	if m := ownMore().FindStringSubmatch(text); m != nil && o.open != nil && o.open.id == m[1] {
		o.put(m[2], len(text))
		return
	}
	rest := strings.TrimPrefix(text, strings.TrimSpace(ownLabel))
	const indent = 10
	if o.open == nil || len(rest)-len(strings.TrimLeft(rest, " ")) < indent {
		o.open = nil
		return
	}
	rest = strings.TrimSpace(rest)
	if m := ownPart().FindStringSubmatch(rest); m != nil {
		o.section, rest = m[1], m[2]
	}
	o.put(rest, len(text))
}

// begin takes in the first line of a finding.
func (o *ownFindings) begin(one *ownFinding, column int) {
	o.open, o.section, o.column = one, "", column
	switch {
	case len(o.all) >= maxStreams:
	case one.status == "ok":
		o.end(func(old *ownFinding) bool { return old.id == one.id })
	case strings.Contains(one.what, " answers again"):
		o.end(func(old *ownFinding) bool { return old.id == one.id && old.node() == one.node() })
	default:
		o.all = append(o.all, one)
	}
}

// end marks findings as over.
func (o *ownFindings) end(which func(*ownFinding) bool) {
	for _, one := range o.all {
		one.over = one.over || which(one)
	}
}

// last returns the last finding with an ID in a log; nil: there is none.
func (o *ownFindings) last(id string, file int) *ownFinding {
	for _, one := range slices.Backward(o.all) {
		if one.id == id && one.file == file {
			return one
		}
	}
	return nil
}

// put adds text to the part of the open finding. What a terminal broke is one line again.
func (o *ownFindings) put(text string, column int) {
	const wide = 60
	broken := o.column >= wide
	o.column = column
	switch one := o.open; {
	case o.section == "":
		one.what += " " + text
	case o.section != "fix":
	case one.fix == "":
		one.fix = text
	case broken:
		one.fix += " " + text
	default:
		one.fix += "\n" + text
	}
}

// stepped takes in a line with a sign of a step.
func (o *ownFindings) stepped(line []byte) {
	if !slices.ContainsFunc(noStep, func(w string) bool { return bytes.Contains(line, []byte(w)) }) {
		if o.steps++; goodEnd().Match(line) {
			o.end(func(*ownFinding) bool { return true })
		}
	}
}

// node returns the node that a finding names; "": none.
func (one *ownFinding) node() string {
	for _, form := range []*regexp.Regexp{ownNode(), ownRank()} {
		if m := form.FindStringSubmatch(one.what); m != nil {
			return m[len(m)-1]
		}
	}
	return ""
}

// lasts says whether a finding is a failure after which the job did not go on.
func (o *ownFindings) lasts(one *ownFinding) bool {
	soon, known := ownWarnings[one.id]
	limit := fewSteps
	if soon {
		limit = 3
	}
	return !one.over && one.status == "warn" && known && o.steps-one.steps < limit
}

// verdict returns the cause that a finding names, else the finding.
func (one *ownFinding) verdict() verdict.Verdict {
	v := verdict.Verdict{Cause: one.id, Sure: verdict.Likely, Says: one.what, Since: one.time,
		Do: cmp.Or(one.fix, "launch doctor   # on the nodes of the job, while it hangs")}
	if m := ownCause().FindStringSubmatch(one.what); m != nil {
		v.Says, v.Cause, v.Sure = m[1], m[2], verdict.Sure(m[3])
	}
	if m := ownRank().FindStringSubmatch(one.what); m != nil {
		v.Ranks = []int{number(m[1])}
	}
	if n := one.node(); n != "" {
		v.Nodes = []string{n}
	}
	v.Seen = one.seen()
	return v
}

func (one *ownFinding) seen() []finding.Seen {
	return []finding.Seen{{Where: one.where, What: ownLabel + one.status + " " + one.id + " " + one.what}}
}

// conclude adds to a reading what launch itself has found: where the lines of other programs decide nothing, as the
// cause; of a check that failed, with its whole text and its fix.
func (o *ownFindings) conclude(r *Reading) {
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		at := slices.IndexFunc(o.all, func(one *ownFinding) bool {
			return v.Cause == "log.launch-check" && len(v.Seen) > 0 && v.Seen[0].Where == one.where
		})
		if at >= 0 {
			one := o.all[at]
			v.Says, v.Do, v.Seen = "launch's check "+one.id+" failed: "+one.what, cmp.Or(one.fix, v.Do), one.seen()
		}
	}
	if len(r.Verdicts) > 0 {
		return
	}
	for _, one := range o.all {
		v := one.verdict()
		if !o.lasts(one) || len(r.Verdicts) >= maxVerdicts || hasCause(r.Verdicts, v.Cause) {
			continue
		}
		if len(r.Verdicts) == 0 {
			r.First = &Failure{Rank: -1, Local: -1, Node: cmp.Or(one.node(), one.host), Error: v.Says, Where: one.where,
				Time: one.time, Cause: v.Cause}
			if len(v.Ranks) > 0 {
				r.First.Rank = v.Ranks[0]
			}
		}
		r.Verdicts = append(r.Verdicts, v)
	}
}
