package rendezvous

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Reduce turns the posts of all nodes, in rank order, into the one result.
// start says that with it the world is started: from then on a lost node no
// longer breaks it. A nil result is no decision. It runs on the leader only.
type Reduce func(posts [][]byte) (result []byte, start bool)

// Round posts mine under a name that is used once in an epoch, and returns
// the result of all nodes' posts. A node lost on the way, or a ctx that ends,
// ends it: *BrokenError, then Join again.
func (s *Session) Round(ctx context.Context, name string, mine []byte, reduce Reduce) ([]byte, error) {
	s.mu.Lock()
	ep := s.joined
	s.posts[name] = &post{value: mine, reduce: reduce}
	s.mu.Unlock()
	s.nudge()
	key := s.k.result(ep.N, name)
	for {
		s.mu.Lock()
		result, ok := s.results[key]
		broken, fatal, changed := s.broken(ep), s.fatal, s.changed
		s.mu.Unlock()
		switch {
		case fatal != nil:
			return nil, fatal
		case broken != "":
			return nil, &BrokenError{Why: broken}
		case ok:
			return result, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if result := s.withdraw(ctx, ep, key); result != nil {
				return result, nil
			}
			return nil, s.expired(ctx)
		}
	}
}

// withdraw takes back what this node posted, unless the result is there
// already: then it is returned, and this node goes by it as the others do.
func (s *Session) withdraw(ctx context.Context, ep Epoch, key string) []byte {
	ctx = timeout(context.WithoutCancel(ctx))
	s.mu.Lock()
	self, lease := s.self, s.lease
	s.mu.Unlock()
	self.Left = "its time ran out"
	r, err := s.cli.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(
		clientv3.OpPut(s.k.quit(ep.Nonce), self.ID), // stays when the lease is given back
		clientv3.OpTxn(
			[]clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(s.k.member(self)), "=", lease)},
			[]clientv3.Op{clientv3.OpPut(s.k.member(self), encode(self), clientv3.WithLease(lease))}, nil),
	).Else(clientv3.OpGet(key), clientv3.OpGet(s.k.epoch())).Commit()
	if err != nil || r.Succeeded {
		return nil
	}
	result, epoch := r.Responses[0].GetResponseRange().Kvs, r.Responses[1].GetResponseRange().Kvs
	var now Epoch
	if len(result) == 0 || len(epoch) == 0 || json.Unmarshal(epoch[0].Value, &now) != nil || now.Nonce != ep.Nonce {
		return nil
	}
	return result[0].Value
}

// ackRound is the round in which every node says that it has read the go.
const ackRound = "started"

// began is when this node read that it may start.
func (s *Session) began() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.went
}

// Start tells the others that this node has read that it may start, and, on
// the store's host, waits until all have: its command may end at once, and the
// store with it. Its key is still the one that was sealed then, or the error
// says whose it is (*SupersededError). A store that does not answer is no error:
// the others start, and wait for this node.
func (s *Session) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ackBudget)
	defer cancel()
	s.mu.Lock()
	ep := s.joined
	s.self.Phase, s.went, s.stands = PhaseStarted, time.Now(), false // what becomes of it is no news of a wait
	mine := &post{value: []byte("{}")}
	s.posts[ackRound] = mine
	s.mu.Unlock()
	s.nudge()
	for {
		s.mu.Lock()
		sent, fatal, changed := mine.sent, s.fatal, s.changed
		s.mu.Unlock()
		if fatal != nil {
			return fatal
		}
		if sent {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
	if s.me().First {
		s.awaitAcks(ctx, ep)
	}
	return nil
}

// awaitAcks waits until all nodes of a world have said that they start.
func (s *Session) awaitAcks(ctx context.Context, ep Epoch) {
	prefix := s.k.round(ep.N, ackRound)
	r, err := s.cli.Get(timeout(ctx), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return
	}
	acked := map[string]bool{} // not a count of keys: those of a command that has ended are gone
	for _, kv := range r.Kvs {
		acked[string(kv.Key)] = true
	}
	w := s.after(ctx, prefix, r.Header.Revision, clientv3.WithPrefix())
	for len(acked) < ep.Size {
		r, ok := <-w
		if !ok {
			return
		}
		for _, e := range r.Events {
			acked[string(e.Kv.Key)] = true
		}
	}
}

// send posts what Round has asked for in this life.
func (s *Session) send(ctx context.Context) error {
	s.mu.Lock()
	ep, mod, lease, self := s.joined, s.epMod, s.lease, s.self
	current := s.ep.Nonce == ep.Nonce && ep.Nonce != ""
	rank := s.rank
	todo := map[string]*post{}
	for name, p := range s.posts {
		if current && !p.sent {
			todo[name] = p
		}
	}
	s.mu.Unlock()
	for name, p := range todo {
		ops := []clientv3.Op{clientv3.OpPut(s.k.post(ep.N, name, rank), string(p.value), clientv3.WithLease(lease))}
		if name == ackRound {
			ops = append(ops, clientv3.OpPut(s.k.member(self), encode(self), clientv3.WithLease(lease)))
		}
		// The fence: this node's key is still the one that it wrote, so that
		// nothing is posted for a world that another incarnation has joined.
		r, err := s.cli.Txn(timeout(ctx)).If(
			clientv3.Compare(clientv3.LeaseValue(s.k.member(self)), "=", lease),
			clientv3.Compare(clientv3.ModRevision(s.k.epoch()), "=", mod),
		).Then(ops...).Commit()
		if err != nil {
			return fmt.Errorf("post to round %q: %w", name, reason(ctx, err))
		}
		if r.Succeeded {
			s.update(func() { p.sent, p.acked = true, true })
		}
	}
	return nil
}

// Publish makes a value known to all nodes of the joined world, under a name
// that no round uses; it is gone with this node.
func (s *Session) Publish(ctx context.Context, name string, value []byte) error {
	s.mu.Lock()
	key, lease := s.k.result(s.joined.N, name), s.lease
	s.mu.Unlock()
	_, err := s.cli.Put(timeout(ctx), key, string(value), clientv3.WithLease(lease))
	return err
}

// Published waits until a value of the name is known, m's key is gone
// (false), or the store is (false): for a node that waits for what m starts.
func (s *Session) Published(ctx context.Context, name string, m Member) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := s.cli.Get(timeout(ctx), s.k.member(m))
	if err != nil || len(r.Kvs) == 0 {
		return false, ctx.Err()
	}
	w := s.after(ctx, s.k.member(m), r.Header.Revision)
	for {
		s.mu.Lock()
		_, known := s.results[s.k.result(s.joined.N, name)]
		up, changed := s.up, s.changed
		s.mu.Unlock()
		if known || !up {
			return known, nil
		}
		select {
		case r, ok := <-w:
			if watched(r, ok) != nil || slices.ContainsFunc(r.Events, func(e *clientv3.Event) bool { return e.Type == clientv3.EventTypeDelete }) {
				return false, ctx.Err()
			}
		case <-changed:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// reducers are those of the rounds of ep that have no result yet.
func (s *Session) reducers(ep Epoch) map[string]Reduce {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]Reduce{}
	for name, p := range s.posts {
		if _, done := s.results[s.k.result(ep.N, name)]; !done && p.reduce != nil && s.joined.Nonce == ep.Nonce {
			out[name] = p.reduce
		}
	}
	return out
}
