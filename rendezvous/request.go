package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"launch/rendezvous/protocol"
)

// perform makes a request of reads and writes within its time, and returns its answer.
func (s *Session) perform(ctx context.Context, kv clientv3.KV, a action) (event, error) {
	nodes := 0
	if a.Crowd {
		nodes = s.cfg.crowd()
	}
	ctx = within(ctx, nodes)
	e, err := s.transact(ctx, kv, a)
	if err != nil {
		if err = reason(ctx, err); a.What != "" {
			err = fmt.Errorf("%s: %w", a.What, err)
		}
		return e, err
	}
	if a.Kind == protocol.Register && !e.OK && s.cfg.OwnStore {
		where := strings.Join(s.cli.Endpoints(), ",")
		var value []byte
		if last := len(e.KVs) - 1; last >= 0 && e.KVs[last].Key == storeKey {
			value, _ = e.KVs[last].Value.([]byte)
			e.KVs = e.KVs[:last]
		}
		if err := owned(where, s.cfg.Job, value); err != nil {
			return e, fmt.Errorf("%s: %w", where, err)
		}
	}
	return e, nil
}

// transact makes one request: a read or a write alone, or a transaction. A
// registration also reads the job of the store.
func (s *Session) transact(ctx context.Context, kv clientv3.KV, a action) (event, error) {
	e := event{Kind: a.Kind, Ask: &a, OK: true}
	then := operations(a.Then)
	if len(then) == 1 && len(a.If) == 0 && !then[0].IsTxn() {
		r, err := kv.Do(ctx, then[0])
		if err != nil {
			return e, err
		}
		if g := r.Get(); g != nil {
			e.Rev = g.Header.Revision
			for _, kv := range g.Kvs {
				e.KVs = append(e.KVs, s.decode(kv))
			}
		}
		return e, nil
	}
	conds, other := compares(a.If), operations(a.Else)
	if a.Kind == protocol.Register || a.Kind == protocol.Replace {
		conds = append(s.ours(), conds...)
	}
	if a.Kind == protocol.Register && s.cfg.OwnStore {
		other = append(other, clientv3.OpGet(storeKey))
	}
	r, err := kv.Txn(ctx).If(conds...).Then(then...).Else(other...).Commit()
	if err != nil {
		return e, err
	}
	e.OK, e.Rev = r.Succeeded, r.Header.Revision
	s.read(&e, r.Responses)
	return e, nil
}

// now is the revision of a watch of what follows its beginning.
const now = -1

// watch watches what follows rev. Its beginning is bounded, since etcd's client returns
// only when the store has answered.
func (s *Session) watch(
	ctx context.Context, key string, rev int64, opts ...clientv3.OpOption,
) (clientv3.WatchChan, error) {
	out := make(chan clientv3.WatchChan, 1)
	go func() { // it ends with the life at the latest
		out <- s.after(ctx, key, rev, opts...)
	}()
	select {
	case w := <-out:
		return w, nil
	case <-within(ctx, s.cfg.crowd()).Done():
		return nil, errors.New("watch the job: no answer")
	}
}

// after watches what follows rev. It returns when the store has answered.
func (s *Session) after(ctx context.Context, key string, rev int64, opts ...clientv3.OpOption) clientv3.WatchChan {
	return s.cli.Watch(clientv3.WithRequireLeader(ctx), key, append(opts, clientv3.WithRev(rev+1))...)
}

// since returns what follows rev of a watch that began before it.
func since(ctx context.Context, w clientv3.WatchChan, rev int64) clientv3.WatchChan {
	out := make(chan clientv3.WatchResponse)
	go func() {
		defer close(out)
		for r := range w {
			r.Events = slices.DeleteFunc(r.Events, func(e *clientv3.Event) bool { return e.Kv.ModRevision <= rev })
			if len(r.Events) == 0 && r.Err() == nil {
				continue
			}
			select {
			case out <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// watched returns why a watch has ended; nil: it has not.
func watched(r clientv3.WatchResponse, ok bool) error {
	if !ok {
		return errors.New("the watch was closed")
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("watch the job: %w", err)
	}
	return nil
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
