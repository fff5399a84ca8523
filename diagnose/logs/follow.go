package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

const (
	maxLine    = 64 << 10
	maxQuote   = 400 // bytes of a line that are kept
	maxStreams = 1 << 16
	maxEvents  = 20000
	maxHits    = 5000 // of one cause that are looked at; the others are counted
	maxFacts   = 16
	maxRank    = 1 << 24
	maxOpen    = 3000 // lines until unfinished tracebacks are given up
)

// event is the first line of one kind in one stream.
type event struct {
	cause *cause
	st    *stream
	file  int
	where string
	order int64
	time  time.Time
	text  string
	at    string // innermost frame of the program
	trace bool   // it ends a traceback
	// chained: that was raised while another error was handled, or while Python ended.
	chained bool
	handled bool // the program says that it goes on
	lent    bool // its rank is that of the traceback after it
	mild    bool // all its lines are warnings of torch
	vals    map[string]string
	rank    int
	task    bool // that is the number of a task
	local   int
	node    string
	boxed   bool // its node is of a line before
	// undated: the year of its time is that of the log's file, since no time of the log has one.
	undated bool
	others  []string // further nodes, named by lines of the same kind
	after   int      // progress of the stream until then
	went    int      // progress of all streams until then
	command int64    // the line of the command before it
	lines   int
	calls   []*call       // of ssh, by which it did not reach hosts
	reached bool          // it reached all of them later
	age     time.Duration // of an event of Kubernetes, as kubectl shows it
}

// stream is what one writer wrote.
type stream struct {
	rank, local int
	task        bool // the rank is the number of a task
	node        string
	file        int
	progress    int // signs of progress since the first event
	wanted      int // they are counted up to here
	trace       *trace
	root        *summary
	reported    *summary // the last one that was complete
	last        *lastReport
	nccl        string // the host whose NCCL reports how a call failed; "*": several do
	raised      *event // an error that the next line may handle
	lastError   int64  // the line where NCCL's last error was announced, which is the next one
	pending     *event // an error whose text begins on the next line
	chain       int64  // the last line that announces a traceback of an error during another one
	box         box
	server      bool   // it is the log of a server of ssh
	object      bool   // its lines are events of an object of Kubernetes
	worked      *int64 // the last line of its log that shows progress, without such events
	alone       bool   // each line names its process, so it is of one; a pod or a host may have many
}

// started is a rank, and the line of the command that started it.
type started struct {
	rank    int
	command int64
}

type streamKey struct {
	file  int
	label string
}

type eventKey struct {
	cause *cause
	st    *stream
	rank  int
	node  string // of a cause whose fact must be of the same host
}

// follower reads logs line by line.
type follower struct {
	*lexicon
	streams map[streamKey]*stream
	events  map[eventKey]*event
	count   map[*cause]int
	last    *event
	facts   map[string]map[string]bool
	latest  map[string]string  // of each fact, the value that the logs have shown last
	ranks   map[string]started // by "host:pid", as NCCL reports them
	// interfaces are the names of those with an address, as NCCL reports them.
	interfaces map[string]string
	named      map[string]bool // names before lines, and whether they are sure to be of hosts
	ssh        ssh
	works      works
	users      map[string]user  // of GPUs, by log, host and bus, as NCCL reports them
	tasks      map[int]bool     // logs with numbers of tasks that are no ranks
	moved      bool             // a sign of a job that computes was there
	wanting    int              // streams whose progress is counted
	went       int              // progress of all streams, while one is counted
	busy       map[*stream]bool // with an unfinished traceback or summary
	opened     int64            // the line where the youngest of them began
	hits       []int32
	hints      hints
	proof      proof
	own        ownFindings

	placed  map[string]string // the nodes of pods, as Kubernetes reports them
	configs []*config         // of the agents of torchrun

	// of the log that is read
	index, rank int
	name        string
	labels      map[string]bool // names of hosts before its lines
	worked      *int64          // its last line that shows progress, without events of Kubernetes
	reports     []*stream       // with reports of failures
	described   string          // the object of Kubernetes that its lines describe
	assigned    string          // the last pod that got a node
	eventOf     string          // the pod of the last event of Kubernetes
	eventAt     int64           // and its line, of all logs
	beheading   beheading       // the last traceback without a head
	year        int             // for times without one
	dated       bool            // the log itself has it
	line        int64
	chunk       []byte // what was read before the line
	current     []byte

	files        int
	lines, bytes int64
	gaps         []Gap
}

