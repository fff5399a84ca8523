package truth

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// moment is when a fault begins.
type moment int

const (
	before  moment = iota // the start
	waiting               // while the nodes wait for the last one
	joined                // the commands have begun, and the ranks look for each other
	running               // the ranks exchange data
)

func (m moment) String() string {
	return [...]string{"before the start", "while the nodes wait", "after the join", "while the job runs"}[m]
}

// program is what the job runs.
type program string

const (
	plain   program = "plain"    // python mesh.py
	standIn program = "stand-in" // a stand-in for torchrun, with mesh.py
	torch   program = "torch"    // torchrun, with collective.py
)

// allPrograms are all of them; the change as2 of a seed takes the third.
var allPrograms = []program{plain, standIn, torch}

// mechanism is one way in which an environment may be odd or broken.
type mechanism struct {
	topic, name string
	// causes are the families of causes one of which launch may name: see families in said_test.go.
	causes string
	takes  string // words, none of which the other mechanism of a draw may have
	scope  scope
	// moments are those at which it may begin; nil: before the start.
	moments   []moment
	strengths []string // from weak to strong
	ways      []string // directions
	// degrades: where the job runs all the same it is slower, or lucky, and a warning is right.
	degrades bool
	make     func(b *bed, f fault)
}

// scope is what a mechanism hits.
type scope int

const (
	oneNode  scope = iota
	onePair        // the path between two nodes
	firstOne       // the node of rank 0
	lastOnes       // any node but that of rank 0
	allNodes
)

// fault is a mechanism in a draw.
type fault struct {
	*mechanism
	at, to   int // the node, and of a pair the other one
	when     moment
	strength int
	way      string
}

// strong returns the strength in words.
func (f fault) strong() string {
	if len(f.strengths) == 0 {
		return ""
	}
	return f.strengths[f.strength]
}

// last returns the last host that a fault needs.
func (f fault) last() int {
	if f.scope == onePair {
		return max(f.at, f.to)
	}
	return f.at
}

func (f fault) String() string {
	where := fmt.Sprintf("on host%d", f.at)
	switch f.scope {
	case onePair:
		where = fmt.Sprintf("between host%d and host%d", f.at, f.to)
	case allNodes:
		where = "on all hosts"
	}
	text := f.topic + ": " + f.name
	for _, more := range []string{f.strong(), f.way} {
		if more != "" {
			text += ", " + more
		}
	}
	return text + " " + where + " " + f.when.String()
}

// draw is one environment and one job.
type draw struct {
	seed    string // what replays it
	r       uint64
	hosts   int
	program program
	by      string // how mesh.py finds its own address: name, route
	named   bool   // the line names rank 0 by its name, not by its address
	typed   bool   // launch gets node ranks
	faults  []fault
}

func (d draw) String() string {
	var faults []string
	for _, f := range d.faults {
		faults = append(faults, f.String())
	}
	called := map[bool]string{true: "name", false: "address"}[d.named]
	return fmt.Sprintf("%d hosts, %s (own address by %s, rank 0 by %s): %s", d.hosts, d.program, d.by, called,
		strings.Join(faults, " + "))
}

// starts returns when each host starts after the first one.
func (d draw) starts() []time.Duration {
	late := make([]time.Duration, d.hosts)
	for _, f := range d.faults {
		if f.when == waiting { // another node is late
			late[(f.at+1)%d.hosts] = lateBy
		}
	}
	return late
}

// long reports whether the job must run for a while, because something happens then.
func (d draw) long() bool {
	return slices.ContainsFunc(d.faults, func(f fault) bool { return f.when == running })
}

