package rendezvous

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Reduce turns the posts of all nodes, in rank order, into the one result.
// start says that with it the world is started: from then on a lost node no
// longer breaks it. It runs on the leader only.
type Reduce func(posts [][]byte) (result []byte, start bool)

// Join waits until this node is part of a sealed world that it has not been
// returned before, or ctx ends (*MissingError, or ErrUnreachable).
func (s *Session) Join(ctx context.Context) (World, error) {
	told := "" // the run that this node was told to wait for
	for {
		s.mu.Lock()
		ep, fatal, changed, self := s.ep, s.fatal, s.changed, s.self
		rank := slices.IndexFunc(ep.Roster, func(m Member) bool { return m.ID == s.self.ID })
		fresh := ep.State == Sealed && ep.Nonce != s.joined.Nonce
		if fatal == nil && fresh && rank >= 0 {
			s.joined = ep
			clear(s.posts)
		}
		s.mu.Unlock()
		switch {
		case fatal != nil:
			return World{}, fatal
		case fresh && rank >= 0:
			return World{
				Job: s.cfg.Job, Epoch: ep.N, Rank: rank, Roster: ep.Roster,
				RunID: fmt.Sprintf("%s-%d-%s", strings.ReplaceAll(s.cfg.Job, "/", "-"), ep.N, ep.Nonce[:8]),
			}, nil
		case ep.State == Started && rank < 0 && ep.Nonce != told:
			told = ep.Nonce
			s.emit(Event{Kind: Waiting, Have: s.still(ctx, ep), Want: ep.Size})
		case ep.Size > 0 && ep.State != Started && ep.Size != self.Size:
			return World{}, &SizeError{Self: self.Size, Want: ep.Size, First: ep.First}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return World{}, s.expired(ctx)
		}
	}
}

// expired says what was missing when the time ran out.
func (s *Session) expired(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	up, trouble, ep, size, last := s.up, s.trouble, s.ep, s.self.Size, s.missing
	s.mu.Unlock()
	have, err := Members(context.WithoutCancel(ctx), s.cli, s.cfg.Job)
	if err != nil && last != nil {
		return last
	}
	if err != nil {
		if !up && trouble != nil {
			err = trouble
		}
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if ep.State != Started { // who still runs in an earlier epoch has not come for this one
		have = slices.DeleteFunc(have, func(m Member) bool { return m.Phase == phaseStarted })
	}
	e := &MissingError{Have: have, Want: size, Left: s.leavers(have)}
	e.Missing = Missing(slices.Concat(have, e.Left), size)
	if ep.State == Started {
		e.Have = ep.Roster
		e.Running = names(s.still(context.WithoutCancel(ctx), ep))
	}
	if s.me().First { // the store goes with this node; the others are to end with names too
		_, _ = s.cli.Put(timeout(context.WithoutCancel(ctx)), s.k.missing(), encode(e))
		<-time.After(lastWords)
	}
	return e
}

// leavers are the nodes that left while this one waited, and are not back.
func (s *Session) leavers(have []Member) []Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range have {
		delete(s.left, s.k.member(m))
	}
	return slices.SortedFunc(maps.Values(s.left), func(a, b Member) int {
		return cmp.Or(a.Index-b.Index, cmp.Compare(a.Host, b.Host))
	})
}

// still are the nodes of a started epoch that are registered yet.
func (s *Session) still(ctx context.Context, ep Epoch) []Member {
	have, err := Members(ctx, s.cli, s.cfg.Job)
	if err != nil {
		return ep.Roster
	}
	return slices.DeleteFunc(have, func(m Member) bool {
		return !slices.ContainsFunc(ep.Roster, func(r Member) bool { return r.ID == m.ID })
	})
}