func newFollower() *follower {
	return &follower{
		lexicon: theLexicon(), streams: map[streamKey]*stream{}, events: map[eventKey]*event{},
		count: map[*cause]int{}, facts: map[string]map[string]bool{}, latest: map[string]string{},
		ranks: map[string]started{}, interfaces: map[string]string{}, named: map[string]bool{}, works: newWorks(),
		placed: map[string]string{}, tasks: map[int]bool{}, users: map[string]user{},
		busy: map[*stream]bool{}, ssh: newSSH(), proof: proof{given: map[ending]int64{}, probed: map[int]int64{}},
	}
}

// readSource reads one log; what fails becomes a gap.
func (f *follower) readSource(s source, stdin io.Reader) {
	r, done, changed, err := s.open(stdin)
	defer done()
	if err == nil {
		f.files++
		f.index, f.name, f.rank, f.year, f.line = f.index+1, s.name, rankOf(s.path), changed.Year(), 0
		f.dated, f.described, f.labels, f.worked = false, "", map[string]bool{}, new(int64)
		f.reports, f.assigned, f.eventAt, f.beheading = nil, "", -maxLine, beheading{}
		f.proof.restart(f.lines)
		f.rest()
		err = f.read(r)
		f.unfinished()
		f.headless()
		f.ofHints()
	}
	switch {
	case err == nil:
	case errors.Is(err, io.ErrUnexpectedEOF):
		f.gap(s.name, "ends in the middle of its packed data; what comes before was read")
	default:
		f.gap(s.name, why(err))
	}
}

func (f *follower) gap(path, why string) {
	if len(f.gaps) < maxGaps {
		f.gaps = append(f.gaps, Gap{path, why})
	}
}

// read splits a log into lines. It holds one chunk, and cuts longer lines.
func (f *follower) read(r io.Reader) error {
	buf := make([]byte, 1<<20)
	have, skip := 0, false
	for {
		n, err := r.Read(buf[have:])
		f.bytes += int64(n)
		have += n
		f.date(buf[:have])
		start := 0
		for {
			end := bytes.IndexByte(buf[start:have], '\n')
			if end < 0 {
				break
			}
			if f.chunk = buf[:start]; !skip {
				f.one(buf[start : start+end])
			}
			skip = false
			start += end + 1
		}
		if have-start > maxLine && err == nil {
			if f.chunk = buf[:start]; !skip {
				f.one(buf[start:have])
			}
			start, skip = have, true
		}
		if err != nil {
			if f.chunk = buf[:start]; have > start && !skip {
				f.one(buf[start:have])
			}
			if err == io.EOF {
				err = nil
			}
			return err
		}
		have = copy(buf, buf[start:have])
	}
}

