// Package peers compares the nodes of a job with each other: the calls between
// them, their names and clocks, and what each would run, load and is made of.
package peers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"launch/internal/finding"
	"launch/preflight"
)

// Post is what one node says about itself before the start.
type Post struct {
	Rank     int            `json:"rank"`
	Name     string         `json:"name"`
	ID       string         `json:"id,omitempty"`      // what it answers calls with
	Local    finding.Report `json:"local,omitempty"`   // what is wrong here by its own checks: of launch check Telling, of a start Brief
	Calls    []Call         `json:"calls,omitempty"`   // to some of the others, and to node rank 0
	Names    Names          `json:"names,omitzero"`    // of some of the others, looked up
	Listens  []Listen       `json:"listens,omitempty"` // where its libraries will wait, beside its address
	NProc    string         `json:"nproc,omitempty"`
	Version  string         `json:"version"`            // of launch
	Command  string         `json:"command"`            // what all nodes should have typed alike
	Script   string         `json:"script,omitempty"`   // the content of the script, in words that can be compared
	Restarts string         `json:"restarts,omitempty"` // --restarts
	Loads    Loads          `json:"loads,omitzero"`
	Traits   Traits         `json:"traits,omitzero"`
	// Constants are the settings that have to be the same on all nodes, as they
	// will be in force on this one, by name.
	Constants map[string]string `json:"constants,omitempty"`
	Nameless  bool              `json:"nameless,omitempty"` // the job's name says only where it meets: another job may have come here
	Skip      []string          `json:"skip,omitempty"`     // IDs that its user does not want judged

	Outcomes map[string]finding.Status `json:"outcomes,omitempty"` // of launch check: how each of its own checks ended
}

// Decision is what all nodes print and act on.
type Decision struct {
	Go       bool            `json:"go"`
	Unfit    []int           `json:"unfit,omitempty"`    // node ranks that must leave
	Who      string          `json:"who,omitempty"`      // their names, for people
	Findings finding.Report  `json:"findings,omitempty"` // of the nodes beside each other
	Nodes    finding.Report  `json:"nodes,omitempty"`    // of launch check: of the nodes by themselves, merged
	Survey   *finding.Survey `json:"survey,omitempty"`   // of launch check
}

// judged is a finding about several nodes, with those that have to leave where
// it is a Fail.
type judged struct {
	finding.Finding
	unfit []int // ranks
}

// Decide compares the posts of all nodes, in rank order. A node that is not
// reached or does not reach the others is unfit. What differs but may run is a
// warning that names the minority; what is known to hang or die makes the
// minority unfit. Where nothing but the meeting point says that this is one job,
// who brings another command than node rank 0 is unfit: it may be another job's
// node. What one node's user does not want judged is judged for none.
func Decide(posts []Post, thresholds map[string]float64) Decision {
	d := Decision{Go: true, Nodes: Merge(posts)}
	clocks := func(posts []Post) []judged {
		return compareClocks(posts, time.Duration(preflight.ThresholdOf(thresholds, "peer.clock")*float64(time.Second)))
	}
	skipped := func(f finding.Finding) bool {
		return slices.ContainsFunc(posts, func(p Post) bool { return slices.Contains(p.Skip, f.ID) })
	}
	for _, compare := range []func([]Post) []judged{compareCalls, compareNames, clocks, compareLines, compareScripts, compareTraits, compareLoads, compareConstants} {
		for _, v := range compare(posts) {
			if skipped(v.Finding) {
				continue
			}
			if d.Findings = append(d.Findings, v.Finding); v.Status == finding.Fail {
				d.Unfit = append(d.Unfit, v.unfit...)
			}
		}
	}
	slices.Sort(d.Unfit)
	d.Unfit = slices.Compact(d.Unfit)
	d.Go, d.Who = len(d.Unfit) == 0, preflight.Some(namesOf(posts, d.Unfit))
	return d
}

// Waive is a decision by which nobody has to leave: each Fail between the nodes is
// a Warn.
func (d Decision) Waive() Decision {
	d.Go, d.Unfit, d.Who = true, nil, ""
	d.Findings = slices.Clone(d.Findings)
	for i, f := range d.Findings {
		if f.Status == finding.Fail {
			d.Findings[i].Status = finding.Warn
		}
	}
	return d
}

