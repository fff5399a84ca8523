package storeaddr

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"launch/fabric"
)

// A name may have the addresses of several nodes: a Service of all pods, a round robin. Where no rank says which node
// hosts the store, the nodes choose one (docs/rendezvous.md, "The store's name has addresses of several nodes"):
//
//  1. A node that has one of the addresses first looks for the job's store at all others. A store wins that is there.
//  2. If no store answers, it hosts one when its turn is up: the first address at once, each later one after a time.
//  3. A host goes on looking until its job begins. Of two stores that see each other one is retired: the one whose
//     job has not begun, else the one whose host's address is later. Its nodes go to the other one.
//
// Rules 1 and 2 leave two stores only where two nodes do not see each other: a name server that does not yet list all
// nodes, packets that are dropped. A node with a list of its own address alone cannot know better, since a name that
// means one host looks the same. Rule 3 repairs that, and Retire makes it safe: see rendezvous.Server.Retire.

const (
	// look is the pause between two looks of a node that waits for its turn, and of a host whose job has not begun.
	look, relook = 300 * time.Millisecond, time.Second
	// seldom is the pause of a host whose name has had no other node's address.
	seldom = 3 * time.Second
	// nextTurn is how long each address leaves the one before it to start its store: on a busy machine of two cores
	// that took up to a second, and a look at an address that drops packets takes one, too. After manyTurns each later one
	// waits another farTurn.
	nextTurn, farTurn, manyTurns = 2 * time.Second, 250 * time.Millisecond, 8
	// yields is how long a host whose address is earlier sees the store of a later one before it takes it that the later
	// host does not see this one: then it retires its own.
	yields = 6 * time.Second
)

// Rival is a store of this job at another node.
type Rival struct {
	At    netip.Addr
	Order string // of stores whose job has not begun, the least one wins; it is another one for each store
	Begun bool   // its job has begun: one of its worlds has started
}

// Contest is the choice of a host among the addresses of the store's name.
type Contest struct {
	// Resolve returns the addresses that the name has now, unmapped; they may become more.
	Resolve func(ctx context.Context) ([]netip.Addr, error)
	// Local reports whether this node has an address.
	Local func(netip.Addr) bool
	// Probe looks for a store of this job at an address, and returns soon; an error: there is no such store.
	Probe func(ctx context.Context, at netip.Addr) (Rival, error)

	// Known are the addresses that the name has had. A name server may give a part of them each time.
	Known []netip.Addr
	began time.Time
	last  map[netip.Addr]error // of Probe
}

// Choice is what a node found out.
type Choice struct {
	Store  *Rival        // the store to join; nil: this node hosts it
	Known  []netip.Addr  // the addresses of the name, in order
	Silent []netip.Addr  // those before this node's at which there was no store; nil: its address is the first
	Waited time.Duration // for these
	// Errors say what there is at other addresses in the place of this job's store.
	Errors map[netip.Addr]error
}

// Choose returns where the job's store is, or that this node is to host it. It takes until this node's turn at most.
func (c *Contest) Choose(ctx context.Context) (Choice, error) {
	for {
		found := c.Look(ctx)
		if ctx.Err() != nil {
			return Choice{}, context.Cause(ctx)
		}
		if found != nil {
			return Choice{Store: found, Known: c.Known}, nil
		}
		before := c.before()
		left := turn(len(before)) - time.Since(c.began)
		if left <= 0 {
			return Choice{Known: c.Known, Silent: before, Waited: time.Since(c.began), Errors: c.last}, nil
		}
		select {
		case <-time.After(min(look, left)):
		case <-ctx.Done():
			return Choice{}, context.Cause(ctx)
		}
	}
}

// Look returns the best of the job's stores at the addresses of other nodes; nil: there is no such store.
func (c *Contest) Look(ctx context.Context) *Rival {
	all := c.rivals(ctx)
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// Yield looks until a store of this job wins over the one with this order that this node hosts, and retire has agreed:
// it returns false where the job has begun here, and is asked again. Yield returns the winner; false: ctx has ended.
func (c *Contest) Yield(ctx context.Context, order string, retire func() bool) (Rival, bool) {
	since, pause := map[string]time.Time{}, relook
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return Rival{}, false
		}
		if pause = relook; !slices.ContainsFunc(c.Known, c.other) { // a name of this host alone, as most are
			pause = seldom
		}
		for _, r := range c.rivals(ctx) {
			if r.Order == order { // this node's own store, at an address that is forwarded to it
				continue
			}
			if since[r.Order].IsZero() {
				since[r.Order] = time.Now()
			}
			if (r.Begun || r.Order < order || time.Since(since[r.Order]) >= yields) && retire() {
				return r, true
			}
		}
	}
}

// rivals returns the job's stores at the addresses of other nodes, the best first.
func (c *Contest) rivals(ctx context.Context) (found []Rival) {
	if c.began.IsZero() {
		c.began = time.Now()
	}
	if addrs, err := c.Resolve(ctx); err == nil {
		for _, a := range addrs {
			if !slices.Contains(c.Known, a) {
				c.Known = append(c.Known, a)
			}
		}
		slices.SortFunc(c.Known, netip.Addr.Compare)
	}
	c.last = map[netip.Addr]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, a := range c.Known {
		if !c.other(a) {
			continue
		}
		wg.Go(func() {
			r, err := c.Probe(ctx, a)
			mu.Lock()
			defer mu.Unlock()
			if c.last[a] = err; err == nil {
				found = append(found, r)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(found, func(a, b Rival) int {
		if a.Begun != b.Begun {
			return map[bool]int{true: -1, false: 1}[a.Begun]
		}
		return cmp.Compare(a.Order, b.Order)
	})
	return found
}

// other reports whether an address may be another node's.
func (c *Contest) other(a netip.Addr) bool { return !a.IsLoopback() && !c.Local(a) }

// Last returns what the last look at an address has shown in the place of a store; nil: nothing.
func (c *Contest) Last(at netip.Addr) error { return c.last[at] }

// before returns the addresses of other nodes that precede all of this node's.
func (c *Contest) before() (out []netip.Addr) {
	for _, a := range c.Known {
		if c.Local(a) {
			break
		}
		if !a.IsLoopback() {
			out = append(out, a)
		}
	}
	return out
}

// Others returns the addresses of the store's name that are not this node's.
func (p Place) Others(n fabric.Node) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(p.Means), func(a netip.Addr) bool { return a.IsLoopback() || n.IsLocal(a) })
}

// Join leaves the store to another node.
func (p *Place) Join(at netip.Addr) {
	p.At, p.Serve, p.Guess, p.Listen = at, nil, false, p.Addr
}

// turn returns after which time a node may host the store that has this number of addresses before its own.
func turn(before int) time.Duration {
	return time.Duration(min(before, manyTurns))*nextTurn + time.Duration(max(before-manyTurns, 0))*farTurn
}
