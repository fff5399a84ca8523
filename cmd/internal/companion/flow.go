package companion

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"launch/diagnose/scene"
	"launch/fabric"
)

const (
	// crawlSpan is how long data has to wait all the time on a connection that crawls.
	crawlSpan = 3*stuckPoll - stuckPoll/2
	// crawlShare is the share of its earlier rate that it carries at most, and fullShare the most of the time for which
	// the other end may take no more: then the process there is slow.
	crawlShare, fullShare = 0.1, 0.1
	// lossShare is the least share of bytes sent again, and slowRate the highest rate, bytes in a second, by which a
	// connection crawls of which no earlier rate is known.
	lossShare, slowRate = 0.1, 128 << 10
	// maxFlows is how many connections are watched.
	maxFlows = 4096
)

// flows are what the open connections of this node's command to other machines have carried so far, and how its packets
// went there while they arrived.
type flows struct {
	mu     sync.Mutex
	all    map[scene.Link]*flow
	trails map[[2]netip.Addr]*trail // by the two addresses
}

// flow is one open connection.
type flow struct {
	inode uint64
	seen  []moment // the last ones, of which the first is crawlSpan old
	best  float64  // bytes in a second, before these
}

// moment is what the kernel has counted on a connection until then.
type moment struct {
	at     time.Time
	acked  uint64
	sent   uint64
	again  uint64
	full   time.Duration
	queued uint32 // bytes that were not acknowledged
	unsent uint32 // of these, those that were not sent either
}

// trail is how the packets of one connection go, of all between two addresses.
type trail struct {
	link      scene.Link
	last      fabric.Course
	acked     uint64
	sound     fabric.Course // the last one by which packets arrived
	isKnown   bool
	hasCourse bool
}

// saw takes what connections have carried until a moment.
func (f *flows) saw(t scene.Traffic, now time.Time, course func(from, to netip.AddrPort) (fabric.Course, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all, f.trails = map[scene.Link]*flow{}, map[[2]netip.Addr]*trail{}
	}
	maps.DeleteFunc(f.all, func(l scene.Link, k *flow) bool { return t[l].Inode != k.inode })
	maps.DeleteFunc(f.trails, func(_ [2]netip.Addr, k *trail) bool { return f.all[k.link] == nil })
	for l, k := range t {
		one := f.all[l]
		if one == nil {
			if len(f.all) == maxFlows {
				continue
			}
			one = &flow{inode: k.Inode}
			f.all[l] = one
		}
		one.saw(moment{now, k.Info.Acked, k.Info.Sent, k.Info.Again, k.Info.Full, k.SendQ, k.Info.Unsent})
		pair := [2]netip.Addr{l.Local.Addr().Unmap(), l.Remote.Addr().Unmap()}
		if f.trails[pair] == nil {
			f.trails[pair] = &trail{link: l}
		}
		if r := f.trails[pair]; r.link == l {
			r.saw(k, course)
		}
	}
}

// saw takes one more moment of a connection.
func (f *flow) saw(now moment) {
	if n := len(f.seen); n > 0 && now.acked < f.seen[n-1].acked {
		f.seen, f.best = nil, 0
	}
	f.seen = append(f.seen, now)
	for len(f.seen) > 2 && now.at.Sub(f.seen[1].at) >= crawlSpan {
		f.best = max(f.best, rate(f.seen[0], f.seen[1]))
		f.seen = f.seen[1:]
	}
}

// rate returns how many bytes arrived in a second between two moments.
func rate(a, b moment) float64 { return float64(b.acked-a.acked) / b.at.Sub(a.at).Seconds() }

// crawls returns what a connection carries, if data has waited on it at all of these moments, some has arrived, and by
// far less than before, or with heavy loss.
func (f *flow) crawls() (c scene.Crawl, ok bool) {
	if len(f.seen) < 3 {
		return c, false
	}
	first, last := f.seen[0], f.seen[len(f.seen)-1]
	c.Span = last.at.Sub(first.at)
	later := f.seen[1] // one that is dead since then has carried much before
	if sent := last.sent - first.sent; sent > 0 {
		c.Again = float64(last.again-first.again) / float64(sent)
	}
	idle := slices.ContainsFunc(f.seen, func(m moment) bool { // nothing to send, or it is just on its way
		return m.queued == 0 || m.unsent == 0 && c.Again < lossShare
	})
	full := last.full - first.full
	if c.Span < crawlSpan || idle || last.acked == later.acked || full.Seconds() > fullShare*c.Span.Seconds() {
		return c, false
	}
	c.Rate, c.Before = rate(first, last), f.best
	if c.Before*crawlShare < c.Rate { // the fault may be as old as the connection, or as the first look
		c.Before = 0
	}
	return c, c.Before > 0 || c.Again >= lossShare && c.Rate <= slowRate
}

// saw takes the course of a connection at a moment: it is sound where packets were acknowledged since the look before,
// and went the same way then.
func (r *trail) saw(k scene.Socket, course func(from, to netip.AddrPort) (fabric.Course, error)) {
	now, err := course(k.Local, k.Remote)
	arrives := k.Info.Acked > r.acked && k.Info.Backoff == 0
	if err == nil && arrives && (!r.hasCourse || now.Same(r.last)) {
		r.sound, r.isKnown = now, true
	}
	r.last, r.hasCourse, r.acked = now, err == nil, k.Info.Acked
}

// crawling returns the slowest connection to each address where one crawls.
func (f *flows) crawling() (out []scene.Crawl) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slowest := map[netip.Addr]scene.Crawl{}
	for l, k := range f.all {
		c, ok := k.crawls()
		if !ok {
			continue
		}
		c.From, c.To = l.Local.Addr().Unmap(), l.Remote.Addr().Unmap()
		if was, found := slowest[c.To]; !found || c.Rate < was.Rate {
			slowest[c.To] = c
		}
	}
	out = slices.Collect(maps.Values(slowest))
	slices.SortFunc(out, func(a, b scene.Crawl) int { return cmp.Or(cmp.Compare(a.Rate, b.Rate), a.To.Compare(b.To)) })
	return out
}

// turned returns how the way of this node's packets to an address has changed since they arrived there; the zero Fault:
// it has not, or it is not known.
func (f *flows) turned(from, to netip.Addr) fabric.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.trails[[2]netip.Addr{from.Unmap(), to.Unmap()}]
	if r == nil || !r.isKnown {
		return fabric.Fault{}
	}
	now, err := fabric.CourseOf(r.link.Local, r.link.Remote)
	if err != nil {
		return fabric.Fault{}
	}
	return now.Turned(r.sound, r.link.Local, r.link.Remote)
}