// one reads a line.
func (f *follower) one(line []byte) {
	f.line++
	f.lines++
	if len(f.busy) > 0 && f.lines-f.opened > maxOpen {
		f.rest()
	}
	line = unpacked(line[:min(len(line), maxLine)])
	f.own.read(f, line)
	if f.wrapped(line) {
		return
	}
	f.contradicts(line)
	f.hints.warning(line)
	f.hits = f.scan.find(line, f.hits[:0])
	if bytes.Contains(line, []byte(jobStep)) || argued(line) {
		f.hits = slices.DeleteFunc(f.hits, func(h int32) bool { return f.steps[h] && len(f.byWord[h]) == 0 })
	}
	f.continues(line)
	if f.proof.table && result(line) {
		f.proved()
	}
	if len(f.hits) == 0 && len(f.busy) == 0 {
		return
	}
	if slices.ContainsFunc(f.hits, func(h int32) bool { return f.steps[h] }) {
		f.moved = true
		f.own.stepped(line)
		delete(f.latest, dataBar) // until the line says it again: data were prepared before
	}
	f.hint(line)
	line = bytes.TrimRight(line, "\r")
	if bytes.IndexByte(line, '\r') < 0 && inner(line) == 0 {
		f.hit(line)
		return
	}
	for part := range bytes.SplitSeq(line, []byte{'\r'}) { // a progress bar
		for len(part) > 0 {
			end := inner(part)
			if end == 0 {
				end = len(part)
			}
			if f.hits = f.scan.find(part[:end], f.hits[:0]); len(f.hits) > 0 || len(f.busy) > 0 {
				f.hit(part[:end])
			}
			part = part[end:]
		}
	}
}

// inner returns where the line of another rank begins in a line, after a progress bar that had no end; 0: nowhere.
func inner(line []byte) int {
	for _, label := range []string{"[default", "[rank"} {
		at := bytes.LastIndex(line, []byte(label))
		if at > 0 && line[at-1] != ':' && line[at-1] != ' ' && bytes.Contains(line[at:min(len(line), at+16)], []byte("]:")) {
			return at
		}
	}
	return 0
}

// hit reads a line that has a word of the table, or may belong to a traceback.
func (f *follower) hit(line []byte) {
	if f.flood() {
		return
	}
	f.current = line
	p := f.strip(line)
	f.ofPod(&p)
	st := f.stream(&p)
	if st == nil {
		return
	}
	if st.pending != nil {
		f.message(st, p.body)
	}
	if st.raised != nil {
		f.handling(st, p.body)
	}
	f.unglog(st, &p)
	f.around(st, p.body)
	var found *cause
	var vals map[string]string
	if st.trace != nil && st.trace.of != nil {
		p.body = bytes.TrimPrefix(p.body, []byte(reportIndent))
	}
	inTrace := st.trace != nil && !bytes.HasPrefix(p.body, []byte(wordTrace))
	if inTrace && len(p.body) > 0 && p.body[0] == ' ' && bareError(p.body[1:]) { // pasted with a blank before it
		p.body = p.body[1:]
	}
	indented := inTrace && len(p.body) > 0 && (p.body[0] == ' ' || p.body[0] == '\t')
	if indented {
		f.frame(p.body)
	} else {
		found, vals = f.match(&p)
		found, vals = f.afterLastError(st, &p, found, vals)
	}
	if found != nil {
		found = found.meant(vals)
	}
	if found != nil && found.grade == unknown && (inTrace || bareError(p.body)) {
		found, vals = nil, nil
	}
	switch {
	case inTrace && st.trace.feed(p.body):
		f.traceEnds(st, &p, found, vals)
		return
	case inTrace && found == nil:
		f.expire(st)
		return
	}
	if st.root != nil {
		f.feedRoot(st, &p)
	}
	if found != nil && found.grade != harmless {
		e := f.add(found, st, &p, vals)
		if found.grade == unknown {
			f.awaits(st, e)
		}
	}
	f.specials(st, &p, found)
}

// stream returns the stream of a line; nil: there are too many.
func (f *follower) stream(p *prefix) *stream {
	key := streamKey{f.index, string(p.label)}
	st := f.streams[key]
	if st == nil {
		if len(f.streams) >= maxStreams {
			return nil
		}
		st = &stream{rank: p.rank, task: p.task, local: p.local, node: p.node, file: f.index,
			alone: processLabel.Match(p.label), object: p.object, worked: f.worked}
		if p.label == nil { // the next lines may be of other hosts and ranks
			st.node, st.rank = "", -1
		}
		if st.rank < 0 {
			st.rank = f.rank
		}
		f.streams[key] = st
	}
	return st
}

// place returns where the line is: log:line.
func (f *follower) place() string { return fmt.Sprintf("%s:%d", f.name, f.line) }
