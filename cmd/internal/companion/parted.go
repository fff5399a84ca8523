package companion

import (
	"slices"
	"strings"
	"sync"

	"launch/internal/finding"
	"launch/rendezvous"
)

// maxAsked is how many other nodes are called to see which of them a node that was lost has taken along.
const maxAsked = 32

// parted says once that several nodes do not answer while others do, where a node was lost at whose address nothing
// answers: what lies between the two groups is then a likelier reason than the end of so many machines.
func (p *companion) parted(n rendezvous.Partner, at string) {
	others := slices.DeleteFunc(slices.Clone(p.doctor.others(p.ctx)), func(o rendezvous.Partner) bool {
		return o.ID == n.ID || !o.Addr.IsValid() || o.Peer == 0
	})
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

// groups returns the finding about a network in two parts: nodes that answer nothing, and at least one that answers as
// it should.
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
	return finding.Warnf("the network is in two parts (seen at %s): this node reaches %s, and nothing answers at %s: "+
		"what is between these groups was lost, or all those hosts at the same time", at, names(near), names(gone)).
		Named("node.lost").Do("look at what connects the two groups: the link between their switches, a router, a firewall; "+
		"on %s launch names the other side", names(gone)), true
}
