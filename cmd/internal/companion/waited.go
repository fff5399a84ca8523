package companion

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"launch/diagnose"
	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

const (
	// leastWait is how long nothing has moved on a node whose rank may have waited for another one.
	leastWait = 5 * time.Second
	// calmSpan is how long before its end that may have ended: the rank prints an error, and ends its threads.
	calmSpan = 10 * time.Second
)

// calm remembers for how long nothing had moved on this node at the last looks.
type calm struct {
	mu   sync.Mutex
	seen []stillness
}

type stillness struct {
	at   time.Time
	over time.Duration
}

func (c *calm) saw(at time.Time, over time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, stillness{at, over})
	c.seen = c.seen[max(0, len(c.seen)-8):]
}

// until returns the longest time without a move that ended at a moment or shortly before.
func (c *calm) until(ended time.Time) (longest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.seen {
		if ago := ended.Sub(s.at); ago >= 0 && ago <= calmSpan {
			longest = max(longest, s.over)
		}
	}
	return longest
}

// waited says which ranks of this node, where it is the one that watches, are in no collective when the first rank of
// all ends elsewhere, after nothing had moved there: it may have waited for them.
func (e *ends) waited(ctx context.Context) {
	select {
	case <-e.failed.heard:
	case <-ctx.Done():
		return
	}
	goesOn := func() bool { return e.failed.own.Load() == 0 && !e.p.ended.Load() && ctx.Err() == nil }
	if end := e.failed.end; end.ID != e.p.world.Self.ID && end.unexplained() && goesOn() && e.p.doctor.watches(ctx) {
		s := e.p.doctor.look(ctx)
		if f, ok := waitedFor(end, diagnose.Judge([]scene.Scene{s})); ok && goesOn() {
			e.p.say(f, "")
		}
	}
}

// unexplained reports whether a rank failed by an exception after nothing had moved on its node, for no known reason.
func (e rankEnd) unexplained() bool {
	return e.Rank >= 0 && e.Status < 128 && e.Prior.Still >= leastWait && e.Prior.String() == ""
}

// waitedFor says which ranks that one look shows are in their script, and in no collective.
func waitedFor(end rankEnd, all []verdict.Answer) (finding.Finding, bool) {
	var out []verdict.Rank
	for _, a := range all {
		out = append(out, slices.DeleteFunc(slices.Clone(a.Ranks), func(r verdict.Rank) bool {
			return r.Phase != "inside" || r.At == "" || r.Rank < 0
		})...)
	}
	if len(out) == 0 {
		return finding.Finding{}, false
	}
	at := finding.Join(out[:min(len(out), 3)], func(r verdict.Rank) string {
		return fmt.Sprintf("rank %d of this node at %s", r.Rank, r.At)
	})
	return finding.Warnf("%s, after nothing had moved on that node for %s; in no collective now: %s", end,
		end.Prior.Still.Round(time.Second), at).Named("node.failed").
		Do("first look at what %s printed", end.Node), true
}
