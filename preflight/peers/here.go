package peers

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"launch/internal/sidechannel"
	"launch/preflight/blame"
)

// guilty returns the nodes whose own kernels refused some of the calls, or dropped what arrived of them.
func (b blamed) guilty() (out []Post) {
	add := func(p Post) {
		if !slices.ContainsFunc(out, func(o Post) bool { return o.Rank == p.Rank }) {
			out = append(out, p)
		}
	}
	for _, e := range b.edges {
		if p, deaf := e.deaf(); deaf {
			add(p)
		} else if p, sends := e.damages(); sends {
			add(p)
		} else if e.elsewhere() {
			add(e.to)
		} else if odd, _, known := e.oddMask(b.all); e.call.Here && e.masked() && known {
			add(odd)
		} else if e.call.Here {
			add(e.from)
		}
	}
	return out
}

// culprit returns the one of two nodes whose own kernel is the reason: it is at fault, not the path.
func (b blamed) culprit() (p Post, known bool) {
	if c := b.guilty(); b.Side == blame.Between && len(c) == 1 {
		return c[0], true
	}
	return p, false
}

// deaf returns the node of a call that drops what the other sends: the called one its call, or the caller the answers.
func (e edge) deaf() (Post, bool) {
	if e.call.Cause != sidechannel.Dropped && e.call.Cause != sidechannel.NoHost {
		return Post{}, false
	}
	for _, end := range [][2]Post{{e.to, e.from}, {e.from, e.to}} {
		// A counter alone does not show whose packets a node drops.
		if end[0].Deaf.From.IsValid() && !end[0].Deaf.Hears(end[1].Addr) {
			return end[0], true
		}
	}
	return Post{}, false
}

// damages returns the node of a call whose long messages arrive at the other one with wrong checksums.
func (e edge) damages() (Post, bool) {
	switch {
	case e.call.Stall == "there" && e.to.Deaf.Sums:
		return e.from, true
	case e.call.Stall == "back" && e.from.Deaf.Sums:
		return e.to, true
	}
	return Post{}, false
}

// explained returns what is known of long messages that do not arrive: by the tables of the node that sends them, or
// since they arrive with wrong checksums.
func (b blamed) explained() (w words, known bool) {
	for _, e := range b.edges {
		if f := e.call.Wrong; f.Why != "" {
			return words{why: e.from.Name + ": " + f.Why, fix: f.On(e.from.Name)}, true
		}
	}
	for _, e := range b.edges {
		sender, sends := e.damages()
		if !sends {
			continue
		}
		receiver := e.to
		if sender.Rank == e.to.Rank {
			receiver = e.from
		}
		return words{why: receiver.Name + ": " + receiver.Deaf.Why,
			fix: strings.ReplaceAll(receiver.Deaf.Do, "the node that sends them", sender.Name)}, true
	}
	return w, false
}

// elsewhere reports whether the called node has chosen an address that the caller does not reach by an unusual way to
// the store: another of its addresses is a neighbour of the store's host.
func (e edge) elsewhere() bool {
	return e.call.Here && e.call.Cause == sidechannel.NoRoute && e.to.Odd.Why != "" && !e.call.Also
}

// refusedHere returns the reason and the fix of a call that the caller's own kernel refused. The kernel has an error
// for each type of route: EINVAL for blackhole, EACCES for prohibit, EHOSTUNREACH for unreachable, ENETUNREACH for a
// missing route and for a broadcast address (ip-route(8)).
func refusedHere(e edge, posts []Post) words {
	if w := e.call.Wrong; w.Why != "" {
		return words{why: e.from.Name + ": " + w.Why, fix: w.On(e.from.Name)}
	}
	who, addr, port := e.from.Name, hostOf(e.call.Addr), "PORT"
	if _, p, err := net.SplitHostPort(e.call.Addr); err == nil {
		port = p
	}
	route := fmt.Sprintf("ip rule; ip route get %s ipproto tcp dport %s   # on %s", addr, port, who)
	switch e.call.Cause {
	case sidechannel.Blackhole:
		return words{why: fmt.Sprintf("%s has a blackhole route to %s", who, addr),
			fix: route + ": delete that route, or the rule that leads there"}
	case sidechannel.Broadcast:
		return words{why: fmt.Sprintf("%s takes %s for the broadcast address of a network%s", who, addr, masks(e, posts)),
			fix: fmt.Sprintf("ip -br addr; ip route get %s   # on %s: is its netmask right?", addr, who)}
	case sidechannel.NoHost:
		return words{why: fmt.Sprintf("%s has an unreachable route to %s", who, addr),
			fix: route + ": what has made it? fail2ban makes such routes"}
	case sidechannel.NoRoute:
		if e.elsewhere() {
			return words{why: fmt.Sprintf("%s has no route to %s, which %s has chosen by its way to the store: %s", who, addr,
				e.to.Name, e.to.Odd.Why), fix: e.to.Odd.On(e.to.Name) + "\nor choose an address that the others reach: launch " +
				"--addr ADDRESS, there"}
		}
		return words{why: fmt.Sprintf("%s has no route to %s%s", who, addr, masks(e, posts)),
			fix: fmt.Sprintf("ip route get %s; ip addr   # on %s: is the netmask right, is there a default route?\n"+
				"or choose a network that all nodes share: --addr 10.0.0.0/16", addr, who)}
	case sidechannel.Denied:
		return words{why: fmt.Sprintf("%s forbids calls to %s: a prohibit route, or a filter", who, addr),
			fix: route + "\nnft list ruleset; iptables -S OUTPUT   # there"}
	case sidechannel.NoPort:
		return words{why: fmt.Sprintf("%s has no free port for a call to %s", who, addr),
			fix: fmt.Sprintf("sysctl net.ipv4.ip_local_port_range; ss -s   # on %s", who)}
	}
	return words{why: fmt.Sprintf("%s cannot call: %s", who, e.call.Err),
		fix: fmt.Sprintf("ip addr; ulimit -n   # on %s", who)}
}
