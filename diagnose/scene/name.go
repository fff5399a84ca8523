package scene

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// UnknownJobError says that no job of this node has the wanted name.
type UnknownJobError struct {
	Job  string
	Seen []string // the names of those that are here, each by its first
}

// Error names the jobs of this node.
func (e *UnknownJobError) Error() string {
	if len(e.Seen) == 0 {
		return fmt.Sprintf("no job %q on this node, and no other one", e.Job)
	}
	return fmt.Sprintf("no job %q on this node; there is %s", e.Job, strings.Join(e.Seen, ", "))
}

// named returns the processes of the jobs that have a name.
func (t *table) named(job string, all []*seen) ([]*seen, error) {
	links := t.links(all)
	of := func(p *seen) string { return links.find(strconv.Itoa(p.pid)) }
	want, first := map[string]bool{}, map[string]name{}
	for _, p := range all {
		for _, n := range p.names() {
			if want[of(p)] = want[of(p)] || n.text == job; first[of(p)].text == "" || n.rank < first[of(p)].rank {
				first[of(p)] = n
			}
		}
	}
	out := slices.DeleteFunc(slices.Clone(all), func(p *seen) bool { return !want[of(p)] })
	if len(out) > 0 {
		return out, nil
	}
	e := &UnknownJobError{Job: clean(job, maxValue)}
	for _, n := range slices.SortedFunc(maps.Values(first), func(a, b name) int { return cmp.Compare(a.text, b.text) }) {
		if text := clean(n.text, maxValue); !slices.Contains(e.Seen, text) {
			e.Seen = append(e.Seen, text)
		}
	}
	return nil, e
}

// name is what a job is called; of several the lowest rank is what its user has typed.
type name struct {
	text string
	rank int
}

// names returns what a process calls its job: the name that launch has for it, the id of torchrun's rendezvous, the
// addresses of its stores.
func (p *seen) names() (out []name) {
	if p.role == Companion {
		job := p.env["LAUNCH_COMPANION"] // and the endpoints of its store
		if i := strings.LastIndexByte(job, ' '); i > 0 {
			out = append(out, name{job[:i], 0})
		}
	}
	for _, id := range []string{p.env["TORCHELASTIC_RUN_ID"], agentOptions(p.argv, p.env)["rdzv-id"]} {
		if (p.role == Rank || p.role == Agent) && id != "" && id != "none" {
			out = append(out, name{id, 1})
		}
	}
	for _, a := range p.addresses() {
		out = append(out, name{a.String(), 2})
	}
	return out
}
