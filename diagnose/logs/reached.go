package logs

import (
	"bytes"
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"strings"
	"time"
)

// nearCall is how many lines are between a line of ssh and what a launcher concludes from it.
const nearCall = 40

// call is a line by which ssh did not reach a host.
type call struct {
	event *event
	st    *stream
	host  string // "": no line has named it
	file  int
	order int64
	other bool // it is no line of ssh, so what ssh reaches does not matter

	where, text string
	time        time.Time
	undated     bool
	node        string
	vals        map[string]string
}

// reach is a line by which ssh reached a host.
type reach struct {
	st    *stream
	order int64
}

type hostKey struct {
	file int
	host string
}

// ssh is what the logs show of hosts that ssh called.
type ssh struct {
	calls   []*call // in the order of the lines
	unnamed []*call // whose host a line soon after may name
	last    map[hostKey]*call
	reached map[hostKey][]reach
	count   int  // of reached
	full    bool // not all could be held
}

func newSSH() ssh { return ssh{last: map[hostKey]*call{}, reached: map[hostKey][]reach{}} }

// sshWords are in lines of reachedForm and serverForm.
var sshWords = []string{"Permanently added '", "Server listening on ", "Accepted publickey for "}

var (
	reachedForm = re(`Permanently added '\[?(?P<host>[\w.:-]+)\]?(?::\d+)?(?:,\[?(?P<addr>[\w.:-]+)\]?(?::\d+)?)?' `)
	serverForm  = re(`Server listening on \S+ port \d|Accepted publickey for \S+ from `)
)

// ofSSH notes a host that ssh has reached, by its names, and that a stream is the log of a server.
func (f *follower) ofSSH(st *stream, body []byte) {
	st.server = st.server || serverForm().Match(body)
	m := reachedForm().FindSubmatch(body)
	if m == nil {
		return
	}
	for _, name := range values(reachedForm(), m) {
		if name == "" {
			continue
		}
		key := hostKey{f.index, name}
		all := f.ssh.reached[key]
		if f.ssh.count++; f.ssh.count > maxStreams && len(all) > 0 {
			all = all[:len(all)-1]
		}
		if f.ssh.count <= maxStreams || len(all) > 0 {
			f.ssh.reached[key] = append(all, reach{st, f.lines})
		}
	}
}

// ofServer says whether a server of ssh wrote a line.
func (f *follower) ofServer(p *prefix) bool {
	st := f.streams[streamKey{f.index, string(p.label)}]
	return st != nil && st.server || bytes.Contains(p.body, []byte("sshd["))
}

// called notes a line of an event by which ssh did not reach a host.
func (f *follower) called(e, line *event, body []byte) {
	ofSSH := bytes.Contains(body, []byte("Could not resolve hostname"))
	switch e.cause.id {
	case "log.dns":
	case "log.ssh-closed", "log.ssh-unreachable":
		ofSSH = true
	default:
		if !ofSSH {
			return
		}
	}
	if len(f.ssh.calls) >= maxEvents {
		f.ssh.full = true
		return
	}
	c := &call{event: e, st: e.st, file: f.index, order: f.lines, other: !ofSSH, where: f.place(), text: quote(body),
		time: f.when(), undated: e.undated, node: line.node, vals: maps.Clone(line.vals)}
	e.calls, f.ssh.calls = append(e.calls, c), append(f.ssh.calls, c)
	if ofSSH {
		f.isOf(c, cmp.Or(line.vals["host"], line.vals["node"]))
	}
}

// isOf gives a call its host.
func (f *follower) isOf(c *call, host string) {
	if c.host = host; host == "" {
		f.ssh.unnamed = append(f.ssh.unnamed, c)
		return
	}
	f.ssh.last[hostKey{c.file, host}] = c
}

// hostOf gives the host that a line names to the first call before it that lacks one.
func (f *follower) hostOf(st *stream, body []byte) {
	f.ssh.unnamed = slices.DeleteFunc(f.ssh.unnamed, func(c *call) bool { return f.lines-c.order > nearCall })
	for i, c := range f.ssh.unnamed {
		if c.st != st || c.event.cause.more == nil {
			continue
		}
		m := c.event.cause.more().FindSubmatch(body)
		if m == nil {
			continue
		}
		vals := values(c.event.cause.more(), m)
		maps.Copy(vals, c.vals)
		c.vals, c.node = vals, vals["node"]
		f.ssh.unnamed = slices.Delete(f.ssh.unnamed, i, i+1)
		f.isOf(c, c.node)
		if c != c.event.calls[0] {
			c.event.alsoOn(c.node)
		}
		return
	}
}

// answers says whether ssh reached the host of a call after it, and before another line.
func (f *follower) answers(c *call, before int64) bool {
	all := f.ssh.reached[hostKey{c.file, c.host}]
	for _, r := range slices.Backward(all) {
		if r.order <= c.order || c.other || c.host == "" {
			return false
		}
		if r.order < before && (c.event.cause.id != "log.dns" || r.st == c.st) {
			return true
		}
	}
	return false
}

// settle leaves the hosts out of events that ssh reached later.
func (f *follower) settle() {
	for _, e := range f.events {
		if len(e.calls) == 0 || f.ssh.full || f.count[e.cause] >= maxHits {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(e.calls), func(c *call) bool { return f.answers(c, f.lines+1) })
		switch {
		case len(left) == 0:
			e.reached = true
		case len(left) < len(e.calls):
			e.becomes(left)
		}
	}
}

// becomes makes an event one of these lines only.
func (e *event) becomes(left []*call) {
	c := left[0]
	e.where, e.order, e.text, e.time, e.undated = c.where, c.order, c.text, c.time, c.undated
	e.vals, e.node, e.lines, e.calls, e.others = c.vals, c.node, len(left), left, nil
	for _, o := range left[1:] {
		e.alsoOn(o.vals["node"])
	}
}

// excused says whether an event is no failure by what other lines say: ssh reached its hosts later, a server wrote
// it, or ssh did not reach the login.
func (f *follower) excused(e *event) bool {
	if e.reached || e.cause.client && e.st.server {
		return true
	}
	if !e.cause.login || len(e.others) > 0 {
		return false
	}
	calls := f.ssh.calls
	for _, c := range calls[sort.Search(len(calls), func(i int) bool { return calls[i].order > e.order }):] {
		if c.order > e.order+nearCall {
			break
		}
		if c.file == e.file && !c.other && !differ(c.host, e.node) {
			return true
		}
	}
	return false
}

// unreached says whether ssh did not reach a host shortly before, or a host that may be this one.
func (f *follower) unreached(host string) bool {
	if c := f.ssh.last[hostKey{f.index, host}]; c != nil {
		return !f.answers(c, f.lines)
	}
	for _, c := range slices.Backward(f.ssh.calls) {
		if c.file != f.index || c.order < f.lines-nearCall {
			break
		}
		if !c.other && !differ(c.host, host) && !f.answers(c, f.lines) {
			return true
		}
	}
	return false
}

// differ says whether two hosts are not the same; a name and an address may be of one host.
func differ(a, b string) bool {
	if a == "" || b == "" || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".") {
		return false
	}
	_, errA := netip.ParseAddr(a)
	_, errB := netip.ParseAddr(b)
	return a != b && (errA == nil) == (errB == nil)
}
