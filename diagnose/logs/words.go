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
			nodes = append(append(nodes, e.node), e.others...)
		}
	}
	slices.Sort(ranks)
	slices.Sort(nodes)
	return slices.Compact(ranks), slices.Compact(nodes)
}

// who names them: "rank 3 (node gpu-07)".
func who(ranks []int, nodes []string, e *event) string {
	const few = 5
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
	case strings.HasPrefix(who, "nodes "):
		return who
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
		return cmp.Or(vals[name], capital(name))
	})
}

// capital returns a name of a value for people.
func capital(name string) string {
	switch name {
	case "dev":
		return "DEVICE"
	case "addr":
		return "ADDRESS"
	case "lib":
		return "LIBRARY"
	case "if":
		return "INTERFACE"
	case "where", "node":
		return "HOST"
	}
	return strings.ToUpper(name)
}

// says returns the sentence of an event. A part in brackets is left out where the log lacks its values.
func (e *event) says(who string) string {
	vals := e.values(who)
	if strings.HasPrefix(who, "node ") && slices.Contains(ends, e.cause.id) {
		vals["who"] = "a process on " + who
	}
	fill := func(s string) string {
		return placeholder.ReplaceAllStringFunc(s, func(p string) string {
			if v := vals[p[1:len(p)-1]]; v != "" || p == "{at}" {
				return v
			}
			return "?"
		})
	}
	text := optional.ReplaceAllStringFunc(agree(e.cause.says, who), func(part string) string {
		for _, p := range placeholder.FindAllString(part, -1) {
			if vals[p[1:len(p)-1]] == "" {
				return ""
			}
		}
		return part[1 : len(part)-1]
	})
	return fill(text)
}

var (
	several = regexp.MustCompile(`^(?:ranks|nodes|\d+ nodes) `)
	verb    = regexp.MustCompile(`^\{who\} (\w+)`)
)

// agree returns a sentence with its verb in the plural where its subject is several ranks or nodes.
func agree(says, who string) string {
	m := verb.FindStringSubmatchIndex(says)
	if m == nil || !several.MatchString(who) {
		return says
	}
	word := says[m[2]:m[3]]
	switch word {
	case "was":
		word = "were"
	case "has":
		word = "have"
	case "is":
		word = "are"
	case "does":
		word = "do"
	default:
		word = strings.TrimSuffix(word, "s")
	}
	return "{who} " + word + strings.ReplaceAll(says[m[3]:], " its ", " their ")
}

// ends are the causes that say how a process ended.
var ends = []string{"log.killed", "log.crashed", "log.exited", "log.stopped", "log.hangup", "log.shm-too-small",
	"rank.failed"}

// kind returns what an event says of any process.
func (e *event) kind() string {
	switch e.cause.id {
	case "rank.failed", unexplained.id:
		return "failed with an error of their own"
	case "log.exited":
		return "ended with an exit code"
	case unknownID:
		return "other lines look like errors"
	}
	return strings.TrimPrefix(e.says("processes"), "processes ")
}

func (e *event) failure() *Failure {
	return &Failure{Rank: e.rank, Local: e.local, Node: e.node, Error: cut(tidy(e.text)), At: e.at, Where: e.where,
		Time: e.time, Undated: e.undated, Cause: e.cause.id}
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
