package companion

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"launch/diagnose/scene"
	"launch/fabric"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

const (
	// pathBudget bounds the calls of one look, and firstBudget those that only show whether there is an answer.
	pathBudget, firstBudget = 5 * time.Second, 1500 * time.Millisecond
	// knockBudget allows two retransmissions of the first packet, after 1 and 3 s.
	knockBudget = 3500 * time.Millisecond
	// maxPaths is how many other nodes one look calls, and maxWays to how many more it looks for what is wrong here.
	maxPaths, maxWays = 16, 64
	// pathBulk is a message of many full segments each way, bytes.
	pathBulk = 64 << 10
)

// paths are the calls of one look to the nodes to which a connection of the job is stuck, or from which a call has no
// answer: only a new connection of launch's own shows whether the path is at fault, and for which packets, or that one
// connection alone.
type paths struct {
	d     *doctor
	ctx   context.Context
	calls sync.WaitGroup
	tried map[netip.Addr]bool // the addresses there
	wrong func(fabric.Call) fabric.Fault

	mu     sync.Mutex
	judged map[netip.Addr]bool // the addresses there to which it is known what is wrong here
	made   int
	found  []scene.Path
	ways   []scene.Way
}

func (d *doctor) newPaths(ctx context.Context) *paths {
	policers := sync.OnceValue(fabric.Policers)
	wrong := func(c fabric.Call) fabric.Fault {
		var f fabric.Fault
		to := c.To.Addr().Unmap()
		if !slices.ContainsFunc(d.flows.crawling(), func(k scene.Crawl) bool { return k.To == to }) { // else some arrives
			f = d.flows.turned(c.From, to)
		}
		if f.Why == "" {
			f = fabric.Wrong(c)
		}
		if f.Why == "" {
			f = policers()(c)
		}
		return f
	}
	return &paths{d: d, ctx: ctx, tried: map[netip.Addr]bool{}, wrong: wrong, judged: map[netip.Addr]bool{}}
}

// try begins the calls that sockets give reason for, each address once.
func (p *paths) try(sockets []scene.Socket) {
	stuck := map[netip.Addr]netip.Addr{} // by the address there, this node's
	budget := firstBudget
	for _, k := range sockets {
		to := k.Remote.Addr().Unmap()
		if p.tried[to] || !k.Stuck() && !k.Unanswered() {
			continue
		}
		stuck[to] = k.Local.Addr().Unmap()
		if k.Stuck() || k.Unopened() {
			budget = pathBudget
		}
	}
	if len(stuck) == 0 {
		return
	}
	for to := range stuck {
		p.tried[to] = true
	}
	p.calls.Go(func() { p.call(stuck, budget) })
}

// call makes the calls to the addresses of stuck.
func (p *paths) call(stuck map[netip.Addr]netip.Addr, budget time.Duration) {
	ctx, cancel := context.WithTimeout(p.ctx, budget)
	defer cancel()
	var wg sync.WaitGroup
	for _, n := range p.d.others(ctx) {
		for to, from := range stuck {
			if n.Addr == to || slices.Contains(n.Addrs, to) {
				wg.Go(func() { p.one(ctx, n, from, to) })
			}
		}
	}
	wg.Wait()
}

// one makes a call, if no more than maxPaths are made.
func (p *paths) one(ctx context.Context, n rendezvous.Partner, from, to netip.Addr) {
	p.mu.Lock()
	p.made++
	enough := p.made > maxPaths
	p.mu.Unlock()
	if enough {
		return
	}
	way, before := scene.Way{To: to}, fabric.ReadDrops(fabric.Live().Proc)
	traffic, handed := scene.TrafficWith([]netip.Addr{to}), fabric.HandedTo(from, to)
	way.Tunnel, way.Fixed = fabric.TunnelTo(from, to), fabric.FixedTo(to)
	var held fabric.Fault
	var asked sync.WaitGroup
	asked.Go(func() { way.ARP, way.Asked = fabric.Near(from, to) })
	asked.Go(func() { held = fabric.Held(from, to) })
	var trail fabric.Trail
	asked.Go(func() { trail = p.d.trails.of(ctx, to) })
	found, known := p.d.tryPath(ctx, n, from, to)
	found.Sound = p.d.sound.saw(to, known && found.Long && found.Back, time.Now())
	var ends fabric.Ends
	call := fabric.Call{From: from, To: netip.AddrPortFrom(to, uint16(n.Peer)), Ends: &ends}
	switch {
	case found.Outcome == scene.Unreachable:
		call.Gone, call.Risen = fabric.All, fabric.ReadDrops(fabric.Live().Proc).Since(before)
	case known && found.Outcome == scene.Answered && !found.Long:
		call.Gone = fabric.Long
	}
	if call.Gone == fabric.All {
		asked.Go(func() { way.Pings = fabric.SignOf(p.ctx, call.To) == fabric.Pings })
	}
	wrong := p.wrong(call)
	asked.Wait()
	way.Left, way.Empty = ends.Left, ends.Empty
	end := trail.Fault()
	way.Trail, way.TrailFix, way.Refused = end.Why, end.Do, trail.Refused.IsValid() && !trail.Arrived
	way.Router = trail.Router
	deleted := p.d.flows.deleted(from)
	// What waits in a queue is late, and a call seems to be lost.
	wrong = cmp.Or(deleted, fabric.HandedTo(from, to).Untaken(handed), held, wrong)
	way.Wrong, way.Fix, way.Deleted = wrong.Why, wrong.Do, deleted.Why != ""
	moved := scene.TrafficWith([]netip.Addr{to}).Since(traffic)
	way.Heard, way.Moved = moved.Segments > 0, moved.Acked > 0
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judged[to] = true
	p.ways = append(p.ways, way)
	if known {
		p.found = append(p.found, found)
	}
}