// Members are the nodes that are registered now, by index and arrival.
func Members(ctx context.Context, cli *clientv3.Client, job string) ([]Member, error) {
	k := keysOf(job)
	r, err := cli.Get(timeout(ctx), k.members(), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, fmt.Errorf("read the members: %w", reason(ctx, err))
	}
	var out []Member
	for _, kv := range r.Kvs {
		var m Member
		if json.Unmarshal(kv.Value, &m) == nil && m.Left == "" {
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(a, b Member) int { return a.Index - b.Index })
	return out, nil
}

// Current is the epoch of a job, and whether it has one.
func Current(ctx context.Context, cli *clientv3.Client, job string) (Epoch, bool, error) {
	r, err := cli.Get(timeout(ctx), keysOf(job).epoch())
	if err != nil {
		return Epoch{}, false, fmt.Errorf("read the epoch: %w", reason(ctx, err))
	}
	if len(r.Kvs) == 0 {
		return Epoch{}, false, nil
	}
	var ep Epoch
	return ep, true, json.Unmarshal(r.Kvs[0].Value, &ep)
}

// Jobs are the ids of the jobs that have state in the store.
func Jobs(ctx context.Context, cli *clientv3.Client) ([]string, error) {
	r, err := cli.Get(timeout(ctx), "/launch/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %w", reason(ctx, err))
	}
	ids := map[string]bool{}
	for _, kv := range r.Kvs {
		if id, _, ok := strings.Cut(strings.TrimPrefix(string(kv.Key), "/launch/"), "/"); ok {
			ids[strings.NewReplacer("%2F", "/", "%25", "%").Replace(id)] = true
		}
	}
	return slices.Sorted(maps.Keys(ids)), nil
}

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
		now, fatal, changed := s.ep, s.fatal, s.changed
		s.mu.Unlock()
		switch {
		case fatal != nil:
			return nil, fatal
		case now.Nonce != ep.Nonce && (now.N != 0 || s.isUp()):
			return nil, &BrokenError{Why: cmp.Or(now.Why, "the store came back empty before the start")}
		case ok:
			return result, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, s.expired(ctx)
		}
	}
}

// Start tells the others that this node has read that it may start, and, on
// the store's host, waits until all have: its command may end at once, and the
// store with it.
func (s *Session) Start(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ackBudget)
	defer cancel()
	s.mu.Lock()
	ep := s.joined
	s.self.Phase = phaseStarted
	mine := &post{value: []byte("{}")}
	s.posts["started"] = mine
	s.mu.Unlock()
	s.nudge()
	for {
		s.mu.Lock()
		sent, changed := mine.sent, s.changed
		s.mu.Unlock()
		if sent {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
	if !s.me().First {
		return
	}
	prefix := s.k.round(ep.N, "started")
	r, err := s.cli.Get(timeout(ctx), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return
	}
	acked := map[string]bool{} // not a count of keys: those of a command that has ended are gone
	for _, kv := range r.Kvs {
		acked[string(kv.Key)] = true
	}
	w := s.cli.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithRev(r.Header.Revision+1))
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
	rank := slices.IndexFunc(ep.Roster, func(m Member) bool { return m.ID == self.ID })
	todo := map[string]*post{}
	for name, p := range s.posts {
		if current && !p.sent {
			todo[name] = p
		}
	}
	s.mu.Unlock()
	for name, p := range todo {
		ops := []clientv3.Op{clientv3.OpPut(s.k.post(ep.N, name, rank), string(p.value), clientv3.WithLease(lease))}
		if name == "started" {
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
			s.update(func() { p.sent = true })
		}
	}
	return nil
}

// Leave takes this node out at once and says why, then ends the session.
func (s *Session) Leave(why string) {
	s.stop()
	<-s.done
	s.mu.Lock()
	lease, self := s.lease, s.self
	leads := s.leader.ID == self.ID
	s.mu.Unlock()
	if lease == 0 {
		return
	}
	budget := leaveBudget
	if self.Phase == phaseStarted {
		budget = endBudget
	}
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	if why != "" {
		self.Left = why
		ops := []clientv3.Op{clientv3.OpPut(s.k.member(self), encode(self), clientv3.WithLease(lease))}
		if leads {
			ops = append(ops, clientv3.OpPut(s.k.leader(), encode(self), clientv3.WithLease(lease)))
		}
		_, _ = s.cli.Txn(ctx).If(clientv3.Compare(clientv3.LeaseValue(s.k.member(self)), "=", lease)).Then(ops...).Commit()
	}
	_, _ = s.cli.Revoke(ctx, lease)
}

func (s *Session) nudge() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *Session) isUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up
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
	w := s.cli.Watch(clientv3.WithRequireLeader(ctx), s.k.member(m), clientv3.WithRev(r.Header.Revision+1))
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
