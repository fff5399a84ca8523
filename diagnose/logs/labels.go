package logs

import (
	"bytes"
	"regexp"
	"strings"
)

var (
	// labelForm is what may be the name of a host before each of its lines, in a form that other words have, too.
	labelForm = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9]*(?:[\w.-]*[\d_.-])[\w.-]*):(?: |$)`)
	// ofRank and ofTrace begin lines that only a process writes: it has a rank, or a traceback.
	ofRank  = regexp.MustCompile(`^\[(?:rank|default)\d+\]: ?`)
	ofTrace = regexp.MustCompile(`^(?:Traceback \(most recent call last\)| +File "[^"]+", line \d)`)
	// levels end names that are no names of hosts.
	levels = regexp.MustCompile(`(?i)(?:error|exception|warning|warn|info|debug|fatal|critical|root)$`)
)

// strip takes the prefixes off a line, also the name of a host in an unusual form, once a line of a process has it.
func (f *follower) strip(line []byte) prefix {
	p := strip(line)
	if p.label != nil || p.node != "" || len(p.body) == 0 || p.body[0]|0x20 < 'a' || p.body[0]|0x20 > 'z' {
		return p
	}
	const longest = 64
	m := labelForm.FindSubmatch(p.body[:min(len(p.body), longest)])
	if m == nil {
		return p
	}
	name, rest := string(m[1]), p.body[len(m[0]):]
	if known := f.labels[name]; !known || !f.named[name] {
		host := ofRank.Match(rest) || bytes.HasPrefix(rest, append(bytes.Clone(m[1]), ':')) && ncclPrefix.Match(rest)
		if !known && (!host && !ofTrace.Match(rest) || levels.MatchString(name) || program.MatchString(name) ||
			len(f.named) >= maxStreams) {
			return p
		}
		name = strings.Clone(name)
		f.labels[name], f.named[name] = true, host || f.named[name]
	}
	inner := strip(rest)
	if inner.node == "" {
		inner.node = name
	}
	if inner.label = append(append(bytes.Clone(m[1]), '/'), inner.label...); inner.label[len(inner.label)-1] == '/' {
		inner.label = m[1]
	}
	return inner
}

// unlabel takes the names away from events that only lines of tracebacks have before them, so that they may be the
// names of loggers or runs: NCCL, the line of a rank, or a report has to name such a host, too.
func (f *follower) unlabel() {
	for at := range f.ranks {
		host, _, _ := strings.Cut(at, ":")
		f.named[host] = true
	}
	for _, e := range f.events {
		f.named[e.vals["node"]] = true
	}
	for _, e := range f.events {
		if host, labels := f.named[e.node]; labels && !host {
			e.node = ""
		}
	}
}

// column returns the length of the columns before a line in a table, of which one has the time, as viewers of logs
// write them; 0: there are none.
func (p *prefix) column() int {
	const border = "| "
	n := spaces(p.body, 4)
	rest, ok := bytes.CutPrefix(p.body[n:], []byte(border))
	stamp := stampLen(rest)
	if !ok || stamp == 0 || !bytes.HasPrefix(rest[stamp:], []byte(border)) {
		return 0
	}
	return n + len(border) + stamp + len(border)
}
