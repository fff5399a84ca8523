package logs

import (
	"slices"
	"strings"
	"time"

	"launch/internal/finding"
)

// pairs returns the ranks that lines name two by two.
func pairs(group []*event) (out []int) {
	for _, e := range group {
		if a, b := number(e.vals["a"]), number(e.vals["b"]); a >= 0 && b >= 0 {
			out = append(append(out, a, b), numbers(e.vals["pairs"])...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// together adds to the first event of a group what only all of its lines say.
func together(group []*event) {
	switch top := group[0]; top.cause.id {
	case "log.duplicate-gpu":
		var devs []string
		for _, e := range group {
			if d := e.vals["dev"]; d != "" && !slices.Contains(devs, d) {
				devs = append(devs, d)
			}
		}
		if ranks := pairs(group); len(ranks) > 0 && len(devs) > 0 {
			top.set("all", rankList(ranks))
			top.set("dev", finding.Noun(len(devs), "device")+" "+strings.Join(devs, ", "))
		}
	case "log.gpu-lost", "log.gpu-ecc":
		if len(group) > 1 {
			top.set("devs", devices(group))
		}
	case "log.munge":
		top.set("apart", apartBy(group))
	}
}

// devices returns the devices that lines name, each with its node.
func devices(group []*event) string {
	var out []string
	for _, e := range group {
		name := e.vals["devs"]
		if name != "" && e.node != "" {
			name += " (" + e.node + ")"
		}
		if name != "" && !slices.Contains(out, name) && len(out) < maxFacts {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}

// apartBy returns how far the times of lines are apart; "": they are not, or not two.
func apartBy(group []*event) string {
	var first, last time.Time
	for _, e := range group {
		t, err := time.Parse("Mon Jan _2 15:04:05 2006", strings.TrimSpace(e.vals["time"]))
		if err != nil {
			continue
		}
		if first.IsZero() || t.Before(first) {
			first = t
		}
		if t.After(last) {
			last = t
		}
	}
	if apart := last.Sub(first); !first.IsZero() && apart > 0 {
		return apart.String()
	}
	return ""
}

// takeRank gives the first event of a group the only rank that its lines in the same log name.
func takeRank(group []*event) {
	top := group[0]
	ranks, _ := whose(group)
	elsewhere := slices.ContainsFunc(group, func(e *event) bool { return e.file != top.file })
	if top.rank < 0 && len(ranks) == 1 && !top.cause.job && !elsewhere {
		top.rank = ranks[0]
	}
}
