package logs

import (
	"regexp"
	"slices"
	"strings"
)

const (
	maxTraceLines = 400
	maxRootLines  = 12
)

// trace is a Python traceback that is being read.
type trace struct {
	lines     int
	framed    int      // the lines up to the last frame
	at, inner string   // the program's innermost frame, and the innermost of all
	flat      bool     // it has lost its indentation
	chained   bool     // a line before announces it as one of an error during another one
	handled   bool     // the line before says that the program goes on
	source    string   // the line of the program in the innermost frame
	rank      int      // of the line with its head; -1: unknown
	of        *summary // torchrun's report that it is part of, or nil
	ranked    int      // that its head names in its text; -1: it names no rank
}

// reportIndent is what torchrun writes before each line of a traceback in its report.
const reportIndent = "  "

// chainWords announce the traceback of an error that was raised during another one, or while Python ended.
var chainWords = []string{"During handling of the above exception", "direct cause of the following exception",
	"Exception ignored in", "Error in atexit", "Exception in thread"}

var (
	frameForm = regexp.MustCompile(`^\s*File "([^"]+)", line (\d+)`)
	library   = regexp.MustCompile(`site-packages|dist-packages|/lib/python|/torch/|^torch/|<frozen|^<`)
)

// feed reads a line of a traceback, and says whether the line is its exception.
func (t *trace) feed(body []byte) bool {
	t.lines++
	if len(body) == 0 {
		return false
	}
	if m := frameForm.FindSubmatch(body); m != nil {
		t.inner, t.framed, t.flat = base(string(m[1]))+":"+string(m[2]), t.lines, body[0] == 'F'
		if !library.Match(m[1]) {
			t.at = t.inner
		}
		t.source = ""
		return false
	}
	if t.lines == t.framed+1 && t.inner != "" {
		t.source = strings.TrimSpace(string(body[:min(len(body), maxQuote/2)]))
		if t.flat && !bareError(body) {
			return false
		}
	}
	return t.inner != "" && exceptionName(body) != ""
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// expire gives a traceback up that does not end.
func (f *follower) expire(st *stream) {
	if st.trace.lines > maxTraceLines {
		f.endTrace(st)
	}
}

func (f *follower) endTrace(st *stream) {
	st.trace = nil
	f.closes(st)
}

// traceEnds adds the exception of a traceback.
func (f *follower) traceEnds(st *stream, p *prefix, found *cause, vals map[string]string) {
	t := st.trace
	f.endTrace(st)
	if t.of != nil {
		p.rank, p.local, p.node = t.of.rank, t.of.local, t.of.node
	}
	if t.ranked >= 0 {
		p.rank, p.node, p.local = t.ranked, "", -1
	} else if p.rank < 0 && p.label == nil && (found == nil || !slices.Contains(ends, found.id)) {
		p.rank = t.rank
	}
	if string(p.body) == "SystemExit: 0" { // the end of a process that is well
		return
	}
	if found == nil || found.grade > harmless {
		found, vals = f.ofException(p.body), nil
	}
	if found.id == "log.disk-full" && strings.HasPrefix(t.inner, "synchronize.py:") {
		found = &semaphores
	}
	if found.grade >= harmless {
		return
	}
	e := f.add(found, st, p, vals)
	if e != nil && e.at == "" && e.lines == 1 {
		if e.trace, e.chained, e.handled = true, t.chained, t.handled; t.at != "" {
			e.at = t.at
		}
		if strings.TrimRight(e.text, ": ") == "AssertionError" && strings.HasPrefix(t.source, "assert ") {
			e.text = "AssertionError: " + t.source
		}
	}
	if found.grade == failed || found == &unexplained {
		f.awaits(st, e)
	}
	f.awaitsHandling(st, e)
}

// specials reads the lines that are more than a row of the table.
func (f *follower) specials(st *stream, p *prefix, found *cause) {
	failure := found != nil && (found.grade < harmless || found.grade == unknown)
	for _, h := range f.hits {
		switch f.special[h] {
		case wordTrace:
			const near = 3
			st.trace = &trace{chained: st.chain > 0 && f.lines-st.chain <= near, handled: f.announced(p),
				rank: p.rank, ranked: -1}
			if m := rankedForm().FindSubmatch(p.body); m != nil {
				st.trace.ranked = number(string(m[1]))
			}
			f.ofNext(p)
			if summaryTrace.Match(p.body) {
				if st.trace.of = st.reported; st.trace.of == nil {
					st.trace.of = &summary{rank: -1, local: -1}
				}
			}
			f.opens(st)
		case wordRoot:
			st.root = &summary{rank: -1, local: -1}
			f.opens(st)
		case wordError, wordException:
			if found == nil && bareError(p.body) {
				f.awaits(st, f.add(f.ofException(p.body), st, p, nil))
				failure = true
			}
		case markReport:
			f.report(st, p.body)
		case markBus:
			f.noteGPU(st, p)
		case markFrame:
			f.beheaded(st, p.body)
		case wordName:
			f.describes(p.body)
		case markChain:
			st.chain = f.lines
		case markProof:
			f.proves(st, p.body)
		case wordInit:
			f.noteRank(p.body)
		case wordLastError:
			f.lastErrors(st, p.body)
		case markConfig:
			f.configures(st, p)
		case wordUsing:
			f.noteInterfaces(p.body)
		case wordHost:
			f.ofHost(st, p.body)
		case wordWatchdog, wordEnqueued, wordLastWork:
			f.works.add(p.body, p.rank, f.place())
		case markProgress:
			if !failure && st.root == nil {
				f.progresses(st)
			}
		}
	}
}

// progresses counts a sign of progress.
func (f *follower) progresses(st *stream) {
	if f.went++; !st.object {
		*st.worked = f.lines
	}
	if st.progress < st.wanted {
		if st.progress++; st.progress == st.wanted {
			f.wanting--
		}
	}
}

var initForm = regexp.MustCompile(`^(?:\[[^\]]*\] )?([A-Za-z0-9][\w.-]*:\d+):\d+ .*\brank (\d+) nranks (\d+)`)

// noteRank notes which process of NCCL has which rank.
func (f *follower) noteRank(body []byte) {
	if m := initForm.FindSubmatch(body); m != nil && len(f.ranks) < maxStreams {
		f.ranks[string(m[1])] = started{number(string(m[2])), f.proof.command}
		f.note("nranks", string(m[3]))
	}
}

// summary is torchrun's report of the failure that it saw first.
type summary struct {
	lines      int
	node, when string
	rank       int
	local      int
}

// rankedForm is the head of the traceback of another rank, which torch's checkpoints print.
var rankedForm = re(`\(most recent call last\): \(RANK (\d+)\)`)

var summaryTrace = regexp.MustCompile(`^\s*traceback\s*: Traceback `)

// reportWords are in the lines of a report that name a process, and how it ended.
var reportWords = []string{"  host      : ", "  rank      : ", "  exitcode  : "}

// lastReport is the last report of a failure in a stream that has not the head of torchrun's list.
type lastReport struct {
	summary
	code    string
	at, own int64 // its last line, of all logs and of its own
}

// report reads a line of a report without a head: its first lines may be cut off.
func (f *follower) report(st *stream, body []byte) {
	m := summaryForm.FindSubmatch(body)
	if m == nil || st.root != nil || st.reported != nil {
		return
	}
	r := st.last
	if r == nil {
		f.reports = append(f.reports, st)
	}
	if r == nil || r.code != "" {
		r = &lastReport{summary: summary{rank: -1, local: -1}}
		st.last = r
	}
	switch v := string(m[2]); string(m[1]) {
	case "host":
		r.node = v
	case "rank":
		r.rank, r.local = number(v), number(string(m[3]))
	case "exitcode":
		r.code, r.at, r.own = v, f.lines, f.line
	}
}

// headless adds the last reports of the log that was read where the head of their list is missing: the last one is of
// the failure that was observed first.
func (f *follower) headless() {
	lines, line := f.lines, f.line
	for _, st := range f.reports {
		r := st.last
		if r.code == "" || r.rank < 0 || st.reported != nil {
			continue
		}
		f.current, f.chunk, f.lines, f.line = nil, nil, r.at, r.own
		f.ended(st, &prefix{rank: -1, local: -1, body: []byte("exitcode  : " + r.code)}, &r.summary, r.code)
	}
	f.lines, f.line = lines, line
}

var summaryForm = regexp.MustCompile(`^\s*(time|host|rank|exitcode)\s*: (\S+)(?: \(local_rank: (\d+)\))?`)

// feedRoot reads a line of such a report; its exit code ends it.
func (f *follower) feedRoot(st *stream, p *prefix) {
	s := st.root
	if s.lines++; s.lines > maxRootLines {
		st.root = nil
		f.closes(st)
		return
	}
	if m := squeezedForm().FindSubmatch(p.body); m != nil {
		s.rank, s.local = number(string(m[1])), number(string(m[2]))
		f.rootEnds(st, p, string(m[3]))
		return
	}
	m := summaryForm.FindSubmatch(p.body)
	if m == nil {
		return
	}
	switch v := string(m[2]); string(m[1]) {
	case "time":
		s.when = v
	case "host":
		s.node = v
	case "rank":
		s.rank, s.local = number(v), number(string(m[3]))
	case "exitcode":
		f.rootEnds(st, p, v)
	}
}

// squeezedForm is a line of a report that has lost its line breaks.
var squeezedForm = re(`^\s*rank ?:? ?(\d+) \(local[_ ]rank: (\d+)\) *exitcode ?: (-?\d+)`)

// rootEnds ends a report.
func (f *follower) rootEnds(st *stream, p *prefix, code string) {
	s := st.root
	st.root, st.reported = nil, s
	f.closes(st)
	f.ended(st, p, s, code)
}

func (f *follower) ended(st *stream, p *prefix, s *summary, code string) {
	vals := map[string]string{"code": code, "node": s.node}
	c := ofExit(code)
	if c == nil {
		return
	}
	if c == &exitCrash {
		vals["code"] = signalOf(code)
	}
	rank := *p
	rank.rank, rank.local, rank.node = s.rank, s.local, s.node
	e := f.add(c, st, &rank, vals)
	if e == nil {
		return
	}
	if t, ok := stamp([]byte(s.when), f.year); ok {
		e.time = t
	}
}

// frame notes what a frame of a traceback shows.
func (f *follower) frame(body []byte) {
	for _, h := range f.hits {
		for _, c := range f.byWord[h] {
			if !c.frame {
				continue
			}
			if v, ok := c.matches(body, f); ok {
				f.note(c.id, v["v"])
			}
		}
	}
}

// opens notes a stream whose next lines belong together.
func (f *follower) opens(st *stream) {
	f.busy[st] = true
	f.opened = f.lines
}

// closes ends that.
func (f *follower) closes(st *stream) {
	if st.trace == nil && st.root == nil && st.pending == nil && st.lastError == 0 && st.raised == nil {
		delete(f.busy, st)
	}
}

// rest gives up all unfinished tracebacks and summaries.
func (f *follower) rest() {
	for st := range f.busy {
		st.trace, st.root, st.reported, st.pending, st.lastError, st.raised = nil, nil, nil, nil, 0, nil
	}
	clear(f.busy)
}