// compareLines compares what the nodes were asked to do.
func compareLines(posts []Post) (out []judged) {
	for _, c := range []struct {
		id, what, breaks string
		of               func(Post) string
	}{
		{"same.nproc", "processes per node", "the ranks are unevenly spread; what splits work by node goes wrong", func(p Post) string { return p.NProc }},
		{"same.command", "command", "ranks that run different programs wait for each other's collectives", func(p Post) string { return p.Command }},
		{"same.restarts", "--restarts", "a node that has become its command cannot start it again with the others", func(p Post) string { return p.Restarts }},
		{"same.launch", "launch version", "untested together", func(p Post) string { return p.Version }},
	} {
		gs := groups(posts, c.of)
		if len(gs) < 2 {
			continue
		}
		f := finding.Warnf("%s differs: %s", c.what, differs(gs)).Named(c.id).
			Breaking("%s", c.breaks).Do("type the same line on every node")
		stray := c.id == "same.command" && slices.ContainsFunc(posts, func(p Post) bool { return p.Nameless })
		if stray {
			f = f.Do("type the same line on every node; where it differs on purpose, say on all that it is one job: --job NAME\n" +
				"is it another job? give that one a port of its own: --store HOST:PORT")
		}
		var unfit []int
		if stray || c.id == "same.restarts" {
			f.Status = finding.Fail
			for _, g := range gs {
				if g.ranks[0] != 0 { // where people meet, and mostly the store
					unfit = append(unfit, g.ranks...)
				}
			}
		}
		out = append(out, judged{f, unfit})
	}
	return out
}

func namesOf(posts []Post, ranks []int) []string {
	var out []string
	for _, r := range ranks {
		out = append(out, posts[r].Name)
	}
	return out
}

// group is the nodes that have one value.
type group struct {
	value string
	first Post
	ranks []int
	names []string
}

// who are the nodes of a group, as ranked has them.
func (g group) who() []string {
	out := make([]string, len(g.ranks))
	for i, rank := range g.ranks {
		out[i] = rankedAs(g.names[i], rank)
	}
	return out
}

func ranked(p Post) string { return rankedAs(p.Name, p.Rank) }

func rankedAs(name string, rank int) string { return fmt.Sprintf("%s (rank %d)", name, rank) }

// having are the nodes of which something is known: one that is not is no
// difference.
func having(posts []Post, of func(Post) string) []Post {
	return slices.DeleteFunc(slices.Clone(posts), func(p Post) bool { return of(p) == "" })
}

// groups sorts the nodes by what they have: most nodes first, and the one of
// the lowest rank where there are equally many.
func groups(posts []Post, of func(Post) string) []group {
	var gs []group
	for _, p := range posts {
		i := slices.IndexFunc(gs, func(g group) bool { return g.value == of(p) })
		if i < 0 {
			i, gs = len(gs), append(gs, group{value: of(p), first: p})
		}
		gs[i].ranks, gs[i].names = append(gs[i].ranks, p.Rank), append(gs[i].names, p.Name)
	}
	slices.SortStableFunc(gs, func(a, b group) int { return cmp.Compare(len(b.ranks), len(a.ranks)) })
	return gs
}

// ranksIn are the nodes of several groups.
func ranksIn(gs []group) []int {
	var out []int
	for _, g := range gs {
		out = append(out, g.ranks...)
	}
	return out
}

// majority tells that one group is larger than every other.
func majority(gs []group) bool { return len(gs[0].ranks) > len(gs[1].ranks) }

// differs says who has something else than most.
func differs(gs []group) string {
	var out []string
	for _, g := range gs[1:] {
		out = append(out, fmt.Sprintf("%s has %q", preflight.Some(g.names), g.value))
	}
	return fmt.Sprintf("%d of %d nodes have %q, %s", len(gs[0].names), len(ranksIn(gs)), gs[0].value, strings.Join(out, ", "))
}

// most is how many groups a message names.
const most = 4

// shares says what each group has; kinds is the word for those that are too many.
func shares(gs []group, has func(Post) string, kinds string) string {
	var parts []string
	for i, g := range gs[:min(len(gs), most)] {
		switch what, who := has(g.first), g.who(); {
		case i == 0 && majority(gs):
			parts = append(parts, fmt.Sprintf("%d of %d nodes have %s", len(who), len(ranksIn(gs)), what))
		case len(who) == 1:
			parts = append(parts, who[0]+" has "+what)
		default:
			parts = append(parts, preflight.Some(who)+" have "+what)
		}
	}
	if n := len(gs) - most; n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more %s", n, kinds))
	}
	return strings.Join(parts, "; ")
}
