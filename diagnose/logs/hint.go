package logs

import (
	"bytes"
	"slices"
	"strconv"
)

// maxHints is how many lines of a log are held, since its last sign of progress.
const maxHints = 200

// hint is a line that may be an error. It counts where a log has nothing else, so it is looked at when the log ends.
type hint struct {
	line       []byte
	at, number int64 // in all logs, and in its own
	warns      bool  // it is in a warning of MPI
}

// hints are those of the log that is read.
type hints struct {
	lines   []hint
	stepped bool // the log has shown a step of the job
	box     boxState
}

// boxState is where a line is with regard to Open MPI's messages, which have a line of dashes before and after them.
type boxState int

const (
	outside   boxState = iota
	boxBegins          // after the first line of dashes
	boxWarns           // in a warning
	boxEnded           // after a warning
)

// warning notes where a warning of Open MPI begins and ends. What looks like an error there is no error where the
// program writes something after it.
func (h *hints) warning(line []byte) {
	const longest, dashes = 120, "----------------------------------------"
	line = bytes.TrimSpace(line)
	switch {
	case bytes.HasSuffix(line, []byte(dashes)) && len(line) < longest:
		if h.box++; h.box != boxBegins && h.box != boxEnded {
			h.box = boxBegins
		}
	case h.box == boxBegins:
		if h.box = outside; bytes.Contains(line, []byte("WARNING: ")) {
			h.box = boxWarns
		}
	case h.box == boxEnded && len(line) > 0 && line[0] != '[':
		h.box = outside
		h.lines = slices.DeleteFunc(h.lines, func(one hint) bool { return one.warns })
	}
}

// stepsSeen is the name of that value.
const stepsSeen = "steps"

// hintCause is the cause of such a line.
var hintCause = func() cause {
	c := looks(nil)
	c.grade, c.but = maybe, "mpi.cuda-note"
	return c
}()

// hintWords are words of the forms below.
var hintWords = []string{
	"nable to ", "NABLE to ", "fail", "Fail", "FAIL", "annot ", "can not ", "an't ", "ould not ", "ouldn't ", "No ",
	" not ", " NOT ", "n't ", " missing", "nexpected", "xit code", "xited", "xit_code", " died", "crashed", " aborted",
	" terminated", " closed", " lost", " killed", " cancelled", " dead", " down", "imeout", "IMEOUT", "ime out",
	"imed out", "gave up", "iving up", "eadlock", "ang detected", " stuck", "ismatch", "nconsistent", "ncompatible",
	"orrupt", "denied", "ejected", "efused", "orbidden", "nauthorized", "xhausted", "nsufficient", "xpired", "xceeded",
	"iverged", "nsupported", "nvalid", "ignal ", " SIG", "talled", "issing rank", "equires ", "rrno", "curl: (",
	"aking more", "aking longer", "rror to ", "rror while ", "rror when ", "rror during ", "rror getting ", "rror " +
		"reading ",
	"rror opening ", "rror creating ", "rror starting ", "rror connecting ", "rror " +
		"loading ", "navailable: ", "UNAVAILABLE: ",
	": E tensorflow/", ": E external/", "E01", "E02", "E03", "E04", "E05", "E06", "E07", "E08", "E09", "E10", "E11", "E12",
	"evel\":\"", "everity\":\"", "evel=", "ABORTED: ", "INTERNAL: ", "DEADLINE_EXCEEDED: ", "RESOURCE_EXHAUSTED: ",
	"FAILED_PRECONDITION: ", "PERMISSION_DENIED: ", "Abort", "Hangup", "detected ***", "disconnected", "NotReady",
	"CUDA error", "HIP error", "rror code", "rc=", "eturned -", "\"failed\"", "\"error\"", ": error", "=error", ": failed",
	"=failed", "o route to host", "roken pipe", "annot continue", "errors", "error generated", "rrors occurred", "mount: ",
	"o answer from ", "o response from ", "o reply from ",
	"no valid ", "no usable ", "no free ", "no suitable ", " are active", " is active", " are up", " units ",
}

