package rendezvous

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// campaign tries to become the leader where there is none. Losing is fine: the
// winner's key arrives through the watch.
func (s *Session) campaign(ctx context.Context) error {
	s.mu.Lock()
	free, mine, stale := s.leader.ID == "", s.leader.ID == s.self.ID, s.leader.mod
	lease, self := s.lease, s.self
	yields := time.Since(s.resigned) < resignPause
	s.mu.Unlock()
	if free && yields {
		return nil
	}
	key := s.k.leader()
	put := clientv3.OpPut(key, encode(self), clientv3.WithLease(lease))
	var guard clientv3.Cmp
	switch {
	case free:
		guard = clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	case mine && !s.leasedHere(lease): // of an earlier life: bind it to this lease
		guard = clientv3.Compare(clientv3.ModRevision(key), "=", stale)
	default:
		return nil
	}
	r, err := s.cli.Txn(timeout(ctx)).If(guard).Then(put).Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return fmt.Errorf("choose a leader: %w", reason(ctx, err))
	}
	if r.Succeeded {
		created := r.Header.Revision
		if mine {
			s.mu.Lock()
			created = s.leader.create
			s.mu.Unlock()
		}
		s.update(func() { s.leader = registered{self, created, r.Header.Revision}; s.leadLease = lease })
		return nil
	}
	if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		s.observeLeader(&clientv3.Event{Kv: kvs[0]}, true)
	}
	return nil
}

func (s *Session) leasedHere(l clientv3.LeaseID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leadLease == l
}

// lead is what only the leader holds: all members and all posts.
type lead struct {
	s       *Session
	ch      clientv3.WatchChan
	members map[string]registered // by key
	posts   map[string][]byte     // by key
	shown   string                // the progress that was last told
}

// takeOver reads all members and posts, and watches them from there.
func (s *Session) takeOver(ctx context.Context, watch func(string, int64, ...clientv3.OpOption) clientv3.WatchChan) (*lead, error) {
	r, err := s.cli.Get(timeout(ctx), s.k.root, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read the members: %w", reason(ctx, err))
	}
	l := &lead{s: s, members: map[string]registered{}, posts: map[string][]byte{}}
	for _, kv := range r.Kvs {
		l.put(string(kv.Key), kv.Value, kv.CreateRevision, kv.ModRevision)
	}
	l.ch = watch(s.k.root, r.Header.Revision, clientv3.WithPrefix())
	return l, nil
}

func (l *lead) watch() clientv3.WatchChan {
	if l == nil {
		return nil
	}
	return l.ch
}

func (l *lead) put(key string, v []byte, create, mod int64) {
	switch {
	case strings.HasPrefix(key, l.s.k.members()):
		var m Member
		if json.Unmarshal(v, &m) == nil {
			l.members[key] = registered{m, create, mod}
		}
	case strings.HasPrefix(key, l.s.k.posts()):
		l.posts[key] = v
	}
}

func (l *lead) observe(ctx context.Context, evs []*clientv3.Event) {
	for _, e := range evs {
		key := string(e.Kv.Key)
		before, known := l.members[key]
		if e.Type == clientv3.EventTypePut {
			l.put(key, e.Kv.Value, e.Kv.CreateRevision, e.Kv.ModRevision)
		} else {
			delete(l.members, key)
			delete(l.posts, key)
		}
		now, stays := l.members[key]
		if known && before.Left == "" && (!stays || now.Left != "") {
			before.Left = now.Left
			l.departed(ctx, before.Member)
		}
	}
}

// departed tells that a member left before the start: the people here, and by
// the notice those on the other nodes. Losing it loses a line.
func (l *lead) departed(ctx context.Context, m Member) {
	l.s.mu.Lock()
	ordinary := l.s.ep.State == Started // the end of a run
	l.s.mu.Unlock()
	if ordinary || m.ID == l.s.me().ID || m.Phase == phaseStarted {
		return
	}
	news := departure(m)
	l.s.emit(news)
	_, _ = l.s.cli.Put(timeout(ctx), l.s.k.notice(), encode(news))
}

