package protocol

import (
	"cmp"
	"slices"
	"time"
)

// waits returns whether a member waits for a world and does not leave. A member
// that runs in an earlier epoch does not wait.
func waits(m registered) bool { return m.Left == "" && m.Phase == PhaseArrived }

// fits returns whether a waiting member may take part in the present epoch: a member of
// a run takes part in that run only.
func (n *Node) fits(m registered) bool {
	return waits(m) && m.wants(n.ep) && (m.Run == "" || m.Run == n.ep.Run) && !m.standsAside(n.ep)
}

// claim returns the run that the members of an emptied store go on with: the one of the
// member that waits for longest and knows that its run goes on; "": there is none.
func (n *Node) claim() (run string) {
	var oldest int64
	for _, m := range n.lead.members {
		if waits(m) && m.Claim && m.Run != "" && (oldest == 0 || m.create < oldest) {
			run, oldest = m.Run, m.create
		}
	}
	return run
}

// earliest returns the member that waits for longest. Later members have a later
// revision, so that it stays the same until it goes or an older one waits again.
func (n *Node) earliest() (registered, bool) {
	l := n.lead
	if m, ok := l.members[l.first]; ok && waits(m) {
		return m, true
	}
	l.first = ""
	for key, m := range l.members {
		if waits(m) && (l.first == "" || m.create < l.members[l.first].create) {
			l.first = key
		}
	}
	m, ok := l.members[l.first]
	return m, ok
}

// here returns the members that wait for what the epoch takes, by arrival.
func (n *Node) here() []registered {
	var out []registered
	for _, m := range n.lead.members {
		if n.fits(m) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b registered) int { return cmp.Compare(a.create, b.create) })
	return out
}

// gather seals an open epoch as soon as all have joined, or enough and the last
// call is over.
func (n *Node) gather() {
	l := n.lead
	if !l.moved && !l.call.due(n.now) && !l.guess.due(n.now) {
		n.announce()
		return
	}
	first, ok := n.earliest()
	switch {
	case !ok:
	case n.ep.State == "" || !first.wants(n.ep) || n.ep.Run == "" && n.ep.Last == "" && n.claim() != "":
		n.open(n.ep.Why)
	case n.enough():
		n.seal()
	default:
		l.moved, l.attendance.due = false, true
		n.announce()
	}
}

// enough returns whether the leader seals the open epoch with those that have joined.
func (n *Node) enough() bool {
	l, least := n.lead, cmp.Or(n.ep.Min, n.ep.Size)
	count, returning, hosted := 0, false, !n.cfg.Hosted
	l.guess = call{}
	if len(l.members) >= least { // else a look at each, for each that joins, would cost the square
		for _, m := range l.members {
			switch {
			case n.fits(m):
				count++
				hosted = hosted || m.First
				if m.Guess && m.Machine != n.self.Machine {
					l.guess = call{ends: m.seen.Add(guessed)}
				}
			case m.Left == "" && m.Phase != PhaseArrived:
				// Within a run it is about to return, and no standby node may take its
				// place. Else it is the companion of an earlier run.
				returning = n.ep.Restart > 0
			}
		}
	}
	if count < least || returning {
		l.call, l.guess = call{}, call{}
		return false
	}
	if wait := l.guess.ends.Sub(n.now); wait > 0 && hosted {
		n.wake(wait + milli)
		return false
	}
	return hosted && (count >= n.ep.Size || n.called(count))
}

// guessed is how long a leader on another machine waits for a host of the store that guesses its address: it sees which
// one this leader's connection leads to, and writes its key again.
const guessed = time.Second

// call is the last call of an elastic epoch, for which enough nodes have joined.
type call struct {
	n           int // the nodes that it includes
	ends, limit time.Time
}

func (c call) due(now time.Time) bool { return !c.ends.IsZero() && !now.Before(c.ends) }

// called returns whether the last call for count nodes is over. A node that joins
// meanwhile begins it again, a few times, and within the time that all of them have.
func (n *Node) called(count int) bool {
	c, every := &n.lead.call, n.cfg.LastCall
	if c.limit.IsZero() {
		c.limit = n.now.Add(LastCalls * every)
	}
	if count != c.n {
		c.n, c.ends = count, n.now.Add(every)
		for _, m := range n.lead.members { // leave the most impatient time for the start
			if end := m.seen.Add(m.Patience / 4 * 3); waits(m) && m.Patience > 0 && end.Before(c.limit) {
				c.limit = end
			}
		}
		if c.ends.After(c.limit) {
			c.ends = c.limit
		}
		n.wake(c.ends.Sub(n.now) + milli)
	}
	return c.due(n.now)
}

// ranked returns size of the members, of which there are at least as many, in rank
// order. A member with an index below size has that rank. The other ranks go to
// the store host first, because people named its address, then by arrival
// (create revision). The store host always takes part: the store ends with it.
func ranked(ms []registered, size int) []Member {
	out := make([]Member, size)
	taken := make([]bool, size)
	var rest []registered
	for _, m := range ms {
		if 0 <= m.Index && m.Index < size {
			out[m.Index], taken[m.Index] = m.Member, true
		} else {
			rest = append(rest, m)
		}
	}
	slices.SortStableFunc(rest, func(a, b registered) int {
		if a.First != b.First {
			return map[bool]int{true: -1, false: 1}[a.First]
		}
		return cmp.Compare(a.create, b.create)
	})
	for i := range out {
		if !taken[i] {
			out[i], rest = rest[0].Member, rest[1:]
		}
	}
	if len(rest) > 0 && rest[0].First {
		out[size-1] = rest[0].Member
	}
	return out
}
