package logs

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"
)

// add adds a line to the events of its stream; nil: it is not of interest.
func (f *follower) add(c *cause, st *stream, p *prefix, vals map[string]string) *event {
	f.count[c]++
	e := event{cause: c, st: st, vals: vals, local: p.local}
	if len(f.facts[c.with]) == 1 {
		for v := range f.facts[c.with] {
			e.set("fact", v)
		}
	}
	if name := f.interfaces[e.vals["addr"]]; name != "" && e.vals["if"] == "" {
		e.set("if", name)
	}
	f.ofEvent(&e, p)
	f.blame(&e, p)
	e.mild = warnForm().Match(p.body)
	key := eventKey{cause: c, st: st, rank: e.rank}
	if c.here {
		key.node = e.node
	}
	if old := f.events[key]; old != nil {
		if old.lines++; !old.over() && !old.handled {
			if f.saysMore(old, &e, p.body) {
				old.text, old.where = quote(p.body), f.place()
			}
			old.mild = old.mild && e.mild
			old.learn(&e, f.lines)
			old.alsoOn(e.vals["node"])
			old.alsoDevice(e.vals["devs"])
			old.alsoPair(&e)
			f.called(old, &e, p.body)
			return old
		}
	} else if len(f.events) >= maxEvents {
		return nil
	}
	if old := f.events[key]; old != nil && c.grade == decisive && e.node == "" && e.rank < 0 {
		e.node = old.vals["node"] // that the line before named
	}
	e.file, e.where, e.order, e.lines, e.time = f.index, f.place(), f.lines, 1, f.when()
	e.undated = !f.dated && !e.time.IsZero()
	e.text = quote(p.body)
	e.after, e.went, e.command = st.progress, f.went, f.proof.command
	if st.progress == st.wanted {
		f.wanting++
	}
	st.wanted = st.progress + fewSteps + 1
	f.events[key], f.last = &e, &e
	f.called(&e, &e, p.body)
	return &e
}

// quote returns what an event holds of a line.
func quote(body []byte) string {
	return string(bytes.ToValidUTF8(body[:min(len(body), maxQuote)], []byte("?")))
}

// learn takes from a later line of the same kind, soon after, what the first one did not say.
func (e *event) learn(later *event, line int64) {
	const near = 40
	if line-e.order > near {
		return
	}
	for name, v := range later.vals {
		if v != "" && e.vals[name] == "" {
			e.set(name, v)
		}
	}
	e.node = cmp.Or(e.node, later.vals["node"])
	if r := number(later.vals["rank"]); e.rank < 0 && r < maxRank {
		e.rank = r
	}
}

func (e *event) set(name, value string) {
	if e.vals == nil {
		e.vals = map[string]string{}
	}
	e.vals[name] = value
}

// alsoOn notes a further node that a line of the same kind names.
func (e *event) alsoOn(node string) {
	if node != "" && node != e.node && !e.boxed && len(e.others) < maxFacts && !slices.Contains(e.others, node) {
		e.others = append(e.others, node)
	}
}

// alsoDevice notes a further device that a line of the same kind names.
func (e *event) alsoDevice(dev string) {
	const most = 200
	all := e.vals["devs"]
	if dev != "" && len(all) < most && !slices.Contains(strings.Split(all, ", "), dev) {
		e.set("devs", strings.TrimPrefix(all+", "+dev, ", "))
	}
}

// alsoPair notes two further ranks that a line of the same kind names.
func (e *event) alsoPair(later *event) {
	const most = 200
	if a, b := later.vals["a"], later.vals["b"]; e.cause.job && number(a) >= 0 && number(b) >= 0 &&
		later.vals["dev"] == e.vals["dev"] && len(e.vals["pairs"]) < most {
		e.set("pairs", e.vals["pairs"]+a+" "+b+" ")
	}
}

// blame finds the rank and the node of an event: those that the line names, else those of who wrote it.
func (f *follower) blame(e *event, p *prefix) {
	e.rank, e.node, e.task = p.rank, p.writer(), p.task
	if m := ofNCCL(p.body); m != nil {
		if r, ok := f.ranks[string(m[1])+":"+string(m[2])]; ok && e.rank < 0 {
			e.rank = r.rank
		}
	}
	if n := e.vals["node"]; n != "" {
		e.node = n
	}
	if r := number(e.vals["rank"]); r >= 0 && r < maxRank {
		e.rank, e.task = r, false
	}
	if l := number(e.vals["local"]); l >= 0 && l < maxRank {
		e.local = l
	}
	if e.vals["ranks"] != "" { // who writes it names others
		e.rank, e.node, e.local = -1, "", -1
		return
	}
	if e.rank < 0 {
		e.rank, e.task = e.st.rank, e.st.task
	}
	e.st.box.names(e, f.lines)
	if e.local < 0 {
		e.local = e.st.local
	}
	if e.node == "" {
		e.node = e.st.node
	}
}

// over says whether the stream went on after the event. What an object of Kubernetes waits for is over once the same
// log has the output of a program that works.
func (e *event) over() bool {
	limit := 3
	if e.cause.soft {
		limit = 1
	}
	works := e.cause.soft && e.st.object && *e.st.worked > e.order
	return !e.cause.stays && (works || e.st.progress-e.after >= limit)
}

// when returns the time of the line, or of one shortly before it.
func (f *follower) when() time.Time {
	const back = 60
	if t, ok := stamp(f.current, f.year); ok {
		return t
	}
	before := f.chunk
	for range back {
		before = bytes.TrimRight(before, "\n")
		if len(before) == 0 {
			break
		}
		start := bytes.LastIndexByte(before, '\n') + 1
		if t, ok := stamp(before[start:], f.year); ok {
			return t
		}
		before = before[:start]
	}
	return time.Time{}
}

// writer returns the host of who writes a line: as its prefix names it, or NCCL.
func (p *prefix) writer() string {
	if p.node == "" {
		if m := ofNCCL(p.body); m != nil {
			return string(m[1])
		}
	}
	return p.node
}

func ofNCCL(body []byte) [][]byte {
	if !bytes.Contains(body, []byte("NCCL")) && !bytes.Contains(body, []byte(" WARN ")) {
		return nil
	}
	return ncclPrefix.FindSubmatch(body)
}
