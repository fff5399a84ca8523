package logs

import (
	"maps"
	"regexp"
	"slices"
)

// box is what names a process before the lines that say what happened to it.
type box struct {
	rank int
	node string
	devs string // one of its devices
	last int64  // the last line, of all logs, for which it counts
}

// boxWords are in the lines of boxForms.
var boxWords = []string{" RUNNING AT ", ": Fatal error in ", "] Fatal error in ", "*** reported by process " +
	"[", "Nodename: ", ", ip=", "retryLimit=", "ssh not successful for host ", ", RankID:", "Node Id: ",
	"NVRM: The NVIDIA GPU ", " started on host ", "bootstrap.cc:", "socket.cc:", "init.cc:", "group.cc:"}

// boxForms are reports of Hydra, of which only Intel's has the rank; the heads of MPICH's error stacks; of the state
// of Neuron's runtime; and of the tracebacks that Ray passes on from another process, which are long.
var boxForms = []struct {
	form form
	near int64
	only bool // it counts where all such lines of the stream name one node
}{
	{re(`(?:RANK (?P<rank>\d+) )?PID \d+ RUNNING AT (?:[\w.-]+@)?(?P<node>[\w.-]+)`), 8, false},
	{re(`^(?:MPICH ERROR \[)?Rank (?P<rank>\d+)\]? .*\[(?P<node>[A-Za-z][\w.-]*)\] ` +
		`(?:- Abort\(\d+\) .*: )?Fatal error in `), 8, false},
	{re(`\(rank (?P<rank>\d+) in comm 0\): Fatal error in `), 8, false},
	{re(`\*\*\* reported by process \[\d+,(?P<rank>\d+)\]`), 8, false}, // of Open MPI
	{re(`NRT:nrt_infodump +Nodename: (?P<node>[\w.-]+)`), 8, false},
	{re(`willRetry=.*\brank=(?P<rank>\d+), size=\d+`), 8, false}, // of Gloo
	{re(`^ssh not successful for host (?P<node>[\w.-]+)`), 8, false},
	{re(`\(PID:\d+, Device:\d+, RankID:(?P<rank>\d+)\)`), 8, false}, // of torch_npu
	{re(`(?i)\bworker \d+ started on host (?P<node>[\w.-]+)`), 40, true},
	{re(`node has died\. Node Id: (?P<node>[\da-f]{32,})\b`), 4, false},
	{re(`^(?:\[\d+\] )?(?P<node>[A-Za-z][\w.-]*):\d+:\d+ (?:\[\d+\] )?NCCL INFO \S+:\d+ -> [1-9]`), 3, true},
	{re(`NVRM: The NVIDIA GPU (?P<devs>[\da-fA-F:.]+)`), 4, false},
	{re(`ray::.*\(pid=\d+, ip=(?P<node>[\d.]+\d)`), 40, false},
}

// around notes what a line says of the lines before and after it.
func (f *follower) around(st *stream, body []byte) {
	for _, mark := range []string{markMore, markBox, markSSH} {
		if !slices.ContainsFunc(f.hits, func(h int32) bool { return f.special[h] == mark }) {
			continue
		}
		switch mark {
		case markMore:
			f.more(st, body)
			f.hostOf(st, body)
		case markBox:
			f.names(st, body)
		case markSSH:
			f.ofSSH(st, body)
		}
	}
}

// names notes the process that a line names for the lines after it.
func (f *follower) names(st *stream, body []byte) {
	for _, b := range boxForms {
		if m := b.form().FindSubmatch(body); m != nil {
			v := values(b.form(), m)
			if b.only && !st.one(v["node"]) {
				return
			}
			next := box{rank: number(v["rank"]), node: v["node"], devs: v["devs"], last: f.lines + b.near}
			if next.node == "" && f.lines <= st.box.last && st.box.rank == next.rank {
				next.node = st.box.node
			}
			st.box = next
			return
		}
	}
}

// one says whether no such line of the stream has named another node.
func (st *stream) one(node string) bool {
	if st.nccl == "" {
		st.nccl = node
	}
	if st.nccl != node {
		st.nccl, st.box = "*", box{}
	}
	return st.nccl == node
}

// names gives the process of the box to an event soon after it.
func (b *box) names(e *event, line int64) {
	if line > b.last {
		return
	}
	if e.rank < 0 || b.rank >= 0 && e.vals["rank"] == "" { // a message's rank counts before a label's
		e.rank = b.rank
	}
	if e.node == "" && e.vals["host"] != b.node { // else it is the one that another asks for
		e.node, e.boxed = b.node, b.node != ""
	}
	if b.devs != "" && e.vals["devs"] == "" {
		e.set("devs", b.devs)
	}
}

// more adds to the last event what a line soon after it says of it.
func (f *follower) more(st *stream, body []byte) {
	e := f.last
	if e == nil || e.st != st || e.cause.more == nil {
		return
	}
	if m := e.cause.more().FindSubmatch(body); m != nil {
		later := event{vals: values(e.cause.more(), m)}
		e.differs(later.vals)
		e.learn(&later, f.lines)
	}
}

// differs notes as NAME2 a value that an event has already in another form: of a second list.
func (e *event) differs(later map[string]string) {
	for name, v := range later {
		if has := e.vals[name]; has != "" && v != "" && v != has && e.vals[name+"2"] == "" {
			e.set(name+"2", v)
		}
	}
}

// Open MPI's messages name the host after what happened.
var hostForm = regexp.MustCompile(`^\s*Local host: +([A-Za-z0-9][\w.-]*)\s*$`)

// ofHost gives the host of a line to the event shortly before it, or else to one just after it, if that one names
// no host.
func (f *follower) ofHost(st *stream, body []byte) {
	const near, next = 12, 3
	m := hostForm.FindSubmatch(body)
	if m == nil {
		return
	}
	st.box = box{rank: -1, node: string(m[1]), last: f.lines + next}
	if e := f.last; e != nil && e.st == st && f.lines-e.order <= near && e.node == "" && e.vals["ranks"] == "" {
		e.node = string(m[1])
	}
}

// ofNext gives the rank of a traceback to the exception that Python printed just before it without a prefix.
func (f *follower) ofNext(p *prefix) {
	const near = 2
	e := f.last
	if e != nil && p.rank >= 0 && e.file == f.index && e.rank < 0 && e.local < 0 && e.vals["ranks"] == "" &&
		f.lines-e.order <= near && bareError([]byte(e.text)) {
		e.rank, e.lent = p.rank, true
	}
}

// takeBack takes the rank of the traceback after it away from an exception where that traceback ends with another one:
// the two are of different processes, of which the second one often fails since the first one has.
func (f *follower) takeBack() {
	for _, e := range f.events {
		again := func(o *event) bool {
			return o != e && o.rank == e.rank && o.file == e.file && o.cause.id == e.cause.id && sameText(o.text, e.text)
		}
		if e.lent && e.lines == 1 && !slices.ContainsFunc(slices.Collect(maps.Values(f.events)), again) {
			e.rank = -1
		}
	}
}
