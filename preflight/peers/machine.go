package peers

import (
	"fmt"
	"slices"
	"strings"

	"launch/internal/finding"
)

// compareMachines warns of nodes at one address of one machine where others are elsewhere: a line that was typed twice
// there takes the place of another machine. Nodes with a rank of their own, a role, GPUs of their own or a scheduler's
// name are there on purpose, and so are all nodes of a job on one machine.
func compareMachines(posts []Post) (out []judged) {
	place := func(p Post) string {
		if p.Traits.Machine == "" || p.Traits.Net == "" {
			return ""
		}
		return strings.Join([]string{p.Traits.Machine, p.Traits.Net, p.Name}, " ")
	}
	placed := func(p Post) bool { return p.Numbered || p.Role != "" || p.Step != "" }
	known := having(posts, place)
	if len(known) == 0 || !slices.ContainsFunc(known, func(p Post) bool { return place(p) != place(known[0]) }) {
		return nil
	}
	for _, g := range repeated(slices.DeleteFunc(known, placed), func(p Post) string {
		return place(p) + " " + strings.Join(p.Traits.UUIDs, " ")
	}) {
		name := g.nodes[0].Name
		f := finding.Warnf("%d of the %d nodes are on %s: node ranks %s", len(g.nodes), len(posts), name,
			finding.Some(finding.Map(g.nodes, func(p Post) string { return fmt.Sprint(p.Rank) }))).
			Named("same.machine").About([]string{name}).
			See("boot id and network namespace", "%s…, %s, on each of them", g.nodes[0].Traits.Machine, g.nodes[0].Traits.Net).
			Breaking("if the line was typed twice there, a machine that was to be one of the nodes is refused, and this one " +
				"does the work of two").
			Do("end the job, and start the line once on each machine\nif it is meant: --skip same.machine")
		out = append(out, judged{Finding: f})
	}
	return out
}
