package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// crawls finds connections of a job that carry little by far, although data waits and the other end takes more.
func (v *view) crawls() (out []claim) {
	for _, n := range v.nodes {
		if n.scene == nil {
			continue
		}
		for _, c := range n.scene.Crawls {
			if !slices.ContainsFunc(n.scene.Sockets, func(k scene.Socket) bool { return k.Remote.Addr().Unmap() == c.To }) {
				continue // of another job
			}
			out = append(out, v.crawl(n, c))
		}
	}
	return out
}

// crawl judges one connection that crawls.
func (v *view) crawl(n *node, c scene.Crawl) claim {
	other := v.atAddr(c.To)
	where := cmp.Or(v.peerAt(c.To), c.To.String())
	if other != nil {
		where = other.name
	}
	seen := fmt.Sprintf("%s to %s: data waits all the time, and the other end takes more", c.From, c.To)
	says := fmt.Sprintf("what %s sends to %s crawls: %s/s for %s", n.name, where, finding.Size(uint64(c.Rate)),
		ago(c.Span))
	if c.Before > 0 {
		says += fmt.Sprintf(", and up to %s/s before", finding.Size(uint64(c.Before)))
	}
	if c.Again >= 0.01 {
		says += fmt.Sprintf("; %.0f %% of it is sent again", 100*c.Again)
	}
	if own, ok := (pair{near: n, far: other, where: where, local: c.From, remote: c.To}).showsItself(); ok {
		own.Says = says + ": " + own.Says
		return own.see("tcp_info", seen)
	}
	if c.Again >= 0.01 {
		says += ": packets get lost on the way, by a limit of the rate (a policer, an allowance of the cloud) or a fault"
	} else {
		says += ": a limit of the rate on the way, or a full link"
	}
	return claimed("path.loss", verdict.Certain, says).of(nil, n, other).see("tcp_info", seen).
		do(fmt.Sprintf("nft list ruleset; tc -s filter show dev IFACE ingress; tc -s qdisc; ethtool -S IFACE   # on %s and "+
			"%s: a limit, drops, an allowance that is exceeded", where, n.name))
}

// crawlsTo reports whether a connection is one to a node to which one crawls: it carries something.
func (v *view) crawlsTo(n *node, k scene.Socket) bool {
	to := k.Remote.Addr().Unmap()
	return slices.ContainsFunc(n.scene.Crawls, func(c scene.Crawl) bool { return c.To == to })
}