// wait returns what the calls have found, once all have ended, and what this node shows itself of the ways to nodes to
// which sockets are connected: another node may be stuck that sends to this one. The stuck ones are first.
func (p *paths) wait(sockets []scene.Socket) ([]scene.Path, []scene.Way) {
	p.calls.Wait()
	more := 0
	for _, k := range stuckFirst(sockets) {
		from, to := k.Local.Addr().Unmap(), k.Remote.Addr().Unmap()
		if k.State != "established" || to.IsLoopback() || from == to || p.judged[to] {
			continue
		}
		if more == maxWays || p.ctx.Err() != nil {
			break
		}
		more++
		p.judged[to] = true
		if f := p.wrong(fabric.Call{From: from, To: netip.AddrPortFrom(to, 0)}); f.Why != "" {
			p.ways = append(p.ways, scene.Way{To: to, Wrong: f.Why, Fix: f.Do})
		}
	}
	return p.found, p.ways
}

// forgotten marks the connections to other nodes for which this node's table of connections has no entry, although it
// has one for a new call to the same node.
func (p *paths) forgotten(sockets []scene.Socket) {
	var others []rendezvous.Partner
	all := stuckFirst(sockets)
	for _, k := range all[:min(len(all), maxWays)] {
		to := k.Remote.Addr().Unmap()
		if k.State != "established" || to.IsLoopback() || to == k.Local.Addr().Unmap() ||
			!fabric.Untracked(k.Local, k.Remote) {
			continue
		}
		if others == nil {
			others = p.d.others(p.ctx)
		}
		at := slices.IndexFunc(others, func(n rendezvous.Partner) bool {
			return n.Peer > 0 && (n.Addr == to || slices.Contains(n.Addrs, to))
		})
		if at < 0 {
			continue
		}
		if !fabric.Tracks(k.Local.Addr(), netip.AddrPortFrom(to, uint16(others[at].Peer))) {
			return // it tracks nothing
		}
		i := slices.IndexFunc(sockets, func(o scene.Socket) bool { return o.Local == k.Local && o.Remote == k.Remote })
		sockets[i].Forgot = true
	}
}

func stuckFirst(sockets []scene.Socket) []scene.Socket {
	stuck := slices.DeleteFunc(slices.Clone(sockets), func(k scene.Socket) bool { return !k.Stuck() })
	return append(stuck, slices.DeleteFunc(slices.Clone(sockets), scene.Socket.Stuck)...)
}

// tryPath calls a node at one of its addresses. It returns false where the call says nothing of the path.
func (d *doctor) tryPath(ctx context.Context, n rendezvous.Partner, from, to netip.Addr) (p scene.Path, known bool) {
	p = scene.Path{From: from, To: to}
	i, _ := interfaceOf(from) // an MTU of 0 is none
	keys := d.p.spec.Token.Keys(d.p.spec.Job).Client()
	at, knocked := netip.AddrPortFrom(to, uint16(n.Peer)), make(chan sidechannel.Flows, 1)
	go func() {
		knocked <- sidechannel.TryFlows(ctx, at, sidechannel.Options{From: from}, d.p.knocks(), knockBudget)
	}()
	a, err := sidechannel.Probe(ctx, at, keys,
		sidechannel.Options{From: from, IfMTU: i.MTU, Bulk: pathBulk, Hasty: true})
	if sidechannel.Here(err) {
		errno, _ := errors.AsType[unix.Errno](err)
		p.Outcome, p.Here = scene.Unreachable, unix.ErrnoName(errno)
		return p, true
	}
	switch sidechannel.CauseOf(err) {
	case "":
		p.Outcome, p.Sounded, p.Again = scene.Answered, a.MTU.Answered, a.Retrans
		p.Long, p.Back = a.Bulk.Out.Arrived >= pathBulk, a.Bulk.Back.Arrived >= pathBulk
		p.Full = a.MTU.Answered && a.MTU.Out >= a.MTU.Tried || i.MTU > 0 && a.Bulk.Out.Arrived > 2*i.MTU
	case sidechannel.Refused:
		p.Outcome = scene.Refused
		return p, true
	case sidechannel.Dropped, sidechannel.NoRoute, sidechannel.NoHost, sidechannel.Denied:
		p.Outcome = scene.Unreachable
	}
	if f := <-knocked; f.Refused == 0 {
		// One that was stopped answers all late.
		p.Knocks, p.Late, p.Never = f.Tried, f.Late, f.Never
		p.Loses = f.Lossy() && (f.Late < f.Tried || f.Never > 0)
	}
	if p.Loses {
		p.Outcome = scene.Answered
	}
	return p, p.Outcome != "" // a process that is stopped, or another one at that port
}
