package calls

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"launch/internal/sidechannel"
	"launch/rendezvous"
)

// slowTries is how often a call is made again slowly.
const slowTries = 3

// slowly tries again, one after another, what had no answer: under a limit by time the crowds of all calls leave
// nothing for other connections. call makes a call, where some connections of this node opened once their first packet
// was sent again; opens reports whether connections to a node open, where none of a crowd did.
func slowly(made []Call, call func(Call) Call, opens func(Call) bool) {
	late := slices.ContainsFunc(made, func(k Call) bool { return !k.Port && k.Late > k.Never })
	stays := false // a limit has not let connections open slowly: the next one will not, either
	for i, was := range made {
		lifted := false
		switch {
		case was.Here:
		case was.Cause == sidechannel.Dropped && late:
			for n := 0; n < slowTries && made[i].Failed(); n++ {
				made[i] = call(was)
			}
			lifted = !made[i].Failed()
		case !was.Failed() && was.Limited() && was.Never == was.Tried && !stays:
			lifted = opens(was)
			stays = !lifted
		}
		if made[i].Flows = was.Flows; lifted {
			made[i].Flows = sidechannel.Flows{Tried: was.Tried, Late: was.Late}
		}
	}
}

// again makes calls again without a crowd, and opens connections again, as slowly says.
func (c Caller) again(ctx context.Context, w rendezvous.World, others []rendezvous.Partner, names *lookup,
	made []Call) {
	ctx, cancel := context.WithTimeout(ctx, slowBudget)
	defer cancel()
	slowly(made, func(was Call) Call {
		i := slices.IndexFunc(others, func(p rendezvous.Partner) bool { return p.Rank == was.To })
		at, err := netip.ParseAddrPort(was.Addr)
		select {
		case <-time.After(slowPause):
		case <-ctx.Done():
		}
		if ctx.Err() == nil && was.Port {
			return knock(ctx, w.Master, was.from)
		}
		if i < 0 || err != nil || ctx.Err() != nil {
			return was
		}
		opt := c.options(at.Addr(), false)
		opt.From = sourceFor(ctx, c.Node, w.Self.Addr, at.Addr())
		k, about, _ := call(ctx, c.Node, others[i], at.Addr(), c.Keys, true, opt)
		if k.Failed() {
			return was
		}
		names.check(ctx, others[i], about)
		c.Rails.call(ctx, c.Keys, others[i], about)
		return k
	}, func(was Call) bool {
		at, err := netip.ParseAddrPort(was.Addr)
		return err == nil && sidechannel.OpensSlowly(ctx, at, sidechannel.Options{From: was.from})
	})
}
