package rendezvous

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// waits tells whether a member has come and means to stay; who runs in an
// earlier epoch does not wait for this one.
func waits(m registered) bool { return m.Left == "" && m.Phase == PhaseArrived }

// earliest is the member that waits for longest. Who comes later is created
// later, so that it stays the same until it goes or an older one waits again.
func (l *lead) earliest() (registered, bool) {
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

// here are the members that wait for what an epoch takes, by arrival.
func (l *lead) here(ep Epoch) []registered {
	var out []registered
	for _, m := range l.members {
		if waits(m) && m.wants(ep) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b registered) int { return cmp.Compare(a.create, b.create) })
	return out
}

// gather seals an open epoch as soon as all are here, or enough and the last
// call is over.
func (l *lead) gather(ctx context.Context, ep Epoch) error {
	if !l.moved && !l.call.due() {
		return l.tell(ctx, ep)
	}
	first, ok := l.earliest()
	if !ok {
		return nil
	}
	if ep.State == "" || !first.wants(ep) {
		return l.open(ctx, ep, ep.Why)
	}
	if l.enough(ep) {
		return l.seal(ctx, ep, l.here(ep))
	}
	l.moved, l.telling.due = false, true
	return l.tell(ctx, ep)
}

// enough tells whether an open epoch is to be sealed with those that are here.
func (l *lead) enough(ep Epoch) bool {
	n, returning, hosted := 0, false, !l.s.cfg.Hosted
	if len(l.members) >= cmp.Or(ep.Min, ep.Size) { // else a look at each, for each that comes, would cost the square
		for _, m := range l.members {
			switch {
			case waits(m) && m.wants(ep):
				n++
				hosted = hosted || m.First
			case m.Left == "" && m.Phase != PhaseArrived:
				// Within a run it is about to return, and a spare node is not to
				// take its place. Else it is the companion of an earlier run.
				returning = ep.Restart > 0
			}
		}
	}
	if n < cmp.Or(ep.Min, ep.Size) || returning {
		l.call = call{}
		return false
	}
	return hosted && (n >= ep.Size || l.called(n))
}

// call is the last call of an elastic epoch, for which enough nodes are here.
type call struct {
	n           int // who heard it
	ends, limit time.Time
}

func (c call) due() bool { return !c.ends.IsZero() && !time.Now().Before(c.ends) }

// called tells whether the last call for n nodes is over. Who comes meanwhile
// begins it anew, a few times, and within the time that all of them have.
func (l *lead) called(n int) bool {
	c, every := &l.call, l.s.cfg.LastCall
	if c.limit.IsZero() {
		c.limit = time.Now().Add(lastCalls * every)
	}
	if n != c.n {
		c.n, c.ends = n, time.Now().Add(every)
		for _, m := range l.members { // leave the most impatient time for the start
			if end := m.seen.Add(m.Patience * 3 / 4); waits(m) && m.Patience > 0 && end.Before(c.limit) {
				c.limit = end
			}
		}
		if c.ends.After(c.limit) {
			c.ends = c.limit
		}
		time.AfterFunc(time.Until(c.ends)+time.Millisecond, l.s.nudge)
	}
	return c.due()
}
