package logs

import "regexp"

// box is a report of several lines that names a process before what happened to it.
type box struct {
	rank int
	node string
	line int64 // of all logs; 0: no report
}

// Hydra's report: "=   RANK 3 PID 4711 RUNNING AT gpu-07"; only Intel's has the rank.
var boxForm = regexp.MustCompile(`(?:RANK (\d+) )?PID \d+ RUNNING AT ([\w.-]+)`)

func (b *box) open(body []byte, line int64) {
	if m := boxForm.FindSubmatch(body); m != nil {
		*b = box{rank: number(string(m[1])), node: string(m[2]), line: line}
	}
}

// names gives the process of the box to an event soon after it.
func (b *box) names(e *event, line int64) {
	const near = 8
	if b.line == 0 || line-b.line > near {
		return
	}
	if e.rank < 0 {
		e.rank = b.rank
	}
	if e.node == "" {
		e.node = b.node
	}
}

// Open MPI's messages name the host after what happened.
var hostForm = regexp.MustCompile(`^\s*Local host: +([A-Za-z0-9][\w.-]*)\s*$`)

// ofHost gives the host of a line to the event shortly before it, if that one names no host.
func (f *follower) ofHost(st *stream, body []byte) {
	const near = 12
	e := f.last
	if e == nil || e.st != st || e.node != "" || e.vals["ranks"] != "" || f.lines-e.order > near {
		return
	}
	if m := hostForm.FindSubmatch(body); m != nil {
		e.node = string(m[1])
	}
}

// ofNext gives the rank of a traceback to the exception that Python printed just before it without a prefix.
func (f *follower) ofNext(p *prefix) {
	const near = 2
	e := f.last
	if e != nil && p.rank >= 0 && e.file == f.index && e.rank < 0 && e.local < 0 && e.vals["ranks"] == "" &&
		f.lines-e.order <= near && bareError([]byte(e.text)) {
		e.rank = p.rank
	}
}
