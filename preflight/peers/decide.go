// Package peers compares the nodes of a job with each other: the calls between
// them, their names and clocks, and what each would run, load and is made of.
package peers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"launch/fabric"
	"launch/internal/finding"
	"launch/preflight"
	"launch/preflight/calls"
	"launch/preflight/threshold"
)

// Post is what one node reports about itself before the start.
type Post struct {
	Rank     int              `json:"rank"`
	Name     string           `json:"name"`
	ID       string           `json:"id,omitempty"`      // identifies it when it answers calls
	Local    finding.Report   `json:"local,omitempty"`   // of its own checks: Problems for launch check, Brief for a start
	Calls    []calls.Call     `json:"calls,omitempty"`   // to some of the others, and to node rank 0
	Names    calls.Found      `json:"names,omitzero"`    // of some of the others, looked up
	Rails    []calls.RailPath `json:"rails,omitempty"`   // how its rails reach theirs
	Listens  []Listen         `json:"listens,omitempty"` // the other addresses where its libraries wait
	NProc    string           `json:"nproc,omitempty"`
	Version  string           `json:"version"`            // of launch
	Form     int              `json:"form,omitempty"`     // Form of that launch
	Command  string           `json:"command"`            // the part of the command line that all nodes share
	Bare     string           `json:"bare,omitempty"`     // Command, with the script's name alone
	Place    Place            `json:"place,omitzero"`     // where Command may differ from the others'
	Script   string           `json:"script,omitempty"`   // a digest of the script
	Restarts string           `json:"restarts,omitempty"` // --restarts
	Step     string           `json:"step,omitempty"`     // the scheduler's name of the node
	Role     string           `json:"role,omitempty"`     // --role
	Numbered bool             `json:"numbered,omitempty"` // its node rank was given, or a controller of Kubernetes made it
	After    []string         `json:"after,omitempty"`    // the roles that it waits for before its command starts
	Loads    Loads            `json:"loads,omitzero"`
	Traits   Traits           `json:"traits,omitzero"`
	Around   Around           `json:"around,omitzero"`
	Addr     netip.Addr       `json:"addr,omitzero"` // by which the others call it
	Deaf     fabric.Deaf      `json:"deaf,omitzero"` // which packets it does not take
	// Clients are the addresses from which connections to the store arrive, on its host, for up to MostClients nodes.
	Clients []netip.Addr `json:"clients,omitempty"`
	// Held are addresses that it takes for its own in addition to Addr, with the interface that has them: in the network
	// of Addr, and those that only its table local has ("").
	Held map[netip.Addr]string `json:"held,omitempty"`
	// Odd is the unusual way to the store by which Addr was chosen.
	Odd fabric.Fault `json:"odd,omitzero"`
	// Constants are the settings that must be the same on all nodes, by name, with the
	// values that will apply on this one.
	Constants map[string]string `json:"constants,omitempty"`
	// the job has no name of its own: a node of another job may have joined
	Nameless bool     `json:"nameless,omitempty"`
	Skip     []string `json:"skip,omitempty"` // IDs of checks that its user has switched off

	Outcomes map[string]finding.Status `json:"outcomes,omitempty"` // for launch check: the results of its own checks

	nat netip.Addr // from which its connection to the store arrives, where a NAT translates that; zero: none is known
}

// Read returns the posts of all nodes, in rank order. The store, and not the node, says whose post it is.
// Of an unreadable one only the rank is known.
func Read(raw [][]byte) []Post {
	posts := make([]Post, len(raw))
	for rank, b := range raw {
		if json.Unmarshal(b, &posts[rank]) != nil {
			posts[rank] = Post{Name: fmt.Sprintf("node rank %d", rank), Version: "unreadable"}
		}
		posts[rank].Rank = rank
	}
	return posts
}

