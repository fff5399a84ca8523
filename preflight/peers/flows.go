package peers

import (
	"fmt"

	"launch/internal/finding"
	"launch/internal/sidechannel"
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

// ownLeg returns the failure of connections that the caller's own route sends to a next hop that gives no answer.
func (b blamed) ownLeg() finding.Finding {
	e := b.edges[0]
	f := finding.Failf("some connections %s never open: %s: %s", b.where(), e.from.Name, e.call.Wrong.Why).
		Named("peer.flows")
	return b.measured(f, func(e edge) string { return calls.Opened(e.call.Flows, "") }).
		Breaking("ranks open many connections, and those from such ports wait until a timeout").
		Do("%s", e.call.Wrong.On(e.from.Name))
}

// byPort returns the failure of connections that do not get through because of their ports.
func (b blamed) byPort() finding.Finding {
	f := finding.Failf("connections %s: some ports never get an answer, the others always do (%d of %d paths)", b.where(),
		len(b.edges), b.tried()).Named("peer.flows")
	return b.measured(f, func(e edge) string {
		return fmt.Sprintf("%d of %d connections get no answer, the others at once", e.call.Never, e.call.Tried)
	}).Breaking("ranks open many connections, and those from such ports wait until a timeout").
		Do("%s", "one of several network paths drops packets; the ports of a connection choose the path\n"+
			calls.FindPath(b.suspects()))
}

// shut returns the failure of new connections that are dropped for as long as others are open.
func (b blamed) shut() finding.Finding {
	fix, by := b.limitFix(), ""
	if p, known := b.translatedCaller(); known {
		by = fmt.Sprintf("; connections of %s arrive from %s: a NAT between may have no ports left for more", p.Name, p.nat)
		fix = fmt.Sprintf("conntrack -S; nft list ruleset   # on %s, which translates: are its ports (SNAT) or its table "+
			"used up?\n%s", p.nat, fix)
	}
	f := finding.Failf("new connections %s are %s beyond a limit, also when tried again, while open ones work "+
		"(%d of %d paths)%s", b.where(), dropped(b.edges[0].call), len(b.edges), b.tried(), by).Named("peer.connect")
	return b.measured(f, func(e edge) string { return calls.Opened(e.call.Flows, "") }).
		Breaking("ranks open many connections at once; those beyond the limit wait until a timeout").Do("%s", fix)
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
	return calls.FindLimit(b.receivers())
}

// receivers names the nodes to look at for a limit: mostly the node that is called has it.
func (b blamed) receivers() string {
	if b.Side == blame.Between && len(b.edges) == 1 {
		return fmt.Sprintf("%s, else on %s or a firewall between", b.edges[0].to.Name, b.edges[0].from.Name)
	}
	return b.suspects()
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
	opened := calls.Opened(c.Flows, "")
	limit := words{id: "peer.connect", fix: calls.FindLimit(fmt.Sprintf("%s, else on %s or a firewall between", e.to.Name,
		e.from.Name))}
	switch {
	case c.ByPort():
		return words{id: "peer.flows", why: opened + ". " + calls.OnePath,
			fix: calls.FindPath(e.from.Name + " and " + e.to.Name)}, true
	case c.Shut:
		limit.why = fmt.Sprintf("node %s answers no new connection on two ports, and an open one works", e.to.Name)
		return limit, true
	case c.Tried > 0 && c.Lossy():
		return words{id: "peer.loss", why: "packets of any length are lost (" + opened + ")",
			fix: fmt.Sprintf("ip -s link; ethtool -S IFACE; tc -s qdisc; nft list ruleset   # on %s and %s: which counter of "+
				"drops or errors rises\n"+
				"then change the cable or switch port, or correct the filter or queue that drops", e.from.Name, e.to.Name)}, true
	case c.Tried > c.Never && c.Never > 1 && c.Again != sidechannel.All:
		limit.why = "new connections are " + dropped(c) + " beyond a limit (" + opened + ")"
		return limit, true
	}
	return words{}, false
}
