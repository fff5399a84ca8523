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
	// bestFor is how long the highest rate of a connection counts.
	bestFor = 5 * time.Minute
	// maxFlows is how many connections are watched, and maxCourses of how many pairs of addresses one look asks for the
	// course.
	maxFlows, maxCourses = 4096, 64
	// turnPause is how long no data has to be acknowledged before the course of packets counts as the fault.
	turnPause = time.Second
)

// courseOf returns how packets go.
type courseOf func(from, to netip.AddrPort) (fabric.Course, error)

// pairOfEnds are the addresses of the two ends of connections.
type pairOfEnds [2]netip.Addr

// flows are what the open connections of this node to other nodes of the job have carried so far, and how its packets
// went there while they arrived.
type flows struct {
	mu     sync.Mutex
	all    map[scene.Link]*flow
	trails map[pairOfEnds]*trail
	past   map[pairOfEnds]trail // those whose connections have ended
}

// flow is one open connection.
type flow struct {
	inode  uint64
	seen   []moment // the last ones, of which the first is crawlSpan old
	best   float64  // bytes in a second, before these and within bestFor
	bestAt time.Time
	isOwn  bool // a process of the command has it open; known of one that crawls
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

// trail is how packets go between two addresses.
type trail struct {
	link      scene.Link // of which the course is asked, also after it was closed: by its ports
	at        time.Time  // of the last look
	had       scene.Traffic
	last      fabric.Course
	sound     fabric.Course // the last one by which packets arrived
	isKnown   bool
	hasCourse bool
}

// saw takes what connections have carried until a moment, and the courses of those pairs of addresses of which it has
// not been asked for the longest time. Only one call is made at a time.
func (f *flows) saw(t scene.Traffic, now time.Time, course courseOf) {
	f.carried(t, now)
	links := f.next()
	pairs := map[pairOfEnds]scene.Traffic{}
	for _, l := range links {
		pairs[endsOf(l)] = scene.Traffic{}
	}
	for l, k := range t {
		if pair, asked := pairs[endsOf(l)]; asked {
			pair[l] = k
		}
	}
	for _, l := range links {
		c, err := course(l.Local, l.Remote)
		f.mu.Lock()
		f.trails[endsOf(l)].saw(pairs[endsOf(l)], now, c, err == nil)
		f.mu.Unlock()
	}
}

func endsOf(l scene.Link) pairOfEnds {
	return pairOfEnds{l.Local.Addr().Unmap(), l.Remote.Addr().Unmap()}
}

// carried takes what connections have carried until a moment.
func (f *flows) carried(t scene.Traffic, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all, f.trails, f.past = map[scene.Link]*flow{}, map[pairOfEnds]*trail{}, map[pairOfEnds]trail{}
	}
	maps.DeleteFunc(f.all, func(l scene.Link, k *flow) bool { return t[l].Inode != k.inode })
	open := map[pairOfEnds]bool{}
	for l := range t {
		open[endsOf(l)] = true
	}
	maps.DeleteFunc(f.trails, func(ends pairOfEnds, r *trail) bool {
		if !open[ends] && r.isKnown {
			f.past[ends] = *r
		}
		return !open[ends]
	})
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
		if f.trails[endsOf(l)] == nil {
			r := f.past[endsOf(l)] // what had arrived then is no proof of the way now
			r.link = l
			f.trails[endsOf(l)] = &r
		}
	}
}

// next returns the connections of which the course is asked now.
func (f *flows) next() (out []scene.Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.SortedFunc(maps.Values(f.trails), func(a, b *trail) int { return a.at.Compare(b.at) })
	for _, r := range all[:min(len(all), maxCourses)] {
		out = append(out, r.link)
	}
	return out
}

// owned takes which connections that crawl the command has open. It asks for that only where one crawls.
func (f *flows) owned(of func() scene.Traffic) {
	var crawl []scene.Link
	f.mu.Lock()
	for l, k := range f.all {
		if _, ok := k.crawls(); ok {
			crawl = append(crawl, l)
		}
	}
	f.mu.Unlock()
	if len(crawl) == 0 {
		return
	}
	t := of()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range crawl {
		if k := f.all[l]; k != nil {
			k.isOwn = t[l].Inode == k.inode
		}
	}
}

