package peers

import (
	"fmt"
	"net"
	"slices"

	"launch/internal/finding"
	"launch/internal/sidechannel"
)

// closedPort judges the calls to the port that node rank 0 holds for the job's own store, where the nodes reach
// each other otherwise. Where it answers nobody, node rank 0 must leave, else those that it does not answer.
func closedPort(all []edge, posts []Post) (out []judged) {
	var failed []edge
	tried := 0
	for _, e := range all {
		if e.to.Version != e.from.Version { // another launch may not answer there
			continue
		}
		if tried++; e.call.Failed() {
			failed = append(failed, e)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	b := blamed{edges: failed}
	c, owner := b.common().call, failed[0].to
	_, port, _ := net.SplitHostPort(c.Addr)
	who := finding.Map(failed, func(e edge) Post { return e.from })
	names, unfit := finding.Some(namesOf(who)), ranksOf(who)
	if len(failed) == tried && c.Wrong.Why == "" {
		unfit = []int{owner.Rank}
	}
	slices.Sort(unfit)
	look := fmt.Sprintf("iptables -S; nft list ruleset   # on %s, and on the firewalls before it: open TCP port %s",
		owner.Name, port)
	switch {
	case c.Wrong.Why != "":
		look = c.Wrong.On(b.common().from.Name)
	case c.Cause == sidechannel.Denied, c.Cause == sidechannel.Blackhole: // the caller's kernel says so, and sends nothing
		look = fmt.Sprintf("ip rule; iptables -S OUTPUT; nft list ruleset   # on %s: what forbids it to call port %s", names,
			port)
	case c.Cause == sidechannel.Silent:
		look = fmt.Sprintf("iptables -t nat -S; nft list ruleset   # on %s: does a NAT or proxy take calls to port %s?\n%s",
			names, port, look)
	}
	f := finding.Failf("calls to port %s of %s, where the job's own store will listen, do not get through from %s "+
		"(%d of %d tried), while those to other ports do: %s", port, owner.Name, names, len(failed), tried,
		wordsOf(b.common(), posts).why).Named("peer.port").
		Breaking("the ranks there never reach rank 0; torch says so after minutes, or not at all").
		Do("%s\nor choose a port that is open: launch --master-port PORT, on all nodes", look)
	return append(out, judged{b.see(f), unfit})
}

// soundPorts returns the calls to the port of the job's own store between nodes where any new connection gets through.
func soundPorts(port, all []edge) []edge {
	return slices.DeleteFunc(slices.Clone(port), func(e edge) bool {
		return slices.ContainsFunc(all, func(o edge) bool {
			return o.from.Rank == e.from.Rank && o.to.Rank == e.to.Rank && (o.call.ByPort() || o.call.Limited())
		})
	})
}

// told reports whether a call says something of the pair of nodes: one to the port of the job's own store that
// arrived says no more than the call beside it.
func told(e edge) bool { return !e.call.Port || e.call.Failed() }