// hintForms are how programs report failures, and now and then something that they do without.
var hintForms = []form{
	re(`(?i)\b(?:unable|fail(?:s|ed|ure)?) to \w|` +
		`\b(?:cannot|can not|can't|could ?n[o']t|could not|may not) (?:be )?[a-z]{3}`),
	re(`(?i)\bno \w+ (?:\w+ )?(?:was|were|is|are) (?:able|found|available|selected|usable)\b|\bnot (?:be )?found\b|` +
		`\b(?:does not|doesn't|did not|didn't) (?:exist|respond|answer|start|finish|complete|match|have|reach|receive)\b|` +
		`\bno such (?:file|device|host|process|node|container)|\bis missing\b|` +
		`\bnot (?:alive|reachable|running|responding|enough|supported|(?:yet )?ready)\b`),
	re(`(?i)\bunexpected(?:ly)?\b|\bexit(?:ed)?[ _]?(?:code|status)? ?[:=] ?-?[1-9]|` +
		`\b(?:has|have|had) (?:died|failed|crashed|exited|aborted|terminated)|` +
		`\b(?:been|be) (?:killed|terminated|aborted|lost|cancelled)|` +
		`\b(?:proxy|connection|socket|channel|stream|server) (?:is|was) (?:closed|lost|dead|down)`),
	re(`(?i)\bfailed(?:$|\s*[:!.,;(\[])|\bfailure\b|\bgave up\b|\bgiving up\b|\bdead ?lock|\bhang detected|\bis stuck\b|` +
		`\btime(?:d ?)? ?out\b.*\b(?:after|check|waiting|reached|fail|error|expire|exceed)`),
	re(`(?i)\b(?:mismatch|inconsistent|incompatible|corrupt|unauthorized|exhausted|insufficient)|` +
		`\b(?:access|permission|request|connection)s? (?:is |was )?(?:denied|rejected|refused|forbidden|lost)|` +
		`\b(?:expired|exceeded|diverged|unsupported|invalid)\b`),
	re(`(?i)\b(?:exited|died|terminated|killed|caught|received) (?:(?:on|by|with|from|a) )?(?:signal \d|SIG[A-Z]{3})|` +
		`\bdeath signal\b|\bstalled\b|\bmissing ranks?\b|\brequires (?:exactly|at least)\b|\berrno:? ?[1-9]|` +
		`^curl: \(\d+\)|\btaking (?:more|longer) than\b`),
	re(`(?i)\berror (?:to|while|when|during|getting|reading|opening|creating|starting|connecting|loading) \w|` +
		`\bUnavailable: \w|\bno (?:[\w.-]+ ){0,3}(?:devices?|adapters?|GPUs?|interfaces?|nodes?|hosts?|slots?|ports?|` +
		`resources?|workers?|providers?|routes?|units?|HCAs?|NICs?|cards?|accelerators?|endpoints?|links?|rails?) ` +
		`(?:were |was |is |are )?(?:found|available|detected|left|active|usable|visible|online|reachable|present|up)\b`),
	re(`(?i)"?(?:level|severity|lvl)"?\s*[:=]\s*"?(?:error|fatal|critical|panic)\b|` +
		`"?(?:status|state|result|conclusion)"?\s*[:=]\s*"?(?:failed|failure|error|errored)\b|` +
		`\b(?:cuda|hip) error:? \d|\berror code:? -?[1-9]|\brc ?= ?-?[1-9]\d*\b|\breturned -[1-9]`),
	re(`^(?:[\w.]+: ` +
		`)?(?:ABORTED|INTERNAL|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|FAILED_PRECONDITION|PERMISSION_DENIED): \S|` +
		`^\s*(?:Aborted|Abort trap|Hangup)\b[!:. \d]*$|(?:overflow|smashing) detected \*\*\*|` +
		`(?i)\b(?:node|worker|rank|host|peer|process|replica|member)s? ?[\w.-]* (?:(?:is|was|are|were|has|have)(?: ` +
		`been| now)? )?` +
		`(?:lost|down|disconnected|dead)\b|\bNodeNotReady\b`),
	re(`(?i)\bno route to host\b|\bbroken pipe\b|\bcannot continue\b|\bdue to (?:previous |earlier )?errors?\b|` +
		`(?:^|\b[1-9]\d* )errors? (?:occurred|generated|found|encountered)\b|^mount(?:\.\w+)?: .*\b(?:wrong|bad|not)\b|` +
		`\bno (?:answer|response|reply) from\b`),
	re(`^E(?:0\d|1[0-2])[0-3]\d \d\d:\d\d:\d\d.*\.(?:cc|cpp|cu|h|go|rs):\d+\]|: E (?:tensorflow|external)/`),
}