// saw takes one more moment of a connection.
func (f *flow) saw(now moment) {
	if n := len(f.seen); n > 0 && now.acked < f.seen[n-1].acked {
		f.seen, f.best = nil, 0
	}
	if now.at.Sub(f.bestAt) > bestFor {
		f.best = 0
	}
	f.seen = append(f.seen, now)
	for len(f.seen) > 2 && now.at.Sub(f.seen[1].at) >= crawlSpan {
		if r := rate(f.seen[0], f.seen[1]); r >= f.best {
			f.best, f.bestAt = r, f.seen[1].at
		}
		f.seen = f.seen[1:]
	}
}

// rate returns how many bytes arrived in a second between two moments.
func rate(a, b moment) float64 { return float64(b.acked-a.acked) / b.at.Sub(a.at).Seconds() }

// crawls returns what a connection carries, if data has waited on it at all of these moments, some has arrived, and of
// three signs there are two: by far less than before, heavy loss, and a low rate.
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
	less, loses, slow := c.Before > 0, c.Again >= lossShare, c.Rate <= slowRate
	return c, less && loses || less && slow || loses && slow
}

// saw takes the course at a moment, and all connections between the two addresses: it is sound where data of any of
// them was acknowledged since the look before, and packets went the same way then.
func (r *trail) saw(t scene.Traffic, at time.Time, now fabric.Course, hasCourse bool) {
	prompt := maps.Clone(t)
	maps.DeleteFunc(prompt, func(_ scene.Link, k scene.Socket) bool { return k.Info.Backoff > 0 })
	if hasCourse && arrived(r.had, prompt) && (!r.hasCourse || now.Same(r.last)) {
		r.sound, r.isKnown = now, true
	}
	r.at, r.had, r.last, r.hasCourse = at, t, now, hasCourse
}

// arrived reports whether data of any connection was acknowledged between two moments.
func arrived(before, now scene.Traffic) bool {
	for l, k := range now {
		acked := uint64(0)
		if was, found := before[l]; found && was.Inode == k.Inode {
			acked = was.Info.Acked
		}
		if k.Info.Acked > acked {
			return true
		}
	}
	return false
}

// crawling returns the slowest connection of the command to each address where one crawls.
func (f *flows) crawling() (out []scene.Crawl) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slowest := map[netip.Addr]scene.Crawl{}
	for l, k := range f.all {
		c, ok := k.crawls()
		if !ok || !k.isOwn {
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
// it has not, or that is not known, or data was acknowledged since then. It waits until the last look is long enough
// ago.
func (f *flows) turned(from, to netip.Addr) fabric.Fault {
	time.Sleep(f.pause(pairOfEnds{from.Unmap(), to.Unmap()}, time.Now()))
	return f.turnedNow(from, to, time.Now(), openTo([]netip.Addr{to.Unmap()}), fabric.CourseOf)
}

// pause returns for how long no data has to be acknowledged yet before turnedNow can say something of a pair.
func (f *flows) pause(pair pairOfEnds, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.trails[pair]; r != nil && r.isKnown {
		return max(0, min(turnPause, turnPause-now.Sub(r.at)))
	}
	return 0
}

// turnedNow does what turned does, with what connections to that address have carried until now.
func (f *flows) turnedNow(from, to netip.Addr, now time.Time, t scene.Traffic, course courseOf) fabric.Fault {
	pair := pairOfEnds{from.Unmap(), to.Unmap()}
	f.mu.Lock()
	var r trail
	if known := f.trails[pair]; known != nil {
		r = *known
	}
	f.mu.Unlock()
	t = maps.Clone(t)
	maps.DeleteFunc(t, func(l scene.Link, _ scene.Socket) bool { return endsOf(l) != pair })
	if !r.isKnown || now.Sub(r.at) < turnPause || arrived(r.had, t) {
		return fabric.Fault{}
	}
	c, err := course(r.link.Local, r.link.Remote)
	if err != nil {
		return fabric.Fault{}
	}
	return c.Turned(r.sound, r.link.Local, r.link.Remote)
}
