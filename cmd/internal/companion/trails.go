package companion

import (
	"context"
	"maps"
	"net/netip"
	"sync"
	"time"

	"launch/fabric"
)

// trails are how far packets get to addresses to which connections are stuck. A router says only so often that it has
// no way to an address (Linux: once a second, icmp_ratelimit), and each call that fails takes one of these messages: so
// they are asked for before a look makes calls.
type trails struct {
	trace  func(context.Context, netip.Addr) fabric.Trail           // nil: fabric.TrailTo
	listen func(context.Context, func(router, to netip.Addr)) error // nil: fabric.Refusals

	mu      sync.Mutex
	known   map[netip.Addr]traced
	refused map[netip.Addr]refusal // by the address there: the last one
}

// refusal is what a router said without being asked.
type refusal struct {
	router netip.Addr
	at     time.Time
}

// refusedBy notes that a router has said that it has no way to an address.
func (t *trails) refusedBy(router, to netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused == nil {
		t.refused = map[netip.Addr]refusal{}
	}
	if len(t.refused) >= maxRefused {
		maps.DeleteFunc(t.refused, func(_ netip.Addr, r refusal) bool { return time.Since(r.at) >= lateRefusal })
	}
	if _, known := t.refused[to]; known || len(t.refused) < maxRefused {
		t.refused[to] = refusal{router, time.Now()}
	}
}

// hear notes what routers say by themselves, until ctx ends.
func (t *trails) hear(ctx context.Context) {
	listen := t.listen
	if listen == nil {
		listen = fabric.Refusals
	}
	_ = listen(ctx, t.refusedBy) // else only what it asks for is known
}

type traced struct {
	fabric.Trail
	at time.Time
}

// freshTrail is for how long a trail counts: longer than a look and the question to the other nodes that follow it.
// refusedTrail is for how long a refusal does after which routers say nothing at all: a node that was lost is called
// again and again.
const freshTrail, refusedTrail = 20 * time.Second, 3 * time.Minute

// lateRefusal is how old a message may be of a router that says nothing now, and maxRefused bounds the addresses.
const lateRefusal, maxRefused = 30 * time.Second, 1024

// begin asks for the ways to some addresses, which takes a second at most.
func (t *trails) begin(ctx context.Context, all []netip.Addr) {
	var wg sync.WaitGroup
	for _, to := range all[:min(len(all), maxPaths)] {
		wg.Go(func() { t.ask(ctx, to) })
	}
	wg.Wait()
}

// of returns how far packets get to an address: what was asked for lately, or what shows now.
func (t *trails) of(ctx context.Context, to netip.Addr) fabric.Trail {
	t.mu.Lock()
	k, known := t.known[to]
	t.mu.Unlock()
	if known && time.Since(k.at) < freshTrail {
		return k.Trail
	}
	return t.ask(ctx, to)
}

func (t *trails) ask(ctx context.Context, to netip.Addr) fabric.Trail {
	trace := t.trace
	if trace == nil {
		trace = fabric.TrailTo
	}
	got := trace(ctx, to)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[netip.Addr]traced{}
	}
	// another router may have said it of packets that another program sends by another interface
	if r := t.refused[to]; quiet(got) && got.Router.IsValid() && r.router == got.Router &&
		time.Since(r.at) < lateRefusal {
		got.Refused = r.router
	}
	if last := t.known[to]; quiet(got) && last.Refused.IsValid() && last.Router == got.Router &&
		time.Since(last.at) < refusedTrail {
		return last.Trail
	}
	t.known[to] = traced{got, time.Now()}
	return got
}

// quiet reports whether neither a router nor the address said anything.
func quiet(t fabric.Trail) bool { return !t.Arrived && !t.Refused.IsValid() && len(t.Hops) == 0 }