// Decision is the common result that all nodes print and follow.
type Decision struct {
	Go       bool            `json:"go"`
	Form     int             `json:"form,omitempty"`     // Form of the launch that decided
	Fast     bool            `json:"fast,omitempty"`     // all calls in a faster network of all nodes got through
	Apart    bool            `json:"apart,omitempty"`    // each rail reaches only the same rail of other nodes
	Home     bool            `json:"home,omitempty"`     // data stays in the network of the nodes' addresses
	Unfit    []int           `json:"unfit,omitempty"`    // node ranks that must leave
	Who      string          `json:"who,omitempty"`      // their names, in words
	Findings finding.Report  `json:"findings,omitempty"` // between nodes
	Nodes    finding.Report  `json:"nodes,omitempty"`    // for launch check: of single nodes, merged
	Survey   *finding.Survey `json:"survey,omitempty"`   // for launch check
	Exclude  []string        `json:"exclude,omitempty"`  // the scheduler's names of the unfit nodes
}

// judged is a finding about several nodes, with the nodes that must leave if it is a failure.
type judged struct {
	finding.Finding
	unfit []int // ranks
}

// Decide compares the posts of all nodes, in rank order. A node that is not reached, or does not reach the others,
// is unfit. A difference that may work is a warning that names the minority; where it is known to hang or kill the
// job, the minority is unfit. Where only the store address identifies the job, a node with another command than node
// rank 0 is unfit: it may belong to another job. A check that one node's user switched off applies to no node.
func Decide(posts []Post, thresholds map[string]float64) Decision {
	d := Decision{Go: true, Form: Form, Nodes: Merge(posts)}
	posts = behindNAT(posts)
	skipped := func(f finding.Finding) bool {
		return slices.ContainsFunc(posts, func(p Post) bool { return slices.Contains(p.Skip, f.ID) })
	}
	for _, c := range comparisons(thresholds) {
		for _, part := range c.parts(posts) {
			for _, v := range c.of(part) {
				if skipped(v.Finding) {
					continue
				}
				if v.Nodes == nil && len(v.unfit) < len(posts) {
					v.Finding = v.About(finding.Map(v.unfit, func(r int) string { return posts[r].Name }))
				}
				if d.Findings = append(d.Findings, v.Finding); v.Status == finding.Fail {
					d.Unfit = append(d.Unfit, v.unfit...)
				}
			}
		}
	}
	d.Fast, _ = fastNetwork(posts)
	d.Apart, d.Home = railsApart(posts), closedBeside(posts)
	slices.Sort(d.Unfit)
	d.Unfit = slices.Compact(d.Unfit)
	d.Go, d.Who = len(d.Unfit) == 0, finding.Some(finding.Map(d.Unfit, func(r int) string { return posts[r].Name }))
	return d
}

// comparison is one of the nodes' posts. Its ID names it where it is broken.
type comparison struct {
	id      string
	compare func([]Post) []judged
	apart   bool // nodes of other roles run other commands: they are not compared
}

// comparisons returns all, in the order in which their findings are printed.
func comparisons(thresholds map[string]float64) []comparison {
	clocks := func(posts []Post) []judged {
		return compareClocks(posts, time.Duration(threshold.Of(thresholds, "peer.clock")*float64(time.Second)))
	}
	loss := func(posts []Post) []judged { return compareLoss(posts, thresholds) }
	return []comparison{{"same.role", compareRoles, false}, {"same.launch", compareLaunch, false},
		{"peer.reach", compareCalls, false}, {"peer.loss", loss, false}, {"peer.fast", compareFast, false},
		{"peer.rails", compareRails, false}, {"peer.name", compareNames, false}, {"peer.clock", clocks, false},
		{"same.command", compareLines, true}, {"same.script", compareScripts, true}, {"same.modules", compareAround, true},
		{"same.machine", compareMachines, false},
		{"same.gpu.owner", compareTraits, true},
		{"same.hostid", compareHostIDs, true}, {"same.guid", compareGUIDs, false},
		{"same.nccl", compareLoads, true}, {"same.env", compareConstants, true}}
}

// of compares, and is a skip where the comparison panics: what one node posts ends no start.
func (c comparison) of(posts []Post) (out []judged) {
	defer func() {
		if p := recover(); p != nil {
			out = []judged{{Finding: preflight.Broken(p).Named(c.id)}}
		}
	}()
	return c.compare(posts)
}

// Excluding returns the decision with the scheduler's names of the unfit nodes, of the survey's too.
func (d Decision) Excluding(posts []Post) Decision {
	unfit := slices.Clone(d.Unfit)
	if d.Survey != nil {
		for _, n := range d.Survey.Nodes {
			if n.Unfit {
				unfit = append(unfit, n.Rank)
			}
		}
	}
	slices.Sort(unfit)
	d.Exclude = nil
	for _, rank := range slices.Compact(unfit) {
		if name := posts[rank].Step; name != "" {
			d.Exclude = append(d.Exclude, name)
		}
	}
	return d
}

