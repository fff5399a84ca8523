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
	// maxRelays is how many other nodes are asked for what a node sees to which this one has no path.
	maxRelays = 2
	// maxPassed is how many such nodes one look asks for.
	maxPassed = 4
	// passBudget bounds such a question next to a look at this node, and how long the third node tries to answer one: the
	// other node looks at itself, for 5 s where calls of its own get no answer, and of a node that is dead the third one
	// waits 4 s for each address. A question to all nodes has as long after the 4 s of a node's first address.
	passBudget = 8 * time.Second
)

// through returns what a node sees to which this one has no path, as a third node passes it on. That there is an answer
// shows that the third node reaches both.
func (d *doctor) through(ctx context.Context, n rendezvous.Partner) (scene.Scene, bool) {
	relays := d.relays(ctx, n)
	ctx, cancel := context.WithTimeout(ctx, consultBudget)
	defer cancel()
	keys := d.p.spec.Token.Keys(d.p.spec.Job).Client()
	passed := make(chan *scene.Scene, len(relays))
	for _, o := range relays {
		go func() {
			text, err := sidechannel.Pass(ctx, netip.AddrPortFrom(o.Addr, uint16(o.Peer)), keys, o.ID, n.Rank)
			if err != nil || len(text) == 0 {
				passed <- nil
				return
			}
			s, err := unpack(text)
			if err != nil || s.Via == nil {
				passed <- nil
				return
			}
			s.Via.Name = o.Name
			passed <- &s
		}()
	}
	for range relays {
		if s := <-passed; s != nil {
			return *s, true
		}
	}
	return scene.Scene{}, false
}

// relays returns nodes that may reach both this node and another one: the node after this one in the order of ranks,
// and one far away from it in that order, so that many nodes that ask do not all ask the same.
func (d *doctor) relays(ctx context.Context, n rendezvous.Partner) []rendezvous.Partner {
	w := d.world.Load()
	d.mu.Lock()
	lost := slices.Clone(d.lost)
	d.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(d.others(ctx)), func(o rendezvous.Partner) bool {
		return o.ID == n.ID || !o.Addr.IsValid() || o.Peer == 0 || slices.Contains(lost, o.Addr)
	})
	if len(all) <= maxRelays || w == nil {
		return all
	}
	slices.SortFunc(all, func(a, b rendezvous.Partner) int { return a.Rank - b.Rank })
	next := slices.IndexFunc(all, func(o rendezvous.Partner) bool { return o.Rank > w.Rank })
	next = max(next, 0) // after the last rank follows the first
	return []rendezvous.Partner{all[next], all[(next+len(all)/2)%len(all)]}
}

// beyond returns what the nodes with some addresses see, as third nodes pass it on, or as they answer this one: new
// connections may pass where an open one is stuck.
func (d *doctor) beyond(ctx context.Context, addrs []netip.Addr) (out []scene.Scene) {
	ctx, cancel := context.WithTimeout(ctx, passBudget)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	asked := 0
	for _, n := range d.others(ctx) {
		if asked == maxPassed || !slices.ContainsFunc(append([]netip.Addr{n.Addr}, n.Addrs...), func(a netip.Addr) bool {
			return slices.Contains(addrs, a)
		}) {
			continue
		}
		asked++
		wg.Go(func() {
			direct := make(chan *scene.Scene, 1)
			go func() {
				ctx, cancel := context.WithTimeout(ctx, pathBudget)
				defer cancel()
				s, err := d.ask(ctx, n)
				if err != nil {
					direct <- nil
					return
				}
				direct <- &s
			}()
			s, ok := d.through(ctx, n)
			if own := <-direct; !ok && own != nil {
				s, ok = *own, true
			}
			if ok {
				mu.Lock()
				defer mu.Unlock()
				out = append(out, s)
			}
		})
	}
	wg.Wait()
	return out
}

// those returns what the nodes with some addresses see themselves, of a few of them.
func (d *doctor) those(ctx context.Context, addrs []netip.Addr) (out []scene.Scene) {
	ctx, cancel := context.WithTimeout(ctx, consultBudget)
	defer cancel()
	for _, n := range d.others(ctx) {
		if len(out) < maxPassed && n.Peer != 0 && slices.ContainsFunc(append([]netip.Addr{n.Addr}, n.Addrs...),
			func(a netip.Addr) bool { return slices.Contains(addrs, a) }) {
			if s, err := d.askAt(ctx, n, n.Addr); err == nil {
				out = append(out, s)
			}
		}
	}
	return out
}

// withOthers returns what this node sees, and what the nodes see to which connections are stuck.
func (d *doctor) withOthers(ctx context.Context, stuck []netip.Addr) []scene.Scene {
	var others []scene.Scene
	var wg sync.WaitGroup
	wg.Go(func() { others = d.beyond(ctx, stuck) })
	own := d.look(ctx)
	wg.Wait()
	return append([]scene.Scene{own}, others...)
}
