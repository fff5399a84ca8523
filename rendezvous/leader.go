package rendezvous

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
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
	here := s.leadLease == lease
	s.mu.Unlock()
	key := s.k.leader()
	var guard clientv3.Cmp
	switch {
	case free && !s.yields():
		guard = clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	case mine && !here: // of an earlier life: bind it to this lease
		guard = clientv3.Compare(clientv3.ModRevision(key), "=", stale)
	default:
		return nil
	}
	put := clientv3.OpPut(key, encode(self), clientv3.WithLease(lease))
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
		s.update(func() {
			s.leader = registered{Member: self, create: created, mod: r.Header.Revision}
			s.leadLease = lease
		})
		return nil
	}
	if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		s.observeLeader(&clientv3.Event{Kv: kvs[0]}, true)
	}
	return nil
}

// yields tells whether this node has just left the lead to others.
func (s *Session) yields() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.resigned.IsZero() && time.Since(s.resigned) < resignPause
}

// lead is what only the leader holds: all members, places and posts.
type lead struct {
	s       *Session
	ch      clientv3.WatchChan
	members map[string]registered     // by key
	places  map[string]Place          // by key
	posts   map[string]map[int][]byte // by the round's key and rank
	first   string                    // the key of the member that waits for longest, if that is known
	newest  int64                     // the newest revision of a member's key
	mine    map[int64]bool            // the revisions that this leader made, which its watch repeats
	draft   draft
	moved   bool  // a member came, changed or went since the last look
	looked  int64 // the revision of the epoch at that look
	telling telling
	call    call
	roll    roll
	notes   map[string]noted // by key
	since   time.Time        // when this node took the lead
	heard   bool             // what it found then is old enough to be told
}

// takeOver reads the whole job, and watches it from there.
func (s *Session) takeOver(ctx context.Context) (*lead, error) {
	r, err := s.cli.Get(timeout(ctx), s.k.root, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read the members: %w", reason(ctx, err))
	}
	l := &lead{s: s, members: map[string]registered{}, places: map[string]Place{}, posts: map[string]map[int][]byte{}, mine: map[int64]bool{}, moved: true,
		notes: s.recalled(), since: time.Now()}
	time.AfterFunc(noteGrace+time.Millisecond, s.nudge)
	for _, kv := range r.Kvs {
		l.put(string(kv.Key), kv.Value, kv.CreateRevision, kv.ModRevision)
	}
	l.ch, err = s.watch(ctx, s.k.root, r.Header.Revision, clientv3.WithPrefix())
	return l, err
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
			now := registered{m, create, mod, time.Now()}
			if before := l.members[key]; before.ID == m.ID && waits(before) {
				now.seen = before.seen
			}
			l.members[key] = now
			if create < l.members[l.first].create {
				l.first = ""
			}
			l.newest = max(l.newest, mod)
			l.moved = true
		}
	case strings.HasPrefix(key, l.s.k.worlds()):
		var p Place
		if !l.mine[mod] && json.Unmarshal(v, &p) == nil {
			p.Partners = nil
			l.places[key] = p
		}
	case strings.HasPrefix(key, l.s.k.notes()):
		l.note(key, v, mod)
	case strings.HasPrefix(key, l.s.k.posts()):
		if round, rank, ok := l.s.k.posted(key); ok {
			if l.posts[round] == nil {
				l.posts[round] = map[int][]byte{}
			}
			l.posts[round][rank] = v
		}
	}
}

func (l *lead) drop(key string) {
	switch {
	case strings.HasPrefix(key, l.s.k.members()):
		delete(l.members, key)
		l.moved = true
	case strings.HasPrefix(key, l.s.k.worlds()):
		delete(l.places, key)
	case strings.HasPrefix(key, l.s.k.notes()):
		l.forget(key)
	case strings.HasPrefix(key, l.s.k.posts()):
		if round, rank, ok := l.s.k.posted(key); ok {
			if delete(l.posts[round], rank); len(l.posts[round]) == 0 {
				delete(l.posts, round)
			}
		}
	}
}

