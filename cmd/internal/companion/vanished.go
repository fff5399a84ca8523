package companion

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

// vanishBudget bounds the search for a node that has vanished. In a container this process ends with torchrun, about a
// second after the rank that failed.
const vanishBudget = callBudget

// missing looks for a node whose machine answers while launch has ended there without a report. The kernel of a machine
// that has restarted resets the connections of the others' ranks, and the first of these to fail is not the reason.
func (e *ends) missing(ctx context.Context) {
	w := e.p.world
	if !e.p.spec.Torchrun || e.asked() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, vanishBudget)
	defer cancel()
	near := slices.Clone(w.Partners)
	if w.Rank != 0 && !slices.ContainsFunc(near, func(n rendezvous.Partner) bool { return n.Rank == 0 }) {
		near = append(near, w.Master.Partner(0))
	}
	call := func(n rendezvous.Partner) presence {
		now, _ := e.p.callLost(n)
		if now == hasEnded && e.p.doctor.moved(n, near).Why != "" {
			return isMoved
		}
		return now
	}
	e.vanished = vanished(near, call, func(n rendezvous.Partner) bool { return e.silent(ctx, n) })
}

// failedHere reports whether the first rank of all that failed is one of this node.
func (e *ends) failedHere() bool { return e.failed.known() && e.failed.end.ID == e.p.world.Self.ID }

// hasFailed reports whether it is known that a rank of the job has failed.
func (p *companion) hasFailed() bool { return p.ends != nil && p.ends.failed.known() }

// vanished returns the first of some nodes whose machine answers while launch has ended there, and that has reported
// nothing; nil: there is no such node.
func vanished(nodes []rendezvous.Partner, call func(rendezvous.Partner) presence,
	silent func(rendezvous.Partner) bool) *rendezvous.Partner {
	var calls sync.WaitGroup
	gone := make([]bool, len(nodes))
	for i, n := range nodes {
		calls.Go(func() { gone[i] = call(n) == hasEnded && silent(n) })
	}
	calls.Wait()
	if i := slices.Index(gone, true); i >= 0 {
		return &nodes[i]
	}
	return nil
}

// silent reports whether a node has reported neither the end of a rank or of its command, nor that it leaves. One that
// ends has done so before its port is closed.
func (e *ends) silent(ctx context.Context, n rendezvous.Partner) bool {
	all, err := e.p.session.Everyone(ctx)
	stays := func(o rendezvous.Partner) bool { return o.ID == n.ID && o.Addr.IsValid() }
	if err != nil || !slices.ContainsFunc(all, stays) {
		return false
	}
	for _, round := range []string{failedRound, crashedRound, leftRound} {
		posts, err := e.p.session.Posted(ctx, round, []int{n.Rank})
		if err != nil || posts[0] != nil {
			return false
		}
	}
	return true
}

// withoutReport is the finding about a node that has vanished, before something of this node failed or just after.
func withoutReport(n rendezvous.Partner, what string) finding.Finding {
	return finding.Warnf("node rank %d, %s: its machine answers, and launch has ended there without a report (seen at "+
		"%s, as %s failed, whose failure may follow from that): that machine or its container was restarted, or the "+
		"processes there were killed", n.Rank, n.Name, time.Now().Format("15:04:05"), what).Named("node.lost").
		Do("uptime; dmesg -T   # there: since when it is up, and whether the kernel killed processes")
}

// callLost calls a node, and returns also how many segments had to be sent again, as far as is known.
func (p *companion) callLost(n rendezvous.Partner) (now presence, again int) {
	ctx, cancel := context.WithTimeout(p.ctx, callBudget)
	defer cancel()
	a, err := sidechannel.Probe(ctx, netip.AddrPortFrom(n.Addr, uint16(n.Peer)), p.spec.Token.Keys(p.spec.Job).Client(),
		sidechannel.Options{})
	if sidechannel.Here(err) {
		return presence("this node could not call it: " + err.Error()), 0
	}
	switch sidechannel.CauseOf(err) {
	case "":
		return isBack, a.Retrans
	case sidechannel.Refused:
		return hasEnded, 0
	case sidechannel.Silent:
		if a.ID != "" { // it has greeted: what it sent then was lost or late
			return isBack, max(1, a.Retrans)
		}
		return isStopped, a.Retrans
	case sidechannel.Dropped, sidechannel.NoHost, sidechannel.NoRoute, sidechannel.Unknown:
		return isAbsent, 0
	}
	return notCalled, 0
}