// calm are parts of lines after which a program goes on: it has another way, or only says what it finds.
var calm = re(`(?i)^\s*#|^[IW]\d{4} \d\d:|\[[IW]\d* |: [IW] |<(?:info|warn|debug|trace)>|` +
	`\b(?:info|notice|warn|\w*warning|debug|trace|diag)\b|\b(?:retry|retries|retrying|trying|instead|using|if)\b|` +
	`fall(?:s|ing)? ?back|\b(?:skip|default|continu|proceed|optional|disabl|ignor)|\bnot an error\b|` +
	`^\s*(?:assert|raise|except|import|from|return)\b|\bmca_btl_|reachable pairing|relevant network interfaces|` +
	`bind memory|MPI startup\(\)|dynamic library|initialize backend|factory|metric server|fabricmanager|` +
	`error handling|spank: \S+: Plugin file not found`)

// warns is how NCCL and its kin name the level of their errors.
var warns = re(`\b[NRH]?CCL WARN\b`)

// hint notes a line that may be an error, and forgets those before a sign of progress.
func (f *follower) hint(line []byte) {
	isHint, isStep, goesOn := false, false, false
	for _, h := range f.hits {
		isHint = isHint || f.hinted[h]
		isStep = isStep || f.steps[h]
		goesOn = goesOn || f.special[h] == markProgress
	}
	f.hints.stepped = f.hints.stepped || isStep
	switch all := &f.hints.lines; {
	case isStep, goesOn && !isHint:
		*all = (*all)[:0]
	case isHint && len(f.busy) == 0 && len(*all) < maxHints:
		*all = append(*all, hint{bytes.Clone(line[:min(len(line), maxQuote)]), f.lines, f.line, f.hints.box == boxWarns})
	}
}

// isHint says whether a line looks like an error and has no cause in the table.
func (f *follower) isHint(line []byte) bool {
	p := f.strip(line)
	f.hits = f.scan.find(line, f.hits[:0])
	found, _ := f.match(&p)
	return found == nil && !calm().Match(warns().ReplaceAll(p.body, nil)) &&
		slices.ContainsFunc(hintForms, func(one form) bool { return one().Match(p.body) })
}

// ofHints adds the first of the noted lines that is a hint, or one close to it that has more of a reason.
func (f *follower) ofHints() {
	lines, line := f.lines, f.line
	var best *hint
	for i := range f.hints.lines {
		h := &f.hints.lines[i]
		if best != nil && h.at-best.at > closeBy {
			break
		}
		if f.isHint(h.line) && (best == nil || specific(h.line) > max(0, specific(best.line))) {
			best = h
		}
	}
	if best != nil {
		p := f.strip(best.line)
		if st := f.stream(&p); st != nil {
			f.current, f.chunk, f.lines, f.line = best.line, nil, best.at, best.number
			f.add(&hintCause, st, &p, map[string]string{stepsSeen: strconv.FormatBool(f.hints.stepped)})
		}
	}
	f.lines, f.line, f.hints.lines, f.hints.stepped = lines, line, f.hints.lines[:0], false
	f.hints.box = outside
}
