package logs

import (
	"cmp"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// sameStart is how far apart the agents of one start may print their settings. A second attempt is as a rule later.
const sameStart = 2 * time.Minute

// configWords are in the lines with which an agent of torchrun prints its settings.
var configWords = []string{wordConfigs, "min_nodes ", "run_id ", "rdzv_backend ", "rdzv_endpoint "}

// wordConfigs begins these lines.
const wordConfigs = "elastic_operator with launch configs"

var configForm = re(`(?:^|\s)(?P<name>min_nodes|run_id|rdzv_backend|rdzv_endpoint) *: ?(?P<v>\S*)\s*$`)

// config is what one agent of torchrun prints of its settings.
type config struct {
	of    streamKey
	node  string // "": no line names it
	log   string
	time  time.Time
	vals  map[string]string
	seen  map[string]finding.Seen
	twice bool // its log has several starts
}

// configures notes a line of an agent's settings.
func (f *follower) configures(st *stream, p *prefix) {
	key := streamKey{f.index, string(p.label)}
	at := slices.IndexFunc(f.configs, func(c *config) bool { return c.of == key })
	if strings.Contains(string(p.body), wordConfigs) {
		c := &config{of: key, node: cmp.Or(p.node, st.node), log: f.name, time: f.when(), twice: at >= 0,
			vals: map[string]string{}, seen: map[string]finding.Seen{}}
		switch {
		case at >= 0:
			f.configs[at] = c
		case len(f.configs) < maxStreams:
			f.configs = append(f.configs, c)
		}
		return
	}
	m := configForm().FindSubmatch(p.body)
	if m == nil || at < 0 {
		return
	}
	vals := values(configForm(), m)
	f.configs[at].vals[vals["name"]] = vals["v"]
	f.configs[at].seen[vals["name"]] = finding.Seen{Where: f.place(), What: quote(p.body)}
}

// settings compares the agents of one start that did not meet. Where more than one setting differs, they may be of
// different jobs; and a log with several starts may have those of several nodes.
func (f *follower) settings(live []*event) (verdict.Verdict, bool) {
	met := slices.ContainsFunc(live, func(e *event) bool {
		return e.cause.id == "log.store-timeout" || e.cause.id == "log.store-unreachable"
	})
	all := slices.DeleteFunc(slices.Clone(f.configs), func(c *config) bool {
		return number(strings.SplitN(c.vals["min_nodes"], ":", 2)[0]) < 2
	})
	if !met || len(all) < 2 || slices.ContainsFunc(all, func(c *config) bool { return c.twice || c.far(all[0]) }) {
		return verdict.Verdict{}, false
	}
	v := verdict.Verdict{Cause: "log.launch-config", Sure: verdict.Likely}
	if !slices.ContainsFunc(all, func(c *config) bool { return !c.itself() }) {
		v.Nodes, v.Seen = nodesOf(all), seenOf(all, "rdzv_endpoint")
		v.Says = fmt.Sprintf("%d nodes each wait for %s nodes at their own host: the rendezvous endpoint is %s there",
			len(all), all[0].vals["min_nodes"], cmp.Or(all[0].vals["rdzv_endpoint"], "empty, which means localhost"))
		v.Do = "give all nodes the same --rdzv-endpoint: an address of one of them that the others reach, and its port " +
			"(look at the script that sets it)"
		return v, true
	}
	var names []string
	for _, name := range []string{"run_id", "min_nodes", "rdzv_backend", "rdzv_endpoint"} {
		if slices.ContainsFunc(all, func(c *config) bool { return c.differs(all[0], name) }) {
			names = append(names, name)
		}
	}
	if len(names) != 1 {
		return verdict.Verdict{}, false
	}
	name := names[0]
	v.Nodes, v.Seen = nodesOf(all), seenOf(all, name)
	v.Says = fmt.Sprintf("the nodes do not meet, since torchrun has not the same %s on all: %s", name, listed(all, name))
	v.Do = "start torchrun on all nodes with the same " + option(name)
	return v, true
}

// option returns the option of torchrun that gives a setting.
func option(name string) string {
	switch name {
	case "run_id":
		return "--rdzv-id: a fixed text, or the number of the scheduler's job"
	case "rdzv_backend":
		return "--rdzv-backend"
	case "rdzv_endpoint":
		return "--rdzv-endpoint, host and port"
	}
	return "--nnodes"
}

// far says whether two agents began at other times, or at times that no line gives, or are of one node.
func (c *config) far(o *config) bool {
	if c == o {
		return false
	}
	return c.node != "" && c.node == o.node || c.time.IsZero() || o.time.IsZero() || c.time.Sub(o.time).Abs() > sameStart
}

// itself says whether an agent meets the others at its own host.
func (c *config) itself() bool {
	endpoint, ok := c.vals["rdzv_endpoint"]
	host, _ := hostPort(endpoint)
	if endpoint == "" {
		return ok && c.vals["rdzv_backend"] == "c10d"
	}
	return host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1"
}

// differs says whether a setting of two agents is not the same. An endpoint at the own host may be that of the others.
func (c *config) differs(o *config, name string) bool {
	a, ok := c.vals[name]
	b, has := o.vals[name]
	if !ok || !has || a == b {
		return false
	}
	if name != "rdzv_endpoint" {
		return true
	}
	hostA, portA := hostPort(a)
	hostB, portB := hostPort(b)
	return portA != portB || !c.itself() && !o.itself() && differ(hostA, hostB)
}

// hostPort splits an endpoint; the port of c10d is 29400 where none is given.
func hostPort(endpoint string) (host, port string) {
	if host, port, err := net.SplitHostPort(endpoint); err == nil {
		return host, port
	}
	return strings.Trim(endpoint, "[]"), "29400"
}

// nodesOf returns the nodes of some agents, as far as lines name them.
func nodesOf(all []*config) []string {
	names := finding.Map(all, func(c *config) string { return c.node })
	return slices.DeleteFunc(names, func(n string) bool { return n == "" })
}

// listed returns the values of a setting, each with one of its agents: "77 on red-1, 78 on red-2".
func listed(all []*config, name string) string {
	var out, vals []string
	for _, c := range all {
		if slices.Contains(vals, c.vals[name]) || len(out) == maxSeen {
			continue
		}
		vals = append(vals, c.vals[name])
		out = append(out, c.vals[name]+cmp.Or(strings.TrimSuffix(" on "+c.node, " on "), " in "+filepath.Base(c.log)))
	}
	return strings.Join(out, ", ")
}

// seenOf returns the lines with a setting of some agents.
func seenOf(all []*config, name string) (out []finding.Seen) {
	for _, c := range all[:min(len(all), maxSeen)] {
		if s, ok := c.seen[name]; ok {
			out = append(out, s)
		}
	}
	return out
}
