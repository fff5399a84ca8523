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
	Rank    int             `json:"rank"`
	Name    string          `json:"name"`
	Reach   finding.Finding `json:"reach"`
	NProc   string          `json:"nproc,omitempty"`
	Version string          `json:"version"` // of launch
	Command string          `json:"command"` // what all nodes should have typed alike
}

// Decision is what all nodes print and act on.
type Decision struct {
	Go       bool           `json:"go"`
	Unfit    []int          `json:"unfit,omitempty"` // node ranks that must leave
	Findings finding.Report `json:"findings,omitempty"`
}

// Decide compares the posts of all nodes, in rank order. A node that does not
// reach rank 0 is unfit; where most do not, it is rank 0 itself. What differs
// but may run is a warning that names the minority.
func Decide(posts []Post) Decision {
	d := Decision{Go: true}
	var deaf []Post
	for _, p := range posts {
		if p.Reach.Status == finding.Fail {
			deaf = append(deaf, p)
		}
	}
	if others := len(posts) - 1; len(deaf) > 0 {
		d.Go = false
		f := deaf[0].Reach
		if len(deaf) > 1 && 2*len(deaf) > others {
			d.Unfit = []int{0}
			f.What = fmt.Sprintf("%d of %d nodes do not reach %s: %s", len(deaf), others, posts[0].Name, f.What)
		} else {
			var who []string
			for _, p := range deaf {
				d.Unfit = append(d.Unfit, p.Rank)
				who = append(who, p.Name)
			}
			f.What = fmt.Sprintf("%s: %s", strings.Join(who, ", "), f.What)
		}
		d.Findings = append(d.Findings, f)
	}
	for _, c := range []struct {
		id, what, breaks string
		of               func(Post) string
	}{
		{"same.nproc", "processes per node", "the ranks are unevenly spread; what splits work by node goes wrong", func(p Post) string { return p.NProc }},
		{"same.command", "command", "ranks that run different programs wait for each other's collectives", func(p Post) string { return p.Command }},
		{"same.launch", "launch version", "untested together", func(p Post) string { return p.Version }},
	} {
		if what, ok := minority(posts, c.of); ok {
			d.Findings = append(d.Findings, finding.Warnf("%s differs: %s", c.what, what).Named(c.id).
				Breaking("%s", c.breaks).Do("type the same line on every node"))
		}
	}
	return d
}

// minority says who differs from what most nodes have; ok is false where all
// agree.
func minority(posts []Post, of func(Post) string) (string, bool) {
	groups := map[string][]string{}
	for _, p := range posts {
		groups[of(p)] = append(groups[of(p)], p.Name)
	}
	if len(groups) < 2 {
		return "", false
	}
	type group struct {
		value string
		names []string
	}
	var gs []group
	for v, n := range groups {
		gs = append(gs, group{v, n})
	}
	slices.SortFunc(gs, func(a, b group) int {
		return cmp.Or(cmp.Compare(len(b.names), len(a.names)), cmp.Compare(a.value, b.value))
	})
	var out []string
	for _, g := range gs[1:] {
		out = append(out, fmt.Sprintf("%s has %q", some(g.names), g.value))
	}
	return fmt.Sprintf("%d of %d nodes have %q, %s", len(gs[0].names), len(posts), gs[0].value, strings.Join(out, ", ")), true
}

// some names a few of many.
func some(names []string) string {
	const few = 4
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
