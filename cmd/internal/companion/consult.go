package companion

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"launch/diagnose/scene"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

const (
	// consultBudget bounds one question to all other nodes.
	consultBudget = 12 * time.Second
	// maxConsulted is how many other nodes one question reaches; a note names the rest.
	maxConsulted = 512
)

// all returns what the other nodes see, and what this one has found by calls of its own and by watching its ranks.
func (d *doctor) all(ctx context.Context) []scene.Scene {
	var own scene.Scene
	var wg sync.WaitGroup
	if d.world.Load() != nil {
		d.trails.begin(ctx, d.allStuck())
		wg.Go(func() { own = d.look(ctx) })
	}
	others := d.consult(ctx)
	wg.Wait()
	if len(own.Paths)+len(own.Ways)+len(own.Crawls)+len(own.Past) > 0 {
		others = append(others, own)
	}
	return others
}

// consult asks the other nodes what they see. A node that does not answer is a gap of the first scene.
func (d *doctor) consult(ctx context.Context) (out []scene.Scene) {
	ctx, cancel := context.WithTimeout(ctx, consultBudget)
	defer cancel()
	w := d.world.Load() // it goes with the run, perhaps while the nodes are asked
	if w == nil {
		return nil
	}
	nodes := d.others(ctx)
	silent := scene.Scene{Schema: scene.Schema, Host: d.p.spec.Self.Host}
	if more := len(nodes) - maxConsulted; more > 0 {
		silent.Gaps = append(silent.Gaps, scene.Gap{What: fmt.Sprintf("%d other nodes", more),
			Why: fmt.Sprintf("at most %d are asked", maxConsulted)})
		nodes = nodes[:maxConsulted]
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var relayed atomic.Int32
	for _, n := range nodes {
		wg.Go(func() {
			s, err := d.askAt(ctx, n, n.Addr)
			if err != nil {
				s, err = d.further(ctx, n, err, noPath(err) && relayed.Add(1) <= maxPassed)
			}
			mu.Lock()
			defer mu.Unlock()
			// A node that has left has no address. One that refuses is there, and its companion is not.
			if !n.Addr.IsValid() || sidechannel.CauseOf(err) == sidechannel.Refused {
				silent.Ended = append(silent.Ended, scene.Ended{Name: n.Name, Rank: n.Rank, Port: w.Master.Port})
				return
			}
			if sidechannel.CauseOf(err) == sidechannel.Silent {
				silent.Unheard = append(silent.Unheard, scene.Ended{Name: n.Name, Rank: n.Rank, Port: w.Master.Port,
					Mute: sidechannel.Mute(err)})
			}
			if err != nil {
				silent.Gaps = append(silent.Gaps, scene.Gap{What: n.Name + " (node rank " + fmt.Sprint(n.Rank) + ")",
					Why: "its launch does not answer: " + err.Error()})
				return
			}
			out = append(out, s)
		})
	}
	wg.Wait()
	if len(silent.Gaps)+len(silent.Ended) > 0 {
		out = append(out, silent)
	}
	return out
}

// further asks a node whose first address gave an error, at its other ones. Each that does not answer takes as long as
// the first one, so with relay third nodes are asked meanwhile. What they pass on counts where no address answers.
func (d *doctor) further(ctx context.Context, n rendezvous.Partner, err error, relay bool) (scene.Scene, error) {
	passed := make(chan *scene.Scene, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(passed)
		if !relay {
			return
		}
		if s, ok := d.through(ctx, n); ok {
			passed <- &s
		}
	}()
	var s scene.Scene
	if len(n.Addrs) > 0 {
		s, err = d.askAt(ctx, n, n.Addrs...)
	}
	if noPath(err) || err != nil && ctx.Err() != nil {
		if s := <-passed; s != nil {
			return *s, nil
		}
	}
	return s, err
}

// ask asks one node, at its addresses in turn.
func (d *doctor) ask(ctx context.Context, n rendezvous.Partner) (scene.Scene, error) {
	return d.askAt(ctx, n, append([]netip.Addr{n.Addr}, n.Addrs...)...)
}

func (d *doctor) askAt(ctx context.Context, n rendezvous.Partner, addrs ...netip.Addr) (scene.Scene, error) {
	keys := d.p.spec.Token.Keys(d.p.spec.Job).Client()
	var err error
	for _, a := range addrs {
		if err != nil && ctx.Err() != nil {
			break
		}
		var shown []byte
		if shown, err = sidechannel.Look(ctx, netip.AddrPortFrom(a, uint16(n.Peer)), keys, n.ID); err == nil {
			s, err := unpack(shown)
			s.At = a
			return s, err
		}
	}
	return scene.Scene{}, err
}

// noPath reports whether the error of a call says that packets do not get there or back.
func noPath(err error) bool {
	return !sidechannel.Mute(err) && slices.Contains([]sidechannel.Cause{sidechannel.Dropped, sidechannel.NoHost,
		sidechannel.NoRoute, sidechannel.Broadcast, sidechannel.Denied, sidechannel.Blackhole, sidechannel.Silent},
		sidechannel.CauseOf(err))
}