// newDraw draws from a seed, in which changes may follow the number: 17/drop0/hosts2/weaker1.
func newDraw(seed string, torches int) (draw, error) {
	number, changes, _ := strings.Cut(seed, "/")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return draw{}, fmt.Errorf("TRUTH_SEED %q: the seed is no number", seed)
	}
	r := rand.New(rand.NewPCG(n, 19))
	d := draw{seed: seed, r: n, hosts: 2 + r.IntN(3)}
	d.program = []program{plain, standIn}[r.IntN(2)]
	if r.IntN(100) < torches {
		d.program = torch
	}
	d.by = []string{"name", "name", "route"}[r.IntN(3)]
	d.named, d.typed = r.IntN(2) == 0, r.IntN(3) == 0
	want := 1 + r.IntN(2)
	taken := map[string]bool{}
	for len(d.faults) < want {
		f := d.fault(r)
		words := strings.Fields(f.takes)
		if slices.ContainsFunc(words, func(w string) bool { return taken[w] }) {
			continue
		}
		for _, w := range words {
			taken[w] = true
		}
		d.faults = append(d.faults, f)
	}
	late := func(f fault) bool { return f.when == joined || f.when == running }
	if d.program == standIn && slices.ContainsFunc(d.faults, late) { // launch would ask it for torch's store
		d.program = plain
	}
	if changes == "" {
		return d, nil
	}
	for c := range strings.SplitSeq(changes, "/") {
		if d, err = d.changed(c); err != nil {
			return d, err
		}
	}
	d.seed = seed
	return d, nil
}

// fault draws a topic, a mechanism, and how it is.
func (d draw) fault(r *rand.Rand) fault {
	all := mechanisms()
	topics := byTopic(all)
	group := topics[r.IntN(len(topics))]
	m := group[r.IntN(len(group))]
	f := fault{mechanism: m, at: r.IntN(d.hosts)}
	f.to = (f.at + 1 + r.IntN(d.hosts-1)) % d.hosts
	if m.scope == firstOne {
		f.at = 0
	}
	if m.scope == lastOnes {
		f.at = 1 + r.IntN(d.hosts-1)
	}
	if len(m.moments) > 0 {
		f.when = m.moments[r.IntN(len(m.moments))]
	}
	if len(m.strengths) > 0 {
		f.strength = r.IntN(len(m.strengths))
	}
	if len(m.ways) > 0 {
		f.way = m.ways[r.IntN(len(m.ways))]
	}
	return f
}

// byTopic returns the mechanisms of each topic.
func byTopic(all []*mechanism) (topics [][]*mechanism) {
	at := map[string]int{}
	for _, m := range all {
		i, known := at[m.topic]
		if !known {
			i = len(topics)
			at[m.topic] = i
			topics = append(topics, nil)
		}
		topics[i] = append(topics[i], m)
	}
	return topics
}

// least returns the number of hosts that the faults need.
func (d draw) least() int {
	n := 2
	for _, f := range d.faults {
		n = max(n, f.last()+1)
	}
	return n
}

// simpler returns changes that may leave a disagreement as it is: without one of two faults, fewer
// hosts, less strength.
func (d draw) simpler() (changes []string) {
	if len(d.faults) > 1 {
		for i := range d.faults {
			changes = append(changes, fmt.Sprintf("drop%d", i))
		}
	}
	if fewer := d.least(); fewer < d.hosts {
		changes = append(changes, fmt.Sprintf("hosts%d", fewer))
	}
	for i, f := range d.faults {
		if f.strength > 0 {
			changes = append(changes, fmt.Sprintf("weaker%d", i))
		}
	}
	return changes
}

// changed returns the draw after a change of simpler, with a seed that replays it.
func (d draw) changed(change string) (draw, error) {
	word := strings.TrimRight(change, "0123456789")
	i, err := strconv.Atoi(change[len(word):])
	faults := slices.Clone(d.faults)
	switch {
	case err != nil:
	case word == "drop" && i < len(faults):
		faults = slices.Delete(faults, i, i+1)
	case word == "weaker" && i < len(faults) && faults[i].strength > 0:
		faults[i].strength--
	case word == "hosts" && i >= d.least() && i <= d.hosts:
		d.hosts = i
	case word == "as" && i < len(allPrograms):
		d.program = allPrograms[i]
	default:
		err = strconv.ErrRange
	}
	if err != nil {
		return d, fmt.Errorf("TRUTH_SEED %q: %q is no change of this draw", d.seed, change)
	}
	d.faults, d.seed = faults, d.seed+"/"+change
	return d, nil
}
