package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Join waits until this node is part of a sealed world that it has not been
// returned before, or the budget is used up (*MissingError, or ErrUnreachable).
// A spare node, or one that came late to an elastic job, waits on while a world
// that it is no part of is complete and may yet need it, until that is over
// (*SpareError). It never begins a run of its own beside one. With FailFast a
// node that is not fit ends the wait (*UnfitError).
func (s *Session) Join(ctx context.Context, budget time.Duration) (World, error) {
	limit := time.After(budget)
	outside := "" // a world that this node has no place in
	for {
		s.mu.Lock()
		ep, end, changed, self, joined := s.ep, s.end(), s.changed, s.self, s.joined.Nonce
		spare := self.extra() && s.up && ep.Nonce != "" && ep.Nonce == outside
		s.mu.Unlock()
		switch {
		case !spare && limit == nil:
			limit = time.After(budget)
		case spare && limit != nil:
			limit = nil
			s.emit(Event{Kind: Spare, Size: ep.Size})
		}
		var retry <-chan time.Time
		switch {
		case end != nil:
			if self.First { // the store goes with this node; the others are to hear of it
				s.lastWords(ctx, end)
			}
			return World{}, end
		case ep.Nonce != "" && (ep.Nonce == joined || ep.Nonce == outside):
		case ep.State == Sealed:
			p, err := s.place(ctx, ep)
			if err == nil && p.ID == self.ID {
				return s.enterWorld(ep, p), nil
			}
			if err == nil {
				outside = ep.Nonce
				continue
			}
			retry = time.After(retryMax / 4)
		case ep.State == Started || ep.State == Over:
			outside = ep.Nonce
			if ep.State == Started && self.extra() {
				if ep.Restarts > 0 {
					continue
				}
				return World{}, &MissingError{Attendance: Attendance{Want: self.Size, Min: self.Min}, Running: some(s.still(ctx, ep))}
			}
			if still := s.still(ctx, ep); len(still) > 0 {
				s.update(func() { s.running = still })
				s.emit(Event{Kind: Waiting, Have: still})
			}
			continue
		case ep.Size > 0 && !self.wants(ep) && s.outsized(ctx):
			return World{}, &SizeError{Self: Count(self.Size, self.Min), Want: Count(ep.Size, ep.Min), First: ep.First}
		}
		select {
		case <-changed:
		case <-retry:
		case <-limit:
			return World{}, s.missing(ctx)
		case <-ctx.Done():
			return World{}, s.expired(ctx)
		}
	}
}

// lastWords keeps the store up until the others have heard why this node ends.
func (s *Session) lastWords(ctx context.Context, end error) {
	if _, unfit := errors.AsType[*UnfitError](end); unfit {
		ctx, cancel := context.WithTimeout(ctx, Linger)
		defer cancel()
		Told(ctx, s.cli, s.cfg.Job, s.me().ID, s.me().Size-1)
	}
	<-time.After(lastWords)
}

// end is what ends a wait for good; nil: nothing yet. The caller holds mu.
func (s *Session) end() error {
	if s.fatal == nil && s.unneeded != nil {
		return s.unneeded
	}
	if unfit := s.hopeless(); s.fatal == nil && unfit != nil {
		return unfit
	}
	return s.fatal
}

// place is this node's place in a sealed world; the zero Place: none.
func (s *Session) place(ctx context.Context, ep Epoch) (p Place, err error) {
	s.mu.Lock()
	key, seat := s.k.place(ep.Nonce, s.self), s.seat
	s.mu.Unlock()
	if seat != nil && string(seat.Key) == key {
		return p, json.Unmarshal(seat.Value, &p)
	}
	r, err := s.cli.Get(within(ctx, s.cfg.crowd()), key)
	if err == nil && len(r.Kvs) > 0 {
		err = json.Unmarshal(r.Kvs[0].Value, &p)
	}
	return p, err
}

func (s *Session) enterWorld(ep Epoch, p Place) World {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined, s.rank, s.stands = ep, p.Rank, true
	clear(s.posts)
	return World{
		Job: s.cfg.Job, Epoch: ep.N, Rank: p.Rank, Size: ep.Size, Self: s.self, Master: *ep.Master, Partners: p.Partners,
		RunID: fmt.Sprintf("%s-%d-%s", strings.ReplaceAll(s.cfg.Job, "/", "-"), ep.N, ep.Nonce[:8]),
	}
}

// outsized tells whether the node that came first expects another size; an
// epoch of an earlier run may still say one that its leader is about to replace.
func (s *Session) outsized(ctx context.Context) bool {
	r, err := s.cli.Get(timeout(ctx), s.k.members(), clientv3.WithPrefix(), clientv3.WithLimit(few),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return false // the next change asks again
	}
	for _, kv := range r.Kvs {
		var m Member
		if json.Unmarshal(kv.Value, &m) == nil && m.Left == "" && m.Phase == PhaseArrived {
			me := s.me()
			return m.Size != me.Size || m.Min != me.Min
		}
	}
	return false
}

