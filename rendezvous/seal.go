package rendezvous

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// batch is how many places one transaction writes: etcd allows 128 operations
// (--max-txn-ops).
const batch = 120

// open writes an open epoch after ep, for the next run where ep's is over. No
// transaction of this package moves the epoch unless its writer still leads and
// the epoch is still the one it read.
func (l *lead) open(ctx context.Context, ep Epoch, why string) error {
	if ep.State == Started || ep.State == Over {
		ep.Restart = 0
	}
	return l.reopen(ctx, ep, why)
}

// reopen is open within a run.
func (l *lead) reopen(ctx context.Context, ep Epoch, why string) error {
	next := Epoch{N: ep.N, State: Open, Size: ep.Size, Min: ep.Min, First: ep.First, Why: why, Restarts: ep.Restarts, Restart: ep.Restart}
	if ep.State != Open { // an open one that only learns its size stays the same
		next.N++
	}
	for _, m := range l.members {
		next.N = max(next.N, m.Epoch+1)
	}
	if first, ok := l.earliest(); ok {
		next.Size, next.Min, next.First, next.Restarts = first.Size, first.Min, first.Name(), first.Restarts
	}
	_, err := l.commit(ctx, []clientv3.Op{
		clientv3.OpPut(l.s.k.epoch(), encode(next)),
		clientv3.OpDelete(l.s.k.results(), clientv3.WithPrefix()),
		clientv3.OpDelete(l.s.k.progress()),
	})
	l.telling, l.call = telling{}, call{}
	if why == "" { // there is no news yet
		l.telling.last = time.Now()
	}
	return err
}

// seal makes the epoch true: first the places, which mean nothing yet, below a
// nonce that nobody knows; then the epoch that names the nonce. Nobody may have
// come, gone up in incarnation or changed since the members were read: the
// range compare holds all of their keys to the newest revision that this leader
// has seen. A key that vanishes is a node lost just after the seal, which the
// next step finds.
func (l *lead) seal(ctx context.Context, ep Epoch, here []registered) error {
	list := ranked(here, min(len(here), ep.Size))
	if ok, err := l.drafts(ctx, list); !ok {
		return err
	}
	next := Epoch{N: ep.N, Nonce: l.draft.nonce, State: Sealed, Size: len(list), Min: ep.Min, First: ep.First, Master: &list[0], Restarts: ep.Restarts, Restart: ep.Restart}
	for _, m := range list {
		next.N = max(next.N, m.Epoch+1)
	}
	ok, err := l.commit(ctx, []clientv3.Op{
		clientv3.OpPut(l.s.k.epoch(), encode(next)),
		clientv3.OpDelete(l.s.k.notes(), clientv3.WithPrefix()), // nobody waits for them any more
	}, l.unchanged())
	if ok {
		clear(l.notes)
		l.draft = draft{}
	}
	return err
}

// draft is a world that is not sealed yet. A try that fails since somebody has
// come, or come back, leaves it to the next one, which writes what differs: where
// thousands come and a busy store makes some of them come again, to write all of
// it each time would be what keeps the store busy.
type draft struct {
	nonce  string
	create int64             // of c/leader, as it was written: nobody else led since who could have deleted it
	places map[string]string // by key
}

// drafts writes the places of a world below a nonce that nobody knows.
func (l *lead) drafts(ctx context.Context, list []Member) (bool, error) {
	l.s.mu.Lock()
	create := l.s.leader.create
	l.s.mu.Unlock()
	last := l.draft
	l.draft = draft{} // until all of it stands
	if last.nonce == "" || last.create != create {
		last = draft{nonce: newID(), create: create}
		if len(l.places) > 0 { // of a world that is over, or of a try that failed
			if ok, err := l.commit(ctx, []clientv3.Op{clientv3.OpDelete(l.s.k.worlds(), clientv3.WithPrefix())}); !ok {
				return false, err
			}
			clear(l.places)
		}
	}
	now := make(map[string]string, len(list))
	var ops []clientv3.Op
	for rank, p := range seated(list) {
		key, text := l.s.k.place(last.nonce, list[rank]), encode(p)
		if now[key] = text; last.places[key] != text {
			ops = append(ops, clientv3.OpPut(key, text))
			p.Partners = nil
			l.places[key] = p
		}
	}
	for key := range last.places {
		if _, stays := now[key]; !stays {
			ops = append(ops, clientv3.OpDelete(key))
			delete(l.places, key)
		}
	}
	for part := range slices.Chunk(ops, batch) {
		if ok, err := l.commit(ctx, part); !ok {
			return false, err
		}
	}
	last.places = now
	l.draft = last
	return true, nil
}

// unchanged holds all member keys to the newest revision that this leader saw.
func (l *lead) unchanged() clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(l.s.k.members()).WithPrefix(), "<", l.newest+1)
}

// reduce publishes the result of each round that is complete and that this
// node takes part in.
func (l *lead) reduce(ctx context.Context, ep Epoch) error {
	for name, fn := range l.s.reducers(ep) {
		got := l.posts[l.s.k.round(ep.N, name)]
		if len(got) < ep.Size {
			continue
		}
		posts := make([][]byte, ep.Size)
		for rank := range posts {
			posts[rank] = got[rank]
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
		// Who left on purpose may have taken its key along already.
		_, err := l.commit(ctx, ops, l.unchanged(), clientv3.Compare(clientv3.CreateRevision(l.s.k.quit(ep.Nonce)), "=", 0))
		return err
	}
	return nil
}

// asLeader does one thing that does not touch the epoch, if this node still
// leads. Who led no longer has nothing to tell.
func (l *lead) asLeader(ctx context.Context, what string, op clientv3.Op) error {
	s := l.s
	s.mu.Lock()
	create := s.leader.create
	s.mu.Unlock()
	_, err := s.cli.Txn(timeout(ctx)).If(clientv3.Compare(clientv3.CreateRevision(s.k.leader()), "=", create)).Then(op).Commit()
	if err != nil {
		return fmt.Errorf("%s: %w", what, reason(ctx, err))
	}
	return nil
}

// commit applies ops if this node still leads and the epoch is still the one
// that it knows. A lost race is no error: the news is on its way. An unknown
// outcome ends the life, and the next one reads back what became true.
func (l *lead) commit(ctx context.Context, ops []clientv3.Op, extra ...clientv3.Cmp) (bool, error) {
	s := l.s
	s.mu.Lock()
	guards := append(extra,
		clientv3.Compare(clientv3.CreateRevision(s.k.leader()), "=", s.leader.create),
		clientv3.Compare(clientv3.LeaseValue(s.k.leader()), "=", s.leadLease), // revisions repeat in a store that came back empty
		clientv3.Compare(clientv3.ModRevision(s.k.epoch()), "=", s.epMod))
	s.mu.Unlock()
	r, err := s.cli.Txn(timeout(ctx)).If(guards...).Then(ops...).Commit()
	if err != nil {
		return false, fmt.Errorf("write the epoch: %w", reason(ctx, err))
	}
	if !r.Succeeded {
		return false, nil
	}
	l.mine[r.Header.Revision] = true
	for _, op := range ops { // act on it now; the watch repeats it
		var ep Epoch
		switch key := string(op.KeyBytes()); {
		case !op.IsPut():
		case key == s.k.epoch() && json.Unmarshal(op.ValueBytes(), &ep) == nil:
			s.update(func() { s.ep, s.epMod = ep, r.Header.Revision })
		case strings.HasPrefix(key, s.k.results()):
			s.update(func() { s.results[key] = op.ValueBytes() })
		}
	}
	return true, nil
}
