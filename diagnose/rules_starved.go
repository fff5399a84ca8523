package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"launch/diagnose/verdict"
)

// starved finds nodes whose control group a quota holds for most of the time.
func (v *view) starved() (out []claim) {
	for _, n := range v.nodes {
		if n.scene == nil || n.scene.Held == 0 || n.scene.Held*2 < n.scene.Span || n.scene.Used*2 > n.scene.Span {
			continue
		}
		c := claimed("node.starved", verdict.Certain, fmt.Sprintf("%s gets processor time for %.1f %% of the time, and is "+
			"held for the rest: the quota of its control group", n.name, 100*n.scene.Used.Seconds()/n.scene.Span.Seconds()))
		out = append(out, c.of(nil, n).see("cpu.stat", fmt.Sprintf("used %s, held %s of %s", ago(n.scene.Used),
			ago(n.scene.Held), ago(n.scene.Span))))
	}
	return out
}

// ownTimeouts removes what a node that gets no processor time says of its paths: its own calls time out.
func ownTimeouts(all []claim) []claim {
	var starved []string
	for _, c := range all {
		if c.Cause == "node.starved" {
			starved = append(starved, c.Nodes...)
		}
	}
	return slices.DeleteFunc(all, func(c claim) bool {
		family, _, _ := strings.Cut(c.Cause, ".")
		return slices.Contains([]string{"store", "path", "mesh"}, family) &&
			slices.ContainsFunc(c.Nodes, func(n string) bool { return slices.Contains(starved, n) })
	})
}
