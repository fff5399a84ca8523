package companion

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	"launch/diagnose"
	"launch/internal/finding"
	"launch/rendezvous"
)

// maxAsked is how many other nodes are called to see which of them were lost with a node.
const maxAsked = 32

// parted says once that several nodes do not answer while others do, where a node was lost at whose address nothing
// answers: what lies between the two groups is then a likelier reason than the end of so many machines.
func (p *companion) parted(n rendezvous.Partner, at string) {
	if p.split.Load() {
		return
	}
	others := elsewhere(p.doctor.others(p.ctx), n.Addr, p.world.Self.Addr)
	others = others[:min(len(others), maxAsked)]
	answers := make([]presence, len(others))
	var all sync.WaitGroup
	for i, o := range others {
		all.Go(func() {
			for range callTries {
				if answers[i], _ = p.callLost(o); answers[i] != isAbsent {
					return
				}
			}
		})
	}
	all.Wait()
	if f, ok := groups(n, others, answers, at); ok && p.running.Err() == nil && p.split.CompareAndSwap(false, true) {
		p.say(f, "")
	}
}

// elsewhere returns the nodes that can be called, one of each address: of several on one host all are lost with it, and
// one on this node's own host says nothing about the network.
func elsewhere(all []rendezvous.Partner, known ...netip.Addr) (out []rendezvous.Partner) {
	for _, o := range all {
		if o.Addr.IsValid() && o.Peer != 0 && !slices.Contains(known, o.Addr) {
			out, known = append(out, o), append(known, o.Addr)
		}
	}
	return out
}

// groups returns the finding about a network that may be in two parts: nodes that answer nothing, and at least one that
// answers as it should.
func groups(n rendezvous.Partner, others []rendezvous.Partner, answers []presence, at string) (finding.Finding, bool) {
	gone := []rendezvous.Partner{n}
	var near []rendezvous.Partner
	for i, o := range others {
		switch answers[i] {
		case isAbsent:
			gone = append(gone, o)
		case isBack:
			near = append(near, o)
		}
	}
	if len(gone) < 2 || len(near) == 0 {
		return finding.Finding{}, false
	}
	names := func(all []rendezvous.Partner) string {
		slices.SortFunc(all, func(a, b rendezvous.Partner) int { return strings.Compare(a.Name, b.Name) })
		return finding.Some(finding.Map(all, func(n rendezvous.Partner) string { return n.Name }))
	}
	return finding.Warnf("nothing answers at %s, and this node reaches %s (seen at %s): the network between these two "+
		"groups was lost, or all those hosts at the same time", names(gone), names(near), at).
		Named("node.lost").Do("%s", diagnose.PartedFix(names(gone))), true
}
