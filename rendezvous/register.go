package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"launch/internal/process"
)

// register creates this node's key, or settles with who holds it. In the same
// transaction it takes the lead where nobody has it, and reads the control
// keys. It returns the revision of that.
func (s *Session) register(ctx context.Context, store clientv3.KV, lease clientv3.LeaseID) (int64, error) {
	key := s.k.member(s.me())
	found := []clientv3.Op{clientv3.OpGet(key)}
	if s.cfg.Asks {
		found = append(found, clientv3.OpGet(storeKey))
	}
	var since time.Time // first sight of a live holder of a typed index, in this life: leases stand still while a store is away
	for {
		s.mu.Lock()
		s.self.Epoch = max(s.self.Epoch, s.ep.N)
		self := s.self
		s.dirty = false
		s.mu.Unlock()
		enter := s.entering(self, lease)
		r, err := store.Txn(within(ctx, s.cfg.crowd())).If(append(s.ours(), clientv3.Compare(clientv3.CreateRevision(key), "=", 0))...).
			Then(enter...).Else(found...).Commit()
		if err != nil {
			return 0, fmt.Errorf("register: %w", reason(ctx, err))
		}
		if r.Succeeded {
			return s.entered(r, lease), nil
		}
		if s.cfg.Asks {
			where := strings.Join(s.cli.Endpoints(), ",")
			if err := owned(where, s.cfg.Job, r.Responses[1].GetResponseRange()); err != nil {
				return 0, fmt.Errorf("%s: %w", where, err)
			}
		}
		held := r.Responses[0].GetResponseRange().Kvs[0]
		var holder Member
		_ = json.Unmarshal(held.Value, &holder)
		if holder.ID != self.ID && s.replaced(held.ModRevision) {
			return 0, &SupersededError{Self: self, Newer: holder}
		}
		// The same ID: an outcome that was unknown, or an earlier life's lease.
		if holder.ID == self.ID || self.Vouch == Scheduled || holder.Left != "" || deadHere(self, holder) {
			r, err := store.Txn(timeout(ctx)).If(append(s.ours(), clientv3.Compare(clientv3.ModRevision(key), "=", held.ModRevision))...).Then(enter...).Commit()
			if err != nil {
				return 0, fmt.Errorf("register: %w", reason(ctx, err))
			}
			if r.Succeeded {
				return s.entered(r, lease), s.depose(ctx, holder.ID)
			}
			continue
		}
		if since.IsZero() {
			since = time.Now()
			s.contend(ctx, self, holder)
		}
		left := s.cfg.TTL + typedGrace - time.Since(since)
		if left <= 0 {
			return 0, &DuplicateError{Self: self, Holder: holder}
		}
		if err := s.awaitChange(ctx, key, r.Header.Revision, left); err != nil {
			return 0, err
		}
	}
}

// contend tells both that this node's typed index is held by another.
func (s *Session) contend(ctx context.Context, self, holder Member) {
	s.update(func() { s.rival = &holder })
	s.emit(Event{Kind: Conflict, Member: &holder, Text: fmt.Sprintf("waiting up to %s for it to vanish", s.cfg.TTL+typedGrace)})
	_, _ = s.cli.Put(timeout(ctx), s.k.conflict(), encode(self))
}

// entering is what a registration does. Of N nodes that start at once all but
// the first so see a leader, and do not ask for the lead.
func (s *Session) entering(self Member, lease clientv3.LeaseID) []clientv3.Op {
	me := encode(self)
	ops := []clientv3.Op{clientv3.OpPut(s.k.member(self), me, clientv3.WithLease(lease))}
	if !s.yields() {
		ops = append(ops, clientv3.OpTxn(
			[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(s.k.leader()), "=", 0)},
			[]clientv3.Op{clientv3.OpPut(s.k.leader(), me, clientv3.WithLease(lease))}, nil))
	}
	return append(ops, clientv3.OpGet(s.k.control(), clientv3.WithPrefix()))
}

// entered takes in what a registration read.
func (s *Session) entered(r *clientv3.TxnResponse, lease clientv3.LeaseID) int64 {
	leads := false
	for _, x := range r.Responses {
		if t := x.GetResponseTxn(); t != nil {
			leads = t.Succeeded
		}
		if control := x.GetResponseRange(); control != nil {
			s.snapshot((*clientv3.GetResponse)(control))
		}
	}
	s.update(func() {
		s.rival, s.leases = nil, []clientv3.LeaseID{lease}
		if leads {
			s.leadLease = lease
		}
	})
	return r.Header.Revision
}

// depose ends the leadership of an incarnation that was just replaced, instead
// of waiting for its lease.
func (s *Session) depose(ctx context.Context, id string) error {
	s.mu.Lock()
	leader, me := s.leader, s.self.ID
	s.mu.Unlock()
	if leader.ID != id || id == me {
		return nil
	}
	_, err := s.cli.Txn(timeout(ctx)).If(clientv3.Compare(clientv3.ModRevision(s.k.leader()), "=", leader.mod)).
		Then(clientv3.OpDelete(s.k.leader())).Commit()
	return err
}

// awaitChange returns when key was deleted or replaced after rev, or after d.
func (s *Session) awaitChange(ctx context.Context, key string, rev int64, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	select {
	case r, ok := <-s.after(ctx, key, rev):
		if ctx.Err() != nil {
			return nil
		}
		return watched(r, ok)
	case <-ctx.Done():
		return nil
	}
}

// deadHere tells whether holder is a process of this machine (and of this PID
// namespace) that no longer runs.
func deadHere(self, holder Member) bool {
	if holder.Machine == "" || holder.Machine != self.Machine {
		return false
	}
	if err := syscall.Kill(holder.PID, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	now, err := process.Read(holder.PID)
	return err == nil && now.Started != holder.Started
}

// ownKey looks at what became of this node's own key.
func (s *Session) ownKey(evs []*clientv3.Event) error {
	for _, e := range evs {
		if e.Type == clientv3.EventTypeDelete {
			return errors.New("this node's key is gone")
		}
		var m Member
		if json.Unmarshal(e.Kv.Value, &m) == nil && m.ID != s.me().ID {
			return &SupersededError{Self: s.me(), Newer: m}
		}
	}
	return nil
}