// Waive returns the decision with each failure between nodes as a warning, so that no node must leave.
func (d Decision) Waive() Decision {
	d.Go, d.Unfit, d.Who = true, nil, ""
	d.Findings = slices.Clone(d.Findings)
	preflight.Waive(d.Findings)
	return d
}

// compareLines compares the command lines of the nodes.
func compareLines(posts []Post) (out []judged) {
	for _, c := range []struct {
		id, what, breaks string
		of               func(Post) string
	}{
		{"same.nproc", "processes per node", "the ranks are unevenly spread; programs that split work by node go wrong",
			func(p Post) string { return p.NProc }},
		{"same.command", "command", "ranks that run different programs wait for each other's collectives",
			command(posts)},
		{"same.restarts", "--restarts", "a node that has already executed its command cannot start it again with the others",
			func(p Post) string { return p.Restarts }},
	} {
		gs := groups(posts, c.of)
		if len(gs) < 2 || c.id == "same.command" && placed(posts) {
			continue
		}
		f := finding.Warnf("%s differs: %s", c.what, differs(gs)).Named(c.id).About(odd(gs)).
			Breaking("%s", c.breaks).Do("use the same command line on every node")
		stray := c.id == "same.command" && !oneScript(posts) &&
			slices.ContainsFunc(posts, func(p Post) bool { return p.Nameless })
		if stray {
			f = f.Do("use the same command line on every node, or name the one job on all of them: --job NAME\n" +
				"if it is another job, give that one its own port: --store HOST:PORT")
		}
		var unfit []int
		if stray || c.id == "same.restarts" {
			f.Status = finding.Fail
			// node rank 0 mostly hosts the store
			unfit = ranksIn(slices.DeleteFunc(gs, func(g group) bool { return g.nodes[0].Rank == posts[0].Rank }))
		}
		out = append(out, judged{f, unfit})
	}
	return out
}

// command returns by what the nodes' commands are compared: scripts of the same content may lie anywhere.
func command(posts []Post) func(Post) string {
	if bareNames(posts) {
		return func(p Post) string { return p.Bare }
	}
	return func(p Post) string { return p.Command }
}

// bareNames reports whether the commands are compared without the folders of their scripts.
func bareNames(posts []Post) bool {
	return oneScript(posts) && !slices.ContainsFunc(posts, func(p Post) bool { return p.Bare == "" })
}

// oneScript reports whether all nodes run a script of the same content: then its arguments differ on purpose.
func oneScript(posts []Post) bool {
	return !slices.ContainsFunc(posts, func(p Post) bool { return p.Script == "" || p.Script != posts[0].Script })
}

func namesOf(posts []Post) []string { return finding.Map(posts, func(p Post) string { return p.Name }) }
func ranksOf(posts []Post) []int    { return finding.Map(posts, func(p Post) int { return p.Rank }) }
func ranked(p Post) string          { return fmt.Sprintf("%s (node rank %d)", p.Name, p.Rank) }

// group is the nodes that share a value.
type group struct {
	value string
	nodes []Post
}

// having returns the nodes with a known value; an unknown one is no difference.
func having(posts []Post, of func(Post) string) []Post {
	return slices.DeleteFunc(slices.Clone(posts), func(p Post) bool { return of(p) == "" })
}

// odd returns the names of the nodes that differ from the largest group; nil: no group is the largest.
func odd(gs []group) (names []string) {
	if !majority(gs) {
		return nil
	}
	for _, g := range gs[1:] {
		names = append(names, namesOf(g.nodes)...)
	}
	return names
}

// repeated returns the groups of at least two posts that have one value, by rank. It costs the same for each post.
func repeated(posts []Post, of func(Post) string) (out []group) {
	by := map[string][]Post{}
	for _, p := range posts {
		by[of(p)] = append(by[of(p)], p)
	}
	for value, nodes := range by {
		if value != "" && len(nodes) > 1 {
			out = append(out, group{value: value, nodes: nodes})
		}
	}
	slices.SortFunc(out, func(a, b group) int { return cmp.Compare(a.nodes[0].Rank, b.nodes[0].Rank) })
	return out
}

