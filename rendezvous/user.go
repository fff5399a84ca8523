package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"launch/rendezvous/protocol"
)

// Reduce turns the posts of all nodes, in rank order, into the one result.
// start reports that the world starts with it: from then on a lost node no
// longer breaks the world. A nil result is no decision. It runs on the leader only.
type Reduce func(posts [][]byte) (result []byte, start bool)

// ask gives the state a user's event, and look at each change, until it replies. ended
// is the event at the end of ctx; its zero value ends the wait without a reply.
func (s *Session) ask(ctx context.Context, e, look event, ended func() event) action {
	for {
		actions, changed := s.step(e, false)
		if len(actions) == 0 {
			actions = []action{{Kind: protocol.Wait}}
		}
		e = look
		for _, a := range actions {
			switch a.Kind {
			case protocol.Notify:
				s.cfg.Events(*a.Notice)
			case protocol.Wake:
				s.wake(a.After)
			case protocol.Linger:
				s.linger(ctx, a)
			case protocol.Reply:
				return a
			case protocol.Wait:
				if !awaits(ctx, changed, a.After) {
					e = ended()
				}
				if e.Kind == 0 {
					return action{}
				}
			default:
				bound := ctx
				switch a.Kind {
				case protocol.ReadProgress: // the user's time is up: this and what follows has its own
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastLook)
					defer cancel()
					bound = ctx
				case protocol.Withdraw:
					bound = context.WithoutCancel(ctx)
				}
				var err error
				e, err = s.perform(bound, s.cli, a)
				e.Err = err
			}
		}
	}
}

// awaits waits for a change, and no longer than limit; 0: without one. It returns
// false where ctx has ended.
func awaits(ctx context.Context, changed <-chan struct{}, limit time.Duration) bool {
	var over <-chan time.Time
	if limit > 0 {
		over = time.After(limit)
	}
	select {
	case <-changed:
	case <-over:
	case <-ctx.Done():
		return false
	}
	return true
}

// linger leaves the store up until the others have read why this node ends.
func (s *Session) linger(ctx context.Context, a action) {
	if a.Unfit {
		ctx, cancel := context.WithTimeout(ctx, Linger)
		defer cancel()
		AwaitReaders(ctx, s.cli, s.cfg.Job, s.me().ID, s.me().Size-1)
	}
	<-time.After(lastWords)
}

// interrupted returns the event at the end of ctx: an interruption, or that the
// time is up.
func interrupted(ctx context.Context, e event) func() event {
	return func() event {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			e.Err = context.Cause(ctx)
		}
		return e
	}
}

// Join waits until this node is part of a sealed world that it has not returned
// before, or the budget is used up (*MissingError, or ErrUnreachable). A standby
// node, or one that is late for an elastic job, waits on while a world without it
// is complete and may yet need it, until that is over (*SpareError). It never
// begins a run of its own next to another. With FailFast an unfit node ends the
// wait (*UnfitError).
func (s *Session) Join(ctx context.Context, budget time.Duration) (World, error) {
	a := s.ask(ctx, event{Kind: protocol.Join, Budget: budget}, event{Kind: protocol.Look},
		interrupted(ctx, event{Kind: protocol.Expire}))
	if a.Err != nil {
		return World{}, s.at(a.Err)
	}
	return *a.World, nil
}

// at adds to the error of a lost store where that is.
func (s *Session) at(err error) error {
	where := strings.Join(s.cli.Endpoints(), ",")
	if !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), where) {
		return err
	}
	why := strings.TrimPrefix(err.Error(), ErrUnreachable.Error()+": ")
	return fmt.Errorf("%w: %s: %s", ErrUnreachable, where, why)
}

// Round posts mine under a name that is used once in an epoch, and returns the result of
// all nodes' posts. A lost node, or the end of ctx, ends it: *BrokenError, then Join again.
func (s *Session) Round(ctx context.Context, name string, mine []byte, reduce Reduce) ([]byte, error) {
	s.mu.Lock()
	s.reducers[name] = reduce
	s.mu.Unlock()
	a := s.ask(ctx, event{Kind: protocol.Round, Name: name, Value: mine, Reduces: reduce != nil},
		event{Kind: protocol.Result, Name: name}, interrupted(ctx, event{Kind: protocol.GiveUp, Name: name}))
	return a.Value, s.at(a.Err)
}

// Posted returns what some ranks have posted to a round of the joined world, in their
// order; nil for a rank that has not posted or has left. Once the round has a result, all
// have posted. Its cost grows with the ranks, not with the nodes.
func (s *Session) Posted(ctx context.Context, name string, ranks []int) ([][]byte, error) {
	ep := s.joined()
	out := make([][]byte, len(ranks))
	for i, rank := range ranks {
		r, err := s.cli.Get(timeout(ctx), s.k.Post(ep.N, name, rank))
		if err != nil {
			return nil, fmt.Errorf("read what node rank %d has posted: %w", rank, reason(ctx, err))
		}
		for _, kv := range r.Kvs {
			out[i] = kv.Value
		}
	}
	return out, nil
}

