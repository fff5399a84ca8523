package peers

import (
	"fmt"

	"launch/internal/finding"
	"launch/preflight/blame"
	"launch/preflight/calls"
)

// limited returns whether connections of a call beyond a limit do not open, and those of no other call to that node do
// later: some limits are lifted by time, and the job begins late.
func limited(all []edge) func(edge) bool {
	later := map[int]bool{} // by the rank that is called
	for _, e := range all {
		later[e.to.Rank] = later[e.to.Rank] || e.call.Late > e.call.Never
	}
	return func(e edge) bool { return e.call.Limited() && !later[e.to.Rank] }
}

// byPort returns the failure of connections that do not get through because of their ports.
func (b blamed) byPort() finding.Finding {
	f := finding.Failf("connections %s get through or not by their ports: tried again from the same ports, exactly the "+
		"same ones get no answer (%d of %d paths)", b.where(), len(b.edges), b.tried()).Named("peer.flows")
	return b.measured(f, func(e edge) string {
		return fmt.Sprintf("%d of %d connections get no answer, the others at once", e.call.Never, e.call.Tried)
	}).Breaking("ranks open many connections, and those on the dead path wait until a timeout").
		Do("%s", "one of several parallel paths is dead; the ports of a connection choose the path\n"+
			"cat /proc/net/bonding/*; teamdctl TEAM state   # on "+b.suspects()+": a member of a bond whose other end "+
			"is not in the group\n"+
			"on the switches: the members of each port channel (LACP), and the next hops of each route (ECMP)")
}

// shut returns the failure of new connections that are dropped for as long as others are open.
func (b blamed) shut() finding.Finding {
	f := finding.Failf("new connections %s are %s beyond a limit, also when tried again, while open ones work "+
		"(%d of %d paths)", b.where(), dropped(b.edges[0].call), len(b.edges), b.tried()).Named("peer.connect")
	return b.measured(f, func(e edge) string { return opened(e.call) }).
		Breaking("ranks open many connections at once; those beyond the limit wait until a timeout").
		Do("%s", b.limitFix())
}

// limited returns the warning about new connections that are dropped at first.
func (b blamed) limited() finding.Finding {
	f := finding.Warnf("new connections %s are dropped at first, while packets of open ones arrive (%d of %d paths)",
		b.where(), len(b.edges), b.tried()).Named("peer.connect")
	return b.measured(f, func(e edge) string {
		return fmt.Sprintf("the first packet of %d connections was not answered", e.call.Late)
	}).Breaking("ranks open many connections at once; they wait for seconds, or time out").Do("%s", b.limitFix())
}

// limitFix returns where to look for a limit on new connections.
func (b blamed) limitFix() string {
	return limitFix(b.receivers())
}

func limitFix(on string) string {
	return fmt.Sprintf("nft list ruleset; iptables -S   # on %s: is there a limit on new connections (limit, hashlimit, "+
		"connlimit, ct count)\n"+
		"sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max net.core.somaxconn; "+
		"dmesg | grep conntrack   # is the table of connections full, or the queue of a listener short", on)
}

// receivers names the nodes to look at for a limit: mostly the node that is called has it.
func (b blamed) receivers() string {
	if b.Side == blame.Between && len(b.edges) == 1 {
		return fmt.Sprintf("%s, else on %s or a firewall between", b.edges[0].to.Name, b.edges[0].from.Name)
	}
	return b.suspects()
}

// opened describes further connections.
func opened(c calls.Call) string {
	s := fmt.Sprintf("of %d further connections at once %d opened", c.Tried, c.Tried-c.Never)
	if c.Late > c.Never {
		s += fmt.Sprintf(", %d of them only when the first packet was sent again", c.Late-c.Never)
	}
	return s
}

// dropped says what became of the connections that did not open.
func dropped(c calls.Call) string {
	if c.Refused > 0 {
		return "refused"
	}
	return "dropped"
}

// noFurther returns what is known of a call without an answer, where others to that node have one.
func noFurther(e edge) (words, bool) {
	c := e.call
	switch {
	case c.Shut:
		return words{id: "peer.connect", fix: limitFix(fmt.Sprintf("%s, else on %s or a firewall between", e.to.Name,
			e.from.Name)), why: "no new connection is answered, not at the store's port either, to which one is open: a limit " +
			"on new connections drops them"}, true
	case c.Tried > 0 && c.Lossy():
		return words{id: "peer.loss", why: "most packets are lost, of any length (" + opened(c) + ")",
			fix: fmt.Sprintf("ip -s link; ethtool -S IFACE; tc -s qdisc; nft list ruleset   # on %s and %s: which counter of "+
				"drops or errors rises\n"+
				"then change the cable or switch port, or correct the filter or queue that drops", e.from.Name, e.to.Name)}, true
	case c.Tried > c.Never && c.Never > 1:
		return words{id: "peer.connect", fix: limitFix(fmt.Sprintf("%s, else on %s or a firewall between", e.to.Name,
			e.from.Name)), why: "new connections are " + dropped(c) + " beyond a limit (" + opened(c) + ")"}, true
	}
	return words{}, false
}