// here are the members that have come and mean to stay, by arrival; who runs in
// an earlier epoch does not wait for this one.
func (l *lead) here() []registered {
	var out []registered
	for _, m := range l.members {
		if m.Left == "" && m.Phase != phaseStarted {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b registered) int { return cmp.Compare(a.create, b.create) })
	return out
}

// step does the one thing that the epoch's state asks of its leader.
func (l *lead) step(ctx context.Context) error {
	l.s.mu.Lock()
	ep := l.s.ep
	l.s.mu.Unlock()
	switch ep.State {
	case Sealed:
		if !l.inside(ep) && len(l.gone(ep)) < len(ep.Roster) {
			return l.resign(ctx)
		}
		if gone := l.gone(ep); len(gone) > 0 {
			return l.open(ctx, ep, names(gone)+" left after the ranks were agreed")
		}
		return l.reduce(ctx, ep)
	case Started:
		if l.inside(ep) || len(l.gone(ep)) < len(ep.Roster) {
			return nil
		}
		return l.open(ctx, ep, "") // the last run of this job has ended everywhere
	}
	here := l.here()
	if len(here) == 0 {
		return nil
	}
	if ep.State == "" || ep.Size != here[0].Size {
		ep.Size, ep.First = here[0].Size, here[0].Name()
		return l.open(ctx, ep, ep.Why)
	}
	here = slices.DeleteFunc(here, func(m registered) bool { return m.Size != ep.Size })
	if len(here) < ep.Size {
		l.progress(here, ep.Size)
		return nil
	}
	return l.seal(ctx, ep, here)
}

// resign leaves the lead to a node of the sealed world: only they can reduce.
func (l *lead) resign(ctx context.Context) error {
	s := l.s
	s.mu.Lock()
	s.resigned = time.Now()
	create := s.leader.create
	s.mu.Unlock()
	_, err := s.cli.Txn(timeout(ctx)).If(clientv3.Compare(clientv3.CreateRevision(s.k.leader()), "=", create)).
		Then(clientv3.OpDelete(s.k.leader())).Commit()
	if err != nil {
		return fmt.Errorf("resign: %w", reason(ctx, err))
	}
	s.update(func() { s.leader = registered{mod: s.leader.mod} })
	time.AfterFunc(resignPause, s.nudge) // if nobody took it
	return nil
}

// gone are the members of the sealed world that are no longer what was sealed.
func (l *lead) gone(ep Epoch) []Member {
	var out []Member
	for _, m := range ep.Roster {
		if now, ok := l.members[l.s.k.member(m)]; !ok || now.ID != m.ID || now.Left != "" {
			out = append(out, m)
		}
	}
	return out
}

func (l *lead) inside(ep Epoch) bool {
	me := l.s.me().ID
	return slices.ContainsFunc(ep.Roster, func(m Member) bool { return m.ID == me })
}

// progress tells who has come, whenever that changes.
func (l *lead) progress(here []registered, want int) {
	have := make([]Member, len(here))
	for i, m := range here {
		have[i] = m.Member
	}
	l.tell(Event{Kind: Progress, Have: have, Want: want, Missing: Missing(have, want)})
}

func (l *lead) tell(e Event) {
	if k := string(e.Kind) + names(e.Have); k != l.shown {
		l.shown = k
		l.s.emit(e)
	}
}

func names(ms []Member) string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = m.Name()
	}
	return strings.Join(out, ", ")
}

// open writes an open epoch after ep. No transaction of this package moves the
// epoch unless its writer still leads and the epoch is still the one it read.
func (l *lead) open(ctx context.Context, ep Epoch, why string) error {
	n := ep.N
	if ep.State != Open { // an open one that only learns its size stays the same
		n++
	}
	for _, m := range l.members {
		n = max(n, m.Epoch+1)
	}
	if here := l.here(); len(here) > 0 {
		ep.Size, ep.First = here[0].Size, here[0].Name()
	}
	next := Epoch{N: n, State: Open, Size: ep.Size, First: ep.First, Why: why}
	return l.commit(ctx, clientv3.OpPut(l.s.k.epoch(), encode(next)))
}

