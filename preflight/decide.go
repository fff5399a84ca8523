package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"launch/internal/finding"
)

// reachBudget bounds the call to node rank 0: three SYN retransmissions (1, 3
// and 7 s, RFC 6298) on a network that loses packets, and no more.
const reachBudget = 8 * time.Second

// Reach judges whether this node reaches node rank 0 at the address that the
// whole job will use. call connects to rank 0's side channel.
func Reach(ctx context.Context, rank0, addr string, call func(ctx context.Context) (time.Duration, error)) finding.Finding {
	ctx, cancel := context.WithTimeout(ctx, reachBudget)
	defer cancel()
	d, err := call(ctx)
	if err == nil {
		return finding.Passf("%s answered at %s in %s", rank0, addr, d.Round(10*time.Microsecond)).Named("peer.rank0")
	}
	return finding.Failf("%s does not answer at %s: %v", rank0, addr, plainDial(err)).Named("peer.rank0").
		See("connect "+addr, "%v", err).
		Breaking("every rank connects to that node first; it would time out minutes later without a reason").
		Do("open TCP between the nodes (all ports, both directions), or name a network that is: --addr 10.0.0.0/16")
}

func plainDial(err error) string {
	s := err.Error()
	for _, known := range []string{"connection refused", "no route to host", "network is unreachable", "i/o timeout", "connection reset by peer"} {
		if strings.Contains(s, known) {
			if known == "i/o timeout" {
				return "no answer within " + reachBudget.String() + " (dropped, as by a firewall)"
			}
			return known
		}
	}
	return s
}

// Post is what one node says about itself before the start.
type Post struct {
	Rank     int             `json:"rank"`
	Name     string          `json:"name"`
	Reach    finding.Finding `json:"reach"`
	NProc    string          `json:"nproc,omitempty"`
	Version  string          `json:"version"`            // of launch
	Command  string          `json:"command"`            // what all nodes should have typed alike
	Restarts string          `json:"restarts,omitempty"` // --restarts
	Loads    Loads           `json:"loads,omitzero"`
	// Constants are the settings that have to be the same on all nodes, as they
	// will be in force on this one, by name.
	Constants map[string]string `json:"constants,omitempty"`
	Nameless  bool              `json:"nameless,omitempty"` // the job's name says only where it meets: another job may have come here
}

// Decision is what all nodes print and act on.
type Decision struct {
	Go       bool           `json:"go"`
	Unfit    []int          `json:"unfit,omitempty"` // node ranks that must leave
	Who      string         `json:"who,omitempty"`   // their names, for people
	Findings finding.Report `json:"findings,omitempty"`
}

// Decide compares the posts of all nodes, in rank order. A node that does not
// reach rank 0 is unfit; where most do not, it is rank 0 itself. What differs
// but may run is a warning that names the minority; what is known to hang or die
// makes the minority unfit. Where nothing but the meeting point says that this
// is one job, who brings another command than node rank 0 is unfit: it may be
// another job's node.
func Decide(posts []Post) Decision {
	d := Decision{Go: true}
	for _, compare := range []func([]Post) (finding.Report, []int){compareReach, compareLines, compareLoads, compareConstants} {
		found, unfit := compare(posts)
		d.Findings, d.Unfit = append(d.Findings, found...), append(d.Unfit, unfit...)
	}
	slices.Sort(d.Unfit)
	d.Unfit = slices.Compact(d.Unfit)
	d.Go, d.Who = len(d.Unfit) == 0, some(namesOf(posts, d.Unfit))
	return d
}

// compareReach tells who does not reach node rank 0.
func compareReach(posts []Post) (finding.Report, []int) {
	var deaf []int
	for _, p := range posts {
		if p.Reach.Status == finding.Fail {
			deaf = append(deaf, p.Rank)
		}
	}
	if len(deaf) == 0 {
		return nil, nil
	}
	f := posts[deaf[0]].Reach
	if others := len(posts) - 1; len(deaf) > 1 && 2*len(deaf) > others {
		f.What = fmt.Sprintf("%d of %d nodes do not reach %s: %s", len(deaf), others, posts[0].Name, f.What)
		return finding.Report{f}, []int{0}
	}
	f.What = fmt.Sprintf("%s: %s", some(namesOf(posts, deaf)), f.What)
	return finding.Report{f}, deaf
}

// compareLines compares what the nodes were asked to do.
func compareLines(posts []Post) (report finding.Report, unfit []int) {
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
		f := finding.Warnf("%s differs: %s", c.what, differs(gs, len(posts))).Named(c.id).
			Breaking("%s", c.breaks).Do("type the same line on every node")
		stray := c.id == "same.command" && slices.ContainsFunc(posts, func(p Post) bool { return p.Nameless })
		if stray {
			f = f.Do("type the same line on every node; where it differs on purpose, say on all that it is one job: --job NAME\n" +
				"is it another job? give that one a port of its own: --store HOST:PORT")
		}
		if stray || c.id == "same.restarts" {
			f.Status = finding.Fail
			for _, g := range gs {
				if g.ranks[0] != 0 { // where people meet, and mostly the store
					unfit = append(unfit, g.ranks...)
				}
			}
		}
		report = append(report, f)
	}
	return report, unfit
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
	ranks []int
	names []string
}

// groups sorts the nodes by what they have: most nodes first, and the one of
// the lowest rank where there are equally many.
func groups(posts []Post, of func(Post) string) []group {
	var gs []group
	for _, p := range posts {
		i := slices.IndexFunc(gs, func(g group) bool { return g.value == of(p) })
		if i < 0 {
			i, gs = len(gs), append(gs, group{value: of(p)})
		}
		gs[i].ranks, gs[i].names = append(gs[i].ranks, p.Rank), append(gs[i].names, p.Name)
	}
	slices.SortStableFunc(gs, func(a, b group) int { return cmp.Compare(len(b.ranks), len(a.ranks)) })
	return gs
}

// differs says who has something else than most of n nodes.
func differs(gs []group, n int) string {
	var out []string
	for _, g := range gs[1:] {
		out = append(out, fmt.Sprintf("%s has %q", some(g.names), g.value))
	}
	return fmt.Sprintf("%d of %d nodes have %q, %s", len(gs[0].names), n, gs[0].value, strings.Join(out, ", "))
}

// some names a few of many.
func some(names []string) string {
	const few = 4
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
