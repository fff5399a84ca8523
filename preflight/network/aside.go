package network

import (
	"context"
	"sync"
	"time"

	"launch/fabric"
	"launch/internal/finding"
	"launch/preflight"
)

// aside is what is asked while the store is called: these calls may take all the time.
type aside struct {
	wild, source             finding.Finding
	answersAny, answersOther bool
	trail                    fabric.Trail
	around                   fabric.Around
}

// begin asks, and returns a func that waits for the answers after the calls have ended; answered: they were no silence.
// All end with ctx: what this node finds in its own tables needs the rest of the check's time.
func (a *aside) begin(ctx context.Context, in preflight.Input, all []endpoint) (end func(answered bool)) {
	var asking sync.WaitGroup
	ended := make(chan struct{})
	around, stop := context.WithCancel(ctx)
	asking.Go(func() { a.wild, a.answersAny = anyName(ctx, in, all) })
	asking.Go(func() { a.source, a.answersOther = otherSource(ctx, in, all, ended) })
	asking.Go(func() { a.trail = trailOf(ctx, in, all, ended) })
	asking.Go(func() { a.around = aroundOf(around, in, all, ended) })
	return func(answered bool) {
		if answered {
			stop()
		}
		close(ended)
		asking.Wait()
		stop()
	}
}

// trailAfter is for how long a call may have no answer before the routers on the way are asked.
const trailAfter = 500 * time.Millisecond

// silent waits for trailAfter, and reports whether the calls are still without an answer then.
func silent(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return false
	case <-time.After(trailAfter):
		return true
	}
}

// trailOf returns how far packets to the store's only address get, as routers on the way show it, if a call to it has
// no answer for trailAfter. It ends with the calls.
func trailOf(ctx context.Context, in preflight.Input, all []endpoint, ended <-chan struct{}) fabric.Trail {
	if in.Trail == nil || len(all) != 1 || !silent(ended) {
		return fabric.Trail{}
	}
	at := addrsOf(ctx, in, all[0]).addrs
	if len(at) != 1 {
		return fabric.Trail{}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return in.Trail(ctx, at[0])
}

// aroundOf returns what the machines around this node answer, if a call to the store's only address has no answer for
// trailAfter.
func aroundOf(ctx context.Context, in preflight.Input, all []endpoint, ended <-chan struct{}) fabric.Around {
	if in.Around == nil || len(all) != 1 || !silent(ended) {
		return fabric.Around{}
	}
	at := portsOf(ctx, in, all[0])
	if len(at) != 1 {
		return fabric.Around{}
	}
	return in.Around(ctx, at[0])
}