// expired is what ends a wait: an interruption, or that the time ran out.
func (s *Session) expired(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return s.missing(ctx)
}

// missing says what was missing when the time ran out.
func (s *Session) missing(ctx context.Context) error {
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	r, err := s.cli.Get(look, s.k.progress())
	if err != nil {
		return s.lastKnown(reason(look, err))
	}
	var p progress
	if len(r.Kvs) > 0 {
		_ = json.Unmarshal(r.Kvs[0].Value, &p)
	}
	s.mu.Lock()
	ep, self, never := s.ep, s.self, !s.up && s.trouble != nil
	s.mu.Unlock()
	if never { // it answers, but this node could not register
		return s.lastKnown(nil)
	}
	if p.Want != self.Size || p.Min != self.Min {
		p.Attendance = Attendance{Come: 1, Want: self.Size, Min: self.Min, Here: names([]Member{self}), Missing: Missing([]Member{self}, self.Size)}
	}
	e := &MissingError{Attendance: p.Attendance}
	switch ep.State {
	case Sealed:
		e.Come, e.Here, e.Missing = ep.Size, nil, nil
	case Started, Over:
		e.Running = some(s.still(look, ep))
	}
	if self.First { // the store goes with this node; the others are to end with names too
		_, _ = s.cli.Put(look, s.k.progress(), encode(progress{Attendance: e.Attendance, Final: true}))
		<-time.After(lastWords)
	}
	return e
}

// lastKnown is what this node waited for when the store was lost, which says
// more than that it was.
func (s *Session) lastKnown(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.final:
		return &MissingError{Attendance: *s.seen}
	case s.rival != nil:
		return &DuplicateError{Self: s.self, Holder: *s.rival}
	case len(s.running) > 0:
		return &MissingError{Attendance: Attendance{Want: s.self.Size, Min: s.self.Min}, Running: some(s.running)}
	case !s.up && s.trouble != nil:
		err = s.trouble
	}
	if errors.Is(err, ErrFull) {
		return ErrFull
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// still are the first few nodes of a started epoch that are registered yet.
func (s *Session) still(ctx context.Context, ep Epoch) []string {
	r, err := s.cli.Get(timeout(ctx), s.k.members(), clientv3.WithPrefix(), clientv3.WithLimit(4*few))
	if err != nil {
		return []string{ep.Master.Name()}
	}
	var out []string
	for _, kv := range r.Kvs {
		var m Member
		if json.Unmarshal(kv.Value, &m) == nil && m.Phase == PhaseStarted && len(out) < few {
			out = append(out, m.Name())
		}
	}
	return out
}

// Finished says how this node's command ended, for Leave to leave behind.
func (s *Session) Finished(status int) { s.update(func() { s.status = &status }) }

// remains is what a node leaves behind whose command has ended: its place says
// so, for people. A place that is gone is not made again.
func (s *Session) remains() []clientv3.Op {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.self.Phase == PhaseArrived || s.joined.Nonce == "" {
		return nil
	}
	p := Place{Rank: s.rank, ID: s.self.ID, Name: s.self.Name(), Over: true, Status: s.status}
	if s.self.Phase == PhaseEnded {
		p.Status = &s.self.Status
	}
	key := s.k.place(s.joined.Nonce, s.self)
	return []clientv3.Op{clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)},
		[]clientv3.Op{clientv3.OpPut(key, encode(p))}, nil)}
}

// Leave takes this node out at once and says why, then ends the session.
func (s *Session) Leave(why string) {
	s.stop()
	<-s.done
	s.mu.Lock()
	lease, leases, self, ep := s.lease, s.leases, s.self, s.ep
	quits := ep.State == Sealed && ep.Nonce == s.joined.Nonce
	s.mu.Unlock()
	if lease == 0 {
		return
	}
	budget := leaveBudget
	if self.Phase != PhaseArrived {
		budget = endBudget
	}
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	ops := s.remains()
	if quits {
		ops = append(ops, clientv3.OpPut(s.k.quit(ep.Nonce), self.ID))
	}
	if why != "" {
		self.Left = why
		words := []clientv3.Op{
			clientv3.OpPut(s.k.member(self), encode(self), clientv3.WithLease(lease)),
			// The lead may be this node's without its knowledge: the leader before it
			// has just gone, and the answer is on its way.
			clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(s.k.leader()), "=", lease)},
				[]clientv3.Op{clientv3.OpPut(s.k.leader(), encode(self), clientv3.WithLease(lease))}, nil),
		}
		ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(s.k.member(self)), "=", lease)}, words, nil))
	}
	if len(ops) > 0 {
		_, _ = s.cli.Txn(ctx).Then(ops...).Commit()
	}
	for _, lease := range leases {
		_, _ = s.cli.Revoke(ctx, lease)
	}
}

func (s *Session) nudge() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
