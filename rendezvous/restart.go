package rendezvous

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Fate is what becomes of a run that was started with restarts.
type Fate struct {
	Again    bool   `json:"again"`         // stop the command, then Return and Join
	Why      string `json:"why,omitempty"` // who failed or was lost; "" where all commands ended well
	Restart  int    `json:"restart"`       // how many restarts there were, this one included
	Restarts int    `json:"restarts"`      // how many there may be
}

// Ended tells the others that this node's command has ended.
func (s *Session) Ended(status int) {
	s.update(func() { s.self.Phase, s.self.Status, s.dirty = PhaseEnded, status, true })
	s.nudge()
}

// Fate waits until the run that this node started in is over. Once its own
// command has ended it waits no longer than patience for a store that does not
// answer (ErrUnreachable).
func (s *Session) Fate(ctx context.Context, patience time.Duration) (Fate, error) {
	var limit <-chan time.Time
	for {
		s.mu.Lock()
		ep, joined, fatal, changed, up := s.ep, s.joined, s.fatal, s.changed, s.up
		alone := !up && s.self.Phase == PhaseEnded
		s.mu.Unlock()
		switch {
		case !alone:
			limit = nil
		case limit == nil:
			limit = time.After(patience)
		}
		switch {
		case fatal != nil:
			return Fate{}, fatal
		case ep.Nonce == joined.Nonce && ep.State == Over:
			return Fate{Why: ep.Why, Restart: ep.Restart, Restarts: ep.Restarts}, nil
		case ep.Nonce != joined.Nonce && (ep.N != 0 || up):
			return Fate{Again: true, Why: ep.Why, Restart: ep.Restart, Restarts: ep.Restarts}, nil
		}
		select {
		case <-changed:
		case <-limit:
			return Fate{}, s.lastKnown(nil)
		case <-ctx.Done():
			return Fate{}, context.Cause(ctx)
		}
	}
}

// Return makes this node one that waits for a world again; edit changes what
// is new about it, as its ports.
func (s *Session) Return(edit func(*Member)) {
	s.update(func() {
		edit(&s.self)
		s.self.Phase, s.self.Status, s.dirty = PhaseArrived, 0, true
		clear(s.posts)
	})
	s.nudge()
}

// describe writes this node's key anew where it says something else now.
func (s *Session) describe(ctx context.Context) error {
	s.mu.Lock()
	self, lease, dirty := s.self, s.lease, s.dirty
	s.mu.Unlock()
	if !dirty {
		return nil
	}
	_, err := s.cli.Txn(timeout(ctx)).If(clientv3.Compare(clientv3.LeaseValue(s.k.member(self)), "=", lease)).
		Then(clientv3.OpPut(s.k.member(self), encode(self), clientv3.WithLease(lease))).Commit()
	if err != nil {
		return fmt.Errorf("describe this node: %w", reason(ctx, err))
	}
	s.update(func() { s.dirty = encode(s.self) != encode(self) })
	return nil
}

// verdict tells whether a started run is over, and who ended it: the lowest
// rank that is lost or failed; nobody where all commands ended well.
func (l *lead) verdict(ep Epoch) (over bool, why string) {
	worst, ended := ep.Size, 0
	for p, now := range l.seats(ep) {
		failed := ""
		switch {
		case now == nil:
			failed = "is gone"
		case now.Left != "":
			failed = "left: " + now.Left
		case now.Phase == PhaseEnded && now.Status != 0:
			failed = fmt.Sprintf("failed: its command ended with %d", now.Status)
		case now.Phase == PhaseEnded:
			ended++
		}
		if failed != "" && p.Rank < worst {
			worst, why = p.Rank, fmt.Sprintf("rank %d, %s, %s", p.Rank, p.Name, failed)
		}
	}
	return why != "" || ended == ep.Size, why
}

// over ends a run: the next epoch while there is a restart left, else for good.
func (l *lead) over(ctx context.Context, ep Epoch, why string) error {
	if why != "" && ep.Restart < ep.Restarts {
		next := ep
		next.Restart++
		return l.reopen(ctx, next, why)
	}
	ep.State, ep.Why = Over, why
	_, err := l.commit(ctx, []clientv3.Op{clientv3.OpPut(l.s.k.epoch(), encode(ep))})
	return err
}
