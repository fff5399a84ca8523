package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"launch/internal/process"
	"launch/rendezvous/protocol"
)

// errHalted ends a session for good.
var errHalted = errors.New("the session has ended")

// run lives one life after the other, with a pause between two.
func (s *Session) run(ctx context.Context) {
	defer close(s.done)
	pause := retries(s.cfg.crowd())
	for ctx.Err() == nil {
		began := time.Now()
		l := &life{s: s}
		err := l.run(ctx)
		if ctx.Err() != nil || err == errHalted {
			return
		}
		_, other := errors.AsType[*OtherStoreError](err)
		l.ctx = ctx
		ended := s.cfg.Hangup.within(s.answered, s.cfg.TTL-time.Second)
		if l.feed(event{Kind: protocol.Fail, Err: err, Fatal: other, Ended: ended,
			Closed:  s.cfg.OwnStore && s.cfg.Hangup.within(s.answered, time.Since(s.answered)+time.Second),
			Silence: time.Since(s.answered)}) != nil {
			return
		}
		if time.Since(began) > 2*retryMax {
			pause.Reset()
		}
		d := pause.NextBackOff()
		s.state(func(n *protocol.Node) {
			if n.Settled() && time.Since(s.answered) > lossWatch {
				d *= 20
			}
		})
		select {
		case <-time.After(d):
		case <-s.cfg.Hangup.whenMoved():
		case <-ctx.Done():
		}
	}
}

// lossWatch is how long a node whose command runs tries often to reach a store that it has lost:
// others are waiting to hear of a lost node.
const lossWatch = 30 * time.Second

// life is one lease: what the store sends while it holds.
type life struct {
	s                 *Session
	ctx               context.Context
	way               *entrance
	lease             clientv3.LeaseID
	rev               int64 // of the registration
	control, own, job clientv3.WatchChan
	surveyed          clientv3.WatchChan // of all keys, from before the Survey on
	alive             <-chan *clientv3.LeaseKeepAliveResponse
	quieter           <-chan time.Time
}

// run gives the state all events, until the life ends.
func (l *life) run(ctx context.Context) error {
	var cancel context.CancelFunc
	l.ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	e := event{Kind: protocol.Begin}
	for {
		if err := l.feed(e); err != nil {
			return err
		}
		var err error
		if e, err = l.next(); err != nil {
			return err
		}
	}
}

// next waits for an event.
func (l *life) next() (event, error) {
	s := l.s
	select {
	case <-l.ctx.Done():
		return event{}, l.ctx.Err()
	case <-l.quieter:
		return event{Kind: protocol.Woken}, l.follow()
	case _, ok := <-l.alive:
		if !ok {
			return event{}, errors.New("the lease was lost")
		}
		s.answered = time.Now()
		return event{Kind: protocol.Woken}, nil
	case r, ok := <-l.control:
		return event{Kind: protocol.Control, KVs: s.changes(r.Events)}, watched(r, ok)
	case r, ok := <-l.own:
		return event{Kind: protocol.Own, KVs: s.changes(r.Events)}, watched(r, ok)
	case r, ok := <-l.job:
		return event{Kind: protocol.Job, KVs: s.jobChanges(r.Events)}, watched(r, ok)
	case <-s.kick:
		return event{Kind: protocol.Woken}, nil
	case <-l.toLocate():
		return event{Kind: protocol.Woken}, nil
	}
}

// locatePoll is the pause between two looks for the address by which other nodes reach this one.
const locatePoll = 50 * time.Millisecond

// toLocate is the time of the next look; nil: the address is known.
func (l *life) toLocate() <-chan time.Time {
	if l.s.cfg.Reached == nil {
		return nil
	}
	return time.After(locatePoll)
}

// follow renews the lease and watches this node's own key from now on.
func (l *life) follow() (err error) {
	if l.alive, err = l.s.cli.KeepAlive(l.ctx, l.lease); err != nil {
		return fmt.Errorf("renew the lease: %w", reason(l.ctx, err))
	}
	l.own, err = l.s.watch(l.ctx, l.s.k.Member(l.s.me()), l.rev)
	return err
}

// feed gives the state an event, and the answers to the requests that follow.
func (l *life) feed(e event) error {
	for again := true; again; {
		l.locate()
		actions, _ := l.s.step(e, e.Kind != protocol.Job)
		again = false
		for _, a := range actions {
			err := l.act(a)
			if err == errRequest {
				e, err = l.request(a)
				again = true
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// errRequest reports that an action is a request, which has an answer.
var errRequest = errors.New("a request")

// act carries out an action that has no answer.
func (l *life) act(a action) (err error) {
	s := l.s
	switch a.Kind {
	case protocol.Notify:
		s.cfg.Events(*a.Notice)
	case protocol.Wake:
		s.wake(a.After)
	case protocol.WatchControl:
		l.rev, l.quieter = a.Rev, time.After(s.cfg.TTL/settle+spread(s.cfg.crowd()))
		l.control, err = l.way.changes(a.Rev)
	case protocol.WatchJob:
		if l.job = nil; a.Rev > 0 {
			l.job, l.surveyed = since(l.ctx, l.surveyed, a.Rev), nil
		}
	case protocol.Revoke:
		_, _ = s.cli.Revoke(timeout(l.ctx), clientv3.LeaseID(a.Lease))
	case protocol.Fail:
		return a.Err
	case protocol.Halt:
		return errHalted
	default:
		return errRequest
	}
	return err
}

// request makes a request and returns its answer.
func (l *life) request(a action) (event, error) {
	s, e := l.s, event{Kind: a.Kind, Ask: &a}
	switch a.Kind {
	case protocol.Grant:
		way, g, err := s.entrance(l.ctx)
		if err != nil {
			return e, fmt.Errorf("%s: %w", a.What, reason(l.ctx, err))
		}
		l.way, l.lease, s.answered = way, g.ID, time.Now()
		e.Lease, e.Rev = int64(g.ID), g.Revision
		return e, nil
	case protocol.Await:
		return e, s.awaitChange(l.ctx, a.Key, a.Rev, a.After)
	case protocol.Reduce:
		s.mu.Lock()
		reduce := s.reducers[a.Name]
		s.mu.Unlock()
		e.Value, e.Start = reduce(a.Posts)
		return e, nil
	}
	if a.Kind == protocol.Survey {
		var err error // etcd serves a watch that begins in the past only every 100 ms, see admit
		if l.surveyed, err = s.watch(l.ctx, s.k.Root, now, clientv3.WithPrefix()); err != nil {
			return e, err
		}
	}
	kv := clientv3.KV(s.cli)
	if a.Kind == protocol.Register || a.Kind == protocol.Replace {
		kv = l.way.store()
	}
	e, err := s.perform(l.ctx, kv, a)
	switch {
	case a.Try:
		return e, nil
	case err != nil:
		return e, err
	case a.Kind == protocol.Register && !e.OK && len(e.KVs) > 0:
		holder, _ := e.KVs[0].Value.(Member)
		e.Dead = deadHere(s.me(), holder)
	}
	return e, nil
}

// locate reports the address by which other nodes reach this one, once it is
// known: before this node registers, or writes its key again.
func (l *life) locate() {
	if l.s.cfg.Reached == nil {
		return
	}
	if a := l.s.cfg.Reached(); a.IsValid() {
		l.s.cfg.Reached = nil
		l.s.step(event{Kind: protocol.Located, Addr: a}, true)
	}
}

// deadHere returns whether holder is a process of this machine (and of this PID
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
