package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"launch/diagnose/verdict"
)

// starved finds nodes whose control group a quota holds for most of the time.
func (v *view) starved() (out []claim) {
	for _, n := range v.hosts {
		g := n.scene.Group
		if !g.Starved() {
			continue
		}
		share := "less than 1"
		if percent := 100 * g.Used.Seconds() / g.Time.Seconds(); percent >= 1 {
			share = fmt.Sprintf("%.0f", percent)
		}
		c := claimed("node.starved", verdict.Certain, fmt.Sprintf("%s gets processor time for %s %% of the time, and is "+
			"held for the rest: the quota of its control group", n.name, share))
		out = append(out, c.of(nil, n).see("cpu.stat", fmt.Sprintf("used %.2f s, held %.2f s, in %.2f s", g.Used.Seconds(),
			g.Held.Seconds(), g.Time.Seconds())))
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
