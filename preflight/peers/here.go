package peers

import (
	"fmt"
	"net"

	"launch/internal/sidechannel"
	"launch/preflight/blame"
)

// callers returns the nodes whose own kernels refused some of the calls.
func (b blamed) callers() (out []Post) {
	seen := map[int]bool{}
	for _, e := range b.edges {
		if e.call.Here && !seen[e.from.Rank] {
			seen[e.from.Rank], out = true, append(out, e.from)
		}
	}
	return out
}

// caller returns the one of two nodes whose own kernel refused a call to the other: it is at fault, not the path.
func (b blamed) caller() (p Post, known bool) {
	if c := b.callers(); b.Side == blame.Between && len(c) == 1 {
		return c[0], true
	}
	return p, false
}

// refusedHere returns the reason and the fix of a call that the caller's own kernel refused. The kernel has an error
// for each type of route: EINVAL for blackhole, EACCES for prohibit, ENETUNREACH for a missing route (ip-route(8)).
func refusedHere(e edge) words {
	if e.call.Wrong != "" {
		return words{why: e.from.Name + ": " + e.call.Wrong, fix: fmt.Sprintf("ip neigh; ls /etc/ethers   # on %s: what set "+
			"that entry", e.from.Name)}
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
	case sidechannel.NoRoute, sidechannel.NoHost:
		return words{why: fmt.Sprintf("%s has no route to %s", who, addr),
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
