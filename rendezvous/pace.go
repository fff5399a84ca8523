package rendezvous

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// many is how many nodes a store with a core of its own serves as fast as they start.
const many = 1000

// crowd returns how many nodes of launch's own store n nodes are equal to. An external
// etcd on a slow disk served none of 10,000 at that store's pace, and all within 20 s at
// this one.
func crowd(n int, foreign bool) int {
	if foreign {
		n += 2 * max(0, n-many)
	}
	return n
}

// spread returns the time over which n nodes that start at once make their first
// requests: none for a few, 0.2 s for 1,000, 4.7 s for 10,000. Without it a store would
// not answer its queue within the time of a request.
func spread(n int) time.Duration {
	const few = 64
	if n <= few {
		return 0
	}
	return time.Duration(n)*200*time.Microsecond + time.Duration(max(0, n-many))*300*time.Microsecond
}

// stagger returns this node's random place in that spread.
func stagger(n int) time.Duration { return rand.N(spread(n) + 1) }

// paced is a backoff that staggers each pause like the first request: thousands of
// nodes that fail at once must not retry at once.
type paced struct {
	*backoff.ExponentialBackOff
	nodes int
}

func (p paced) NextBackOff() time.Duration {
	return p.ExponentialBackOff.NextBackOff() + stagger(p.nodes)
}

// retries returns an exponential backoff with full jitter (0 to twice the interval) that only ctx ends. It begins
// with a few milliseconds: nodes that start at once may be there before the store. The default of the library gives up
// silently after 15 minutes.
func retries(nodes int) backoff.BackOff {
	return paced{backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(5*time.Millisecond),
		backoff.WithMultiplier(1.7),
		backoff.WithRandomizationFactor(1),
		backoff.WithMaxInterval(retryMax),
		backoff.WithMaxElapsedTime(0)), nodes}
}

// queue returns how much longer than usual a store may take to answer one of n nodes
// while they all join: a node that gives up asks again, which only adds load.
func queue(n int) time.Duration { return 2 * spread(n) }

// leaseOf returns the length of the lease of one of n nodes: its renewal queues too.
func leaseOf(n int) time.Duration { return LeaseTTL + queue(n).Truncate(time.Second) }

// timeout returns a context that bounds one request.
func timeout(ctx context.Context) context.Context { return within(ctx, 0) }

// within returns a context that bounds one request that n nodes make at the same time.
// The end of ctx or of the budget frees it, so that a call is one line.
func within(ctx context.Context, n int) context.Context {
	ctx, cancel := context.WithTimeout(ctx, opTimeout+queue(n))
	_ = cancel
	return ctx
}
