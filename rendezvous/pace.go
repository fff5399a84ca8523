package rendezvous

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// many nodes come as fast as a store with one core to itself takes them.
const many = 1000

// crowd is how many nodes of launch's own store n nodes are worth. What an etcd that
// is there already takes is not known: one that syncs its files to a slow disk took
// 4,000 within 6 s, and of 10,000 at that pace none got done within 5 minutes; at this
// one they take 20 s.
func crowd(n int, foreign bool) int {
	if foreign {
		n += 2 * max(0, n-many)
	}
	return n
}

// spread is how long n nodes that start at once take to come to the store one
// after the other: nothing for a few, 0.2 s for 1,000, 4.7 s for 10,000. A store
// with one core to itself is as fast as the first 1,000 come; beyond, what queues
// there would not be answered within the time of a request.
func spread(n int) time.Duration {
	const few = 64
	if n <= few {
		return 0
	}
	return time.Duration(n)*200*time.Microsecond + time.Duration(max(0, n-many))*300*time.Microsecond
}

// stagger is this node's place in that spread, at random.
func stagger(n int) time.Duration { return rand.N(spread(n) + 1) }

// paced is a backoff whose every pause is staggered as the first request is:
// what fails for thousands of nodes at once is not to be tried again at once.
type paced struct {
	*backoff.ExponentialBackOff
	nodes int
}

func (p paced) NextBackOff() time.Duration {
	return p.ExponentialBackOff.NextBackOff() + stagger(p.nodes)
}

// retries is exponential with full jitter (0 to twice the interval) and without
// an end of its own: ctx ends it (backoff's default would give up silently after
// 15 minutes).
func retries(nodes int) backoff.BackOff {
	return paced{backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMultiplier(1.7),
		backoff.WithRandomizationFactor(1),
		backoff.WithMaxInterval(retryMax),
		backoff.WithMaxElapsedTime(0)), nodes}
}

// queue is how much longer than usual a store may take to answer one of n nodes
// while they all come. What was given up would be asked again, and the store be
// busy with questions that nobody waits for.
func queue(n int) time.Duration { return 2 * spread(n) }

// leaseOf is how long a lease of one of n nodes is: its renewal queues too.
func leaseOf(n int) time.Duration { return LeaseTTL + queue(n).Truncate(time.Second) }

// timeout bounds one request.
func timeout(ctx context.Context) context.Context { return within(ctx, 0) }

// within bounds one request that n nodes make at the same time. What it holds is
// freed when ctx or the budget ends, so that a call stays one line.
func within(ctx context.Context, n int) context.Context {
	ctx, cancel := context.WithTimeout(ctx, opTimeout+queue(n))
	_ = cancel
	return ctx
}
