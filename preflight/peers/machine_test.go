package peers

import (
	"fmt"
	"strings"
	"testing"

	"launch/internal/finding"
)

func TestALineTypedTwiceOnOneMachine(t *testing.T) {
	nodes := func(edit func(int, *Post), names ...string) (out []Post) {
		for rank, name := range names {
			p := Post{Rank: rank, Name: name, Traits: Traits{Machine: "boot-" + name, Net: "net:[1]"}}
			if edit != nil {
				edit(rank, &p)
			}
			out = append(out, p)
		}
		return out
	}
	for name, tt := range map[string]struct {
		posts []Post
		warns bool
	}{
		"typed twice":            {nodes(nil, "oak", "elm", "elm"), true},
		"one on each":            {nodes(nil, "oak", "elm", "fir"), false},
		"all on one machine":     {nodes(nil, "elm", "elm", "elm"), false},
		"their ranks are given":  {nodes(func(_ int, p *Post) { p.Numbered = true }, "oak", "elm", "elm"), false},
		"they have roles":        {nodes(func(_ int, p *Post) { p.Role = "actor" }, "oak", "elm", "elm"), false},
		"a scheduler's tasks":    {nodes(func(_ int, p *Post) { p.Step = p.Name }, "oak", "elm", "elm"), false},
		"machines are not known": {nodes(func(_ int, p *Post) { p.Traits.Machine = "" }, "oak", "elm", "elm"), false},
		"each has GPUs of its own": {nodes(func(rank int, p *Post) { p.Traits.UUIDs = []string{fmt.Sprint(rank)} },
			"oak", "elm", "elm"), false},
		"containers of one machine": {nodes(func(rank int, p *Post) { p.Traits.Net = fmt.Sprint(rank) },
			"oak", "elm", "elm"), false},
		"hosts of one machine, as in a lab": {nodes(func(_ int, p *Post) {
			p.Traits.Machine, p.Traits.Net = "boot", "net of "+p.Name
		}, "oak", "elm", "elm"), true},
	} {
		d := Decide(tt.posts, nil)
		got := finding.Join(d.Findings, func(f finding.Finding) string { return f.ID + ": " + f.What })
		if want := "same.machine: 2 of the 3 nodes are on elm: node ranks 1, 2"; strings.Contains(got, want) != tt.warns ||
			strings.Contains(got, "same.machine") != tt.warns || !d.Go {
			t.Errorf("%s: %q, go %v", name, got, d.Go)
		}
	}
}