func (l *lead) observe(evs []*clientv3.Event) {
	for _, e := range evs {
		key := string(e.Kv.Key)
		before, known := l.members[key]
		if e.Type == clientv3.EventTypePut {
			l.put(key, e.Kv.Value, e.Kv.CreateRevision, e.Kv.ModRevision)
		} else {
			l.drop(key)
		}
		now, stays := l.members[key]
		if known && !stays && before.Left == "" {
			l.vanished(key, before.Member)
		}
		if known && before.Left == "" && (!stays || now.Left != "") {
			before.Left = now.Left
			l.missed(before.Member)
		}
	}
}

// missed keeps that a member left before the start; the progress tells it.
func (l *lead) missed(m Member) {
	l.s.mu.Lock()
	ordinary := l.s.ep.State == Started // the end of a run
	l.s.mu.Unlock()
	if !ordinary && m.ID != l.s.me().ID && m.Phase == PhaseArrived {
		l.s.departed(because(m))
	}
}

// step does the one thing that the epoch's state asks of its leader.
func (l *lead) step(ctx context.Context) error {
	l.s.mu.Lock()
	ep, mod := l.s.ep, l.s.epMod
	l.s.mu.Unlock()
	if mod != l.looked {
		l.moved, l.looked = true, mod
	}
	switch ep.State {
	case Sealed:
		if l.moved {
			if gone := l.gone(ep); len(gone) > 0 {
				return l.open(ctx, ep, some(gone)+" left after the ranks were agreed")
			}
			if !l.inside(ep) {
				return l.resign(ctx)
			}
			l.moved = false
		}
		return l.reduce(ctx, ep)
	case Started, Over:
		return l.watchOver(ctx, ep)
	}
	return l.gather(ctx, ep)
}

// watchOver looks after a run that has started.
func (l *lead) watchOver(ctx context.Context, ep Epoch) error {
	if l.begin(ep); ep.Restarts == 0 {
		if err := l.late(ctx, ep); err != nil {
			return err
		}
	}
	if !l.moved {
		return nil
	}
	if ep.State == Started && ep.Restarts > 0 {
		if over, why := l.verdict(ep); over {
			return l.over(ctx, ep, why)
		}
	}
	if l.inside(ep) || len(l.gone(ep)) < ep.Size {
		l.moved = false
		return nil
	}
	return l.open(ctx, ep, "") // the last run of this job has ended everywhere
}

// resign leaves the lead to a node of the sealed world: only they can reduce.
func (l *lead) resign(ctx context.Context) error {
	s := l.s
	s.update(func() { s.resigned = time.Now() })
	if err := l.asLeader(ctx, "resign", clientv3.OpDelete(s.k.leader())); err != nil {
		return err
	}
	s.update(func() { s.leader = registered{mod: s.leader.mod} })
	time.AfterFunc(resignPause, s.nudge) // if nobody took it
	return nil
}

// seats are the places of a sealed world, each with the member that was sealed
// there; nil: it is gone, or another incarnation has its key.
func (l *lead) seats(ep Epoch) iter.Seq2[Place, *Member] {
	return func(yield func(Place, *Member) bool) {
		for key, p := range l.places {
			slot, ours := strings.CutPrefix(key, l.s.k.world(ep.Nonce))
			if !ours {
				continue
			}
			var now *Member
			if m, ok := l.members[l.s.k.members()+slot]; ok && m.ID == p.ID {
				now = &m.Member
			}
			if !yield(p, now) {
				return
			}
		}
	}
}

// gone are the names of the sealed world's members that are no longer what was
// sealed, in rank order.
func (l *lead) gone(ep Epoch) []string {
	var out []Place
	for p, now := range l.seats(ep) {
		if now == nil || now.Left != "" {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return cmp.Compare(a.Rank, b.Rank) })
	names := make([]string, len(out))
	for i, p := range out {
		names[i] = p.Name
	}
	return names
}

func (l *lead) inside(ep Epoch) bool {
	me := l.s.me()
	return l.places[l.s.k.place(ep.Nonce, me)].ID == me.ID
}

// some names a few of many.
func some(names []string) string {
	if len(names) > few {
		names = append(slices.Clone(names[:few]), fmt.Sprintf("%d more", len(names)-few))
	}
	return strings.Join(names, ", ")
}

func names(ms []Member) []string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = m.Name()
	}
	return out
}
