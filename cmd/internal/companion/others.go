package companion

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"launch/diagnose/scene"
	"launch/rendezvous"
)

// member reports whether an address is that of a node of this world.
func (d *doctor) member(ctx context.Context, caller netip.Addr) bool {
	w := d.world.Load()
	return w != nil && caller == w.Self.Addr || slices.ContainsFunc(d.others(ctx), func(n rendezvous.Partner) bool {
		return n.Addr == caller || slices.Contains(n.Addrs, caller)
	})
}

// others returns the other nodes of the world: all while the store answers, else those that this one checked.
func (d *doctor) others(ctx context.Context) []rendezvous.Partner {
	w := d.world.Load()
	if w == nil {
		return nil
	}
	d.mu.Lock()
	known := d.known
	d.mu.Unlock()
	if known != nil {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var all []rendezvous.Partner
	err := rendezvous.ErrUnreachable // without a question, where the store has ended with its host
	if len(d.p.hangup.Connected()) > 0 {
		all, err = d.p.session.Everyone(ctx)
	}
	if err != nil {
		first := func(n rendezvous.Partner) bool { return n.Rank == 0 }
		if w.Rank == 0 || slices.ContainsFunc(w.Partners, first) {
			return w.Partners
		}
		return append(slices.Clone(w.Partners), w.Master.Partner(0))
	}
	all = slices.DeleteFunc(all, func(n rendezvous.Partner) bool { return n.Rank == w.Rank })
	d.mu.Lock()
	d.known = all
	d.mu.Unlock()
	return all
}

// peers returns the other nodes that have not left, for a scene.
func (d *doctor) peers(ctx context.Context) (out []scene.Peer) {
	for _, n := range d.others(ctx) {
		if n.Addr.IsValid() {
			out = append(out, scene.Peer{Name: n.Name, Rank: n.Rank, Addrs: append([]netip.Addr{n.Addr}, n.Addrs...)})
		}
	}
	return out
}
