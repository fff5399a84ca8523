package companion

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"launch/diagnose/scene"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

const (
	// pathBudget bounds the calls of one look, and firstBudget those that only show whether there is an answer.
	pathBudget, firstBudget = 5 * time.Second, 1500 * time.Millisecond
	// maxPaths is how many other nodes one look calls.
	maxPaths = 16
	// pathBulk is a message of many full segments each way, bytes.
	pathBulk = 64 << 10
)

// tryPaths calls each node to which a connection of the job is stuck, or from which a call has no answer: only a new
// connection of launch's own shows whether the path is at fault, and for which packets, or that one connection alone.
func (d *doctor) tryPaths(ctx context.Context, s *scene.Scene) {
	stuck := map[netip.Addr]netip.Addr{} // by the address there, this node's
	budget := firstBudget
	for _, k := range s.Sockets {
		if k.Stuck() {
			budget = pathBudget
		}
		if k.Stuck() || k.Unanswered() {
			stuck[k.Remote.Addr().Unmap()] = k.Local.Addr().Unmap()
		}
	}
	if len(stuck) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	calls := 0
	for _, n := range d.others(ctx) {
		for to, from := range stuck {
			if n.Addr != to && !slices.Contains(n.Addrs, to) || calls == maxPaths {
				continue
			}
			calls++
			wg.Go(func() {
				p, known := d.tryPath(ctx, n, from, to)
				mu.Lock()
				defer mu.Unlock()
				if known {
					s.Paths = append(s.Paths, p)
				}
			})
		}
	}
	wg.Wait()
}

// tryPath calls a node at one of its addresses. It returns false where the call says nothing of the path.
func (d *doctor) tryPath(ctx context.Context, n rendezvous.Partner, from, to netip.Addr) (p scene.Path, known bool) {
	p = scene.Path{From: from, To: to}
	i, _ := interfaceOf(from) // an MTU of 0 is none
	keys := d.p.spec.Token.Keys(d.p.spec.Job).Client()
	a, err := sidechannel.Probe(ctx, netip.AddrPortFrom(to, uint16(n.Peer)), keys,
		sidechannel.Options{From: from, IfMTU: i.MTU, Bulk: pathBulk})
	switch sidechannel.CauseOf(err) {
	case "":
		p.Outcome, p.Sounded, p.Again = scene.Answered, a.MTU.Answered, a.Retrans
		p.Long, p.Back = a.Bulk.Out.Arrived >= pathBulk, a.Bulk.Back.Arrived >= pathBulk
		p.Full = a.MTU.Answered && a.MTU.Out >= a.MTU.Tried || i.MTU > 0 && a.Bulk.Out.Arrived > 2*i.MTU
	case sidechannel.Refused:
		p.Outcome = scene.Refused
	case sidechannel.Dropped, sidechannel.NoRoute, sidechannel.NoHost, sidechannel.Denied:
		p.Outcome = scene.Unreachable
	default: // a process that is stopped, or another one at that port
		return p, false
	}
	return p, true
}
