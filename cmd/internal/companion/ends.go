package companion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"launch/internal/finding"
	"launch/rendezvous"
)

// The rounds in which a node posts how the first of its ranks ended: with a failure, or with 0. The store puts the
// posts of all nodes in one order, whatever their clocks say.
const failedRound, leftRound = "failed", "left"

// lastSay is how long the companion may wait at a command's end until it knows which rank ended first.
const lastSay = 300 * time.Millisecond

// relatedEnds is the longest time after which another rank may end for the same reason: NCCL's watchdog waits for 10
// minutes. A rank that failed earlier was started again by its torchrun (--max-restarts).
const relatedEnds = 20 * time.Minute

// rankEnd is how a rank ended.
type rankEnd struct {
	Rank   int       `json:"rank"` // -1: the command itself
	Node   string    `json:"node"`
	ID     string    `json:"id"` // the node's
	Status int       `json:"status"`
	At     time.Time `json:"at"`
}

// String says which rank ended, and how: "rank 3 on host1 (10.0.0.2) ended with 137 (killed) at 12:00:01".
func (e rankEnd) String() string {
	who, how := "the command", "ended with "+rendezvous.StatusText(e.Status)
	if e.Rank >= 0 {
		who = fmt.Sprintf("rank %d", e.Rank)
	}
	if by := rendezvous.Ender(e.Status); by != "" {
		how = "was ended by " + by
	}
	return fmt.Sprintf("%s on %s %s at %s", who, e.Node, how, e.At.Format("15:04:05"))
}

// ends knows which rank of all nodes ended first.
type ends struct {
	p            *companion
	failed, left firstEnd
}

// firstEnd is the first post to one of the rounds.
type firstEnd struct {
	round string
	once  sync.Once
	own   atomic.Int64 // the status that this node has posted
	heard chan none    // closed once it is known
	end   rankEnd
	at    time.Time // when it was heard, by this node's clock
}

// newEnds begins to hear of ends of ranks.
func (p *companion) newEnds(ctx context.Context) *ends {
	e := &ends{p: p}
	e.failed.round, e.left.round = failedRound, leftRound
	for _, f := range []*firstEnd{&e.failed, &e.left} {
		f.heard = make(chan none)
		p.wg.Go(func() { f.hear(ctx, p.session) })
	}
	return e
}

// of returns the first end of those like one with this status.
func (e *ends) of(status int) *firstEnd {
	if status == 0 {
		return &e.left
	}
	return &e.failed
}

func (f *firstEnd) hear(ctx context.Context, s *rendezvous.Session) {
	value, err := s.First(ctx, f.round)
	if err == nil && json.Unmarshal(value, &f.end) == nil {
		// people read the name: it is cleaned where it arrives
		n := rendezvous.Note{Name: f.end.Node}.Shortened()
		n.Clean()
		f.end.Node, f.at = n.Name, time.Now()
		close(f.heard)
	}
}

// post posts that a rank of this node ended; rank is -1 for the command.
func (e *ends) post(rank, status int) {
	f := e.of(status)
	f.once.Do(func() {
		f.own.Store(int64(status))
		value, _ := json.Marshal(rankEnd{rank, e.p.world.Self.Name(), e.p.world.Self.ID, status, time.Now()})
		e.p.session.Say(f.round, value)
	})
}

// before returns what of other nodes came before the failure of this node's command: the first failure, and the first
// end with 0 if that came before each failure. Nothing is returned where all were ended alike, as by a scheduler: a
// rank of this node then ended by the same signal, while torchrun ends with 1.
func (e *ends) before() (failed, left *rankEnd) {
	own, status, asked := e.p.world.Self.ID, int(e.failed.own.Load()), e.asked()
	if e.failed.recent() && e.failed.end.ID != own && !(asked && e.failed.end.Status == status) {
		failed = &e.failed.end
	}
	if e.left.recent() && e.left.end.ID != own && !asked && !(e.failed.known() && e.failed.at.Before(e.left.at)) {
		left = &e.left.end
	}
	return failed, left
}

// asked reports whether the first of this node's ranks was asked to end.
func (e *ends) asked() bool {
	status := int(e.failed.own.Load())
	return status == 128+int(syscall.SIGTERM) || status == 128+int(syscall.SIGINT)
}

// storeEnded reports whether the launch of the node that hosts the store has ended: its port is closed.
func (e *ends) storeEnded() bool {
	if !e.p.spec.Embedded || e.p.server.Load() != nil || e.asked() {
		return false
	}
	c, err := net.DialTimeout("tcp", e.p.spec.Endpoints[0], lastSay)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// endOf returns a statement about the failed command of another node. Where its first rank was ended by a signal, that:
// torchrun itself then ends with 1.
func (p *companion) endOf(text string) string {
	n, _ := p.lostOf(text)
	if p.ends == nil || !p.ends.failed.known() || p.ends.failed.end.ID != n.ID {
		return text
	}
	end := p.ends.failed.end
	if by := rendezvous.Ender(end.Status); by != "" && end.Rank >= 0 {
		return fmt.Sprintf("node rank %d, %s, was ended by %s", n.Rank, n.Name, by)
	}
	return text
}

// known reports whether the first end is known.
func (f *firstEnd) known() bool {
	select {
	case <-f.heard:
		return true
	default:
		return false
	}
}

// recent reports whether the first end is known, and not long ago.
func (f *firstEnd) recent() bool { return f.known() && time.Since(f.at) < relatedEnds }

// over posts how this node's command ended, and waits until it is in order among all ends.
func (e *ends) over(status int) {
	e.post(-1, status)
	select {
	case <-e.of(status).heard:
	case <-time.After(lastSay):
	}
}

// blame prints which rank of another node ended before this node's command failed, unless a finding about another node
// is printed already.
func (e *ends) blame() {
	if e.p.blamed.Load() {
		return
	}
	switch failed, left := e.before(); {
	case failed != nil:
		f := finding.Warnf("%s, before this node's command failed: its failure may follow from that", failed).
			Named("node.failed").Do("%s", strings.TrimSpace("first look at what "+failed.Node+" printed\n"+
			meaning(failed.Status)))
		if left != nil {
			f = f.See("before that", "%s", left)
		}
		e.p.say(f, "")
	case left != nil:
		e.p.say(finding.Warnf("%s, before this node's command failed: a rank that exchanges data with it fails", left).
			Named("node.ended").Do("do all ranks have the same number of steps?"), "")
	case e.storeEnded():
		e.p.say(finding.Warnf("launch on the node that hosts the store (%s) had ended, before this node's command failed: "+
			"its failure may follow from that", e.p.spec.Endpoints[0]).
			Named("node.lost").Do("first look at that node: what it printed, and what ended its processes"), "")
	}
}
