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
			if still := s.still(ctx, ep); len(still) > 0 {
				s.update(func() { s.running = still })
				s.emit(Event{Kind: Waiting, Have: still, Want: ep.Size})
			}
		case ep.Size > 0 && ep.State != Started && ep.Size != self.Size && s.outsized(ctx):
			return World{}, &SizeError{Self: self.Size, Want: ep.Size, First: ep.First}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return World{}, s.expired(ctx)
		}
	}
}

// outsized tells whether the node that came first expects another size; an
// epoch of an earlier run may still say one that its leader is about to replace.
func (s *Session) outsized(ctx context.Context) bool {
	r, err := s.cli.Get(timeout(ctx), s.k.members(), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return false // the next change asks again
	}
	for _, kv := range r.Kvs {
		var m Member
		if json.Unmarshal(kv.Value, &m) == nil && m.Left == "" && m.Phase != phaseStarted {
			return m.Size != s.me().Size
		}
	}
	return false
}

// expired says what was missing when the time ran out.
func (s *Session) expired(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	ep, size := s.ep, s.self.Size
	s.mu.Unlock()
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	have, err := Members(look, s.cli, s.cfg.Job)
	if err != nil {
		return s.lastKnown(err)
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

// lastKnown is what this node waited for when the store was lost, which says
// more than that it was.
func (s *Session) lastKnown(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.missing != nil:
		return s.missing
	case s.rival != nil:
		return &DuplicateError{Self: s.self, Holder: *s.rival}
	case s.ep.State == Started && len(s.running) > 0:
		return &MissingError{Have: s.ep.Roster, Want: s.self.Size, Running: names(s.running)}
	case !s.up && s.trouble != nil:
		err = s.trouble
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
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