// groups sorts the nodes by value: the largest group first, of equal ones that with the lowest rank.
func groups(posts []Post, of func(Post) string) []group {
	var gs []group
	for _, p := range posts {
		i := slices.IndexFunc(gs, func(g group) bool { return g.value == of(p) })
		if i < 0 {
			i, gs = len(gs), append(gs, group{value: of(p)})
		}
		gs[i].nodes = append(gs[i].nodes, p)
	}
	slices.SortStableFunc(gs, func(a, b group) int { return cmp.Compare(len(b.nodes), len(a.nodes)) })
	return gs
}

func ranksIn(gs []group) (out []int) {
	for _, g := range gs {
		out = append(out, ranksOf(g.nodes)...)
	}
	return out
}

// majority reports whether one group is larger than every other.
func majority(gs []group) bool { return len(gs[0].nodes) > len(gs[1].nodes) }

// differs describes the nodes that differ from the first group.
func differs(gs []group) string {
	return fmt.Sprintf("%d of %d nodes have %q, %s", len(gs[0].nodes), len(ranksIn(gs)), gs[0].value,
		finding.Join(gs[1:], func(g group) string {
			return fmt.Sprintf("%s has %q", finding.Some(namesOf(g.nodes)), g.value)
		}))
}

// most is the number of groups that a message names.
const most = 4

// shares describes what each group has; kinds names the groups that are left out.
func shares(gs []group, has func(Post) string, kinds string) string {
	var parts []string
	for i, g := range gs[:min(len(gs), most)] {
		switch what, who := has(g.nodes[0]), finding.Map(g.nodes, ranked); {
		case i == 0 && majority(gs):
			parts = append(parts, fmt.Sprintf("%d of %d nodes have %s", len(who), len(ranksIn(gs)), what))
		case len(who) == 1:
			parts = append(parts, who[0]+" has "+what)
		default:
			parts = append(parts, finding.Some(who)+" have "+what)
		}
	}
	if n := len(gs) - most; n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more %s", n, kinds))
	}
	return strings.Join(parts, "; ")
}

// maxCalls limits the calls in a survey: a picture cannot show more, and all nodes read it. Failed ones are first.
const maxCalls = 512

// NewSurvey returns the survey of the posts, in rank order, and of the decision; the table orders the checks.
func NewSurvey(posts []Post, d Decision, table []preflight.Check) finding.Survey {
	s := finding.Survey{Checks: columns(posts, table)}
	for _, p := range posts {
		s.NotJudged = append(s.NotJudged, p.Skip...)
		n := finding.Surveyed{Rank: p.Rank, Name: p.Name, Unfit: slices.Contains(d.Unfit, p.Rank) ||
			len(p.Local.Failed()) > 0}
		for _, id := range s.Checks {
			n.Cells = append(n.Cells, p.Outcomes[id])
		}
		s.Nodes = append(s.Nodes, n)
	}
	slices.Sort(s.NotJudged)
	s.NotJudged = slices.Compact(s.NotJudged)
	for _, wrong := range []bool{true, false} {
		for _, e := range edges(posts) {
			if bad := e.call.Bad(); (bad != "") == wrong && told(e) && len(s.Calls) < maxCalls {
				s.Calls = append(s.Calls, finding.Called{From: e.from.Rank, To: e.to.Rank, Bad: bad})
			}
		}
	}
	return s
}

// columns returns the checks that some node made, in the order of the table, and then those that are not in it.
func columns(posts []Post, table []preflight.Check) []string {
	made := map[string]bool{}
	for _, p := range posts {
		for id := range p.Outcomes {
			made[id] = true
		}
	}
	var out []string
	for _, c := range table {
		if made[c.ID] {
			out = append(out, c.ID)
			delete(made, c.ID)
		}
	}
	return append(out, slices.Sorted(maps.Keys(made))...)
}

// All returns the findings of single nodes and between nodes, the failures first.
func (d Decision) All() finding.Report {
	all := slices.Concat(d.Nodes, d.Findings)
	slices.SortStableFunc(all, gravestFirst)
	return all
}