// Say posts to a round of the joined world that has no result: a node that wants to hear it calls Await. It is posted
// again after a lost connection, for as long as the world lasts.
func (s *Session) Say(name string, mine []byte) {
	s.step(event{Kind: protocol.Say, Name: name, Value: mine}, true)
	s.nudge()
}

// Await waits until a rank of the joined world has posted to a round, and returns the post. It outlives lost
// connections, and ends with ctx.
func (s *Session) Await(ctx context.Context, name string, rank int) ([]byte, error) {
	return s.await(ctx, s.k.Post(s.joined().N, name, rank))
}

// First is Await for the rank that posts first, of those that have not left when it is called.
func (s *Session) First(ctx context.Context, name string) ([]byte, error) {
	return s.await(ctx, s.k.Round(s.joined().N, name), clientv3.WithPrefix())
}

func (s *Session) await(ctx context.Context, key string, opts ...clientv3.OpOption) ([]byte, error) {
	first := append([]clientv3.OpOption{clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)}, opts...)
	for {
		if r, err := s.cli.Get(timeout(ctx), key, first...); err == nil {
			if len(r.Kvs) > 0 {
				return r.Kvs[0].Value, nil
			}
			if v := s.written(ctx, key, r.Header.Revision, opts...); v != nil {
				return v, nil
			}
		}
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// awaitPause is the pause before Await reads again after an error.
const awaitPause = time.Second

// written returns the first value of a key after a revision; nil: the watch has ended before.
func (s *Session) written(ctx context.Context, key string, rev int64, opts ...clientv3.OpOption) []byte {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range s.after(ctx, key, rev, opts...) {
		for _, e := range r.Events {
			if e.Type == clientv3.EventTypePut {
				return e.Kv.Value
			}
		}
	}
	return nil
}

// Start publishes that this node has read that it may start, and, on the store's host,
// waits until all have: its command may end at once, and the store with it. Where another
// node has its key by then, the error names that node (*SupersededError). A store that
// does not answer is no error: the others start, and wait for this node.
func (s *Session) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ackBudget)
	defer cancel()
	a := s.ask(ctx, event{Kind: protocol.Start}, event{Kind: protocol.Acked}, func() event { return event{} })
	if a.Size > 0 {
		s.awaitAcks(ctx, a.Key, a.Size)
	}
	return a.Err
}

// awaitAcks waits until all nodes of a world have acknowledged the go.
func (s *Session) awaitAcks(ctx context.Context, prefix string, size int) {
	r, err := s.cli.Get(timeout(ctx), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return
	}
	acked := map[string]bool{} // not a count of keys: a command that has ended has removed its own
	for _, kv := range r.Kvs {
		acked[string(kv.Key)] = true
	}
	w := s.after(ctx, prefix, r.Header.Revision, clientv3.WithPrefix())
	for len(acked) < size {
		r, ok := <-w
		if !ok {
			return
		}
		for _, e := range r.Events {
			acked[string(e.Kv.Key)] = true
		}
	}
}

// Ended publishes that this node's command has ended.
func (s *Session) Ended(status int) {
	s.step(event{Kind: protocol.Exit, Status: status}, true)
	s.nudge()
}

// Finished remembers how this node's command ended, for Leave to write.
func (s *Session) Finished(status int) { s.step(event{Kind: protocol.Exited, Status: status}, true) }

// Fate waits until the run that this node started in is over. Once its own command has
// ended, it waits no longer than patience for a lost store (ErrUnreachable).
func (s *Session) Fate(ctx context.Context, patience time.Duration) (Fate, error) {
	look := event{Kind: protocol.Follow, Budget: patience}
	first := look
	first.Start = true
	a := s.ask(ctx, first, look, func() event { return event{Kind: protocol.Expire, Err: context.Cause(ctx)} })
	if a.Err != nil {
		return Fate{}, a.Err
	}
	return *a.Fate, nil
}

// Return makes this node wait for a world again; edit changes its new values, such
// as its ports.
func (s *Session) Return(edit func(*Member)) {
	s.mu.Lock()
	m := s.node.Self()
	edit(&m)
	s.node.Step(time.Now(), event{Kind: protocol.Return, Member: &m})
	s.mu.Unlock()
	s.nudge()
}

// Host makes known that this node hosts the store from now on.
func (s *Session) Host() {
	s.step(event{Kind: protocol.Host}, true)
	s.nudge()
}

// Leave takes this node out at once and publishes why, then ends the session.
func (s *Session) Leave(why string) {
	s.stop()
	<-s.done
	budget := leaveBudget
	if s.me().Phase != PhaseArrived {
		budget = endBudget
	}
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	actions, _ := s.step(event{Kind: protocol.Leave, Text: why}, true)
	for _, a := range actions {
		if a.Kind == protocol.Revoke {
			_, _ = s.cli.Revoke(ctx, clientv3.LeaseID(a.Lease))
		} else {
			_, _ = s.perform(ctx, s.cli, a)
		}
	}
}
