package logs

import (
	"bytes"
	"strings"
)

var (
	// loggerForm is how loggers name the rank that writes; it stays in the line. The first one is of older torch, which
	// names the rank in a group: without a number of the group, or with 0, that is the rank in the job.
	loggerForm = re(`^\[[EWF][^\]]*\] \[(?:PG (?:ID )?0 [^\]]*)?Rank (\d+)\]|\[[\w.]+:\d+, rank=(\d+)\]|` +
		`^\[[A-Z]+\] .{0,120}\[RANK:(\d+)\]|^[\d-]{10} [\d:,.]{8,}: rank(\d+)\[\d+\]\[\w+\]: `)
	// tensorForm is how SGLang names the rank after the time, where it divides the model in one way only.
	tensorForm = re(`^TP(\d+)\] `)
	// clockForm is a time without a date before the line of a process.
	clockForm = re(`^\d\d:\d\d:\d\d(?:[.,]\d+)? +`)
	// numberedForm is a number and the rank of the job before a line.
	numberedForm = re(`^ *(\d{1,6}): (?:\[(?:rank|default\d+\]:\[rank)(\d+)\]:|\[\d+,(\d+)\]<std)`)
	// nudgedForm is the line of a rank that was pasted with a blank before it.
	nudgedForm = re(`^ {1,3}\[rank\d+\]:`)
)

// logger finds the rank of a line in what its logger writes.
func (p *prefix) logger(head []byte) {
	if p.rank >= 0 || !bytes.Contains(head, []byte("ank")) && !bytes.Contains(head, []byte("RANK:")) {
		return
	}
	if m := loggerForm().FindSubmatch(head); m != nil {
		p.rank = number(string(bytes.Join(m[1:], nil)))
	}
}

// tensor takes SGLang's name of a rank off.
func (p *prefix) tensor() bool {
	m := tensorForm().FindSubmatch(p.body)
	if m == nil {
		return false
	}
	p.rank = number(string(m[1]))
	return p.take(len(m[0]), nil)
}

// contradicts notes that the numbers before the lines of a log are no ranks.
func (f *follower) contradicts(line []byte) {
	if len(line) == 0 || !digit(line[0]) && line[0] != ' ' || f.tasks[f.index] {
		return
	}
	m := numberedForm().FindSubmatch(line[:min(len(line), 64)])
	if m != nil && number(string(m[1])) != number(string(m[2])+string(m[3])) {
		f.tasks[f.index] = true
	}
}

// untask takes the numbers before lines away from events where they are no ranks: other lines of the log name another
// rank after such a number, so it is the number of a task with several ranks, or of a test.
func (f *follower) untask() {
	for _, e := range f.events {
		if e.task && f.tasks[e.file] {
			e.rank = -1
			if r, ok := f.ranks[strings.Join(ncclProcess(e.text), ":")]; ok {
				e.rank = r.rank
			}
		}
	}
}

// ncclProcess returns the host and process that wrote a line of NCCL.
func ncclProcess(text string) []string {
	m := ncclPrefix.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	return m[1:3]
}