// seal makes the epoch true. Nobody may have come, gone up in incarnation or
// changed since the members were read: the range compare holds all of their
// keys to the newest revision that this leader has seen. A key that vanishes
// is a node lost just after the seal, which the next step finds.
func (l *lead) seal(ctx context.Context, ep Epoch, here []registered) error {
	list, ok := ranked(here, ep.Size)
	if !ok {
		return nil
	}
	next := Epoch{N: ep.N, Nonce: newID(), State: Sealed, Size: ep.Size, First: ep.First, Roster: list}
	for _, m := range list {
		next.N = max(next.N, m.Epoch+1)
	}
	return l.commit(ctx, clientv3.OpPut(l.s.k.epoch(), encode(next)), l.unchanged())
}

// unchanged holds all member keys to the newest revision that this leader saw.
func (l *lead) unchanged() clientv3.Cmp {
	newest := int64(0)
	for _, m := range l.members {
		newest = max(newest, m.mod)
	}
	return clientv3.Compare(clientv3.ModRevision(l.s.k.members()).WithPrefix(), "<", newest+1)
}

// reduce publishes the result of each round that is complete and that this
// node takes part in.
func (l *lead) reduce(ctx context.Context, ep Epoch) error {
	for name, fn := range l.s.reducers(ep) {
		posts := make([][]byte, ep.Size)
		n := 0
		for rank := range posts {
			if v, ok := l.posts[l.s.k.post(ep.N, name, rank)]; ok {
				posts[rank], n = v, n+1
			}
		}
		if n < ep.Size {
			continue
		}
		result, start := fn(posts)
		if result == nil { // its time ran out: no decision
			continue
		}
		ops := []clientv3.Op{clientv3.OpPut(l.s.k.result(ep.N, name), string(result))}
		if start {
			ep.State = Started
			ops = append(ops, clientv3.OpPut(l.s.k.epoch(), encode(ep)))
		}
		return l.commitAll(ctx, ops, l.unchanged())
	}
	return nil
}

func (l *lead) commit(ctx context.Context, op clientv3.Op, extra ...clientv3.Cmp) error {
	return l.commitAll(ctx, []clientv3.Op{op}, extra...)
}

// commitAll applies ops if this node still leads and the epoch is still the
// one that it knows. A lost race is no error: the news is on its way. An
// unknown outcome ends the life, and the next one reads back what became true.
func (l *lead) commitAll(ctx context.Context, ops []clientv3.Op, extra ...clientv3.Cmp) error {
	s := l.s
	s.mu.Lock()
	guards := append(extra,
		clientv3.Compare(clientv3.CreateRevision(s.k.leader()), "=", s.leader.create),
		clientv3.Compare(clientv3.LeaseValue(s.k.leader()), "=", s.leadLease), // revisions repeat in a store that came back empty
		clientv3.Compare(clientv3.ModRevision(s.k.epoch()), "=", s.epMod))
	s.mu.Unlock()
	r, err := s.cli.Txn(timeout(ctx)).If(guards...).Then(ops...).Commit()
	if err != nil {
		return fmt.Errorf("write the epoch: %w", reason(ctx, err))
	}
	if !r.Succeeded {
		return nil
	}
	for _, op := range ops { // act on it now; the watch repeats it
		var ep Epoch
		key := string(op.KeyBytes())
		if key == s.k.epoch() && json.Unmarshal(op.ValueBytes(), &ep) == nil {
			s.update(func() { s.ep, s.epMod = ep, r.Header.Revision })
		} else {
			s.update(func() { s.results[key] = op.ValueBytes() })
		}
	}
	return nil
}
