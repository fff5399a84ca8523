package logs

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// whose returns the ranks and the nodes of events.
func whose(group []*event) (ranks []int, nodes []string) {
	for _, e := range group {
		if e.rank >= 0 {
			ranks = append(ranks, e.rank)
		}
		ranks = append(ranks, numbers(e.vals["ranks"])...)
		if e.node != "" {
			nodes = append(nodes, e.node)
		}
	}
	slices.Sort(ranks)
	slices.Sort(nodes)
	return slices.Compact(ranks), slices.Compact(nodes)
}

// who names them: "rank 3 (node gpu-07)".
func who(ranks []int, nodes []string, e *event) string {
	const few = 3
	name := ""
	switch {
	case len(nodes) == 1:
		name = "node " + nodes[0]
	case len(nodes) > few:
		name = fmt.Sprintf("%d nodes", len(nodes))
	case len(nodes) > 1:
		name = "nodes " + strings.Join(nodes, ", ")
	}
	switch {
	case len(ranks) > 0 && name != "":
		return rankList(ranks) + " (" + name + ")"
	case len(ranks) > 0:
		return rankList(ranks)
	case e.local >= 0 && name != "":
		return fmt.Sprintf("local rank %d (%s)", e.local, name)
	case e.local >= 0:
		return fmt.Sprintf("local rank %d", e.local)
	case name != "":
		return name
	}
	return "a process"
}

// place names the node of an event.
func place(node, who string) string {
	switch {
	case node != "" && strings.Contains(who, "nodes"):
		return "the nodes of " + who
	case node != "":
		return "node " + node
	case strings.HasPrefix(who, "node "):
		return who
	case strings.HasPrefix(who, "rank "):
		return "the node of " + who
	case strings.HasPrefix(who, "ranks "):
		return "the nodes of " + who
	}
	return "a node"
}

var (
	optional    = regexp.MustCompile(`\[([^\[\]]*)\]`)
	placeholder = regexp.MustCompile(`\{\w+\}`)
)

// values returns what stands for the names in an event's sentences.
func (e *event) values(who string) map[string]string {
	vals := map[string]string{"who": who, "where": place(e.node, who), "error": cut(tidy(e.text)), "at": ""}
	if e.at != "" {
		vals["at"] = ", at " + e.at
	}
	for k, v := range e.vals {
		vals[k] = cut(tidy(v))
	}
	return vals
}

// fill returns what to do or to gather with an event's values; a value that the log lacks appears as its name in
// capitals.
func (e *event) fill(text, who string) string {
	vals := e.values(who)
	return placeholder.ReplaceAllStringFunc(text, func(p string) string {
		name := p[1 : len(p)-1]
		return cmp.Or(vals[name], strings.ToUpper(name))
	})
}

// says returns the sentence of an event. A part in brackets is left out where the log lacks its values.
func (e *event) says(who string) string {
	vals := e.values(who)
	fill := func(s string) string {
		return placeholder.ReplaceAllStringFunc(s, func(p string) string {
			if v := vals[p[1:len(p)-1]]; v != "" || p == "{at}" {
				return v
			}
			return "?"
		})
	}
	text := optional.ReplaceAllStringFunc(e.cause.says, func(part string) string {
		for _, p := range placeholder.FindAllString(part, -1) {
			if vals[p[1:len(p)-1]] == "" {
				return ""
			}
		}
		return part[1 : len(part)-1]
	})
	return fill(text)
}

// kind returns what an event says of any process.
func (e *event) kind() string {
	switch e.cause.id {
	case "rank.failed":
		return "failed with an error of their own"
	case "log.exited":
		return "ended with an exit code"
	}
	return strings.TrimPrefix(e.says("processes"), "processes ")
}

func (e *event) failure() *Failure {
	return &Failure{Rank: e.rank, Local: e.local, Node: e.node, Error: cut(tidy(e.text)), At: e.at, Where: e.where,
		Time: e.time, Cause: e.cause.id}
}

// cut shortens a text to a sentence's length.
func cut(s string) string {
	const most = 240
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " …"
}

var (
	control = regexp.MustCompile(`[\x00-\x1f\x7f]+`)
	// torch writes the addresses of its store as garbage, and the ports of Gloo with swapped bytes.
	sockaddr = regexp.MustCompile(`\[([0-9a-fA-F:.]*)\]:\d+(?:\$[\w.-]+)?`)
)

// tidy returns a line of a log without control characters, and without addresses that deceive.
func tidy(s string) string {
	s = control.ReplaceAllString(s, " ")
	s = sockaddr.ReplaceAllStringFunc(s, func(a string) string {
		in := a[1:strings.IndexByte(a, ']')]
		switch {
		case in == "::":
			return a
		case strings.Contains(in, ":"):
			return "[…]"
		}
		return "[" + in + "]"
	})
	return strings.TrimSpace(s)
}
